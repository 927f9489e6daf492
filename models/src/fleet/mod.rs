//! The fleet: a fold of events. [`Fleet::apply`] is the only way its state advances.

mod background;
mod box_state;
mod cost;
mod health;
mod key_index;
mod latency;
mod lease;
mod look;
mod refresh;
mod speeds;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use box_state::{BackgroundSeries, BoxState, HORIZONS, LastReport};
pub use key_index::KeyIndex;
pub use latency::Latency;
pub use lease::{Lease, LeaseState, LeaseTable};

use crate::config::FleetConfig;
use crate::decision::Decision;
use crate::domain::{Amounts, Ball, BoxSpec, DIMENSIONS, Outcome, Stage};
use crate::event::{Event, EventKind};
use crate::forecast::{ForecastModel, Foresight, HORIZONS_MS};
use crate::policy::{PlacementPolicy, Traffic};
use crate::strategy::StrategyName;
use box_state::Departure;
use cost::CostScale;
use speeds::Speeds;

/// Weights, staleness and ejections are looked at on this grid of engine time, so that the state
/// at any moment does not depend on how often somebody asked.
const GRID_MS: u64 = 1_000;
/// Weight of one finished ball in its class's mean stay.
const RESIDENCE_GAIN: f64 = 0.02;
/// Mean weight of the model in the guard's blend below which its skill is lost.
const SKILL_MIN: f64 = 0.05;

/// Where a group lives and how many of its balls are there.
#[derive(Clone, Copy)]
struct GroupPlace {
    handle: u32,
    count: u32,
}

/// Counters of what happened, for people; nothing decides by them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetCounters {
    /// Balls placed.
    pub placed: u64,
    /// Leases that ended without a heartbeat.
    pub expired: u64,
    /// Decisions the ledger refused.
    pub reverted: u64,
    /// Boxes ejected for failures in a row.
    pub ejections: u64,
    /// Ejections that the cap prevented.
    pub ejections_capped: u64,
}

/// Everything the decisions stand on.
#[derive(Clone, Serialize, Deserialize)]
pub struct Fleet {
    config: FleetConfig,
    seq: u64,
    at_ms: u64,
    grid: u64,
    /// Sorted by box id.
    boxes: Vec<BoxState>,
    /// Position in `boxes` by handle.
    positions: Vec<u32>,
    leases: LeaseTable,
    residence_ms: [Option<f64>; 3],
    fleet_worst: [f64; DIMENSIONS],
    #[serde(default)]
    cost_scale: CostScale,
    /// Virtual time of the turns by the role that balls asked for: no more than boxes have roles.
    #[serde(default)]
    turns: BTreeMap<String, f64>,
    /// The same of balls that asked for none: nearly all, and a look into the map costs a decision 5 %.
    #[serde(default)]
    turn: f64,
    #[serde(default)]
    speeds: Speeds,
    panic: bool,
    model_weight: Option<f64>,
    artifact_id: Option<Arc<str>>,
    counters: FleetCounters,
    #[serde(default)]
    policy_id: Option<Arc<str>>,
    #[serde(default)]
    traffic: Traffic,
    /// Summed speed of the boxes that take balls at present.
    #[serde(default)]
    speed_sum: f64,
    /// Handle by box id.
    #[serde(skip)]
    handles: KeyIndex<u32>,
    #[serde(skip)]
    groups: KeyIndex<GroupPlace>,
    #[serde(skip)]
    model: Option<Arc<ForecastModel>>,
    #[serde(skip)]
    policy: Option<Arc<PlacementPolicy>>,
    #[serde(skip)]
    foresight: Option<Foresight>,
    #[serde(skip)]
    strategy_ids: Vec<Arc<str>>,
}

impl Default for Fleet {
    fn default() -> Self {
        Self::new(FleetConfig::default())
    }
}

