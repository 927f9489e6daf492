//! Offline reports: one HTML file with inline SVG, no script and nothing fetched.

pub mod chart;
pub mod compare;
pub mod forecast;

use std::fmt::Write;

const STYLE: &str = "body{font-family:sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#222}\
table{border-collapse:collapse;margin:1rem 0;display:block;overflow-x:auto}\
th,td{padding:.25rem .6rem;border-bottom:1px solid #ddd;text-align:right;white-space:nowrap}\
th:first-child,td:first-child{text-align:left}svg{max-width:100%;height:auto}.note{color:#666}";

/// A page put together from top to bottom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    html: String,
}

impl Page {
    /// A page with a title.
    #[must_use]
    pub fn new(title: &str) -> Self {
        let title = escape(title);
        let html = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
             <style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
        );
        Self { html }
    }

    /// A heading.
    pub fn heading(&mut self, text: &str) {
        // Writing to a string can't fail.
        let _ = writeln!(self.html, "<h2>{}</h2>", escape(text));
    }

    /// A paragraph.
    pub fn note(&mut self, text: &str) {
        let _ = writeln!(self.html, "<p class=\"note\">{}</p>", escape(text));
    }

    /// A chart of [`chart`].
    pub fn chart(&mut self, svg: &str) {
        let _ = writeln!(self.html, "{svg}");
    }

    /// A table; the first column is text, the others numbers.
    pub fn table(&mut self, header: &[&str], rows: &[Vec<String>]) {
        let cells = |cells: &mut dyn Iterator<Item = &str>, tag: &str| {
            cells.map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect::<String>()
        };
        let _ = writeln!(self.html, "<table><tr>{}</tr>", cells(&mut header.iter().copied(), "th"));
        for row in rows {
            let _ = writeln!(self.html, "<tr>{}</tr>", cells(&mut row.iter().map(String::as_str), "td"));
        }
        self.html.push_str("</table>\n");
    }

    /// The finished page.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.html.push_str("</body></html>\n");
        self.html
    }
}

/// Text as HTML shows it.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A number with three digits after the point, or a dash where there is none.
#[must_use]
pub fn three(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.3}"))
}
