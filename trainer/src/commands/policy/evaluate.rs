//! `berth-trainer policy evaluate`: a policy under traffic it was not made for, fallbacks included.

use std::path::PathBuf;
use std::sync::Arc;

use berth_models::decision::Route;
use berth_models::event::EventKind;
use berth_models::policy::PlacementPolicy;
use berth_models::simulation::simulate_policy;
use berth_models::strategy::StrategyName;
use serde::Serialize;

use super::folder;
use crate::cli::EXIT_DONE;
use crate::policy::environment::{Environment, RULES};
use crate::policy::kernel::scenario;
use crate::policy::traffic::{Family, Trace, pareto_trace};
use crate::suites::bootstrap::interval;

/// Shape of the Pareto sizes, mean gap in milliseconds: the published shift table.
const SETTINGS: [(f64, f64); 6] =
    [(1.5, 55.0), (1.5, 65.0), (1.5, 75.0), (1.5, 110.0), (2.0, 55.0), (2.0, 37.0)];

/// Arguments of `berth-trainer policy evaluate`.
#[derive(clap::Args)]
#[command(after_help = "Example:
  berth-trainer policy evaluate --policy policy/ --jobs 10000 --traces 30")]
pub struct Args {
    /// Folder of the policy.
    #[arg(long, value_name = "DIR")]
    policy: PathBuf,
    /// Jobs of an episode.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    jobs: u32,
    /// Episodes of every setting.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    traces: u32,
    /// Seed of the arrivals.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON for machines.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row {
    shape: f64,
    gap_ms: f64,
    load: f64,
    best_rule: StrategyName,
    rule_ms_mean: f64,
    policy_ms_mean: f64,
    ratio: f64,
    ratio_low: f64,
    ratio_high: f64,
    /// Share of the decisions that the policy took itself.
    policy_share: f64,
}

/// Run the command; returns the exit code.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let bundle = folder::load(&args.policy)?;
    let policy = Arc::new(bundle.policy().clone());
    let rows: Vec<Row> = SETTINGS.iter().map(|setting| row(args, &policy, *setting)).collect();
    if args.json {
        let id = &bundle.manifest().policy_id;
        println!("{}", serde_json::json!({ "policy_id": id, "jobs": args.jobs, "settings": rows }));
        return Ok(EXIT_DONE);
    }
    println!(
        "{} episodes of {} jobs; ratio per trace to the best rule, fallbacks included",
        args.traces, args.jobs
    );
    println!(
        "{:<16} {:>5} {:<20} {:>9} {:>9} {:>22} {:>8}",
        "sizes, gap ms", "load", "best rule", "rule ms", "policy ms", "ratio [95 %]", "policy"
    );
    for row in &rows {
        println!(
            "{:<16} {:>5.2} {:<20} {:>9.0} {:>9.0} {:>7.3} [{:.3}, {:.3}] {:>7.1}%",
            format!("Pareto {}, {}", row.shape, row.gap_ms),
            row.load,
            row.best_rule.name(),
            row.rule_ms_mean,
            row.policy_ms_mean,
            row.ratio,
            row.ratio_low,
            row.ratio_high,
            100.0 * row.policy_share
        );
    }
    Ok(EXIT_DONE)
}

fn row(args: &Args, policy: &Arc<PlacementPolicy>, (shape, gap_ms): (f64, f64)) -> Row {
    let speeds = Family::Park.speeds();
    let traces: Vec<Trace> = (0..u64::from(args.traces))
        .map(|index| pareto_trace(args.seed, index, shape, gap_ms, args.jobs as usize))
        .collect();
    let mut environment = Environment::new(&speeds);
    let totals = RULES.map(|(name, chooser)| {
        let totals: Vec<u64> = traces.iter().map(|trace| environment.play(trace, chooser)).collect();
        (name, totals)
    });
    let [first, second] = totals;
    let sum = |rule: &(StrategyName, Vec<u64>)| rule.1.iter().sum::<u64>();
    let (best_rule, rule_ms) = if sum(&second) < sum(&first) { second } else { first };
    let mut taken = 0_u64;
    let mut total = |trace: &Trace| {
        let scenario = scenario(&speeds, trace, StrategyName::Learned);
        let run = simulate_policy(&scenario, ("policy".into(), policy.clone()), &mut |event| {
            if let EventKind::Decided { decision } = &event.kind {
                taken += u64::from(decision.route == Route::Primary);
            }
        });
        run.total_ms
    };
    let policy_ms: Vec<u64> = traces.iter().map(&mut total).collect();
    let ratios: Vec<f64> = policy_ms.iter().zip(&rule_ms).map(|(a, b)| *a as f64 / *b as f64).collect();
    let ratio = interval(&ratios);
    let decisions = f64::from(args.jobs) * f64::from(args.traces);
    Row {
        shape,
        gap_ms,
        load: shape / (shape - 1.0) * 100.0 / (gap_ms * speeds.iter().sum::<f64>()),
        best_rule,
        rule_ms_mean: rule_ms.iter().sum::<u64>() as f64 / decisions,
        policy_ms_mean: policy_ms.iter().sum::<u64>() as f64 / decisions,
        ratio: ratio.mean,
        ratio_low: ratio.low,
        ratio_high: ratio.high,
        policy_share: taken as f64 / decisions,
    }
}
