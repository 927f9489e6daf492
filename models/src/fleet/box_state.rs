//! One box as the fleet sees it: what the scan over boxes reads, and what stands behind it.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::cost::Cost;
use super::health::{Health, Life};
use super::latency::Latency;
use crate::config::FleetConfig;
use crate::decision::Refusal;
use crate::domain::{Amounts, BoxReport, BoxSpec, DIMENSIONS, Dimension, Stage};
use crate::forecast::{HORIZONS_MS, SeriesForecast, SeriesState};

/// Number of forecast horizons.
pub const HORIZONS: usize = HORIZONS_MS.len();
/// Departures remembered between two reports; beyond it the oldest is forgotten and the background
/// is overestimated, never underestimated.
const DEPARTURES_MAX: usize = 1_024;

/// The larger of two numbers, in one instruction: unlike `f64::max` it need not mind NaN, which loads never are.
#[inline]
fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

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
///
/// What a decision reads of every box lies together, in the order in which it is read; everything
/// else is behind one pointer.
#[derive(Clone, Serialize, Deserialize)]
#[repr(C)]
pub struct BoxState {
    pub(super) gate: Option<Refusal>,
    /// Stable number of the box, in the order of registration.
    pub handle: u32,
    pub(super) weight: f64,
    pub(super) inverse_weight: f64,
    pub(super) failure_load: f64,
    /// Capacity that is neither reserved nor background, in base units.
    free: [u64; DIMENSIONS],
    /// The same outside the reserved headroom.
    free_normal: [u64; DIMENSIONS],
    pub(super) inverse_capacity: [f64; DIMENSIONS],
    /// Background and reserved amounts by dimension, as loads.
    load_now: [f64; DIMENSIONS],
    pub(super) work_until_ms: u64,
    /// The id, also in the specification: one step less to it.
    id: Arc<str>,
    /// The specification it registered.
    pub spec: Arc<BoxSpec>,
    /// Background and reserved amounts expected at each horizon, as loads.
    load_then: [[f64; DIMENSIONS]; HORIZONS],
    pub(super) rest: Box<Rest>,
}

/// How the bandwidth in use at the last report compares with what was expected of the balls it saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Expectation {
    /// Bits per second expected of those balls.
    expected: u64,
    /// Bits per second by which the use fell short of it.
    short: u64,
}

impl Expectation {
    pub fn of(report: &BoxReport, covered: &Amounts) -> Self {
        let link = Dimension::BandwidthBps;
        let expected = covered.0[link as usize];
        let used = report.usage.bandwidth_bps.map_or(expected, |bps| link.to_base(bps));
        Self { expected, short: expected.saturating_sub(used) }
    }
}

/// What a decision does not read.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Rest {
    pub limit: [u64; DIMENSIONS],
    pub limit_normal: [u64; DIMENSIONS],
    pub committed: Amounts,
    pub background: Amounts,
    pub background_ratio: [f64; DIMENSIONS],
    pub service_live_ms: u64,
    pub committed_future: [[f64; DIMENSIONS]; HORIZONS],
    pub background_future: [[f64; DIMENSIONS]; HORIZONS],
    pub known: [bool; DIMENSIONS],
    /// Ids of live leases, ascending: they grow, and the oldest mostly go first.
    pub live: VecDeque<u64>,
    pub departures: VecDeque<Departure>,
    pub life: Life,
    pub health: Health,
    pub last_report: Option<LastReport>,
    pub series: [Option<Arc<BackgroundSeries>>; DIMENSIONS],
    pub peak_load: f64,
    #[serde(default)]
    pub latency: Latency,
    #[serde(default)]
    pub cost: Cost,
    #[serde(default)]
    pub expectation: Expectation,
    /// When the box last got a ball, in engine milliseconds.
    #[serde(default)]
    pub placed_at_ms: u64,
    #[serde(default)]
    pub next_accept_at_ms: u64,
    #[serde(default)]
    pub last_lease_id: u64,
    /// Virtual time of its last turn, and before that of its joining.
    #[serde(default)]
    pub turn: f64,
}

