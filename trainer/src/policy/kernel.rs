//! Traces for the simulation kernel, which decides by the engine itself: routes, fallbacks and all.

use berth_models::config::FleetConfig;
use berth_models::domain::{Ball, BoxSpec, Capacity};
use berth_models::simulation::{Arrival, Conditions, Discipline, Scenario, SimulatedBox};
use berth_models::strategy::StrategyName;

use super::traffic::Trace;

/// Places on every box: so many that none is ever full.
const SLOTS: u64 = 1_000_000;

/// `trace` on first-in-first-out boxes of these speeds, decided by `primary`.
#[must_use]
pub fn scenario(speeds: &[f64], trace: &Trace, primary: StrategyName) -> Scenario {
    let boxes = speeds.iter().enumerate().map(|(index, speed)| {
        let mut spec = BoxSpec::new(&format!("server-{index:03}"), Capacity([None, None, None, Some(SLOTS)]));
        spec.speed = *speed;
        SimulatedBox { spec, discipline: Discipline::Fifo, background: Vec::new() }
    });
    let arrivals = trace.arrivals.iter().enumerate().map(|(index, (at_ms, work_ms))| {
        let mut ball = Ball::new(format!("job-{index:06}"));
        ball.work_ms = Some(*work_ms);
        Arrival::new(*at_ms, ball, *work_ms)
    });
    Scenario {
        config: FleetConfig { lease_ms_default: 24 * 3_600_000, primary, ..FleetConfig::default() },
        boxes: boxes.collect(),
        arrivals: arrivals.collect(),
        report_every_ms: None,
        measured_from_ms: 0,
        conditions: Conditions::default(),
    }
}