impl Fleet {
    /// An empty fleet.
    #[must_use]
    pub fn new(config: FleetConfig) -> Self {
        Self {
            config,
            seq: 0,
            at_ms: 0,
            grid: 0,
            boxes: Vec::new(),
            positions: Vec::new(),
            leases: LeaseTable::default(),
            residence_ms: [None; 3],
            fleet_worst: [0.0; DIMENSIONS],
            cost_scale: CostScale::default(),
            turns: BTreeMap::new(),
            turn: 0.0,
            speeds: Speeds::default(),
            panic: false,
            model_weight: None,
            artifact_id: None,
            counters: FleetCounters::default(),
            policy_id: None,
            traffic: Traffic::default(),
            speed_sum: 0.0,
            handles: KeyIndex::default(),
            groups: KeyIndex::default(),
            model: None,
            policy: None,
            foresight: None,
            strategy_ids: strategy_ids(None, None),
        }
    }

    /// Rebuild what a snapshot leaves out. The model is handed in again by [`Self::set_model`].
    pub fn reindex(&mut self) {
        self.leases.reindex();
        self.strategy_ids = strategy_ids(self.artifact_id.as_ref(), self.policy_id.as_ref());
        self.handles = KeyIndex::default();
        for state in &self.boxes {
            self.handles.insert(box_key(state.box_id()), state.handle);
        }
        self.groups = KeyIndex::default();
        let leases: Vec<_> = self.leases.live().map(|l| (l.decision.clone(), l.box_handle)).collect();
        for (decision, handle) in leases {
            self.join_group(&decision.ball, handle);
        }
    }

    /// Hand in the model that [`EventKind::Activated`] names. Weights are no event: the log says
    /// which artifact was active, and whoever replays it brings the same one.
    pub fn set_model(&mut self, model: Option<Arc<ForecastModel>>) {
        self.model = model;
    }

    /// Hand in the policy that [`EventKind::PolicyActivated`] names, as [`Self::set_model`] does a model.
    pub fn set_policy(&mut self, policy: Option<Arc<PlacementPolicy>>) {
        self.policy = policy;
    }

    /// Hand in what stands in for the model's forecasts, in a simulation that knows the future.
    pub fn set_foresight(&mut self, foresight: Option<Foresight>) {
        self.foresight = foresight;
    }

    /// Advance by one event.
    pub fn apply(&mut self, event: &Event) {
        self.advance(event.at_ms);
        self.seq = event.seq;
        match &event.kind {
            EventKind::Configured { config } => self.apply_config(config),
            EventKind::Registered { spec } => self.apply_registered(spec),
            EventKind::Drained { box_id } => {
                if let Some(position) = self.position(box_id) {
                    self.boxes[position].set_stage(Stage::Draining, event.at_ms);
                    self.refresh_box(position);
                }
            }
            EventKind::Reported { report } => self.apply_report(report, event.at_ms),
            EventKind::Decided { decision } => self.apply_decided(event.seq, decision),
            EventKind::Reverted { lease_id } => {
                self.counters.reverted += 1;
                if let Some(lease) = self.leases.revert(*lease_id) {
                    self.leave(&lease, false);
                }
            }
            EventKind::Renewed { lease_id, expires_at_ms } => {
                self.leases.renew(*lease_id, *expires_at_ms);
            }
            EventKind::Completed { lease_id, outcome } => {
                self.apply_completed(*lease_id, *outcome, event.at_ms);
            }
            EventKind::Released { lease_id } => {
                self.end_lease(*lease_id, LeaseState::Released, event.at_ms);
            }
            EventKind::Expired { lease_id } => {
                self.counters.expired += 1;
                self.end_lease(*lease_id, LeaseState::Expired, event.at_ms);
            }
            EventKind::Activated { artifact_id } => {
                self.artifact_id.clone_from(artifact_id);
                self.strategy_ids = strategy_ids(artifact_id.as_ref(), self.policy_id.as_ref());
            }
            EventKind::PolicyActivated { policy_id } => {
                self.policy_id.clone_from(policy_id);
                self.strategy_ids = strategy_ids(self.artifact_id.as_ref(), policy_id.as_ref());
            }
        }
    }

