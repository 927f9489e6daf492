//! What the tests of the core share: an engine driven by plain operations.

#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;

use berth_models::config::FleetConfig;
use berth_models::domain::{Amounts, Ball, BoxReport, BoxSpec, Capacity, Class, Outcome, Usage};
use berth_models::engine::{Engine, Stamp};
use berth_models::event::Event;
use berth_models::fleet::Fleet;
use berth_models::forecast::ensemble::Ensemble;
use berth_models::forecast::{FEATURE_COUNT, ForecastModel, HORIZON_COUNT};
use berth_models::strategy::StrategyName;

pub const CORE: u64 = 1_000_000;

/// A box of `cores` cores, `slots` slots and nothing else.
pub fn spec(box_id: &str, cores: u64, slots: u64) -> BoxSpec {
    BoxSpec::new(box_id, Capacity([Some(cores * CORE), None, None, Some(slots)]))
}

/// A ball of `class` that takes a tenth of `tenths` cores and a slot.
pub fn ball(id: impl Into<String>, class: Class, tenths: u64) -> Arc<Ball> {
    let mut ball = Ball::new(id);
    ball.class = class;
    ball.demand = Amounts([tenths * CORE / 10, 0, 0, 1]);
    Arc::new(ball)
}

/// A report of `cores` in use, sampled at `at_ms`, that has seen every lease so far.
pub fn report(box_id: &str, at_ms: u64, cores: f64, last: u64) -> BoxReport {
    let mut report = BoxReport::new(box_id, at_ms);
    report.usage = Usage { cpu_cores: Some(cores), slots: Some(0.0), ..Usage::default() };
    report.last_accepted_lease_id = Some(last);
    report
}

/// A configuration with `primary` for everything that is not critical.
pub fn config(primary: StrategyName) -> FleetConfig {
    FleetConfig { primary, seed: 7, ..FleetConfig::default() }
}

/// An engine with the events it has made.
pub struct Driver {
    pub engine: Engine,
    pub events: Vec<Event>,
    pub at_ms: u64,
}

impl Driver {
    pub fn new(config: FleetConfig) -> Self {
        Self { engine: Engine::new(Fleet::new(config)), events: Vec::new(), at_ms: 1_000_000 }
    }

    pub fn stamp(&self) -> Stamp {
        Stamp { at_ms: self.at_ms, wall_ms: self.at_ms }
    }

    pub fn pass(&mut self, ms: u64) {
        self.at_ms += ms;
        let stamp = self.stamp();
        self.engine.expire(stamp, &mut self.events);
    }

    pub fn register(&mut self, spec: BoxSpec) {
        let stamp = self.stamp();
        self.engine.register(spec, stamp, &mut self.events).unwrap();
    }

    pub fn report(&mut self, report: BoxReport) {
        let stamp = self.stamp();
        self.engine.report(report, stamp, &mut self.events).unwrap();
    }

    /// Allocate and return (box, lease) when placed.
    pub fn place(&mut self, ball: Arc<Ball>) -> Option<(String, u64)> {
        let stamp = self.stamp();
        let answer = self.engine.allocate(ball, stamp, &mut self.events).unwrap();
        Some((answer.decision.box_id()?.to_string(), answer.lease_id?))
    }

    pub fn complete(&mut self, ball: &Ball, lease_id: u64, succeeded: bool) {
        let (stamp, outcome) = (self.stamp(), Outcome { succeeded, latency_ms: None });
        self.engine.complete(lease_id, ball.key(), outcome, stamp, &mut self.events).unwrap();
    }
}

/// A model that says `change` (in units of a series' scale) whatever it is asked.
pub fn constant_model(change: f32) -> Arc<ForecastModel> {
    let horizons: [Option<Ensemble>; HORIZON_COUNT] =
        std::array::from_fn(|_| Some(Ensemble::new(FEATURE_COUNT, vec![change; 3], 3).unwrap()));
    Arc::new(ForecastModel::new(horizons).unwrap())
}
