//! One box as the fleet sees it: what the scan over boxes reads, and what stands behind it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::health::{Health, Life};
use crate::config::FleetConfig;
use crate::decision::Refusal;
use crate::domain::{Amounts, BoxSpec, DIMENSIONS, Stage};
use crate::forecast::{HORIZONS_MS, SeriesForecast, SeriesState};

/// Number of forecast horizons.
pub const HORIZONS: usize = HORIZONS_MS.len();
/// Departures remembered between two reports; beyond it the oldest is forgotten and the background
/// is overestimated, never underestimated.
const DEPARTURES_MAX: usize = 1_024;

/// A ball that has left, for a report sampled before it did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Departure {
    pub left_at_ms: u64,
    pub decided_at_ms: u64,
    pub lease_id: u64,
    pub demand: Amounts,
}

/// What the last report said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LastReport {
    /// End of its window, in engine milliseconds.
    pub sampled_at_ms: u64,
    /// Use by dimension in public units, as reported; `None`: unknown.
    pub usage: [Option<f64>; DIMENSIONS],
    /// Reported failure share.
    pub error_rate: Option<f64>,
    /// Reported queue length.
    pub queue_length: Option<f64>,
    /// Reported 99th percentile, in milliseconds.
    pub latency_ms_p99: Option<f64>,
}

/// The history and the forecast of one dimension's background.
#[derive(Clone, Serialize, Deserialize)]
pub struct BackgroundSeries {
    /// Features and guard, fed with background ÷ capacity.
    pub state: SeriesState,
    /// The forecast made at the last report.
    pub forecast: Option<SeriesForecast>,
}

/// A box with everything known of it. Ratios are shares of the capacity.
#[derive(Clone, Serialize, Deserialize)]
pub struct BoxState {
    /// The specification it registered.
    pub spec: Arc<BoxSpec>,
    /// Stable number of the box, in the order of registration.
    pub handle: u32,
    pub(super) gate: Option<Refusal>,
    pub(super) weight: f64,
    pub(super) inverse_weight: f64,
    pub(super) limit: [u64; DIMENSIONS],
    pub(super) limit_normal: [u64; DIMENSIONS],
    pub(super) inverse_capacity: [f64; DIMENSIONS],
    pub(super) committed: Amounts,
    pub(super) background: Amounts,
    pub(super) background_ratio: [f64; DIMENSIONS],
    pub(super) failure_load: f64,
    pub(super) work_until_ms: u64,
    pub(super) service_live_ms: u64,
    pub(super) pass: f64,
    pub(super) committed_future: [[f64; DIMENSIONS]; HORIZONS],
    pub(super) background_future: [[f64; DIMENSIONS]; HORIZONS],
    pub(super) known: [bool; DIMENSIONS],
    pub(super) live: BTreeSet<u64>,
    pub(super) departures: VecDeque<Departure>,
    pub(super) life: Life,
    pub(super) health: Health,
    pub(super) last_report: Option<LastReport>,
    pub(super) series: [Option<Box<BackgroundSeries>>; DIMENSIONS],
    pub(super) peak_load: f64,
}

impl BoxState {
    pub(super) fn new(spec: Arc<BoxSpec>, handle: u32, at_ms: u64, config: &FleetConfig) -> Self {
        let life = Life {
            stage: spec.stage,
            since_ms: at_ms,
            registered_at_ms: at_ms,
            reports_stage: false,
        };
        let mut state = Self {
            spec: spec.clone(),
            handle,
            gate: None,
            weight: 0.0,
            inverse_weight: 0.0,
            limit: [0; DIMENSIONS],
            limit_normal: [0; DIMENSIONS],
            inverse_capacity: [0.0; DIMENSIONS],
            committed: Amounts::ZERO,
            background: Amounts::ZERO,
            background_ratio: [0.0; DIMENSIONS],
            failure_load: 0.0,
            work_until_ms: 0,
            service_live_ms: 0,
            pass: 0.0,
            committed_future: [[0.0; DIMENSIONS]; HORIZONS],
            background_future: [[0.0; DIMENSIONS]; HORIZONS],
            known: [false; DIMENSIONS],
            live: BTreeSet::new(),
            departures: VecDeque::new(),
            life,
            health: Health::default(),
            last_report: None,
            series: [const { None }; DIMENSIONS],
            peak_load: 0.0,
        };
        state.set_spec(spec, at_ms, config);
        state
    }

    /// Take a new specification; live leases stay, even above a lowered capacity.
    pub(super) fn set_spec(&mut self, spec: Arc<BoxSpec>, at_ms: u64, config: &FleetConfig) {
        for (index, capacity) in spec.capacity.0.into_iter().enumerate() {
            // No capacity in a dimension: nothing there limits, and nothing there is load.
            self.limit[index] = capacity.unwrap_or(u64::MAX);
            let reserved = capacity.map_or(0, |c| (c as f64 * config.critical_headroom) as u64);
            self.limit_normal[index] = self.limit[index] - reserved;
            self.inverse_capacity[index] = match capacity {
                None => 0.0,
                // A capacity of 0 takes nothing, and anything in it is overload.
                Some(base) => 1.0 / (base.max(1) as f64),
            };
        }
        if spec.stage != self.life.stage && spec.stage != self.spec.stage {
            self.set_stage(spec.stage, at_ms);
        }
        self.spec = spec;
    }

