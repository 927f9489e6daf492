//! `peak`: the busiest hour of a weekday, reports every 60 s, jobs of others on the boxes' minutes.

use anyhow::Context;
use berth_models::config::FleetConfig;
use berth_models::domain::{Amounts, Ball};
use berth_models::simulation::{Arrival, Conditions, Scenario, SimulatedBox};
use berth_models::strategy::StrategyName;
use serde::Deserialize;

use super::draws::Draws;
use super::outlook::History;
use super::world::{self, WorldConfig};
use super::{Case, Contender, Kind, Outlook, Outlooks, Seeds, Suite, hash_text, rules};

const FILE: &str = include_str!("../../scenarios/peak.json");

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    about: String,
    first_seed: u32,
    traces: usize,
    traces_full: usize,
    history: History,
    boxes: u32,
    step_ms: u64,
    window_from_h: f64,
    window_h: f64,
    placed_share: f64,
    demand_share: f64,
    work_s_median: f64,
    work_spread: f64,
    report_every_ms: u64,
    measure_every_ms: u64,
}

/// The suite; its forecast is trained on days of another fleet.
///
/// # Errors
/// When the forecast can't be trained.
pub fn suite(seeds: &Seeds, full: bool) -> anyhow::Result<Suite> {
    let settings: Settings = serde_json::from_str(FILE)?;
    let traces = if full { settings.traces_full } else { settings.traces };
    let (made, seeds) = (settings.clone(), seeds.clone());
    let make = move |index| trace(&made, seeds.seed(made.first_seed, index));
    Ok(Suite {
        name: "peak",
        about: settings.about.clone(),
        scenario_hash: hash_text(FILE),
        score_name: "p99 over sessions of a request's latency in ms, 25 ms ÷ (1 − load)",
        score: |_, simulated| super::summary::latency_ms_p99(&simulated.seen),
        cases: vec![Case { name: "peak".to_owned(), traces, make: Box::new(make) }],
        contenders: contenders(),
        outlooks: Outlooks::train(&settings.history)?,
    })
}

/// All rules, the seeds' reacting rule, and every strategy that reads forecasts, with its ablations.
pub(super) fn contenders() -> Vec<Contender> {
    let mut contenders = rules();
    contenders.push(Contender::new(StrategyName::LeastLoaded, Kind::Seed).without_virtual_load());
    for strategy in StrategyName::ALL.into_iter().filter(|name| name.needs_model()) {
        let candidate = |kind, outlook| Contender::new(strategy, kind).with_outlook(outlook);
        contenders.push(candidate(Kind::Candidate, Outlook::Model));
        contenders.push(candidate(Kind::Ablation, Outlook::Persistence));
        contenders.push(candidate(Kind::Ablation, Outlook::Perfect));
    }
    let bound = Contender::new(StrategyName::PredictedLoad, Kind::Bound).with_outlook(Outlook::Perfect);
    // It is told of every change within a second.
    contenders.push(bound.named("reports every second").shaped(|scenario| {
        scenario.report_every_ms = Some(1_000);
        scenario.conditions.history_report_every_ms = Some(60_000);
    }));
    contenders
}

fn trace(settings: &Settings, seed: u32) -> anyhow::Result<Scenario> {
    let window = world::window(settings.window_from_h, settings.window_h);
    let config =
        WorldConfig { seed: u64::from(seed), days: 2, boxes: settings.boxes, step_ms: settings.step_ms };
    let boxes = world::contended_boxes(&config, window)?;
    let sessions = Sessions {
        placed_share: settings.placed_share,
        demand_share: settings.demand_share,
        work_s_median: settings.work_s_median,
        work_spread: settings.work_spread,
    };
    let arrivals = sessions.arrivals(&boxes, u64::from(seed), window)?;
    Ok(scenario(
        boxes,
        arrivals,
        u64::from(seed),
        window,
        settings.report_every_ms,
        settings.measure_every_ms,
    ))
}

/// Balls that fill a share of a fleet's cores.
pub(super) struct Sessions {
    pub placed_share: f64,
    /// Mean demand of a ball, in shares of a mean box.
    pub demand_share: f64,
    pub work_s_median: f64,
    pub work_spread: f64,
}

impl Sessions {
    /// Arrivals over a window, and for the time before it that fills the fleet.
    pub fn arrivals(
        &self,
        boxes: &[SimulatedBox],
        seed: u64,
        window: (u64, u64),
    ) -> anyhow::Result<Vec<Arrival>> {
        let mut draws = Draws::new(seed, 2);
        let cores: u64 = boxes.iter().filter_map(|b| b.spec.capacity.0[0]).sum();
        let demand_mean = self.demand_share * cores as f64 / boxes.len() as f64;
        let work_ms_mean = 1e3 * self.work_s_median * libm::exp(self.work_spread * self.work_spread / 2.0);
        let gap_ms = work_ms_mean * demand_mean / (self.placed_share * cores as f64);
        let mut at_ms = window.0 as f64;
        let mut arrivals = Vec::new();
        loop {
            at_ms += draws.exponential(gap_ms);
            if at_ms >= window.1 as f64 {
                return Ok(arrivals);
            }
            let mut ball = Ball::new(format!("s{}", arrivals.len()));
            // Demands vary by a factor of two and have the mean asked for.
            let demand = demand_mean * (2.0 / 3.0) * (1.0 + draws.unit());
            ball.demand = Amounts([demand as u64, 0, 0, 0]);
            let work_ms = 1e3 * draws.log_normal(self.work_s_median, self.work_spread);
            // Senders know about how long a session of theirs lasts.
            ball.expected_residence_ms = Some(work_ms_mean.max(1.0) as u64);
            ball.check().context("a generated session")?;
            arrivals.push(Arrival::new(at_ms as u64, ball, work_ms));
        }
    }
}

/// A scenario over a window, measured from a tenth of it on, when the fleet is full.
pub(super) fn scenario(
    boxes: Vec<SimulatedBox>,
    arrivals: Vec<Arrival>,
    seed: u64,
    window: (u64, u64),
    report_every_ms: u64,
    measure_every_ms: u64,
) -> Scenario {
    Scenario {
        config: FleetConfig {
            seed,
            report_stale_ms: 3 * report_every_ms,
            lease_ms_default: 24 * 3_600_000,
            idempotency_keep_ms: 1_000,
            ..FleetConfig::default()
        },
        boxes,
        arrivals,
        report_every_ms: Some(report_every_ms),
        measured_from_ms: window.0,
        conditions: Conditions {
            history_report_every_ms: (report_every_ms < 60_000).then_some(60_000),
            measure_every_ms: Some(measure_every_ms),
            ..Conditions::default()
        },
    }
}
