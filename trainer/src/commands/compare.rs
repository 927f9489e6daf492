//! `berth-trainer compare`: every strategy on the traces of a suite, paired trace by trace.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use anyhow::Context;
use berth_models::config::FleetConfig;
use berth_models::forecast::ForecastModel;
use berth_models::policy::PlacementPolicy;
use berth_models::simulation::{Simulated, simulate, simulate_policy};
use berth_models::strategy::StrategyName;
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::cli::EXIT_DONE;
use crate::suites::bootstrap::interval;
use crate::suites::{NAMES, Seeds, Suite};

/// Arguments of `berth-trainer compare`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  berth-trainer compare --suite iclr19
  berth-trainer compare --suite park --seeds fresh --json
  berth-trainer compare --suite park --policy model/   adds what needs that artifact: predicted_load
                                                       for a forecast, learned for a placement policy")]
pub struct Args {
    /// The suite: iclr19 or park.
    #[arg(long, value_parser = NAMES)]
    suite: String,
    /// Artifact directory of a forecast or of a placement policy; adds the strategies that need it.
    #[arg(long, value_name = "DIR")]
    policy: Option<PathBuf>,
    /// The suite's named seeds, or fresh ones derived from the commit's hash.
    #[arg(long, value_enum, default_value = "named")]
    seeds: SeedsName,
    /// Derive fresh seeds from this text instead of the commit's hash.
    #[arg(long, value_name = "TEXT")]
    fresh_from: Option<String>,
    /// Print JSON for machines.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum SeedsName {
    Named,
    Fresh,
}

#[derive(Serialize)]
struct Comparison {
    suite: &'static str,
    about: &'static str,
    suite_hash: String,
    seeds: String,
    traces: usize,
    /// The rule every ratio is against: the best mean score of this run.
    best_rule: String,
    /// `score` is the mean over traces of the summed times in the system, in milliseconds.
    strategies: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    strategy_id: String,
    sees: &'static str,
    score: f64,
    score_low: f64,
    score_high: f64,
    ratio_best_rule: f64,
    ratio_low: f64,
    ratio_high: f64,
    metrics: Metrics,
    /// Summed times in the system by trace, in milliseconds.
    traces: Vec<u64>,
}

#[derive(Serialize)]
struct Metrics {
    time_in_system_ms_mean: f64,
    time_in_system_ms_p99: u64,
    ratio_worst_trace: f64,
    refused: u64,
}

/// What `--policy` brings, with its id.
enum Artifact {
    Forecast(Arc<str>, Arc<ForecastModel>),
    Policy(Arc<str>, Arc<PlacementPolicy>),
}

impl Artifact {
    fn load(folder: &std::path::Path) -> anyhow::Result<Self> {
        if crate::commands::policy::is_policy(folder) {
            let bundle = crate::commands::policy::load(folder)?;
            let id = bundle.manifest().policy_id.as_str().into();
            return Ok(Self::Policy(id, Arc::new(bundle.policy().clone())));
        }
        let bundle = crate::artifact_folder::load(folder)?;
        let id = bundle.manifest().strategy_id.as_str().into();
        Ok(Self::Forecast(id, Arc::new(bundle.into_model())))
    }

    /// Its id, where strategy `name` is nothing without it.
    fn id_for(&self, name: StrategyName) -> Option<&Arc<str>> {
        match self {
            Self::Forecast(id, _) => name.needs_model().then_some(id),
            Self::Policy(id, _) => name.needs_policy().then_some(id),
        }
    }
}

fn is_rule(name: StrategyName) -> bool {
    !name.needs_model() && !name.needs_policy()
}

/// Run the command; returns the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let seeds = match args.seeds {
        SeedsName::Named => Seeds::Named,
        SeedsName::Fresh => Seeds::Fresh(args.fresh_from.map_or_else(commit_hash, Ok)?),
    };
    let suite = Suite::new(&args.suite, &seeds)?;
    let artifact = args.policy.as_deref().map(Artifact::load).transpose()?;
    let names = StrategyName::ALL
        .into_iter()
        .filter(|name| *name != StrategyName::CriticalRule)
        .filter(|name| is_rule(*name) || artifact.as_ref().is_some_and(|a| a.id_for(*name).is_some()));
    let names: Vec<StrategyName> = names.collect();
    let progress = progress(names.len() * suite.traces.len(), args.json);
    let results: Vec<(StrategyName, Vec<Simulated>)> = names
        .into_iter()
        .map(|name| (name, run_strategy(&suite, name, artifact.as_ref(), &progress)))
        .collect();
    progress.finish_and_clear();
    let comparison = summarise(&suite, &seeds, artifact.as_ref(), &results)?;
    if args.json {
        println!("{}", serde_json::to_string(&comparison)?);
    } else {
        print_table(&comparison);
    }
    Ok(EXIT_DONE)
}

