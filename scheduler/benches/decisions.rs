//! Decisions per second in process: decide and apply, without HTTP and without a ledger.
//!
//! `cargo bench -p berth-scheduler --bench decisions [-- --json]`. One thread; medians of batches of
//! 1,000. Balls are made before
//! the clock runs and completed while it stands, so what is timed is the decision and the change of
//! the fleet by it; the last column times the completion too.

use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_models::chance::draw_of;
use berth_models::config::FleetConfig;
use berth_models::decide::decide_by;
use berth_models::decision::Route;
use berth_models::domain::{Ball, BoxReport, BoxSpec, Capacity, Class, Outcome, Usage};
use berth_models::event::{Event, EventKind};
use berth_models::fleet::Fleet;
use berth_models::policy::scorer::{INPUTS, PARAMETERS};
use berth_models::policy::traffic::Shape;
use berth_models::policy::{PlacementPolicy, Scorer};
use berth_models::strategy::{Ranking, StrategyName};

/// Balls between two completions of all of them.
const BALLS: usize = 1_000;
/// Batches measured at least.
const BATCHES_MIN: usize = 5;
/// How long each figure is measured.
const MEASURED: Duration = Duration::from_millis(700);
/// Sizes of the fleet.
const BOXES: [usize; 4] = [10, 100, 1_000, 10_000];
/// Decisions in an engine millisecond.
const DECISIONS_A_MS: u64 = 100;
/// The bar: rule decisions a second at 100 boxes.
const BAR: f64 = 1e6;

struct Bench {
    fleet: Fleet,
    at_ms: u64,
    seq: u64,
}

impl Bench {
    fn new(boxes: usize) -> Self {
        let mut bench = Self { fleet: Fleet::default(), at_ms: 1_000_000_000, seq: 0 };
        let config = FleetConfig { idempotency_keep_ms: 10, seed: 7, ..FleetConfig::default() };
        bench.apply(EventKind::Configured { config: Box::new(config) });
        for index in 0..boxes {
            let capacity = Capacity([Some(32_000_000), Some(64 << 30), None, Some(10_000)]);
            let spec = BoxSpec::new(&format!("box-{index:05}"), capacity);
            bench.apply(EventKind::Registered { spec: Box::new(spec) });
        }
        bench.fleet.set_policy(Some(Arc::new(policy())));
        bench.at_ms += 1_000;
        bench.report_all();
        bench
    }

    fn report_all(&mut self) {
        for index in 0..self.fleet.boxes().len() {
            let id = self.fleet.boxes()[index].box_id().clone();
            let mut report = BoxReport::new(&id, self.at_ms);
            let cores = 1.0 + 20.0 * berth_models::chance::unit(draw_of(3, index as u64), 0);
            report.usage = Usage::from_array([Some(cores), Some(1e9), None, Some(10.0)]);
            self.apply(EventKind::Reported { report: Box::new(report) });
        }
    }

    fn apply(&mut self, kind: EventKind) {
        self.seq += 1;
        self.fleet.apply(&Event { seq: self.seq, at_ms: self.at_ms, wall_ms: self.at_ms, kind });
    }

    /// Seconds of deciding and applying, and of completing, per ball.
    fn measure(&mut self, strategy: StrategyName) -> (f64, f64) {
        let class = if strategy == StrategyName::CriticalRule { Class::Critical } else { Class::Normal };
        let mut ranking = Ranking::default();
        let (mut placing, mut completing) = (Vec::new(), Vec::new());
        let began = Instant::now();
        while began.elapsed() < MEASURED || placing.len() < BATCHES_MIN {
            let balls: Vec<_> = (0..BALLS).map(|index| Arc::new(ball(self.seq, index, class))).collect();
            let first = self.seq + 1;
            let started = Instant::now();
            for ball in balls {
                let draw = draw_of(7, self.seq + 1);
                let decision = decide_by(&self.fleet, ball, draw, strategy, Route::Primary, &mut ranking);
                self.at_ms += u64::from(self.seq.is_multiple_of(DECISIONS_A_MS));
                self.apply(EventKind::Decided { decision: Arc::new(decision) });
            }
            placing.push(started.elapsed());
            let outcome = Outcome { succeeded: true, latency_ms: Some(5) };
            let started = Instant::now();
            for lease_id in first..first + BALLS as u64 {
                self.apply(EventKind::Completed { lease_id, outcome });
            }
            completing.push(started.elapsed());
            if self.at_ms.is_multiple_of(10_000) {
                self.report_all();
            }
        }
        assert_eq!(self.fleet.leases().live_count(), 0, "every ball found a place and was completed");
        (median_s(placing) / BALLS as f64, median_s(completing) / BALLS as f64)
    }
}

/// A batch that was interrupted says nothing about the code; the median is deaf to it.
fn median_s(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64()
}

/// A placement policy of arbitrary weights: what it costs does not depend on them.
fn policy() -> PlacementPolicy {
    let parameters = (0..PARAMETERS).map(|index| (index as f32 * 0.37) % 0.5 - 0.25).collect();
    let trained_on = Shape { log_work_mean: 1.6, log_work_spread: 0.5, work_ms_mean: 5.0 };
    PlacementPolicy {
        scorer: Scorer::new(parameters, [0.1; INPUTS], [1.5; INPUTS]).expect("the weights are finite"),
        scale: trained_on.scale(1.0),
        regimes: Vec::new(),
        trained_on,
        rule: StrategyName::LeastWorkLeft,
    }
}

fn ball(seq: u64, index: usize, class: Class) -> Ball {
    Ball {
        tenant: "bench".to_owned(),
        class,
        demand: berth_models::domain::Amounts([10_000, 1 << 20, 0, 1]),
        work_ms: Some(5.0),
        expected_residence_ms: Some(45_000),
        ..Ball::new(format!("{seq}-{index}"))
    }
}

/// `--only NAME` measures one strategy.
fn is_wanted(strategy: StrategyName) -> bool {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--only").skip(1);
    arguments.next().is_none_or(|only| only == strategy.name())
}

fn main() {
    let is_json = std::env::args().any(|argument| argument == "--json");
    let mut rows = Vec::new();
    if !is_json {
        println!(
            "{:<26} {:>7} {:>14} {:>12} {:>14}",
            "strategy", "boxes", "decisions/s", "µs each", "with complete"
        );
    }
    for boxes in BOXES {
        for strategy in StrategyName::ALL.into_iter().filter(|strategy| is_wanted(*strategy)) {
            let (place_s, complete_s) = Bench::new(boxes).measure(strategy);
            let with_complete = 1.0 / (place_s + complete_s);
            if !is_json {
                println!(
                    "{:<26} {boxes:>7} {:>14.0} {:>12.3} {with_complete:>14.0}",
                    strategy.name(),
                    1.0 / place_s,
                    place_s * 1e6
                );
            }
            rows.push(serde_json::json!({
                "strategy": strategy, "boxes": boxes, "decisions_per_s": 1.0 / place_s,
                "us_each": place_s * 1e6, "with_complete_per_s": with_complete,
            }));
        }
    }
    let rule = rows.iter().find(|row| row["strategy"] == "least_loaded" && row["boxes"] == 100);
    let rule = rule.and_then(|row| row["decisions_per_s"].as_f64()).unwrap_or(0.0);
    if is_json {
        println!("{}", serde_json::json!({ "rows": rows, "bar_decisions_per_s": BAR, "met": rule >= BAR }));
    } else {
        let verdict = if rule >= BAR { "met" } else { "NOT met" };
        println!("\nbar: {BAR:.0} decisions/s by least_loaded at 100 boxes: {verdict} ({rule:.0})");
    }
}