    /// Let time pass: weights, staleness and ejections as of the grid, ended balls forgotten.
    /// Leases do not end here: the sequencer turns [`Self::first_expired`] into events.
    pub fn advance(&mut self, at_ms: u64) {
        if at_ms <= self.at_ms {
            return;
        }
        self.at_ms = at_ms;
        self.leases.forget(at_ms, self.config.idempotency_keep_ms);
        let grid = at_ms / GRID_MS;
        if grid > self.grid {
            self.grid = grid;
            self.refresh();
        }
    }

    fn grid_at_ms(&self) -> u64 {
        self.grid * GRID_MS
    }

    fn apply_config(&mut self, config: &FleetConfig) {
        self.config = config.clone();
        for position in 0..self.boxes.len() {
            let spec = self.boxes[position].spec.clone();
            self.boxes[position].set_spec(spec, self.at_ms, &self.config);
        }
        self.refresh();
    }

    fn apply_registered(&mut self, spec: &BoxSpec) {
        let at_ms = self.at_ms;
        match self.search(&spec.box_id) {
            Ok(position) => {
                let state = &mut self.boxes[position];
                if state.comes_back_by(spec) {
                    state.set_stage(spec.stage, at_ms);
                }
                state.set_spec(Arc::new(spec.clone()), at_ms, &self.config);
                self.refresh_box(position);
            }
            Err(position) => {
                let handle = self.positions.len() as u32;
                let mut state = BoxState::new(Arc::new(spec.clone()), handle, at_ms, &self.config);
                // A new box joins at the present turn: no flood to make up for its past.
                let turns = [None, spec.role.as_deref()].map(|role| self.turn_of(role));
                state.rest.turn = turns[0].max(turns[1]);
                self.handles.insert(box_key(&spec.box_id), handle);
                self.boxes.insert(position, state);
                self.positions.push(0);
                for (position, state) in self.boxes.iter().enumerate() {
                    self.positions[state.handle as usize] = position as u32;
                }
                self.refresh_box(position);
            }
        }
        self.count_admissible();
    }

    fn apply_decided(&mut self, lease_id: u64, decision: &Arc<Decision>) {
        let crate::decision::Verdict::Placed { box_id, lease_expires_at_ms } = &decision.verdict else {
            return;
        };
        let Some(position) = self.position(box_id) else {
            return;
        };
        self.counters.placed += 1;
        let (ball, demand) = (&decision.ball, decision.demand());
        let residence_ms = self.expected_residence_ms(ball);
        let at_ms = self.at_ms;
        self.traffic.count(at_ms, ball.work_ms.unwrap_or(residence_ms));
        let turn = self.turn(ball);
        let state = &mut self.boxes[position];
        let next = state.next_turn(turn);
        let service_ms = state.service_ms(ball.work_ms.unwrap_or(residence_ms));
        state.rest.committed.add(demand);
        commit_ahead(state, demand, residence_ms, 1.0);
        state.work_until_ms = state.work_until_ms.max(at_ms) + service_ms;
        state.rest.service_live_ms += service_ms;
        state.rest.live.push_back(lease_id);
        state.accept(lease_id, next, at_ms, self.config.accept_interval_ms);
        state.settle();
        state.rest.peak_load = state.rest.peak_load.max(state.load());
        let handle = state.handle;
        self.set_turn(ball, next.max(turn));
        self.join_group(ball, handle);
        self.leases.insert(Lease {
            lease_id,
            decision: decision.clone(),
            box_handle: handle,
            decided_at_ms: at_ms,
            expires_at_ms: *lease_expires_at_ms,
            residence_ms,
            service_ms,
            state: LeaseState::Live,
            ended_at_ms: 0,
            key: ball.key(),
        });
    }

