//! Questions to a fleet; nothing here changes its state.

use std::sync::Arc;

use super::{BoxState, Fleet, FleetCounters, Lease, LeaseTable, SKILL_MIN, group_key};
use crate::config::FleetConfig;
use crate::domain::{Amounts, Ball, BoxReport};
use crate::forecast::ForecastModel;
use crate::policy::{PlacementPolicy, Traffic};
use crate::strategy::StrategyName;

/// Questions; nothing here changes the state.
impl Fleet {
    /// The boxes, sorted by id.
    #[must_use]
    pub fn boxes(&self) -> &[BoxState] {
        &self.boxes
    }

    /// The box `box_id`.
    #[must_use]
    pub fn get_box(&self, box_id: &str) -> Option<&BoxState> {
        self.position(box_id).map(|position| &self.boxes[position])
    }

    /// The box of a lease.
    #[must_use]
    pub fn box_of(&self, lease: &Lease) -> &BoxState {
        &self.boxes[self.positions[lease.box_handle as usize] as usize]
    }

    /// All leases that are live or remembered.
    #[must_use]
    pub fn leases(&self) -> &LeaseTable {
        &self.leases
    }

    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> &FleetConfig {
        &self.config
    }

    /// Seq of the last event.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Engine time, in milliseconds.
    #[must_use]
    pub fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// Id of the active artifact.
    #[must_use]
    pub fn artifact_id(&self) -> Option<&Arc<str>> {
        self.artifact_id.as_ref()
    }

    /// The id that decisions of strategy `name` carry.
    #[must_use]
    pub fn strategy_id(&self, name: StrategyName) -> &Arc<str> {
        &self.strategy_ids[name as usize]
    }

    /// The active model, when it has been handed in.
    #[must_use]
    pub fn model(&self) -> Option<&Arc<ForecastModel>> {
        self.model.as_ref()
    }

    /// The active placement policy, when it has been handed in.
    #[must_use]
    pub fn policy(&self) -> Option<&Arc<PlacementPolicy>> {
        self.policy.as_ref()
    }

    /// Id of the active placement policy.
    #[must_use]
    pub fn policy_id(&self) -> Option<&Arc<str>> {
        self.policy_id.as_ref()
    }

    /// What recent traffic looks like.
    #[must_use]
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Summed speed of the boxes that take balls at present.
    #[must_use]
    pub fn speed_sum(&self) -> f64 {
        self.speed_sum
    }

    /// Whether there are forecasts to decide by.
    #[must_use]
    pub fn has_forecasts(&self) -> bool {
        self.model.is_some() || self.foresight.is_some()
    }

    /// Whether too few boxes remained and staleness and ejection are disregarded.
    #[must_use]
    pub fn is_panicking(&self) -> bool {
        self.panic
    }

    /// Whether the guard has taken the forecasts' weight away nearly everywhere.
    #[must_use]
    pub fn has_lost_skill(&self) -> bool {
        self.model_weight.is_some_and(|weight| weight < SKILL_MIN)
    }

    /// Mean weight of the model in the forecasts now in use, 0 to 1; `None`: no forecast yet.
    #[must_use]
    pub fn model_weight(&self) -> Option<f64> {
        self.model_weight
    }

    /// What has happened so far.
    #[must_use]
    pub fn counters(&self) -> FleetCounters {
        self.counters
    }

    /// Handle of the box a ball's group lives on.
    #[must_use]
    pub fn group_handle(&self, ball: &Ball) -> Option<u32> {
        self.groups.get(group_key(ball)?).map(|place| place.handle)
    }

    /// Whether a report is news: from a known box and sampled after its last one.
    #[must_use]
    pub fn is_news(&self, report: &BoxReport) -> bool {
        self.get_box(&report.box_id).is_some_and(|state| {
            state.rest.last_report.as_ref().is_none_or(|last| report.sampled_at_ms > last.sampled_at_ms)
        })
    }

    /// The live lease that ends first, if its end has come by `at_ms`: (end, lease id).
    #[must_use]
    pub fn first_expired(&self, at_ms: u64) -> Option<(u64, u64)> {
        self.leases.first_expired(at_ms)
    }

    /// Whether reserved amounts equal the sum over live leases on every box: the invariant that
    /// recovery checks.
    ///
    /// # Errors
    /// The first box that differs, with both amounts.
    pub fn recount(&self) -> Result<(), String> {
        let mut sums = vec![(Amounts::ZERO, 0_usize); self.positions.len()];
        for lease in self.leases.live() {
            let sum = &mut sums[lease.box_handle as usize];
            sum.0.add(lease.decision.demand());
            sum.1 += 1;
        }
        for state in &self.boxes {
            let (amounts, count) = sums[state.handle as usize];
            if amounts != state.rest.committed || count != state.rest.live.len() {
                return Err(format!(
                    "box {}: reserved {:?} in {} leases, but its live leases sum to {:?} in {}",
                    state.spec.box_id,
                    state.rest.committed,
                    state.rest.live.len(),
                    amounts,
                    count
                ));
            }
        }
        Ok(())
    }
}
