//! The report of a comparison: scores with intervals, and the fleet's load over time.

use super::chart::{Line, bar_chart, line_chart};
use super::{Page, three};
use crate::suites::{Comparison, Results, Row, Suite};

/// Most lines of one chart.
const LINES_MAX: usize = 5;

/// The page.
#[must_use]
pub fn render(suite: &Suite, comparison: &Comparison, results: &Results) -> String {
    let mut page = Page::new(&format!("Strategies on {}", comparison.suite));
    page.note(&comparison.about);
    page.note(&format!(
        "{} traces, seeds {}, scenario {}, traces {}. Score: {}; lower is better.",
        comparison.traces,
        comparison.seeds,
        comparison.scenario_hash,
        comparison.suite_hash,
        comparison.score_name
    ));
    page.heading("All cases");
    section(&mut page, &comparison.best_rule, &comparison.strategies);
    for case in &comparison.cases {
        page.heading(&case.case);
        section(&mut page, &case.best_rule, &case.strategies);
    }
    let best = best_rows(&comparison.strategies);
    for (case, traces) in suite.cases.iter().zip(&results.cases) {
        let Some(trace) = traces.first() else { continue };
        let lines: Vec<Line> = best
            .iter()
            .filter(|index| !trace[**index].moments.is_empty())
            .map(|index| {
                let moments = &trace[*index].moments;
                let from_ms = moments.first().map_or(0, |moment| moment.at_ms);
                let point = |moment: &berth_models::simulation::Moment| {
                    ((moment.at_ms - from_ms) as f64 / 60_000.0, moment.load_max)
                };
                Line {
                    name: comparison.strategies[*index].strategy_id.clone(),
                    points: moments.iter().map(point).collect(),
                }
            })
            .collect();
        if !lines.is_empty() {
            let title = format!("{}: the fullest box over time, first trace", case.name);
            page.chart(&line_chart(&title, "minutes", "load", &lines));
        }
    }
    page.finish()
}

/// Positions of the best few, in their order.
fn best_rows(rows: &[Row]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|a, b| rows[*a].score.total_cmp(&rows[*b].score));
    order.truncate(LINES_MAX);
    order
}

fn section(page: &mut Page, best_rule: &str, rows: &[Row]) {
    let mut sorted: Vec<&Row> = rows.iter().collect();
    sorted.sort_by(|a, b| a.score.total_cmp(&b.score));
    let bars: Vec<(String, f64)> =
        sorted.iter().map(|row| (row.strategy_id.clone(), row.ratio_best_rule)).collect();
    page.chart(&bar_chart(
        "Ratio to the best rule of the same information",
        &format!("× {best_rule}"),
        &bars,
    ));
    let cells: Vec<Vec<String>> = sorted
        .iter()
        .map(|row| {
            vec![
                row.strategy_id.clone(),
                row.kind.to_owned(),
                row.sees.clone(),
                format!("{:.4}", row.score),
                format!("{:.4} – {:.4}", row.score_low, row.score_high),
                format!("{:.3}", row.ratio_best_rule),
                format!("{:.3} – {:.3}", row.ratio_low, row.ratio_high),
                three(row.metrics.get("gap_closed").copied()),
                three(row.metrics.get("error_share_critical").copied()),
                three(row.metrics.get("error_share_other").copied()),
            ]
        })
        .collect();
    let header = [
        "strategy",
        "kind",
        "sees",
        "score",
        "95 %",
        "ratio",
        "95 %",
        "gap closed",
        "critical errors",
        "other errors",
    ];
    page.table(&header, &cells);
}
