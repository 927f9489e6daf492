//! Line and bar charts as inline SVG.

use plotters::prelude::*;

const SIZE: (u32, u32) = (940, 320);
const PALETTE: [RGBColor; 6] = [
    RGBColor(31, 119, 180),
    RGBColor(214, 100, 20),
    RGBColor(44, 140, 60),
    RGBColor(160, 60, 160),
    RGBColor(120, 120, 120),
    RGBColor(190, 40, 50),
];

/// One line of a chart; points that are not finite are left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// For the legend.
    pub name: String,
    /// In drawing order.
    pub points: Vec<(f64, f64)>,
}

/// A shaded band: for every x a lower and an upper y.
#[derive(Debug, Clone, PartialEq)]
pub struct Band {
    /// For the legend.
    pub name: String,
    /// x, lower, upper, in drawing order.
    pub points: Vec<(f64, f64, f64)>,
}

/// Lines over common axes, as an `<svg>` element.
#[must_use]
pub fn line_chart(title: &str, x_label: &str, y_label: &str, lines: &[Line]) -> String {
    band_chart(title, x_label, y_label, lines, None)
}

/// [`line_chart`] over a shaded band.
#[must_use]
pub fn band_chart(title: &str, x_label: &str, y_label: &str, lines: &[Line], band: Option<&Band>) -> String {
    svg(|root| draw_lines(root, [title, x_label, y_label], lines, band))
}

/// Horizontal bars, the first on top, as an `<svg>` element.
#[must_use]
pub fn bar_chart(title: &str, x_label: &str, bars: &[(String, f64)]) -> String {
    svg(|root| draw_bars(root, title, x_label, bars))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

fn svg(draw: impl FnOnce(&Area<'_>) -> Drawn) -> String {
    let mut text = String::new();
    let drawn = {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        draw(&root).and_then(|()| Ok(root.present()?))
    };
    match drawn {
        Ok(()) => text,
        Err(error) => {
            format!("<p>This chart could not be drawn: {}</p>", super::escape(&error.to_string()))
        }
    }
}

/// The range of values, widened a little; a single value gets room on both sides.
fn range(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (low, high) = values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low > high {
        return 0.0..1.0;
    }
    let margin = if high > low { 0.03 * (high - low) } else { high.abs().max(1.0) * 0.5 };
    low - margin..high + margin
}

fn draw_lines(
    root: &Area<'_>,
    [title, x_label, y_label]: [&str; 3],
    lines: &[Line],
    band: Option<&Band>,
) -> Drawn {
    root.fill(&WHITE)?;
    let points = || lines.iter().flat_map(|line| line.points.iter());
    let banded = || band.into_iter().flat_map(|band| band.points.iter());
    let x_range = range(points().map(|point| point.0).chain(banded().map(|point| point.0)));
    let y_range = range(points().map(|point| point.1).chain(banded().flat_map(|point| [point.1, point.2])));
    let mut chart = ChartBuilder::on(root)
        .caption(title, ("sans-serif", 16))
        .margin(8)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(x_range, y_range)?;
    chart.configure_mesh().x_desc(x_label).y_desc(y_label).light_line_style(WHITE).draw()?;
    if let Some(band) = band {
        let finite = band.points.iter().filter(|point| point.1.is_finite() && point.2.is_finite());
        let finite: Vec<_> = finite.collect();
        let lower = finite.iter().map(|point| (point.0, point.1));
        let outline: Vec<(f64, f64)> =
            lower.chain(finite.iter().rev().map(|point| (point.0, point.2))).collect();
        let color = PALETTE[0].mix(0.2);
        chart
            .draw_series(std::iter::once(Polygon::new(outline, color)))?
            .label(&band.name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 18, y + 5)], color.filled()));
    }
    for (index, line) in lines.iter().enumerate() {
        let color = PALETTE[index % PALETTE.len()];
        let finite = line.points.iter().copied().filter(|point| point.0.is_finite() && point.1.is_finite());
        chart
            .draw_series(LineSeries::new(finite, color.stroke_width(1)))?
            .label(&line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).draw()?;
    Ok(())
}

fn draw_bars(root: &Area<'_>, title: &str, x_label: &str, bars: &[(String, f64)]) -> Drawn {
    root.fill(&WHITE)?;
    let longest = bars.iter().map(|bar| bar.1).filter(|value| value.is_finite()).fold(0.0, f64::max);
    let count = bars.len().max(1);
    let mut chart = ChartBuilder::on(root)
        .caption(title, ("sans-serif", 16))
        .margin(8)
        .x_label_area_size(36)
        .y_label_area_size(170)
        .build_cartesian_2d(0.0..longest.max(f64::MIN_POSITIVE) * 1.05, 0.0..count as f64)?;
    let name =
        |y: &f64| bars.get(count - 1 - (*y as usize).min(count - 1)).map_or("", |bar| &bar.0).to_owned();
    chart.configure_mesh().disable_y_mesh().light_line_style(WHITE).x_desc(x_label).y_labels(0).draw()?;
    let plot = chart.plotting_area().clone();
    for (index, (_, value)) in bars.iter().enumerate() {
        let bottom = (count - 1 - index) as f64;
        plot.draw(&Rectangle::new(
            [(0.0, bottom + 0.15), (value.max(0.0), bottom + 0.85)],
            PALETTE[0].filled(),
        ))?;
        let (x, y) = plot.map_coordinate(&(0.0, bottom + 0.5));
        let style = ("sans-serif", 12).into_font().color(&BLACK);
        let right = plotters::style::text_anchor::Pos::new(
            plotters::style::text_anchor::HPos::Right,
            plotters::style::text_anchor::VPos::Center,
        );
        root.draw(&Text::new(name(&bottom), (x - 6, y), style.pos(right)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_are_svg_and_skip_what_is_not_finite() {
        let lines = [Line { name: "load".to_owned(), points: vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0)] }];
        let band = Band { name: "p50–p99".to_owned(), points: vec![(0.0, 0.5, 1.5), (2.0, 2.0, 4.0)] };
        let drawn = band_chart("Title", "hours", "cores", &lines, Some(&band));
        assert!(drawn.starts_with("<svg") && drawn.contains("Title") && !drawn.contains("NaN"), "{drawn}");
        let bars = bar_chart("Bars", "splits", &[("lag_1m".to_owned(), 3.0), ("lag_2m".to_owned(), 1.0)]);
        assert!(bars.starts_with("<svg") && bars.contains("lag_1m"), "{bars}");
        assert!(line_chart("Empty", "x", "y", &[]).starts_with("<svg"));
    }
}