    fn apply_completed(&mut self, lease_id: u64, outcome: Outcome, at_ms: u64) {
        let Some(lease) = self.end_lease(lease_id, LeaseState::Completed { outcome }, at_ms) else {
            return;
        };
        let stayed_ms = at_ms.saturating_sub(lease.decided_at_ms);
        if outcome.succeeded {
            self.speeds.observe(&lease.decision.ball, lease_id, stayed_ms);
        }
        let stayed_ms = stayed_ms as f64;
        let mean = &mut self.residence_ms[lease.decision.ball.class as usize];
        *mean = Some(mean.map_or(stayed_ms, |mean| mean + RESIDENCE_GAIN * (stayed_ms - mean)));
        let position = self.positions[lease.box_handle as usize] as usize;
        let latency_ms = outcome.latency_ms.map_or(stayed_ms, |ms| ms as f64);
        let half_life_ms = self.config.latency_half_life_ms;
        let latency = &mut self.boxes[position].rest.latency;
        latency.observe(latency_ms, outcome.succeeded, at_ms, half_life_ms);
        let has_failed_enough =
            self.boxes[position].rest.health.count(outcome.succeeded, at_ms, &self.config);
        if has_failed_enough {
            self.eject(position, at_ms);
        }
        if self.boxes[position].rest.health.has_failures() {
            self.refresh_box(position);
        }
    }

    fn eject(&mut self, position: usize, at_ms: u64) {
        let ejected = self.boxes.iter().filter(|b| b.rest.health.is_ejected(at_ms)).count();
        let most = (self.boxes.len() as f64 * self.config.ejection_share_max) as usize;
        // Never all of them, whatever the share says.
        if ejected + 1 > most.min(self.boxes.len().saturating_sub(1)) {
            self.counters.ejections_capped += 1;
            return;
        }
        self.counters.ejections += 1;
        self.boxes[position].rest.health.eject(at_ms, &self.config);
        self.refresh_box(position);
        self.count_admissible();
    }

    fn end_lease(&mut self, lease_id: u64, state: LeaseState, at_ms: u64) -> Option<Lease> {
        let lease = self.leases.end(lease_id, state, at_ms)?.clone();
        self.leave(&lease, true);
        Some(lease)
    }

    /// Take a lease's ball off its box; `was_there`: a report may still have seen it.
    fn leave(&mut self, lease: &Lease, was_there: bool) {
        let at_ms = self.at_ms;
        let (ball, demand) = (&lease.decision.ball, *lease.decision.demand());
        let position = self.positions[lease.box_handle as usize] as usize;
        let state = &mut self.boxes[position];
        if let Ok(index) = state.rest.live.binary_search(&lease.lease_id) {
            state.rest.live.remove(index);
        }
        state.rest.committed.subtract(&demand);
        if state.rest.live.is_empty() {
            // Sums of floats come back to exactly nothing.
            state.rest.committed_future = [[0.0; DIMENSIONS]; HORIZONS];
            state.rest.service_live_ms = 0;
            state.work_until_ms = at_ms;
        } else {
            commit_ahead(state, &demand, lease.residence_ms, -1.0);
            // Estimates drift; the work left is never more than what the live balls brought.
            state.rest.service_live_ms -= lease.service_ms;
            state.work_until_ms = state.work_until_ms.min(at_ms + state.rest.service_live_ms);
        }
        state.settle();
        if was_there {
            state.depart(Departure {
                left_at_ms: at_ms,
                decided_at_ms: lease.decided_at_ms,
                lease_id: lease.lease_id,
                demand,
            });
        }
        if let Some(key) = group_key(ball) {
            let place = self.groups.entry_or(key, GroupPlace { handle: 0, count: 1 });
            place.count -= 1;
            if place.count == 0 {
                self.groups.remove(key);
            }
        }
    }

    fn join_group(&mut self, ball: &Ball, handle: u32) {
        if let Some(key) = group_key(ball) {
            self.groups.entry_or(key, GroupPlace { handle, count: 0 }).count += 1;
        }
    }

