//! The report of a forecast's evaluation.

use berth_models::forecast::{ForecastModel, HORIZON_COUNT, NaiveKind, Predictor, feature_names};

use super::chart::{Band, Line, band_chart, bar_chart, line_chart};
use super::{Page, three};
use crate::evaluation::summary::{Evaluation, SeriesFigures};
use crate::evaluation::walk::Scored;

/// Series drawn one by one; the table has all of them.
const SERIES_DRAWN: usize = 12;
/// Points of one drawn line.
const POINTS_DRAWN: usize = 1_500;
/// Bars of the importance chart.
const FEATURES_DRAWN: usize = 20;
const HOUR_MS: u64 = 3_600_000;

/// What the report draws of one series, gathered while it is evaluated.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    /// Target time, truth, and the three quantiles, five minutes ahead.
    points: Vec<(u64, f64, [f64; 3])>,
    /// By hour of the day: absolute errors of the forecast and of the value a day before, and their count.
    hours: [(f64, f64, usize); 24],
    /// Truths at or below each quantile, and all of them.
    under: [usize; 3],
}

impl Trace {
    /// Take in one scored forecast of the held-out part.
    pub fn add(&mut self, scored: &Scored) {
        if scored.horizon + 1 != HORIZON_COUNT {
            return;
        }
        let quantiles = [scored.given.p50, scored.given.p90, scored.given.p99];
        self.points.push((scored.at_ms, scored.truth, quantiles));
        let hour = &mut self.hours[((scored.at_ms / HOUR_MS) % 24) as usize];
        hour.0 += (scored.truth - quantiles[0]).abs();
        hour.1 += (scored.truth - scored.day_ago).abs();
        hour.2 += 1;
        for (under, quantile) in self.under.iter_mut().zip(quantiles) {
            *under += usize::from(scored.truth <= quantile);
        }
    }
}

/// The report as one HTML page. `traces` are in the order of the evaluation's series.
#[must_use]
pub fn render(evaluation: &Evaluation, traces: &[Trace], model: &ForecastModel, strategy_id: &str) -> String {
    let mut page = Page::new("Load five minutes ahead");
    page.note(&format!(
        "Artifact {strategy_id}. The last part of every series was held out; each forecast was made from what was \
         known at its time, through the state that the server uses, guard included. MAE is in the series' own unit."
    ));
    page.heading("Against the naive forecasts");
    sets_table(&mut page, evaluation);
    series_table(&mut page, &evaluation.series);
    page.heading("Calibration");
    calibration(&mut page, evaluation, traces);
    page.heading("Error by hour of the day (UTC)");
    page.chart(&hours_chart(traces));
    page.heading("What the five-minute model splits on");
    page.chart(&importance_chart(model));
    page.heading("Truth against forecast");
    for (series, trace) in evaluation.series.iter().zip(traces).take(SERIES_DRAWN) {
        page.chart(&series_chart(&series.figures.name, trace));
    }
    if evaluation.series.len() > SERIES_DRAWN {
        page.note(&format!("{} more series are in the table only.", evaluation.series.len() - SERIES_DRAWN));
    }
    page.finish()
}

fn sets_table(page: &mut Page, evaluation: &Evaluation) {
    let header =
        ["set", "series", "rows", "÷ day-ago, mean", "median", "÷ best naive, mean", "worst", "p90 coverage"];
    let rows: Vec<Vec<String>> = evaluation
        .sets
        .iter()
        .map(|set| {
            let figures = [
                set.ratio_day_ago_mean,
                set.ratio_day_ago_median,
                set.ratio_best_naive_mean,
                set.ratio_best_naive_worst,
                set.coverage_p90,
            ];
            let mut row = vec![set.name.clone(), set.series.to_string(), set.rows.to_string()];
            row.extend(figures.map(three));
            row
        })
        .collect();
    page.table(&header, &rows);
}