    pub(super) fn set_stage(&mut self, stage: Stage, at_ms: u64) {
        if stage != self.life.stage {
            if self.life.stage >= Stage::Draining {
                // It comes back: its caches are as cold as a new box's.
                self.life.registered_at_ms = at_ms;
            }
            self.life.stage = stage;
            self.life.since_ms = at_ms;
        }
    }

    pub(super) fn depart(&mut self, departure: Departure) {
        if self.departures.len() == DEPARTURES_MAX {
            self.departures.pop_front();
        }
        self.departures.push_back(departure);
    }

    /// The box's id.
    #[must_use]
    pub fn box_id(&self) -> &Arc<str> {
        &self.spec.box_id
    }

    /// Load now: the largest of use ÷ capacity over its dimensions, background and live balls, in
    /// shares of the capacity (not divided by weight).
    #[must_use]
    pub fn load(&self) -> f64 {
        self.load_with(&Amounts::ZERO)
    }

    /// Load now with `demand` added, in shares of the capacity (not divided by weight).
    #[must_use]
    #[inline]
    pub fn load_with(&self, demand: &Amounts) -> f64 {
        let mut load = 0.0_f64;
        for d in 0..DIMENSIONS {
            let amount = (self.committed.0[d] + demand.0[d]) as f64;
            load = load.max(self.background_ratio[d] + amount * self.inverse_capacity[d]);
        }
        load + self.failure_load
    }

    /// Load expected at each horizon with `demand` added and weighted by `survival[h]`, the
    /// probability that the ball is still there then; the worst of now and the first `horizons`.
    #[must_use]
    pub fn load_ahead(&self, demand: &Amounts, survival: &[f64; HORIZONS], horizons: usize) -> f64 {
        let mut load = self.load_with(demand) - self.failure_load;
        for (h, survival) in survival.iter().enumerate().take(horizons) {
            for d in 0..DIMENSIONS {
                let new = demand.0[d] as f64 * self.inverse_capacity[d] * survival;
                load = load.max(self.background_future[h][d] + self.committed_future[h][d] + new);
            }
        }
        load + self.failure_load
    }

    /// 1 ÷ effective weight: the factor that makes a lighter box look as full as it should.
    #[must_use]
    pub fn inverse_weight(&self) -> f64 {
        self.inverse_weight
    }

    /// Effective weight: the operator's times the life cycle's; 0 gets nothing.
    #[must_use]
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// Work left by the fleet's own account at `at_ms`, in milliseconds on this box.
    #[must_use]
    pub fn work_left_ms(&self, at_ms: u64) -> u64 {
        self.work_until_ms.saturating_sub(at_ms)
    }

    /// Virtual time of stride scheduling: the box that has had least for its weight is next.
    #[must_use]
    pub fn pass(&self) -> f64 {
        self.pass
    }

    /// Milliseconds a ball of `work_ms` takes here, truncated.
    #[must_use]
    pub fn service_ms(&self, work_ms: f64) -> u64 {
        (work_ms / self.spec.speed) as u64
    }

    /// What live balls reserve.
    #[must_use]
    pub fn committed(&self) -> &Amounts {
        &self.committed
    }

    /// Ids of its live leases.
    pub fn live_lease_ids(&self) -> impl Iterator<Item = u64> + '_ {
        self.live.iter().copied()
    }

    /// Number of live leases.
    #[must_use]
    pub fn live_count(&self) -> usize {
        self.live.len()
    }

    /// Highest load seen since registration.
    #[must_use]
    pub fn peak_load(&self) -> f64 {
        self.peak_load
    }

    /// Why the box takes nothing at present, whatever the ball; `None`: it does.
    #[must_use]
    pub fn gate(&self) -> Option<Refusal> {
        self.gate
    }

    /// The stage by the box's own word.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.life.stage
    }

    /// The last report, when there was one.
    #[must_use]
    pub fn last_report(&self) -> Option<&LastReport> {
        self.last_report.as_ref()
    }

    /// The background series of each dimension that has been reported.
    #[must_use]
    pub fn series(&self) -> &[Option<Box<BackgroundSeries>>; DIMENSIONS] {
        &self.series
    }

    /// Background at each horizon and dimension, as the forecasts see it, in shares of capacity.
    #[must_use]
    pub fn background_future(&self) -> &[[f64; DIMENSIONS]; HORIZONS] {
        &self.background_future
    }

    /// Background now by dimension, in shares of the capacity, the policy for unknown included.
    #[must_use]
    pub fn background_ratio(&self) -> &[f64; DIMENSIONS] {
        &self.background_ratio
    }

    /// Whether `demand` fits now: reserved, background and demand within the capacity, and for
    /// other than critical balls outside the reserved headroom.
    ///
    /// # Errors
    /// The first dimension that lacks room, or [`Refusal::Headroom`].
    #[inline]
    pub fn fits(&self, demand: &Amounts, is_critical: bool) -> Result<(), Refusal> {
        const SHORT: [Refusal; DIMENSIONS] = [
            Refusal::CpuCores,
            Refusal::MemoryBytes,
            Refusal::BandwidthBps,
            Refusal::Slots,
        ];
        for (d, short) in SHORT.into_iter().enumerate() {
            if demand.0[d] == 0 {
                continue;
            }
            let wanted = self.committed.0[d] + self.background.0[d] + demand.0[d];
            if wanted > self.limit[d] {
                return Err(short);
            }
            if !is_critical && wanted > self.limit_normal[d] {
                return Err(Refusal::Headroom);
            }
        }
        Ok(())
    }
}