impl BoxState {
    pub(super) fn new(spec: Arc<BoxSpec>, handle: u32, at_ms: u64, config: &FleetConfig) -> Self {
        let life = Life { stage: spec.stage, since_ms: at_ms, registered_at_ms: at_ms, reports_stage: false };
        let rest = Rest {
            limit: [0; DIMENSIONS],
            limit_normal: [0; DIMENSIONS],
            committed: Amounts::ZERO,
            background: Amounts::ZERO,
            background_ratio: [0.0; DIMENSIONS],
            service_live_ms: 0,
            committed_future: [[0.0; DIMENSIONS]; HORIZONS],
            background_future: [[0.0; DIMENSIONS]; HORIZONS],
            known: [false; DIMENSIONS],
            live: VecDeque::new(),
            departures: VecDeque::new(),
            life,
            health: Health::default(),
            last_report: None,
            series: [const { None }; DIMENSIONS],
            peak_load: 0.0,
            latency: Latency::default(),
            cost: Cost::default(),
            expectation: Expectation::default(),
            placed_at_ms: 0,
            next_accept_at_ms: 0,
            last_lease_id: 0,
            turn: 0.0,
        };
        let mut state = Self {
            gate: None,
            handle,
            weight: 0.0,
            inverse_weight: 0.0,
            failure_load: 0.0,
            free: [0; DIMENSIONS],
            free_normal: [0; DIMENSIONS],
            inverse_capacity: [0.0; DIMENSIONS],
            load_now: [0.0; DIMENSIONS],
            work_until_ms: 0,
            id: spec.box_id.clone(),
            spec: spec.clone(),
            load_then: [[0.0; DIMENSIONS]; HORIZONS],
            rest: Box::new(rest),
        };
        state.set_spec(spec, at_ms, config);
        state
    }

    /// Take a new specification; live leases stay, even above a lowered capacity.
    pub(super) fn set_spec(&mut self, spec: Arc<BoxSpec>, at_ms: u64, config: &FleetConfig) {
        for (index, capacity) in spec.capacity.0.into_iter().enumerate() {
            // No capacity in a dimension: nothing there limits, and nothing there is load.
            self.rest.limit[index] = capacity.unwrap_or(u64::MAX);
            let reserved = capacity.map_or(0, |c| (c as f64 * config.critical_headroom) as u64);
            self.rest.limit_normal[index] = self.rest.limit[index] - reserved;
            self.inverse_capacity[index] = match capacity {
                None => 0.0,
                // A capacity of 0 takes nothing, and anything in it is overload.
                Some(base) => 1.0 / (base.max(1) as f64),
            };
        }
        if spec.stage != self.rest.life.stage && spec.stage != self.spec.stage {
            self.set_stage(spec.stage, at_ms);
        }
        self.spec = spec;
        self.settle();
    }

    /// Bring what decisions read in line with amounts, limits and forecasts, after any of them changed.
    pub(super) fn settle(&mut self) {
        let rest = &*self.rest;
        for d in 0..DIMENSIONS {
            let used = rest.committed.0[d] + rest.background.0[d];
            self.free[d] = rest.limit[d].saturating_sub(used);
            self.free_normal[d] = rest.limit_normal[d].saturating_sub(used);
            let committed = rest.committed.0[d] as f64 * self.inverse_capacity[d];
            self.load_now[d] = rest.background_ratio[d] + committed;
        }
        for h in 0..HORIZONS {
            for d in 0..DIMENSIONS {
                self.load_then[h][d] = rest.background_future[h][d] + rest.committed_future[h][d];
            }
        }
    }

    /// Whether registering `spec` brings back a box that drains or is down.
    pub(crate) fn comes_back_by(&self, spec: &BoxSpec) -> bool {
        self.stage() >= Stage::Draining && spec.stage < Stage::Draining
    }

