//! `berth-trainer doctor`: whether logs are enough to forecast from, and what to collect next.

use std::path::PathBuf;

use berth_datasets::{QualityReport, ReadOptions, load_series};
use berth_models::forecast::{ForecastModel, HORIZON_COUNT};
use serde::Serialize;

use super::paths;
use crate::cli::{EXIT_BAR_NOT_MET, EXIT_DONE};
use crate::evaluation::rows::{self, ROWS_MIN};
use crate::evaluation::summary::{Evaluation, by_set, evaluate_series};
use crate::evaluation::{DAY_MS, Split, TimedSeries};
use crate::learners::choose::{self, Choice};
use crate::learners::hessboost::HessboostLearner;

/// Rounds of the quick estimate; a training proper takes more.
const ROUNDS: usize = 40;
/// Leaves of the quick estimate.
const LEAVES: usize = 15;
/// Samples that the estimate looks at; of more, whole series are left out evenly.
const SAMPLES_MAX: usize = 300_000;
/// Days from which a daily pattern can be told from chance: three to learn and one to test.
const DAYS_ENOUGH: f64 = 4.0;
/// Slowest cadence that says something about the next five minutes.
const CADENCE_MS_MAX: u64 = 60_000;
/// Share of rows rejected above which the log itself is in question.
const REJECTED_SHARE_MAX: f64 = 0.01;
/// Gaps a thousand samples above which the collection is in question.
const GAPS_PER_THOUSAND_MAX: f64 = 5.0;

const EXAMPLES: &str = "Examples:
  berth-trainer doctor --data /var/log/nginx/access.log.1.gz
  berth-trainer doctor --data tables --json
  berth-trainer doctor --data tables --require-enough   (exit code 3 when they are not)";

/// Arguments of `berth-trainer doctor`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Files of a known format, folders of them, or an ingested folder.
    #[arg(long, value_name = "PATH", num_args = 1.., required = true)]
    data: Vec<PathBuf>,
    /// End with exit code 3 when the logs are not enough.
    #[arg(long)]
    require_enough: bool,
    /// Print JSON for machines.
    #[arg(long)]
    json: bool,
}

/// What the doctor found.
#[derive(Debug, Default, Serialize)]
struct Diagnosis {
    /// Whether a forecast trained on these logs can be expected to be of use.
    enough: bool,
    rows_read: u64,
    rows_rejected: u64,
    repeated_stamps: u64,
    backward_stamps: u64,
    gaps: u64,
    series: usize,
    boxes: usize,
    samples: usize,
    days: f64,
    cadence_ms: u64,
    /// Series from which placed load could be subtracted.
    background_series: usize,
    holdout_ms: u64,
    series_in_estimate: usize,
    skill: Option<Skill>,
    /// Why there is no estimate of skill.
    no_skill: Option<String>,
    collect_next: Vec<String>,
    quality: QualityReport,
}

/// Errors five minutes ahead on the held-out end, relative to the naive that was best before it.
#[derive(Debug, Default, Clone, Copy, Serialize)]
struct Skill {
    scored: usize,
    /// Mean over series of MAE ÷ MAE of the best naive, trained on all that lies before the end.
    ratio_best_naive: f64,
    /// The same of a training on the later half of that.
    ratio_with_half: Option<f64>,
    /// The share by which the error fell when the training data doubled: about what doubling again can bring
    /// at most, since gains shrink.
    gain_of_doubling: Option<f64>,
}

/// Run the command; returns the exit code.
///
/// # Errors
/// A path that isn't there, or not one usable row.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let data = paths::distinct(&args.data)?;
    let (series, quality) = load_series(&data, &ReadOptions::default())?;
    let mut found = Diagnosis { series: series.len(), quality, ..Diagnosis::default() };
    found.background_series = series.iter().filter(|one| one.is_background).count();
    let boxes: std::collections::BTreeSet<(&str, &str)> =
        series.iter().map(|one| (one.set.as_str(), one.name.as_str())).collect();
    found.boxes = boxes.len();
    let mut timed = Vec::with_capacity(series.len());
    for one in series {
        timed.push(TimedSeries::new(&one).0);
    }
    measure(&mut found, &timed);
    estimate(&mut found, &timed)?;
    advise(&mut found);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&found)?);
    } else {
        print(&found);
    }
    Ok(if args.require_enough && !found.enough { EXIT_BAR_NOT_MET } else { EXIT_DONE })
}

