//! The two published load-balancing sets, generated bit for bit as their repositories do.
//!
//! Ten first-in-first-out servers of rates 0.15, 0.25, … 1.05; 1,000 jobs; integer times. The
//! generator is numpy's legacy `RandomState` (MT19937, 53-bit doubles). For each job the size is
//! drawn first, then the gap.

use berth_models::config::FleetConfig;
use berth_models::domain::{Ball, BoxSpec, Capacity};
use berth_models::simulation::{Arrival, Conditions, Discipline, Scenario, SimulatedBox};
use rand_mt::Mt;

const JOBS: usize = 1_000;
const SERVERS: usize = 10;
/// Places on a server of rate 1: so many that none is ever full.
const SLOTS_PER_RATE: f64 = 1e6;

/// Set A: sizes uniform in 100..1000, exponential gaps of mean 100.
pub fn iclr19(seed: u32) -> Scenario {
    scenario(seed, |uniform| (100.0 + 900.0 * uniform) as u64, 100.0)
}

/// Set B: sizes Pareto of shape 1.5 from 100, exponential gaps of mean 55.
pub fn park(seed: u32) -> Scenario {
    let pareto = |uniform: f64| {
        // The order of operations is numpy's: pareto() is expm1-like, and 1 is added back.
        let pareto = libm::exp(-libm::log(1.0 - uniform) / 1.5) - 1.0;
        ((pareto + 1.0) * 100.0) as u64
    };
    scenario(seed, pareto, 55.0)
}

fn scenario(seed: u32, size: impl Fn(f64) -> u64, gap_mean: f64) -> Scenario {
    let mut generator = Mt::new(seed);
    let mut at_ms = 0;
    let arrivals = (0..JOBS)
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
