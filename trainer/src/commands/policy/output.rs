//! What a training tells people and machines.

use berth_models::policy::Regime;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::policy::training::{Point, Progress};
use crate::report::chart::{Line, line_chart};
use crate::report::{Page, three};

/// The verdict, as `--json` prints it.
#[derive(Serialize)]
pub struct Verdict<'a> {
    pub suite: &'static str,
    pub learner: String,
    pub seed: u64,
    /// `None`: no artifact was made.
    pub policy_id: Option<String>,
    pub is_promotable: bool,
    pub baseline: String,
    pub iterations: u32,
    pub best_iteration: u32,
    pub steps: u64,
    pub wall_s: f64,
    pub steps_per_s: f64,
    /// Seconds until the validation ratio was first below 1; `None`: it never was.
    pub wall_s_to_beat_rule: Option<f64>,
    pub validation_ratio: f64,
    /// Ratio to the best rule at the suite's own load, on seeds of the verdict.
    pub home: Regime,
    pub regimes: &'a [Regime],
}

pub fn progress_bar(iterations: u32, quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(u64::from(iterations));
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}, {eta} left");
    style.map(|style| bar.set_style(style)).ok();
    bar
}

pub fn message(progress: &Progress, loss: f64) -> String {
    format!("ratio to the rule: batch {:.3}, best validation {:.3}", libm::exp(loss), progress.best_ratio)
}

pub fn print(verdict: &Verdict<'_>) {
    println!(
        "{}: {} iterations, {} decisions in {:.0} s ({:.0}/s), weights of iteration {}",
        verdict.suite,
        verdict.iterations,
        verdict.steps,
        verdict.wall_s,
        verdict.steps_per_s,
        verdict.best_iteration
    );
    println!("{:<14} {:<22} {:>24}  decides", "load", "best rule", "ratio [95 %]");
    for regime in verdict.regimes {
        println!(
            "{:<14} {:<22} {:>7.3} [{:.3}, {:.3}]  {}",
            format!("{:.2}–{:.2}", regime.load_from, regime.load_to),
            regime.rule.name(),
            regime.ratio,
            regime.ratio_low,
            regime.ratio_high,
            if regime.is_ahead() { "policy" } else { "rule" }
        );
    }
}

pub fn report(verdict: &Verdict<'_>, curve: &[Point]) -> String {
    let mut page = Page::new(&format!("Placement policy on {}", verdict.suite));
    page.note(&format!("{}; seed {}", verdict.learner, verdict.seed));
    let line = |name: &str, y: fn(&Point) -> f64| Line {
        name: name.to_owned(),
        points: curve.iter().map(|point| (f64::from(point.iteration), y(point))).collect(),
    };
    let lines = [
        line("training batches", |point| point.training_ratio),
        line("validation", |point| point.validation_ratio),
    ];
    page.heading("Learning curve");
    page.chart(&line_chart("Ratio to least work left", "iteration", "ratio", &lines));
    page.heading("Regimes");
    let row = |regime: &Regime| {
        vec![
            format!("{:.2}–{:.2}", regime.load_from, regime.load_to),
            regime.rule.name().to_owned(),
            three(Some(regime.ratio)),
            three(Some(regime.ratio_low)),
            three(Some(regime.ratio_high)),
            if regime.is_ahead() { "policy" } else { "rule" }.to_owned(),
        ]
    };
    let rows: Vec<_> = verdict.regimes.iter().map(row).collect();
    page.table(&["offered load", "best rule", "ratio", "low", "high", "decides"], &rows);
    page.finish()
}
