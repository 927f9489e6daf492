//! `berth-trainer forecast evaluate`.

use std::path::PathBuf;

use anyhow::ensure;
use berth_models::artifact::Bundle;

use super::{data, output};
use crate::artifact_folder;
use crate::cli::{EXIT_BAR_NOT_MET, EXIT_DONE};
use crate::commands::paths;
use crate::evaluation::summary::{Evaluation, SeriesFigures};
use crate::evaluation::{Split, TimedSeries, parse_duration_ms};

/// Arguments of `berth-trainer forecast evaluate`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  berth-trainer forecast evaluate --artifact model/ --data logs/
  berth-trainer forecast evaluate --artifact model/ --data logs/ --json --max-ratio-day-ago 0.6")]
pub struct Args {
    /// Directory of the artifact.
    #[arg(long, value_name = "DIR")]
    artifact: PathBuf,
    /// Files of a known format, folders of them, or an ingested folder.
    #[arg(long, value_name = "PATH", num_args = 1.., required = true)]
    data: Vec<PathBuf>,
    /// Length of the held-out end of every series, such as 1d or 12h.
    #[arg(long, value_name = "LENGTH", default_value = "1d", value_parser = parse_duration_ms)]
    holdout: u64,
    /// Leave out this much at the end of every series first: an earlier origin.
    #[arg(long, value_name = "LENGTH", default_value = "0d", value_parser = parse_duration_ms)]
    skip: u64,
    /// Exit with 3 when a set's mean MAE ÷ day-ago MAE is above this.
    #[arg(long, value_name = "RATIO", value_parser = parse_ratio)]
    max_ratio_day_ago: Option<f64>,
    /// Write a report with plots.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Print JSON for machines.
    #[arg(long)]
    json: bool,
}

/// Run the command; returns the exit code.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    if let Some(report) = &args.report {
        paths::must_have_folder(report, None)?;
    }
    let bundle = artifact_folder::load(&args.artifact)?;
    let series = data::read(&args.data)?;
    let split = Split { holdout_ms: args.holdout, skip_ms: args.skip };
    warn_of_overlap(&series, &split, &bundle);
    let (evaluation, traces) = output::evaluate(&series, &split, &bundle, args.report.is_some());
    ensure_scored(&evaluation)?;
    if let Some(path) = &args.report {
        output::write_report(path, &evaluation, &traces, &bundle)?;
    }
    output::print(&evaluation, args.json)?;
    Ok(verdict(&evaluation, args.max_ratio_day_ago))
}

/// A bar: NaN would be met by everything.
fn parse_ratio(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ratio) if ratio.is_finite() && ratio > 0.0 => Ok(ratio),
        _ => Err("allowed is a number above 0, such as 0.6".to_owned()),
    }
}

/// An evaluation without a single figure says nothing, and must not pass for one that is good.
fn ensure_scored(evaluation: &Evaluation) -> anyhow::Result<()> {
    let sum = |pick: fn(&SeriesFigures) -> usize| evaluation.series.iter().map(pick).sum::<usize>();
    ensure!(
        sum(|one| one.figures.rows) > 0,
        "nothing was scored in {} series: {} forecasts had no sample at the target time, {} none a day before it; give \
         series with samples every few minutes that begin a day before the held-out part, or another --holdout",
        evaluation.series.len(),
        sum(|one| one.rows_without_truth),
        sum(|one| one.rows_without_day_ago)
    );
    Ok(())
}

/// Figures on samples that the artifact was trained on are too good. The same data with the same cut has the
/// artifact's own fingerprint; anything else that begins before the end of its training is suspect.
fn warn_of_overlap(series: &[TimedSeries], split: &Split, bundle: &Bundle) {
    let training = &bundle.manifest().training;
    let cut = |one: &TimedSeries| one.span(split).map_or(0, |span| span.cut_ms);
    let overlaps = series.iter().filter(|one| cut(one) < training.trained_until_ms).count();
    if overlaps > 0 && data::fingerprint(series, cut) != training.data_fingerprint {
        eprintln!(
            "note: the held-out part of {overlaps} series begins before the newest sample the artifact was trained \
             on ({} ms); if these are series it was trained on, their figures are too good",
            training.trained_until_ms
        );
    }
}

/// A bar that was named is met by every set, or the command says which did not.
fn verdict(evaluation: &Evaluation, max_ratio_day_ago: Option<f64>) -> u8 {
    let Some(bar) = max_ratio_day_ago else { return EXIT_DONE };
    let mut code = EXIT_DONE;
    for set in &evaluation.sets {
        if set.ratio_day_ago_mean.is_none_or(|ratio| ratio > bar) {
            let ratio =
                set.ratio_day_ago_mean.map_or_else(|| "not known".to_owned(), |ratio| format!("{ratio:.4}"));
            eprintln!("{}: MAE ÷ day-ago is {ratio}, the bar is {bar}", set.name);
            code = EXIT_BAR_NOT_MET;
        }
    }
    code
}
