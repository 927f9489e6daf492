//! `demo/report.html`: the table and the plots of a demo run.

use super::pass::PassResult;
use crate::report::Page;
use crate::report::chart::{Line, line_chart};

/// Boxes drawn one by one; more would be a thicket.
const BOXES_DRAWN_MAX: usize = 8;

/// A named pass.
pub struct Named<'a> {
    /// For headings and legends.
    pub name: &'a str,
    /// What came of it.
    pub result: &'a PassResult,
}

/// Rows of the table that ends the demo: header, then a row a pass.
#[must_use]
pub fn table(passes: &[Named]) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let header = vec![
        "strategy",
        "balls",
        "imbalance",
        "overload %",
        "stretch p99",
        "slowed %",
        "refused",
        "critical ref.",
        "answer p99 ms",
    ];
    let rows = passes
        .iter()
        .map(|Named { name, result }| {
            vec![
                (*name).to_owned(),
                result.balls.to_string(),
                format!("{:.4}", result.imbalance),
                format!("{:.2}", result.overload_share * 100.0),
                format!("{:.3}", result.stretch_p99),
                format!("{:.2}", result.slowed_share * 100.0),
                (result.refused_critical + result.refused_other).to_string(),
                result.refused_critical.to_string(),
                format!("{:.1}", result.answer_ms_p99),
            ]
        })
        .collect();
    (header, rows)
}

/// The page: table, load per box of every pass, the highest load side by side, and `forecast`,
/// charts of forecasts against truth made elsewhere.
#[must_use]
pub fn page(passes: &[Named], box_ids: &[String], notes: &[String], forecast: &[String]) -> String {
    let mut page = Page::new("Berth demo: a rule and forecasts on the same held-out traffic");
    notes.iter().for_each(|note| page.note(note));
    let (header, rows) = table(passes);
    page.table(&header, &rows);
    page.heading("The most loaded box");
    let highest: Vec<Line> = passes
        .iter()
        .map(|Named { name, result }| Line {
            name: (*name).to_owned(),
            points: minutes(result, |loads| loads.iter().copied().fold(0.0, f64::max)),
        })
        .collect();
    page.chart(&line_chart("Highest load of any box", "minute", "use ÷ capacity", &highest));
    page.heading("Load per box");
    for Named { name, result } in passes {
        let lines: Vec<Line> = box_ids
            .iter()
            .take(BOXES_DRAWN_MAX)
            .enumerate()
            .map(|(position, box_id)| Line {
                name: box_id.clone(),
                points: minutes(result, |loads| loads[position]),
            })
            .collect();
        page.chart(&line_chart(name, "minute", "use ÷ capacity", &lines));
    }
    if box_ids.len() > BOXES_DRAWN_MAX {
        page.note(&format!("The first {BOXES_DRAWN_MAX} of {} boxes are drawn.", box_ids.len()));
    }
    page.heading("Forecast against truth");
    forecast.iter().for_each(|chart| page.chart(chart));
    page.finish()
}

fn minutes(result: &PassResult, value: impl Fn(&[f64]) -> f64) -> Vec<(f64, f64)> {
    let first_ms = result.loads.first().map_or(0, |(at_ms, _)| *at_ms);
    result.loads.iter().map(|(at_ms, loads)| ((at_ms - first_ms) as f64 / 60_000.0, value(loads))).collect()
}