fn commit_hash() -> anyhow::Result<String> {
    let output = Command::new("git").args(["rev-parse", "HEAD"]).output();
    let output = output.context("fresh seeds need the commit's hash: run git, or --fresh-from")?;
    let hash = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    anyhow::ensure!(!hash.is_empty(), "there is no commit here; give --fresh-from TEXT");
    Ok(hash)
}

fn progress(steps: usize, quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(steps as u64);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} traces, {eta} left");
    style.map(|style| bar.set_style(style)).ok();
    bar
}

fn run_strategy(
    suite: &Suite,
    name: StrategyName,
    artifact: Option<&Artifact>,
    progress: &ProgressBar,
) -> Vec<Simulated> {
    let run = |trace: &berth_models::simulation::Scenario| {
        let mut scenario = trace.clone();
        scenario.config = FleetConfig { primary: name, ..scenario.config };
        progress.inc(1);
        match artifact {
            Some(Artifact::Policy(id, policy)) => {
                simulate_policy(&scenario, (id.clone(), policy.clone()), &mut |_| {})
            }
            Some(Artifact::Forecast(id, model)) => {
                simulate(&scenario, Some((id.clone(), model.clone())), &mut |_| {})
            }
            None => simulate(&scenario, None, &mut |_| {}),
        }
    };
    suite.traces.iter().map(run).collect()
}

fn summarise(
    suite: &Suite,
    seeds: &Seeds,
    artifact: Option<&Artifact>,
    results: &[(StrategyName, Vec<Simulated>)],
) -> anyhow::Result<Comparison> {
    let sum = |runs: &[Simulated]| runs.iter().map(|run| run.total_ms).sum::<u64>();
    let best = results
        .iter()
        .filter(|(name, _)| is_rule(*name))
        .min_by_key(|(_, runs)| sum(runs))
        .context("no strategy ran")?;
    let rows = results.iter().map(|(name, runs)| row(*name, artifact, runs, &best.1)).collect();
    Ok(Comparison {
        suite: suite.name,
        about: suite.about,
        suite_hash: suite.hash(),
        seeds: match seeds {
            Seeds::Named => "named".to_owned(),
            Seeds::Fresh(text) => format!("fresh from {text}"),
        },
        traces: suite.traces.len(),
        best_rule: best.0.versioned().to_owned(),
        strategies: rows,
    })
}

fn row(name: StrategyName, artifact: Option<&Artifact>, runs: &[Simulated], best: &[Simulated]) -> Row {
    let totals: Vec<f64> = runs.iter().map(|run| run.total_ms as f64).collect();
    let ratios: Vec<f64> =
        totals.iter().zip(best).map(|(total, best)| total / best.total_ms as f64).collect();
    let (score, ratio) = (interval(&totals), interval(&ratios));
    let mut times: Vec<u64> =
        runs.iter().flat_map(|run| run.time_in_system_ms.iter().flatten().copied()).collect();
    times.sort_unstable();
    let p99 = times.len().saturating_sub(1) * 99 / 100;
    Row {
        strategy_id: match artifact.and_then(|artifact| artifact.id_for(name)) {
            Some(id) => format!("{}+{id}", name.versioned()),
            None => name.versioned().to_owned(),
        },
        sees: name.sees(),
        score: score.mean,
        score_low: score.low,
        score_high: score.high,
        ratio_best_rule: ratio.mean,
        ratio_low: ratio.low,
        ratio_high: ratio.high,
        metrics: Metrics {
            time_in_system_ms_mean: times.iter().sum::<u64>() as f64 / times.len().max(1) as f64,
            time_in_system_ms_p99: times.get(p99).copied().unwrap_or_default(),
            ratio_worst_trace: ratios.iter().copied().fold(0.0, f64::max),
            refused: runs.iter().flat_map(|run| run.refused).sum(),
        },
        traces: runs.iter().map(|run| run.total_ms).collect(),
    }
}

fn print_table(comparison: &Comparison) {
    println!(
        "suite {} ({}), {} traces, {} seeds, hash {}",
        comparison.suite, comparison.about, comparison.traces, comparison.seeds, comparison.suite_hash
    );
    println!("ratio: per trace to {}, mean and 95 % interval\n", comparison.best_rule);
    println!("{:<28} {:<24} {:>14} {:>22} {:>10}", "strategy", "sees", "score ms", "ratio", "worst");
    let mut rows: Vec<&Row> = comparison.strategies.iter().collect();
    rows.sort_by(|a, b| a.score.total_cmp(&b.score));
    for row in rows {
        println!(
            "{:<28} {:<24} {:>14.1} {:>6.3} [{:>6.3}, {:>6.3}] {:>9.2}",
            row.strategy_id,
            row.sees,
            row.score,
            row.ratio_best_rule,
            row.ratio_low,
            row.ratio_high,
            row.metrics.ratio_worst_trace
        );
    }
}
