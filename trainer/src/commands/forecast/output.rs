//! What both subcommands print and write.

use std::path::Path;

use anyhow::Context;
use berth_models::artifact::Bundle;
use indicatif::{ProgressBar, ProgressStyle};

use crate::evaluation::summary::{self, Evaluation};
use crate::evaluation::{Split, TimedSeries};
use crate::report::forecast::{Trace, render};
use crate::report::three;

/// A progress bar with an estimate of the time left; hidden where standard error is no terminal.
pub fn progress(message: &'static str, length: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:24} {bar:32} {pos}/{len} {elapsed} left {eta}");
    let bar = ProgressBar::new(length as u64).with_message(message);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// Evaluate a bundle on the held-out part of every series; with `keeps_traces`, what a report draws is kept.
pub fn evaluate(
    series: &[TimedSeries],
    split: &Split,
    bundle: &Bundle,
    keeps_traces: bool,
) -> (Evaluation, Vec<Trace>) {
    let bar = progress("evaluating", series.len());
    let mut traces = Vec::with_capacity(series.len());
    let figures = series
        .iter()
        .map(|one| {
            let mut trace = Trace::default();
            let figures = summary::evaluate_series(one, split, Some(bundle.model()), |scored| {
                if keeps_traces {
                    trace.add(scored);
                }
            });
            traces.push(trace);
            bar.inc(1);
            figures
        })
        .collect();
    bar.finish_and_clear();
    (summary::by_set(figures, bundle.manifest().training.train_cpu_s), traces)
}

/// Write the report of an evaluation.
pub fn write_report(
    path: &Path,
    evaluation: &Evaluation,
    traces: &[Trace],
    bundle: &Bundle,
) -> anyhow::Result<()> {
    let html = render(evaluation, traces, bundle.model(), &bundle.manifest().strategy_id);
    std::fs::write(path, html).with_context(|| format!("writing {}", path.display()))?;
    eprintln!("report: {}", path.display());
    Ok(())
}

/// Print an evaluation: JSON for machines, or a table.
pub fn print(evaluation: &Evaluation, json: bool) -> anyhow::Result<()> {
    if json {
        println!("{}", serde_json::to_string(evaluation)?);
        return Ok(());
    }
    println!(
        "{:24} {:>8} {:>10} {:>12}  {:16} {:>6}",
        "series", "rows", "÷ day-ago", "÷ best naive", "best naive", "p90"
    );
    for one in &evaluation.series {
        let figures = &one.figures;
        println!(
            "{:24} {:>8} {:>10} {:>12}  {:16} {:>6}",
            figures.name,
            figures.rows,
            three(figures.ratio_day_ago_mean),
            three(figures.ratio_best_naive_mean),
            one.best_naive.as_deref().unwrap_or("–"),
            three(figures.coverage_p90),
        );
    }
    let left_out: usize =
        evaluation.series.iter().map(|one| one.rows_without_truth + one.rows_without_day_ago).sum();
    if left_out > 0 {
        println!(
            "left out for everyone: {left_out} forecasts without a sample at the target time or a day before it"
        );
    }
    for set in &evaluation.sets {
        println!(
            "{}: {} series, {} forecasts five minutes ahead; MAE ÷ day-ago {} mean, {} median; ÷ best naive {} mean, \
             {} worst; p90 coverage {}; training CPU {} s",
            set.name,
            set.series,
            set.rows,
            three(set.ratio_day_ago_mean),
            three(set.ratio_day_ago_median),
            three(set.ratio_best_naive_mean),
            three(set.ratio_best_naive_worst),
            three(set.coverage_p90),
            set.train_cpu_s.map_or_else(|| "–".to_owned(), |seconds| format!("{seconds:.1}")),
        );
    }
    Ok(())
}