    pub(super) fn set_stage(&mut self, stage: Stage, at_ms: u64) {
        if stage != self.rest.life.stage {
            if self.rest.life.stage >= Stage::Draining {
                // It comes back: its caches are as cold as a new box's.
                self.rest.life.registered_at_ms = at_ms;
            }
            self.rest.life.stage = stage;
            self.rest.life.since_ms = at_ms;
        }
    }

    pub(super) fn depart(&mut self, departure: Departure) {
        if self.rest.departures.len() == DEPARTURES_MAX {
            self.rest.departures.pop_front();
        }
        self.rest.departures.push_back(departure);
    }

    /// The box's id.
    #[must_use]
    pub fn box_id(&self) -> &Arc<str> {
        &self.id
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
        self.worst_now(demand) + self.failure_load
    }

    #[inline]
    fn worst_now(&self, demand: &Amounts) -> f64 {
        let load = |d: usize| self.load_now[d] + demand.0[d] as f64 * self.inverse_capacity[d];
        larger(larger(load(0), load(1)), larger(load(2), load(3)))
    }

    /// [`Self::load_with`] with the bandwidth corrected by what the last report fell short of
    /// expectation, in proportion to how much of what it saw can still be there.
    #[must_use]
    pub fn load_corrected(&self, demand: &Amounts) -> f64 {
        const LINK: usize = Dimension::BandwidthBps as usize;
        let Expectation { expected, short } = self.rest.expectation;
        let left = self.rest.committed.0[LINK].min(expected) as f64 / expected.max(1) as f64;
        let correction = short as f64 * left * self.inverse_capacity[LINK];
        let load = |d: usize| {
            let load = self.load_now[d] + demand.0[d] as f64 * self.inverse_capacity[d];
            if d == LINK { load - correction } else { load }
        };
        (0..DIMENSIONS).map(load).fold(0.0, larger) + self.failure_load
    }

    /// Load that recent failures add.
    #[must_use]
    pub fn failure_load(&self) -> f64 {
        self.failure_load
    }

    /// Recent latency of its balls.
    #[must_use]
    pub fn latency(&self) -> &Latency {
        &self.rest.latency
    }

    /// When it accepts the next ball under `next_accept`, in engine milliseconds.
    #[must_use]
    pub fn next_accept_at_ms(&self) -> u64 {
        self.rest.next_accept_at_ms
    }

    /// Remember the turn that a ball took. Keep the cadence: the next ball is due one interval after this one was, or after now when
    /// this one did not come on its turn.
    pub(super) fn accept(&mut self, lease_id: u64, turn: f64, at_ms: u64, interval_ms: u64) {
        let due_ms = self.rest.next_accept_at_ms;
        let is_on_turn = due_ms <= at_ms && at_ms - due_ms < interval_ms;
        self.rest.next_accept_at_ms = if is_on_turn { due_ms } else { at_ms } + interval_ms;
        self.rest.placed_at_ms = at_ms;
        self.rest.last_lease_id = lease_id;
        // In panic a box without weight has no turns.
        if turn.is_finite() {
            self.rest.turn = turn;
        }
    }

