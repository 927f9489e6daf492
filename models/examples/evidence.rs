//! The estimators and the gate on data whose truth is known; prints one JSON line a run.
//!
//! `cargo run --release --locked -p berth-models --example evidence -- intervals RUNS SEED` and
//! `… -- rollouts RUNS SEED`. `scripts/compare-off-policy` reads the first next to vw-estimators.

use std::collections::BTreeMap;
use std::process::ExitCode;

use berth_models::chance::{draw_of, unit};
use berth_models::evidence::{Arm, ArmTest, Direct, GateState, OffPolicy, Sample};

const ARMS: usize = 10;
/// A stake that aims at the goal spends nearly all of its level; these leave room for the noise of a
/// few hundred runs below a nominal 5 %.
const ALPHA_INTERVAL: f64 = 0.03;
const ALPHA_GATE: f64 = 0.04;
const MEANS: [f64; ARMS] = [0.5, 0.45, 0.4, 0.55, 0.35, 0.5, 0.3, 0.6, 0.45, 0.4];
const OUTCOMES_MAX: u64 = 40_000;

fn peaked(arm: usize, share: f64) -> [f64; ARMS] {
    let mut shares = [(1.0 - share) / (ARMS - 1) as f64; ARMS];
    shares[arm] = share;
    shares
}

fn choose(shares: &[f64], at: f64) -> usize {
    let mut sum = 0.0;
    let hit = shares.iter().position(|share| {
        sum += share;
        at < sum
    });
    hit.unwrap_or(shares.len() - 1)
}

fn interval(name: &str, logged: &[f64; ARMS], count: u64, seed: u64) {
    let target = peaked(0, 0.9);
    let truth: f64 = target.iter().zip(MEANS).map(|(share, mean)| share * mean).sum();
    let mut log = OffPolicy::default();
    let mut seen = BTreeMap::new();
    for seq in 0..count {
        let draw = draw_of(seed, seq);
        let chosen = choose(logged, unit(draw, 1));
        let is_hit = unit(draw, 2) < MEANS[chosen];
        let sample = Sample::new(logged, &target, chosen, f64::from(u8::from(is_hit)), Direct::NONE);
        log.add(sample.expect("the shares are shares"));
        *seen.entry((chosen, is_hit)).or_insert(0_u64) += 1;
    }
    let values = log.values(f64::INFINITY).expect("every arm is tried");
    let interval = log.interval(ALPHA_INTERVAL, count).expect("every arm is tried");
    let seen: Vec<_> = seen
        .iter()
        .map(|((arm, is_hit), times)| (logged[*arm], target[*arm], u8::from(*is_hit), times))
        .collect();
    let line = serde_json::json!({
        "setting": name, "count": count, "truth": truth, "low": interval.low, "high": interval.high,
        "values": values, "seen": seen,
    });
    println!("{line}");
}

fn rollout(name: &str, gain: f64, share: f64, seed: u64) {
    let (base, mut test) = (0.2, ArmTest::new(share, 0.0, ALPHA_GATE, 20_000, 200));
    let mut passed_at = None;
    let mut breached_at = None;
    for seq in 0..OUTCOMES_MAX {
        let draw = draw_of(seed, seq);
        let (arm, mean) =
            if unit(draw, 1) < share { (Arm::Candidate, base * (1.0 - gain)) } else { (Arm::Control, base) };
        test.observe(arm, f64::from(u8::from(unit(draw, 2) < mean)));
        // Peeking after every outcome.
        match test.state() {
            GateState::Waiting => continue,
            GateState::Passed => passed_at = Some(seq + 1),
            GateState::Breached => breached_at = Some(seq + 1),
        }
        break;
    }
    println!(
        "{}",
        serde_json::json!({
            "setting": name, "share": share, "gain": gain, "passed_at": passed_at, "breached_at": breached_at
        })
    );
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| words.get(index).and_then(|word| word.parse::<u64>().ok());
    let (Some(what), Some(runs), Some(seed)) = (words.first(), number(1), number(2)) else {
        eprintln!("usage: evidence intervals|rollouts RUNS SEED");
        return ExitCode::from(2);
    };
    for run in 0..runs {
        if what == "intervals" {
            for (name, logged) in [("uniform", [0.1; ARMS]), ("eps-greedy 0.1", peaked(1, 0.91))] {
                for count in [200, 1_000, 5_000] {
                    interval(name, &logged, count, draw_of(seed, run * 10_000 + count));
                }
            }
        } else {
            for share in [0.05, 0.2, 0.5] {
                for (name, gain) in [("equal", 0.0), ("10 % better", 0.1), ("10 % worse", -0.1)] {
                    rollout(name, gain, share, draw_of(seed, run));
                }
            }
        }
    }
    ExitCode::SUCCESS
}