fn series_table(page: &mut Page, series: &[SeriesFigures]) {
    let mut header =
        vec!["series", "rows", "÷ day-ago", "÷ best naive", "best naive yesterday", "p90", "MAE"];
    header.extend(NaiveKind::ALL.map(NaiveKind::name));
    let rows: Vec<Vec<String>> = series
        .iter()
        .map(|one| {
            let mae =
                |name: &str| one.mae.get(name).map_or_else(|| "–".to_owned(), |value| format!("{value:.4}"));
            let mut row = vec![
                one.figures.name.clone(),
                one.figures.rows.to_string(),
                three(one.figures.ratio_day_ago_mean),
                three(one.figures.ratio_best_naive_mean),
                one.best_naive.clone().unwrap_or_default(),
                three(one.figures.coverage_p90),
                mae("forecast"),
            ];
            row.extend(NaiveKind::ALL.map(|kind| mae(kind.name())));
            row
        })
        .collect();
    page.table(&header, &rows);
}

fn calibration(page: &mut Page, evaluation: &Evaluation, traces: &[Trace]) {
    let rows: Vec<Vec<String>> = evaluation
        .series
        .iter()
        .zip(traces)
        .filter(|(_, trace)| !trace.points.is_empty())
        .map(|(series, trace)| {
            let share = |under: usize| format!("{:.3}", under as f64 / trace.points.len() as f64);
            let mut row = vec![series.figures.name.clone()];
            row.extend(trace.under.map(share));
            row
        })
        .collect();
    page.note("Share of truths at or below each quantile; right are 0.500, 0.900 and 0.990.");
    page.table(&["series", "p50", "p90", "p99"], &rows);
}

/// Series count alike: each hour's error is divided by the series' own day-ago error over the whole part.
fn hours_chart(traces: &[Trace]) -> String {
    let mut sums = [(0.0, 0.0, 0_usize); 24];
    for trace in traces {
        let day_ago: f64 = trace.hours.iter().map(|hour| hour.1).sum();
        let count: usize = trace.hours.iter().map(|hour| hour.2).sum();
        let unit = day_ago / count.max(1) as f64;
        for (sum, hour) in sums.iter_mut().zip(trace.hours) {
            if hour.2 > 0 && unit > 0.0 {
                sum.0 += hour.0 / hour.2 as f64 / unit;
                sum.1 += hour.1 / hour.2 as f64 / unit;
                sum.2 += 1;
            }
        }
    }
    let line = |name: &str, pick: fn(&(f64, f64, usize)) -> f64| Line {
        name: name.to_owned(),
        points: sums.iter().enumerate().map(|(hour, sum)| (hour as f64, pick(sum) / sum.2 as f64)).collect(),
    };
    let lines = [line("forecast", |sum| sum.0), line("day ago", |sum| sum.1)];
    line_chart("Absolute error, in units of the day-ago error", "hour", "error", &lines)
}

fn importance_chart(model: &ForecastModel) -> String {
    let used = model.predictor(HORIZON_COUNT - 1).map(Predictor::importance).unwrap_or_default();
    let mut bars: Vec<(String, f64)> =
        feature_names().iter().zip(used).map(|(name, used)| (name.clone(), used)).collect();
    bars.sort_by(|left, right| right.1.total_cmp(&left.1));
    bars.truncate(FEATURES_DRAWN);
    bar_chart("Most used features", "splits, or absolute weights", &bars)
}

fn series_chart(name: &str, trace: &Trace) -> String {
    let start_ms = trace.points.first().map_or(0, |point| point.0);
    let step = trace.points.len().div_ceil(POINTS_DRAWN).max(1);
    let hours = |at_ms: u64| (at_ms - start_ms) as f64 / HOUR_MS as f64;
    let kept = || trace.points.iter().step_by(step);
    let lines = [
        Line {
            name: "forecast p50".to_owned(),
            points: kept().map(|point| (hours(point.0), point.2[0])).collect(),
        },
        Line { name: "truth".to_owned(), points: kept().map(|point| (hours(point.0), point.1)).collect() },
    ];
    let band = Band {
        name: "p50 to p99".to_owned(),
        points: kept().map(|point| (hours(point.0), point.2[0], point.2[2])).collect(),
    };
    band_chart(name, "hours of the held-out part", "load", &lines, Some(&band))
}