    /// Load expected at each horizon with `demand` added and weighted by `survival[h]`, the
    /// probability that the ball is still there then; the worst of now and the first `horizons`.
    #[must_use]
    #[inline]
    pub fn load_ahead(&self, demand: &Amounts, survival: &[f64; HORIZONS], horizons: usize) -> f64 {
        let mut worst = self.worst_now(demand);
        let new: [f64; DIMENSIONS] = std::array::from_fn(|d| demand.0[d] as f64 * self.inverse_capacity[d]);
        for (then, survival) in self.load_then.iter().zip(survival).take(horizons) {
            for d in 0..DIMENSIONS {
                worst = larger(worst, then[d] + new[d] * survival);
            }
        }
        worst + self.failure_load
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

    /// Virtual time of its next turn when the fleet's stands at `turn`: a period (1 ÷ weight, as it is
    /// now) after its last, and the first time a share of one after it joined that its id decides, so
    /// that boxes of equal weight don't all have their turns at once. Never before `turn`: a box that
    /// was away makes up for nothing.
    #[must_use]
    pub fn next_turn(&self, turn: f64) -> f64 {
        let periods = if self.rest.last_lease_id == 0 {
            crate::chance::unit(xxhash_rust::xxh3::xxh3_64(self.id.as_bytes()), 0)
        } else {
            1.0
        };
        turn.max(self.rest.turn + periods * self.inverse_weight)
    }

    /// Lease id of the ball it got last; 0 when it has had none.
    #[must_use]
    pub fn last_lease_id(&self) -> u64 {
        self.rest.last_lease_id
    }

    /// Milliseconds a ball of `work_ms` takes here, truncated.
    #[must_use]
    pub fn service_ms(&self, work_ms: f64) -> u64 {
        (work_ms / self.spec.speed) as u64
    }

    /// What live balls reserve.
    #[must_use]
    pub fn committed(&self) -> &Amounts {
        &self.rest.committed
    }

    /// Ids of its live leases.
    pub fn live_lease_ids(&self) -> impl Iterator<Item = u64> + '_ {
        self.rest.live.iter().copied()
    }

    /// Number of live leases.
    #[must_use]
    pub fn live_count(&self) -> usize {
        self.rest.live.len()
    }

    /// Highest load seen since registration.
    #[must_use]
    pub fn peak_load(&self) -> f64 {
        self.rest.peak_load
    }

    /// Why the box takes nothing at present, whatever the ball; `None`: it does.
    #[must_use]
    pub fn gate(&self) -> Option<Refusal> {
        self.gate
    }

    /// The stage by the box's own word.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.rest.life.stage
    }

    /// The last report, when there was one.
    #[must_use]
    pub fn last_report(&self) -> Option<&LastReport> {
        self.rest.last_report.as_ref()
    }

    /// The background series of each dimension that has been reported.
    #[must_use]
    pub fn series(&self) -> &[Option<Arc<BackgroundSeries>>; DIMENSIONS] {
        &self.rest.series
    }

    /// Background at each horizon and dimension, as the forecasts see it, in shares of capacity.
    #[must_use]
    pub fn background_future(&self) -> &[[f64; DIMENSIONS]; HORIZONS] {
        &self.rest.background_future
    }

    /// Background now by dimension, in shares of the capacity, the policy for unknown included.
    #[must_use]
    pub fn background_ratio(&self) -> &[f64; DIMENSIONS] {
        &self.rest.background_ratio
    }

    /// Whether `demand` fits now: reserved, background and demand within the capacity, and for
    /// other than critical balls outside the reserved headroom.
    ///
    /// # Errors
    /// The first dimension that lacks room, or [`Refusal::Headroom`].
    #[inline]
    pub fn fits(&self, demand: &Amounts, is_critical: bool) -> Result<(), Refusal> {
        let free = if is_critical { &self.free } else { &self.free_normal };
        // All dimensions without a branch: nearly every box that is looked at has room.
        if (0..DIMENSIONS).fold(true, |fits, d| fits & (demand.0[d] <= free[d])) {
            return Ok(());
        }
        Err(self.shortage(demand))
    }

    /// The first dimension that lacks room, for a demand that does not fit.
    #[cold]
    fn shortage(&self, demand: &Amounts) -> Refusal {
        const SHORT: [Refusal; DIMENSIONS] =
            [Refusal::CpuCores, Refusal::MemoryBytes, Refusal::BandwidthBps, Refusal::Slots];
        for (d, short) in SHORT.into_iter().enumerate() {
            if demand.0[d] > self.free[d] {
                return short;
            }
            if demand.0[d] > self.free_normal[d] {
                return Refusal::Headroom;
            }
        }
        Refusal::Headroom
    }
}
