//! `ramp`: load rises from 0.75 to 1.74 of what the fleet can serve, with antagonists on every box
//! (the experiment of Prequal, NSDI 2024, fig. 6, at our sizes). Time-outs and refusals both count.

use berth_models::config::FleetConfig;
use berth_models::domain::{Amounts, Ball, BoxSpec, Capacity, Class};
use berth_models::simulation::{
    Arrival, Background, Conditions, Discipline, Scenario, Simulated, SimulatedBox,
};
use berth_models::strategy::StrategyName;
use serde::Deserialize;

use super::contender::Shape;
use super::draws::Draws;
use super::{Case, Contender, Kind, Outlooks, Seeds, Suite, hash_text, rules};

const FILE: &str = include_str!("../../scenarios/ramp.json");

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    about: String,
    first_seed: u32,
    traces: usize,
    traces_full: usize,
    boxes: usize,
    cores: u64,
    loads: Vec<f64>,
    step_s: f64,
    critical_shares: Vec<f64>,
    work_ms_median: f64,
    work_spread: f64,
    /// No query is so long that its sender would give up on an idle box.
    work_ms_max: f64,
    antagonist_mean: f64,
    antagonist_spread: f64,
    antagonist_step_s: f64,
    antagonist_max: f64,
    patience_ms: u64,
    report_every_ms: u64,
    report_delay_ms: u64,
}

/// The suite.
///
/// # Errors
/// None but a broken scenario file.
pub fn suite(seeds: &Seeds, full: bool) -> anyhow::Result<Suite> {
    let settings: Settings = serde_json::from_str(FILE)?;
    let traces = if full { settings.traces_full } else { settings.traces };
    let case = |critical_share: f64| {
        let (settings, seeds) = (settings.clone(), seeds.clone());
        let make = move |index| Ok(trace(&settings, seeds.seed(settings.first_seed, index), critical_share));
        Case { name: format!("{:.0} % critical", 100.0 * critical_share), traces, make: Box::new(make) }
    };
    let mut contenders = rules();
    contenders.push(Contender::new(StrategyName::RoundRobin, Kind::Seed).without_virtual_load());
    contenders.push(Contender::new(StrategyName::LeastLoaded, Kind::Seed).without_virtual_load());
    // What protecting critical balls costs the others, and what happens without.
    let headroom: [(&str, Shape); 3] = [
        ("headroom 0", |scenario| scenario.config.critical_headroom = 0.0),
        ("headroom 3 %", |scenario| scenario.config.critical_headroom = 0.03),
        ("headroom 20 %", |scenario| scenario.config.critical_headroom = 0.2),
    ];
    contenders.extend(headroom.map(|(name, shape)| {
        Contender::new(StrategyName::LeastLoaded, Kind::Ablation).named(name).shaped(shape)
    }));
    Ok(Suite {
        name: "ramp",
        about: settings.about.clone(),
        scenario_hash: hash_text(FILE),
        score_name: "mean time to an answer in ms, an error counting as the 5 s after which senders give up",
        score: answer_ms,
        cases: settings.critical_shares.iter().map(|share| case(*share)).collect(),
        contenders,
        outlooks: Outlooks::default(),
    })
}

/// Mean time to an answer; an error counts as the senders' patience.
fn answer_ms(trace: &Scenario, simulated: &Simulated) -> f64 {
    let patience_ms = trace.conditions.patience_ms.unwrap_or_default();
    let errors: u64 = simulated.errors().iter().sum();
    let arrived: u64 = simulated.arrived.iter().sum();
    (simulated.total_ms + errors * patience_ms) as f64 / arrived.max(1) as f64
}

fn trace(settings: &Settings, seed: u32, critical_share: f64) -> Scenario {
    let length_ms = settings.step_s * 1e3 * settings.loads.len() as f64;
    let boxes = (0..settings.boxes).map(|index| one_box(settings, seed, index, length_ms as u64));
    Scenario {
        config: FleetConfig {
            seed: u64::from(seed),
            report_stale_ms: 3 * settings.report_every_ms,
            idempotency_keep_ms: settings.patience_ms,
            ..FleetConfig::default()
        },
        boxes: boxes.collect(),
        arrivals: arrivals(settings, seed, critical_share),
        report_every_ms: Some(settings.report_every_ms),
        measured_from_ms: 0,
        conditions: Conditions {
            patience_ms: Some(settings.patience_ms),
            report_delay_ms: settings.report_delay_ms,
            measure_every_ms: Some(1_000),
            ..Conditions::default()
        },
    }
}

/// A box with antagonists: a log-normal share of it, drawn anew every few seconds.
fn one_box(settings: &Settings, seed: u32, index: usize, length_ms: u64) -> SimulatedBox {
    let mut draws = Draws::new(u64::from(seed), 1_000 + index as u64);
    let cores = settings.cores as f64;
    let median =
        settings.antagonist_mean / libm::exp(settings.antagonist_spread * settings.antagonist_spread / 2.0);
    let step_ms = (settings.antagonist_step_s * 1e3) as u64;
    let background = (0..=length_ms / step_ms).map(|step| {
        let share = draws.log_normal(median, settings.antagonist_spread).min(settings.antagonist_max);
        Background { at_ms: step * step_ms, usage: [Some(share * cores), None, None, None] }
    });
    let capacity = Capacity([Some(settings.cores * 1_000_000), None, None, None]);
    SimulatedBox {
        spec: BoxSpec::new(&format!("box-{index:02}"), capacity),
        discipline: Discipline::Contended,
        background: background.collect(),
    }
}

fn arrivals(settings: &Settings, seed: u32, critical_share: f64) -> Vec<Arrival> {
    let mut draws = Draws::new(u64::from(seed), 1);
    let work_ms_mean = settings.work_ms_median * libm::exp(settings.work_spread * settings.work_spread / 2.0);
    // What the fleet can serve beside its antagonists: one core a query.
    let served_per_ms =
        settings.boxes as f64 * settings.cores as f64 * (1.0 - settings.antagonist_mean) / work_ms_mean;
    let mut arrivals = Vec::new();
    for (step, load) in settings.loads.iter().enumerate() {
        let mut at_ms = step as f64 * settings.step_s * 1e3;
        let end_ms = at_ms + settings.step_s * 1e3;
        loop {
            at_ms += draws.exponential(1.0 / (load * served_per_ms));
            if at_ms >= end_ms {
                break;
            }
            let mut ball = Ball::new(format!("q{}", arrivals.len()));
            ball.class = if draws.unit() < critical_share { Class::Critical } else { Class::Normal };
            ball.demand = Amounts([1_000_000, 0, 0, 0]);
            let service_ms =
                draws.log_normal(settings.work_ms_median, settings.work_spread).min(settings.work_ms_max);
            arrivals.push(Arrival::new(at_ms as u64, ball, service_ms));
        }
    }
    arrivals
}
