//! `berth-trainer compare`: every strategy on the traces of a suite, or on one's own logs, paired
//! trace by trace.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::Context;
use berth_models::simulation;
use berth_models::strategy::StrategyName;
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::{EXIT_DONE, Usage};
use crate::report::compare as page;
use crate::suites::summary::{REFUSED_MORE_MAX, REFUSED_SHARE};
use crate::suites::{
    Comparison, Contender, Kind, NAMES, Outlook, Row, Seeds, Suite, run as run_suite, summarise,
};

/// Arguments of `berth-trainer compare`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  berth-trainer compare --suite ramp
  berth-trainer compare --suite peak --seeds fresh --json
  berth-trainer compare --suite uploads --full --report uploads.html
  berth-trainer compare --data tables/ --report which.html   which strategy is best for my traffic
  berth-trainer compare --suite park --policy model/   adds what needs that artifact: predicted_load
                                                       for a forecast, learned for a placement policy
  berth-trainer compare --suite hash --bar sd

Fresh seeds are derived from the commit's hash (git rev-parse HEAD), or from --fresh-from TEXT.")]
pub struct Args {
    /// The suite.
    #[arg(long, value_parser = NAMES, required_unless_present = "data", conflicts_with = "data")]
    suite: Option<String>,
    /// Replay one's own logs instead: folders that `ingest` or `generate` made, with boxes, their
    /// metrics, and balls.
    #[arg(long, value_name = "DIR", num_args = 1..)]
    data: Vec<PathBuf>,
    /// With --data: how often boxes report, in seconds, 1 to 3,600.
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    report_every: u64,
    /// Artifact directory of a forecast or of a placement policy; adds the strategies that need it.
    #[arg(long, value_name = "DIR")]
    policy: Option<PathBuf>,
    /// The suite's named seeds, or fresh ones derived from the commit's hash.
    #[arg(long, value_enum, default_value = "named")]
    seeds: SeedsName,
    /// Derive fresh seeds from this text instead of the commit's hash.
    #[arg(long, value_name = "TEXT")]
    fresh_from: Option<String>,
    /// All traces and cases of the suite; the default is a part that takes about two minutes on two cores.
    #[arg(long)]
    full: bool,
    /// Write a report with plots.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Exit with 3 when this bar of the suite (hash, pools) is missed; may be given several times.
    #[arg(long = "bar", value_name = "NAME")]
    bars: Vec<String>,
    /// Print JSON for machines.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum SeedsName {
    Named,
    Fresh,
}

/// What `--policy` brings.
enum Artifact {
    Forecast(simulation::Artifact),
    Policy(simulation::PolicyArtifact),
}

impl Artifact {
    fn load(folder: &Path) -> anyhow::Result<Self> {
        if crate::commands::policy::is_policy(folder) {
            let bundle = crate::commands::policy::load(folder)?;
            let id = bundle.manifest().policy_id.as_str().into();
            return Ok(Self::Policy((id, Arc::new(bundle.policy().clone()))));
        }
        let bundle = crate::artifact_folder::load(folder)?;
        let id = bundle.manifest().strategy_id.as_str().into();
        Ok(Self::Forecast((id, Arc::new(bundle.into_model()))))
    }

    /// Let the strategies that are nothing without it take part.
    fn join(self, suite: &mut Suite) {
        match self {
            Self::Forecast(model) => {
                suite.outlooks.model = Some(model);
                add_forecasters(suite);
            }
            Self::Policy(policy) => {
                let mut contender = Contender::new(StrategyName::Learned, Kind::Candidate);
                contender.id = format!("{}+{}", contender.id, policy.0);
                suite.contenders.push(contender);
                suite.outlooks.policy = Some(policy);
            }
        }
    }
}

