//! `feedback`: do forecasts make the loop of reports and placements swing? Task lengths times report
//! intervals; the same strategy with the trained forecast, with persistence, and with a perfect one.

use berth_models::strategy::StrategyName;
use serde::Deserialize;

use super::outlook::History;
use super::peak::{Sessions, contenders, scenario};
use super::world::{self, WorldConfig};
use super::{Case, Contender, Kind, Outlooks, Seeds, Suite, hash_text};

const FILE: &str = include_str!("../../scenarios/feedback.json");

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
    work_s: Vec<f64>,
    report_every_ms: Vec<u64>,
    measure_every_ms: u64,
}

/// The suite.
///
/// # Errors
/// When the forecast can't be trained.
pub fn suite(seeds: &Seeds, full: bool) -> anyhow::Result<Suite> {
    let settings: Settings = serde_json::from_str(FILE)?;
    let traces = if full { settings.traces_full } else { settings.traces };
    let mut cases = Vec::new();
    for work_s in settings.work_s.iter().copied() {
        for report_every_ms in settings.report_every_ms.iter().copied() {
            let (made, seeds) = (settings.clone(), seeds.clone());
            let make = move |index| trace(&made, seeds.seed(made.first_seed, index), work_s, report_every_ms);
            let name = format!("tasks of {work_s} s, reports every {} s", report_every_ms / 1_000);
            cases.push(Case { name, traces, make: Box::new(make) });
        }
    }
    Ok(Suite {
        name: "feedback",
        about: settings.about.clone(),
        scenario_hash: hash_text(FILE),
        score_name: "spread of utilisation: mean over time of the standard deviation over boxes",
        score: |_, simulated| simulated.imbalance,
        cases,
        contenders: contenders().into_iter().filter(is_wanted).collect(),
        outlooks: Outlooks::train(&settings.history)?,
    })
}

/// The question is one of forecasts: of the rules a few are enough.
fn is_wanted(contender: &Contender) -> bool {
    let rules = [StrategyName::Random, StrategyName::LeastLoaded, StrategyName::PowerOfTwo];
    contender.kind != Kind::Rule || rules.contains(&contender.strategy)
}

fn trace(
    settings: &Settings,
    seed: u32,
    work_s: f64,
    report_every_ms: u64,
) -> anyhow::Result<berth_models::simulation::Scenario> {
    let window = world::window(settings.window_from_h, settings.window_h);
    let config =
        WorldConfig { seed: u64::from(seed), days: 2, boxes: settings.boxes, step_ms: settings.step_ms };
    let boxes = world::contended_boxes(&config, window)?;
    let sessions = Sessions {
        placed_share: settings.placed_share,
        demand_share: settings.demand_share,
        work_s_median: work_s,
        work_spread: 0.5,
    };
    let arrivals = sessions.arrivals(&boxes, u64::from(seed), window)?;
    Ok(scenario(boxes, arrivals, u64::from(seed), window, report_every_ms, settings.measure_every_ms))
}