fn measure(found: &mut Diagnosis, series: &[TimedSeries]) {
    let files = &found.quality.files;
    found.rows_read = files.iter().map(|file| file.rows_read).sum();
    found.repeated_stamps = files.iter().map(|file| file.duplicates).sum();
    found.backward_stamps = files.iter().map(|file| file.backward).sum();
    found.gaps = files.iter().map(|file| file.gaps).sum();
    found.rows_rejected = found.quality.rejected_total();
    found.samples = series.iter().map(|one| one.points.len()).sum();
    let length = |one: &TimedSeries| Some(one.points.last()?.0 - one.points.first()?.0);
    let longest_ms = series.iter().filter_map(length).max().unwrap_or(0);
    found.days = longest_ms as f64 / DAY_MS as f64;
    // A fifth of what there is, and no more than a day.
    found.holdout_ms = (longest_ms / 5).min(DAY_MS);
    let split = Split { holdout_ms: 0, skip_ms: 0 };
    let mut cadences: Vec<u64> = series.iter().filter_map(|one| Some(one.span(&split)?.cadence_ms)).collect();
    cadences.sort_unstable();
    found.cadence_ms = cadences.get(cadences.len() / 2).copied().unwrap_or(0);
}

/// Train quickly on what lies before the held-out end, and on its later half, and score both.
fn estimate(found: &mut Diagnosis, series: &[TimedSeries]) -> anyhow::Result<()> {
    let stride = found.samples.div_ceil(SAMPLES_MAX).max(1);
    let some: Vec<TimedSeries> = series.iter().step_by(stride).cloned().collect();
    found.series_in_estimate = some.len();
    let split = Split { holdout_ms: found.holdout_ms, skip_ms: 0 };
    let Some(model) = quick_model(&some, &split)? else {
        found.no_skill = Some(format!(
            "fewer than {ROWS_MIN} samples with a known value five minutes later lie before the held-out end"
        ));
        return Ok(());
    };
    let Some((ratio, scored)) = score(&some, &split, &model) else {
        found.no_skill = Some(
            "no forecast in the held-out end could be scored: there is no sample five \
            minutes later, or none a day before"
                .to_owned(),
        );
        return Ok(());
    };
    let halved: Vec<TimedSeries> = some.iter().map(|one| later_half(one, &split)).collect();
    let half = quick_model(&halved, &split)?.and_then(|model| score(&some, &split, &model));
    let ratio_with_half = half.map(|(ratio, _)| ratio);
    let gain_of_doubling = ratio_with_half.filter(|half| *half > 0.0).map(|half| 1.0 - ratio / half);
    found.skill = Some(Skill { scored, ratio_best_naive: ratio, ratio_with_half, gain_of_doubling });
    Ok(())
}

/// A series without the first half of its training part.
fn later_half(series: &TimedSeries, split: &Split) -> TimedSeries {
    let kept = series.span(split).map_or(0, |span| {
        let training = span.points.partition_point(|point| point.0 <= span.cut_ms);
        training / 2
    });
    TimedSeries { points: series.points[kept..].to_vec(), ..series.clone() }
}

fn quick_model(series: &[TimedSeries], split: &Split) -> anyhow::Result<Option<ForecastModel>> {
    let mut rows = rows::collect(series, split, 0, |_| {});
    let learner = HessboostLearner { rounds: ROUNDS, leaves: LEAVES, ..HessboostLearner::default() };
    let mut predictors: [Option<_>; HORIZON_COUNT] = Default::default();
    let last = HORIZON_COUNT - 1;
    if rows.horizons[last].len() < ROWS_MIN {
        return Ok(None);
    }
    let set = std::mem::take(&mut rows.horizons[last]);
    let chosen = choose::fit(Choice::Auto, &learner, last, set, &|_| {})?;
    predictors[last] = Some(chosen.fitted.predictor);
    Ok(Some(ForecastModel::new(predictors)?))
}

