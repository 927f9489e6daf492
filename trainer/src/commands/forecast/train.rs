//! `berth-trainer forecast train`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use berth_models::artifact::{Bundle, Probe, Training};
use berth_models::forecast::{ForecastModel, HORIZON_COUNT, HORIZONS_MS, Predictor};
use clap::builder::RangedU64ValueParser;

use super::{data, output};
use crate::artifact_folder;
use crate::cli::EXIT_DONE;
use crate::commands::paths;
use crate::evaluation::rows::{self, ROWS_MAX, ROWS_MIN, Rows};
use crate::evaluation::summary::Evaluation;
use crate::evaluation::{Split, TimedSeries, cpu, parse_duration_ms};
use crate::learners::choose::{self, Choice};
use crate::learners::hessboost::HessboostLearner;

/// Most boosting rounds.
const ROUNDS_MAX: u64 = 5_000;
/// Most leaves of a tree.
const LEAVES_MAX: u64 = 1_024;
/// Most threads.
const THREADS_MAX: u64 = 256;

/// Arguments of `berth-trainer forecast train`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  berth-trainer forecast train --data logs/ --out model/
  berth-trainer forecast train --data logs/ --out model/ --holdout 12h --report model/report.html --json")]
pub struct Args {
    /// Files of a known format, folders of them, or an ingested folder.
    #[arg(long, value_name = "PATH", num_args = 1.., required = true)]
    data: Vec<PathBuf>,
    /// Directory the artifact is written to: new, empty, or an artifact to replace.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Length of the end of every series that is held out, such as 1d or 12h.
    #[arg(long, value_name = "LENGTH", default_value = "1d", value_parser = parse_duration_ms)]
    holdout: u64,
    /// Leave out this much at the end of every series first: an earlier origin, for choosing settings.
    #[arg(long, value_name = "LENGTH", default_value = "0d", value_parser = parse_duration_ms)]
    skip: u64,
    /// Seed of every draw.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Learner; `auto` lets late rows of the training part decide where rows are few.
    #[arg(long, value_enum, default_value_t)]
    learner: Choice,
    /// Boosting rounds, 1 to 5,000.
    #[arg(long, default_value_t = HessboostLearner::default().rounds, value_parser = count(1, ROUNDS_MAX))]
    rounds: usize,
    /// Leaves of a tree, 2 to 1,024.
    #[arg(long, default_value_t = HessboostLearner::default().leaves, value_parser = count(2, LEAVES_MAX))]
    leaves: usize,
    /// Shrinkage of a round, above 0 and at most 1.
    #[arg(long, default_value_t = HessboostLearner::default().learning_rate, value_parser = parse_learning_rate)]
    learning_rate: f64,
    /// Threads, 1 to 256; the model does not depend on their number.
    #[arg(long, default_value_t = 1, value_parser = count(1, THREADS_MAX))]
    threads: usize,
    /// Write a report with plots.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Print JSON for machines.
    #[arg(long)]
    json: bool,
}

fn count(least: u64, most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(least..=most)
}

fn parse_learning_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= 1.0 => Ok(rate),
        _ => Err("allowed is a number above 0, at most 1, such as 0.08".to_owned()),
    }
}

/// Run the command; returns the exit code.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    artifact_folder::check_free(&args.out)?;
    if let Some(report) = &args.report {
        paths::must_have_folder(report, Some(&args.out))?;
    }
    let series = data::read(&args.data)?;
    let split = Split { holdout_ms: args.holdout, skip_ms: args.skip };
    let learner = HessboostLearner {
        rounds: args.rounds,
        leaves: args.leaves,
        learning_rate: args.learning_rate,
        seed: args.seed,
        threads: args.threads,
        ..HessboostLearner::default()
    };
    let trained = train(&series, &split, args.learner, &learner, args.seed)?;
    // Evaluated first, so that the figures are in the manifest; the report names the id of the weights.
    let draft = trained.bundle(Default::default())?;
    let (evaluation, traces) = output::evaluate(&series, &split, &draft, args.report.is_some());
    artifact_folder::save(&args.out, &trained.bundle(metrics(&evaluation))?)?;
    eprintln!("artifact {} written to {}", draft.manifest().strategy_id, args.out.display());
    if let Some(path) = &args.report {
        output::write_report(path, &evaluation, &traces, &draft)?;
    }
    if evaluation.series.iter().all(|one| one.figures.rows == 0) {
        eprintln!("note: nothing could be scored, so the artifact has no figures; see --holdout");
    }
    output::print(&evaluation, args.json)?;
    Ok(EXIT_DONE)
}

struct Trained {
    model: ForecastModel,
    probes: Vec<Probe>,
    training: Training,
}

