//! Simulated decisions per second of one core: arrivals, decisions, ends and reports at 100 boxes.
//!
//! `cargo bench -p berth-trainer --bench simulation [-- --json]`. Arrivals are made before the clock
//! runs; what is timed is the whole simulation: the engine's decision and its events, the end of
//! every ball, the boxes' reports every 10 s. The median of five runs. Deciding alone is timed by the
//! bench `decisions` of `berth-scheduler`.

use std::time::Instant;

use berth_models::config::FleetConfig;
use berth_models::domain::{Amounts, Ball, BoxSpec, Capacity};
use berth_models::simulation::{Arrival, Conditions, Discipline, Scenario, SimulatedBox, simulate};
use berth_models::strategy::StrategyName;

const BOXES: usize = 100;
const BALLS: u64 = 300_000;
const RUNS: usize = 5;
/// The bar, in decisions a second.
const BAR: f64 = 1e6;

fn scenario(strategy: StrategyName) -> Scenario {
    let arrivals = (0..BALLS).map(|index| {
        let mut ball = Ball::new(format!("b{index}"));
        ball.demand = Amounts([10_000, 0, 0, 1]);
        ball.work_ms = Some(200.0);
        // Ten a millisecond, so that about 2,000 are there at a time.
        Arrival::new(index / 10, ball, 200.0)
    });
    let boxes = (0..BOXES).map(|index| SimulatedBox {
        spec: BoxSpec::new(
            &format!("box-{index:03}"),
            Capacity([Some(32_000_000), None, None, Some(10_000)]),
        ),
        discipline: Discipline::Stay,
        background: Vec::new(),
    });
    Scenario {
        config: FleetConfig { primary: strategy, idempotency_keep_ms: 10, seed: 7, ..FleetConfig::default() },
        boxes: boxes.collect(),
        arrivals: arrivals.collect(),
        report_every_ms: Some(10_000),
        measured_from_ms: 0,
        conditions: Conditions::default(),
    }
}

fn main() {
    let is_json = std::env::args().any(|argument| argument == "--json");
    let mut rows = Vec::new();
    for strategy in [StrategyName::Random, StrategyName::RoundRobin, StrategyName::LeastLoaded] {
        let scenario = scenario(strategy);
        let mut rates: Vec<f64> = (0..RUNS)
            .map(|_| {
                let began = Instant::now();
                let run = simulate(&scenario, None, &mut |_| {});
                assert_eq!(run.refused, [0; 3], "every ball finds a place");
                BALLS as f64 / began.elapsed().as_secs_f64()
            })
            .collect();
        rates.sort_by(f64::total_cmp);
        rows.push((strategy, rates[RUNS / 2]));
    }
    let met = rows.iter().all(|(_, rate)| *rate >= BAR);
    if is_json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(strategy, rate)| serde_json::json!({ "strategy": strategy, "decisions_per_s": rate }))
            .collect();
        println!("{}", serde_json::json!({ "boxes": BOXES, "rows": rows, "bar": BAR, "met": met }));
        return;
    }
    for (strategy, rate) in rows {
        println!("{:<14} {rate:>12.0} simulated decisions/s at {BOXES} boxes", strategy.name());
    }
    println!("bar: {BAR:.0} by each: {}", if met { "met" } else { "NOT met" });
}