    /// Virtual time of the turns among balls that ask for the same role as `ball`.
    #[must_use]
    pub fn turn(&self, ball: &Ball) -> f64 {
        self.turn_of(ball.role.as_deref())
    }

    fn turn_of(&self, role: Option<&str>) -> f64 {
        role.map_or(self.turn, |role| self.turns.get(role).copied().unwrap_or(0.0))
    }

    fn set_turn(&mut self, ball: &Ball, turn: f64) {
        let Some(role) = ball.role.as_deref() else {
            self.turn = turn;
            return;
        };
        match self.turns.get_mut(role) {
            Some(known) => *known = turn,
            None => {
                self.turns.insert(role.to_owned(), turn);
            }
        }
    }

    /// The ball's demand; where it states no bandwidth, the speed expected of its user stands for it.
    #[must_use]
    pub fn expected_demand(&self, ball: &Ball) -> Amounts {
        self.speeds.expected_demand(ball)
    }

    /// Mean stay assumed for a ball, in milliseconds: its own word, else its class's recent mean.
    #[must_use]
    pub fn expected_residence_ms(&self, ball: &Ball) -> f64 {
        ball.expected_residence_ms.map_or_else(
            || self.residence_ms[ball.class as usize].unwrap_or(self.config.residence_ms_default as f64),
            |stated| stated as f64,
        )
    }

    fn search(&self, box_id: &str) -> Result<usize, usize> {
        self.boxes.binary_search_by(|state| (*state.spec.box_id).cmp(box_id))
    }

    fn position(&self, box_id: &str) -> Option<usize> {
        let handle = self.handles.get(box_key(box_id))?;
        Some(self.positions[*handle as usize] as usize)
    }
}

/// Add (`sign` 1) or take away (−1) a ball's expected presence at every horizon: its demand times
/// the probability that it is still there, with stays taken as exponential.
fn commit_ahead(state: &mut BoxState, demand: &Amounts, residence_ms: f64, sign: f64) {
    let survival = survival(residence_ms);
    for (h, survival) in survival.into_iter().enumerate() {
        for d in 0..DIMENSIONS {
            let ratio = demand.0[d] as f64 * state.inverse_capacity[d];
            state.rest.committed_future[h][d] += sign * ratio * survival;
        }
    }
}

/// Probability that a ball with mean stay `residence_ms` is still there at each horizon.
///
/// The horizons are 1, 2, 4 and 10 times the first, so one exponential and its powers serve all.
#[must_use]
pub fn survival(residence_ms: f64) -> [f64; HORIZONS] {
    const { assert!(HORIZONS == 4 && HORIZONS_MS[1] == 2 * HORIZONS_MS[0]) };
    const { assert!(HORIZONS_MS[2] == 4 * HORIZONS_MS[0] && HORIZONS_MS[3] == 10 * HORIZONS_MS[0]) };
    let once = libm::exp(-(HORIZONS_MS[0] as f64) / residence_ms.max(1.0));
    let twice = once * once;
    let four = twice * twice;
    [once, twice, four, four * four * twice]
}

/// The id every strategy's decisions carry while `artifact_id` and `policy_id` are active.
fn strategy_ids(artifact_id: Option<&Arc<str>>, policy_id: Option<&Arc<str>>) -> Vec<Arc<str>> {
    StrategyName::ALL
        .iter()
        .map(|name| {
            let artifact_id = artifact_id.filter(|_| name.needs_model());
            match artifact_id.or(policy_id.filter(|_| name.needs_policy())) {
                Some(id) => format!("{}+{id}", name.versioned()).into(),
                None => name.versioned().into(),
            }
        })
        .collect()
}

fn box_key(box_id: &str) -> u128 {
    xxhash_rust::xxh3::xxh3_128(box_id.as_bytes())
}

fn group_key(ball: &Ball) -> Option<u128> {
    ball.group.as_deref().map(|group| crate::domain::ball::ball_key(&ball.tenant, group))
}
