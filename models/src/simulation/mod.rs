//! The simulation kernel: arrivals and boxes in, the engine's own events out.
//!
//! The engine is the server's; only time, the boxes' service and their reports are simulated. Runs
//! are functions of the scenario: the same scenario gives the same events, bit for bit. With several
//! schedulers each has an engine of its own, and so its own picture of the same boxes.

mod link;
mod result;
mod run;
mod scaling;
mod service;

use std::sync::Arc;

pub use result::{Moment, Seen, Simulated};
pub use run::Simulation;
pub use scaling::Scaling;
pub use service::Discipline;

use crate::config::FleetConfig;
use crate::domain::{Amounts, Ball, BoxSpec, DIMENSIONS};
use crate::event::Event;
use crate::forecast::ForecastModel;
use crate::policy::PlacementPolicy;

/// An artifact: its id and its model.
pub type Artifact = (Arc<str>, Arc<ForecastModel>);

/// A placement policy with its id.
pub type PolicyArtifact = (Arc<str>, Arc<PlacementPolicy>);

/// A ball on its way.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrival {
    /// When it comes, in engine milliseconds.
    pub at_ms: u64,
    /// What its sender says of it.
    pub ball: Arc<Ball>,
    /// The truth: service it needs at speed 1 (stay for [`Discipline::Stay`], time at the sender's
    /// own speed for [`Discipline::Bandwidth`]), in milliseconds.
    pub service_ms: f64,
    /// The truth: what it takes from its box while it is there.
    pub demand: Amounts,
}

impl Arrival {
    /// A ball whose sender states its demand as it is.
    #[must_use]
    pub fn new(at_ms: u64, ball: Ball, service_ms: f64) -> Self {
        Self { at_ms, demand: ball.demand, ball: Arc::new(ball), service_ms }
    }
}

/// Load that others put on a box, from `at_ms` until the next entry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Background {
    /// Since when, in engine milliseconds.
    pub at_ms: u64,
    /// Use by dimension, in public units; `None`: the box has no such meter.
    pub usage: [Option<f64>; DIMENSIONS],
}

/// A box as it really is.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedBox {
    /// What it registers.
    pub spec: BoxSpec,
    /// How it serves.
    pub discipline: Discipline,
    /// Load by others, sorted by time; empty: none.
    pub background: Vec<Background>,
}

/// Something that happens to a box.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change {
    /// It runs at this multiple of its registered speed, unseen by its meters (a slow box).
    Speed(f64),
    /// A neighbour takes this share of its processors: it runs slower by it, and its meter of cores
    /// shows it (CPU steal).
    Steal(f64),
    /// It crashes: its balls fail, it takes none and reports nothing.
    Crash,
    /// It comes back, cold, and registers again as warming.
    Restart,
}

/// What is not as it should be, and how many schedulers there are.
#[derive(Debug, Clone, PartialEq)]
pub struct Conditions {
    /// Schedulers; each ball comes to one of them by chance.
    pub schedulers: usize,
    /// Whether every scheduler has a part of the boxes to itself (the n-th box belongs to the n-th
    /// scheduler, modulo their number); otherwise all place on all.
    pub pooled: bool,
    /// Time from a report's sampling to its arrival, in milliseconds.
    pub report_delay_ms: u64,
    /// Most by which that time varies upwards, evenly, in milliseconds.
    pub report_jitter_ms: u64,
    /// Share of the reports that never arrive.
    pub report_loss: f64,
    /// Before the first ball comes boxes report this seldom, in milliseconds; `None`: as ever. A long
    /// history for the forecasts need not be as dense as the part that is looked at.
    pub history_report_every_ms: Option<u64>,
    /// A ball that is still in the system after this long is given up by its sender.
    pub patience_ms: Option<u64>,
    /// What happens to boxes: when (engine milliseconds), to the box at which position, what.
    pub changes: Vec<(u64, usize, Change)>,
    /// A box that starts or restarts runs at `cold_speed` of its speed for this long.
    pub cold_ms: u64,
    /// See `cold_ms`.
    pub cold_speed: f64,
    /// Boxes are started and drained by load; `None`: all run from the beginning.
    pub scaling: Option<Scaling>,
    /// Price of an hour of a box, in any currency.
    pub box_price_per_hour: f64,
    /// Loads are looked at this often; `None`: as often as boxes report.
    pub measure_every_ms: Option<u64>,
}

impl Default for Conditions {
    fn default() -> Self {
        Self {
            schedulers: 1,
            pooled: false,
            report_delay_ms: 0,
            report_jitter_ms: 0,
            report_loss: 0.0,
            history_report_every_ms: None,
            patience_ms: None,
            changes: Vec::new(),
            cold_ms: 0,
            cold_speed: 1.0,
            scaling: None,
            box_price_per_hour: 0.0,
            measure_every_ms: None,
        }
    }
}

/// Everything a run depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// The fleet's configuration, seed and strategy included.
    pub config: FleetConfig,
    /// The boxes.
    pub boxes: Vec<SimulatedBox>,
    /// The balls, sorted by time.
    pub arrivals: Vec<Arrival>,
    /// Time between two reports of a box, in milliseconds; `None`: boxes never report.
    pub report_every_ms: Option<u64>,
    /// Decisions and loads count in the result from this time on, in engine milliseconds.
    pub measured_from_ms: u64,
    /// What is not as it should be.
    pub conditions: Conditions,
}

/// Run `scenario` with the forecast `model`, calling `observe` with every event.
pub fn simulate(scenario: &Scenario, model: Option<Artifact>, observe: &mut dyn FnMut(&Event)) -> Simulated {
    let mut simulation = Simulation::new(scenario, model);
    simulation.run_until(u64::MAX, observe);
    simulation.finish()
}

/// Run `scenario` with a placement policy, calling `observe` with every event.
pub fn simulate_policy(
    scenario: &Scenario,
    policy: PolicyArtifact,
    observe: &mut dyn FnMut(&Event),
) -> Simulated {
    let mut simulation = Simulation::new(scenario, None);
    simulation.activate_policy(&policy);
    simulation.run_until(u64::MAX, observe);
    simulation.finish()
}

#[cfg(test)]
mod tests;
