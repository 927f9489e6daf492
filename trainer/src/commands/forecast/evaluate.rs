//! `berth-trainer forecast evaluate`.

use std::path::PathBuf;

use super::{data, output};
use crate::artifact_folder;
use crate::cli::{EXIT_BAR_NOT_MET, EXIT_DONE};
use crate::evaluation::summary::Evaluation;
use crate::evaluation::{Split, parse_duration_ms};

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
    #[arg(long, value_name = "RATIO")]
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
    let bundle = artifact_folder::load(&args.artifact)?;
    let series = data::read(&args.data)?;
    let split = Split { holdout_ms: args.holdout, skip_ms: args.skip };
    let until_ms = bundle.manifest().training.trained_until_ms;
    let overlaps =
        series.iter().filter_map(|one| one.span(&split)).filter(|span| span.cut_ms < until_ms).count();
    if overlaps > 0 {
        eprintln!(
            "note: the artifact was trained on samples up to {until_ms} ms, later than the cut of {overlaps} series; \
             if these are the same series, their figures are too good"
        );
    }
    let evaluation = output::evaluate(&series, &split, &bundle, args.report.as_deref())?;
    output::print(&evaluation, args.json)?;
    Ok(verdict(&evaluation, args.max_ratio_day_ago))
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
