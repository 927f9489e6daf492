//! The two published load-balancing sets, generated bit for bit as their repositories do, and the
//! second under shift.
//!
//! Ten first-in-first-out servers of rates 0.15, 0.25, … 1.05; integer times. The generator is
//! numpy's legacy `RandomState` (MT19937, 53-bit doubles). For each job the size is drawn first,
//! then the gap.

use berth_models::config::FleetConfig;
use berth_models::domain::{Ball, BoxSpec, Capacity};
use berth_models::simulation::{Arrival, Conditions, Discipline, Scenario, SimulatedBox};
use berth_models::strategy::StrategyName;
use rand_mt::Mt;
use serde::Deserialize;

use super::{Case, Contender, Kind, Outlooks, Seeds, Suite, hash_text, rules};

const FILE: &str = include_str!("../../scenarios/published.json");
const SERVERS: usize = 10;
/// Places on a server of rate 1: so many that none is ever full.
const SLOTS_PER_RATE: f64 = 1e6;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    about: String,
    iclr19: Set,
    park: Set,
    park_shift: Set,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Set {
    first_seed: u32,
    traces: usize,
    traces_full: usize,
    jobs: usize,
    #[serde(default)]
    cases: Vec<Shift>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shift {
    name: String,
    pareto_shape: f64,
    gap_mean: f64,
}

/// Set A: sizes uniform in 100..1000, exponential gaps of mean 100.
pub fn iclr19(seeds: &Seeds) -> anyhow::Result<Suite> {
    let Settings { iclr19: set, about, .. } = serde_json::from_str(FILE)?;
    let size: Size = |_, uniform| (100.0 + 900.0 * uniform) as u64;
    let shift = Shift { name: "iclr19".to_owned(), pareto_shape: 0.0, gap_mean: 100.0 };
    let cases = vec![case(&set, set.traces, seeds, shift, size)];
    Ok(suite("iclr19", &format!("{about} Uniform sizes (hongzimao/input_driven_rl_example)"), cases))
}

/// Set B: sizes Pareto of shape 1.5 from 100, exponential gaps of mean 55.
pub fn park(seeds: &Seeds) -> anyhow::Result<Suite> {
    let Settings { park: set, about, .. } = serde_json::from_str(FILE)?;
    let shift = Shift { name: "park".to_owned(), pareto_shape: 1.5, gap_mean: 55.0 };
    let cases = vec![case(&set, set.traces, seeds, shift, pareto)];
    Ok(suite("park", &format!("{about} Pareto sizes (Park load_balance)"), cases))
}

/// Set B at other loads and tails, in long episodes.
pub fn park_shift(seeds: &Seeds, full: bool) -> anyhow::Result<Suite> {
    let Settings { park_shift: set, about, .. } = serde_json::from_str(FILE)?;
    let traces = if full { set.traces_full } else { set.traces };
    let cases = set.cases.iter().map(|shift| case(&set, traces, seeds, shift.clone(), pareto)).collect();
    Ok(suite(
        "park-shift",
        &format!("{about} Park at other loads and tails, {} jobs a trace", set.jobs),
        cases,
    ))
}

type Size = fn(f64, f64) -> u64;

fn pareto(shape: f64, uniform: f64) -> u64 {
    // The order of operations is numpy's: pareto() is expm1-like, and 1 is added back.
    let pareto = libm::exp(-libm::log(1.0 - uniform) / shape) - 1.0;
    ((pareto + 1.0) * 100.0) as u64
}

fn case(set: &Set, traces: usize, seeds: &Seeds, shift: Shift, size: Size) -> Case {
    let (first, jobs, seeds) = (set.first_seed, set.jobs, seeds.clone());
    let Shift { name, pareto_shape, gap_mean } = shift;
    let make = move |index| {
        Ok(scenario(seeds.seed(first, index), jobs, |uniform| size(pareto_shape, uniform), gap_mean))
    };
    Case { name, traces, make: Box::new(make) }
}

fn suite(name: &'static str, about: &str, cases: Vec<Case>) -> Suite {
    let mut contenders = rules();
    contenders.push(Contender::new(StrategyName::LeastWorkLeftSlowTie, Kind::Rule));
    let unknown: Vec<Contender> = rules().into_iter().map(Contender::without_sizes).collect();
    contenders.extend(unknown);
    Suite {
        name,
        about: about.to_owned(),
        scenario_hash: hash_text(FILE),
        score_name: "summed time in the system in ms",
        score: |_, simulated| simulated.total_ms as f64,
        cases,
        contenders,
        outlooks: Outlooks::default(),
    }
}

fn scenario(seed: u32, jobs: usize, size: impl Fn(f64) -> u64, gap_mean: f64) -> Scenario {
    let mut generator = Mt::new(seed);
    let mut at_ms = 0;
    let arrivals = (0..jobs)
        .map(|index| {
            let work = size(uniform(&mut generator)) as f64;
            at_ms += (gap_mean * -libm::log(1.0 - uniform(&mut generator))) as u64;
            let mut ball = Ball::new(format!("job-{index:04}"));
            ball.work_ms = Some(work);
            Arrival::new(at_ms, ball, work)
        })
        .collect();
    Scenario {
        config: FleetConfig {
            // A job stays as long as it takes; no lease ends before.
            lease_ms_default: 24 * 3_600_000,
            ..FleetConfig::default()
        },
        boxes: (0..SERVERS).map(server).collect(),
        arrivals,
        report_every_ms: None,
        measured_from_ms: 0,
        conditions: Conditions::default(),
    }
}

fn server(index: usize) -> SimulatedBox {
    // 0.15, 0.25, … as the decimal numbers they are, not as sums of 0.1.
    let speed = (15 + 10 * index) as f64 / 100.0;
    let slots = (SLOTS_PER_RATE * speed) as u64;
    let capacity = Capacity([None, None, None, Some(slots)]);
    let mut spec = BoxSpec::new(&format!("server-{index}"), capacity);
    spec.speed = speed;
    SimulatedBox { spec, discipline: Discipline::Fifo, background: Vec::new() }
}

/// A double in [0, 1) of 53 bits from two words, as numpy's `random_sample`.
fn uniform(generator: &mut Mt) -> f64 {
    let (high, low) = (generator.next_u32() >> 5, generator.next_u32() >> 6);
    (f64::from(high) * 67_108_864.0 + f64::from(low)) / 9_007_199_254_740_992.0
}