/// Mean over series of the guarded forecast's error relative to the best naive's, and forecasts scored.
fn score(series: &[TimedSeries], split: &Split, model: &ForecastModel) -> Option<(f64, usize)> {
    let each = series.iter().map(|one| evaluate_series(one, split, Some(model), |_| {}));
    let Evaluation { series, .. } = by_set(each.collect(), None);
    let ratios: Vec<f64> = series.iter().filter_map(|one| one.figures.ratio_best_naive_mean).collect();
    let scored = series.iter().map(|one| one.figures.rows).sum();
    (!ratios.is_empty()).then(|| (ratios.iter().sum::<f64>() / ratios.len() as f64, scored))
}

fn advise(found: &mut Diagnosis) {
    let mut next = Vec::new();
    if found.days < DAYS_ENOUGH {
        next.push(format!(
            "more time: {:.1} days are there, {DAYS_ENOUGH} let a daily pattern be learnt and tested; two weeks show the weekend",
            found.days
        ));
    }
    if found.cadence_ms > CADENCE_MS_MAX {
        next.push(format!(
            "a finer step: a sample comes every {} s; take one every 60 s or less, for the horizons below five minutes",
            found.cadence_ms / 1000
        ));
    }
    if found.background_series < found.series {
        next.push(format!(
            "what was placed where: of {} series {} can't be parted into background and placed load; log the box \
             of each request (nginx: upstream=\"$upstream_addr\" rt=$request_time) or ingest the scheduler's own log \
             (berth-scheduler export)",
            found.series,
            found.series - found.background_series
        ));
    }
    if found.rows_rejected as f64 > REJECTED_SHARE_MAX * found.rows_read as f64 {
        next.push("cleaner rows: more than 1 in 100 was rejected; see the reasons".to_owned());
    }
    if found.gaps as f64 * 1000.0 > GAPS_PER_THOUSAND_MAX * found.samples as f64 {
        next.push("a steadier collector: more than 5 gaps in 1,000 samples".to_owned());
    }
    found.enough = found.days >= DAYS_ENOUGH && found.skill.is_some_and(|skill| skill.ratio_best_naive < 1.0);
    found.collect_next = next;
}

fn print(found: &Diagnosis) {
    print!("{}", found.quality.to_table());
    println!(
        "\n{} series of {} boxes, {} samples over {:.1} days, one every {} s; {} gaps",
        found.series,
        found.boxes,
        found.samples,
        found.days,
        found.cadence_ms as f64 / 1000.0,
        found.gaps
    );
    println!(
        "{} rows read, {} rejected, {} repeated stamps folded, {} backward stamps sorted",
        found.rows_read, found.rows_rejected, found.repeated_stamps, found.backward_stamps
    );
    println!(
        "background (load nobody here placed) can be told in {} of {} series",
        found.background_series, found.series
    );
    match (found.skill, &found.no_skill) {
        (Some(skill), _) => print_skill(found, skill),
        (None, Some(reason)) => println!("skill: not known: {reason}"),
        (None, None) => {}
    }
    println!("\nenough: {}", if found.enough { "yes" } else { "not yet" });
    for one in &found.collect_next {
        println!("  collect {one}");
    }
}

fn print_skill(found: &Diagnosis, skill: Skill) {
    println!(
        "skill: five minutes ahead, on the last {:.1} h, the error is {:.2} × that of the naive that was best before \
         ({} forecasts of {} series; a quick training of {ROUNDS} rounds)",
        found.holdout_ms as f64 / 3_600_000.0,
        skill.ratio_best_naive,
        skill.scored,
        found.series_in_estimate
    );
    if skill.ratio_best_naive >= 1.0 {
        println!("  the naive is as good or better: as it stands, the guard would choose it");
    }
    match skill.gain_of_doubling {
        Some(gain) if gain > 0.0 => println!(
            "expected gain of twice the data: at most about {:.0} % less error (it was that from half of it to all)",
            gain * 100.0
        ),
        Some(_) => println!("expected gain of twice the data: none seen from half of it to all"),
        None => println!("expected gain of twice the data: not known, half of it is too little to train on"),
    }
}