impl Trained {
    fn bundle(&self, metrics: BTreeMap<String, f64>) -> anyhow::Result<Bundle> {
        let training = Training { metrics, ..self.training.clone() };
        Bundle::new(self.model.clone(), self.probes.clone(), training).context("verifying the trained bundle")
    }
}

fn train(
    series: &[TimedSeries],
    split: &Split,
    choice: Choice,
    learner: &HessboostLearner,
    seed: u64,
) -> anyhow::Result<Trained> {
    let cpu_before = cpu::process_cpu_s();
    let bar = output::progress("computing features", series.len());
    let mut rows = rows::collect(series, split, seed, |done| bar.set_position(done as u64));
    bar.finish_and_clear();
    say_rows(&rows);
    let trainable: Vec<usize> =
        (0..HORIZON_COUNT).filter(|&horizon| rows.horizons[horizon].len() >= ROWS_MIN).collect();
    ensure!(
        !trainable.is_empty(),
        "no horizon has {ROWS_MIN} rows before the held-out part; give more data or a shorter --holdout"
    );
    let bar = output::progress("fitting", trainable.iter().map(|&horizon| learner.rounds(horizon)).sum());
    let mut predictors: [Option<Predictor>; HORIZON_COUNT] = Default::default();
    let (mut probes, mut counts, mut learners) = (Vec::new(), Vec::new(), BTreeMap::<_, Vec<_>>::new());
    for horizon in trainable {
        let set = std::mem::take(&mut rows.horizons[horizon]);
        counts.push(set.len() as u64);
        let before = bar.position();
        let progress = |round| bar.set_position(before + round as u64);
        let chosen = choose::fit(choice, learner, horizon, set, &progress)?;
        let (horizon_ms, fitted) = (HORIZONS_MS[horizon], chosen.fitted);
        learners.entry(chosen.description).or_default().push(format!("{} s", horizon_ms / 1_000));
        probes.extend(fitted.probes.iter().map(|(input, outputs)| Probe::new(horizon_ms, input, outputs)));
        predictors[horizon] = Some(fitted.predictor);
    }
    bar.finish_and_clear();
    let cut = |one: &TimedSeries| one.span(split).map_or(0, |span| span.cut_ms);
    let training = Training {
        learner: say_learners(&learners),
        data_fingerprint: data::fingerprint(series, cut),
        trained_until_ms: series.iter().map(cut).max().unwrap_or(0),
        seed,
        rows: counts,
        train_cpu_s: cpu::process_cpu_s().zip(cpu_before).map(|(after, before)| after - before),
        ..Training::default()
    };
    Ok(Trained { model: ForecastModel::new(predictors)?, probes, training })
}

/// The learners with their horizons, for the manifest and for whoever waits.
fn say_learners(learners: &BTreeMap<String, Vec<String>>) -> String {
    let each = learners.iter().map(|(learner, horizons)| format!("{}: {learner}", horizons.join(", ")));
    let said = each.collect::<Vec<_>>().join(" | ");
    eprintln!("learner: {said}");
    said
}

fn say_rows(rows: &Rows) {
    let counts =
        rows.horizons.iter().zip(HORIZONS_MS).map(|(set, ms)| format!("{} at {} s", set.len(), ms / 1_000));
    eprintln!(
        "rows: {} from {} samples; {} rows were not drawn (at most {ROWS_MAX} a horizon, one a minute of each series)",
        counts.collect::<Vec<_>>().join(", "),
        rows.samples,
        rows.not_drawn
    );
    for (set, horizon_ms) in rows.horizons.iter().zip(HORIZONS_MS) {
        if set.len() < ROWS_MIN {
            eprintln!(
                "{} s is not trained: it has {} rows with truth, needed are {ROWS_MIN}; it will be interpolated",
                horizon_ms / 1_000,
                set.len()
            );
        }
    }
}

/// The headline figures, as the manifest keeps them.
fn metrics(evaluation: &Evaluation) -> BTreeMap<String, f64> {
    let of_set = |set: &crate::evaluation::summary::Figures| {
        let name = set.name.clone();
        let named = [
            ("ratio_day_ago_mean", set.ratio_day_ago_mean),
            ("ratio_day_ago_median", set.ratio_day_ago_median),
            ("ratio_best_naive_mean", set.ratio_best_naive_mean),
            ("ratio_best_naive_worst", set.ratio_best_naive_worst),
            ("coverage_p90", set.coverage_p90),
        ];
        named.into_iter().filter_map(move |(figure, value)| Some((format!("{name}.{figure}"), value?)))
    };
    evaluation.sets.iter().flat_map(of_set).collect()
}