/// Run the command; returns the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    if let Some(measured) = args.suite.as_deref().map(crate::suites::measure).transpose()?.flatten() {
        return measured.print(args.json, &args.bars);
    }
    if let Some(bar) = args.bars.first() {
        return Err(Usage(format!("this suite has no bar called {bar:?}: leave --bar out")).into());
    }
    if let Some(report) = &args.report {
        crate::commands::paths::must_have_folder(report, None)?;
    }
    let seeds = match args.seeds {
        SeedsName::Named => Seeds::Named,
        SeedsName::Fresh => Seeds::Fresh(args.fresh_from.clone().map_or_else(commit_hash, Ok)?),
    };
    let artifact = args.policy.as_deref().map(Artifact::load).transpose()?;
    let progress = progress(args.json);
    progress.set_message("preparing");
    let mut suite = match &args.suite {
        Some(name) => Suite::new(name, &seeds, args.full)?,
        None => crate::suites::fleet::suite(&args.data, args.report_every * 1_000, args.full)?,
    };
    if let Some(artifact) = artifact {
        artifact.join(&mut suite);
    }
    progress.set_message("running");
    let results = run_suite(&suite, &progress)?;
    progress.finish_and_clear();
    let comparison = summarise(&suite, &seeds, &results);
    if let Some(path) = &args.report {
        let html = page::render(&suite, &comparison, &results);
        std::fs::write(path, html).with_context(|| format!("writing {}", path.display()))?;
    }
    if args.json {
        println!("{}", serde_json::to_string(&comparison)?);
    } else {
        print_all(&comparison);
    }
    Ok(EXIT_DONE)
}

/// Strategies that need a forecast take part in a suite that has none of its own.
fn add_forecasters(suite: &mut Suite) {
    if suite.contenders.iter().any(|contender| contender.outlook == Outlook::Model) {
        return;
    }
    for strategy in StrategyName::ALL.into_iter().filter(|name| name.needs_model()) {
        suite.contenders.push(Contender::new(strategy, Kind::Candidate).with_outlook(Outlook::Model));
    }
}

fn commit_hash() -> anyhow::Result<String> {
    let output = Command::new("git").args(["rev-parse", "HEAD"]).output();
    let output = output.context("fresh seeds need the commit's hash: run git, or --fresh-from")?;
    let hash = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    anyhow::ensure!(!hash.is_empty(), "there is no commit here; give --fresh-from TEXT");
    Ok(hash)
}

fn progress(quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{msg} {bar:40} {pos}/{len} runs, {eta} left");
    style.map(|style| bar.set_style(style)).ok();
    bar
}

fn print_all(comparison: &Comparison) {
    println!("suite {}: {}", comparison.suite, comparison.about);
    println!(
        "{} traces, seeds {}, scenario {}, traces {}; {} decisions, {:.1} s of processor time",
        comparison.traces,
        comparison.seeds,
        comparison.scenario_hash,
        comparison.suite_hash,
        comparison.decisions,
        comparison.busy_s
    );
    println!("score: {}", comparison.score_name);
    for case in &comparison.cases {
        print_table(&case.case, &case.best_rule, &case.strategies);
    }
    print_table("all cases", &comparison.best_rule, &comparison.strategies);
}

fn print_table(case: &str, best_rule: &str, rows: &[Row]) {
    println!("\n{case} (ratio: per trace to {best_rule} or the best rule of the same information)");
    println!(
        "{:<58} {:<9} {:>13} {:>23} {:>8} {:>8} {:>8} {:>8}",
        "strategy", "kind", "score", "ratio, 95 % interval", "closed", "crit.err", "oth.err", "overload"
    );
    let mut rows: Vec<&Row> = rows.iter().collect();
    let refused = |row: &Row| row.metrics.get(REFUSED_SHARE).copied().unwrap_or(0.0);
    let least = rows.iter().map(|row| refused(row)).fold(f64::INFINITY, f64::min);
    let is_choosy = |row: &Row| refused(row) > least + REFUSED_MORE_MAX;
    rows.sort_by(|a, b| is_choosy(a).cmp(&is_choosy(b)).then(a.score.total_cmp(&b.score)));
    for row in rows {
        let metric =
            |name: &str| row.metrics.get(name).map_or_else(|| "–".to_owned(), |value| format!("{value:.4}"));
        println!(
            "{:<58} {:<9} {:>13.4} {:>7.3} [{:>6.3}, {:>6.3}] {:>8} {:>8} {:>8} {:>8}",
            row.strategy_id,
            row.kind,
            row.score,
            row.ratio_best_rule,
            row.ratio_low,
            row.ratio_high,
            row.metrics.get("gap_closed").map_or_else(|| "–".to_owned(), |closed| format!("{closed:.2}")),
            metric("error_share_critical"),
            metric("error_share_other"),
            metric("overload_share"),
        );
    }
}
