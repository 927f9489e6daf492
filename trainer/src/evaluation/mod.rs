//! Training rows and walk-forward evaluation of forecasts, both through the state that the server uses.

pub mod cpu;
pub mod rows;
pub mod summary;
pub mod walk;

use anyhow::{Context, bail};
use berth_datasets::LoadSeries;

/// The last part of a series, held out from training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// Length of the held-out part.
    pub holdout_ms: u64,
    /// Samples of this length at the end are left out altogether: a rolling origin, for choosing settings.
    pub skip_ms: u64,
}

/// Milliseconds of a day.
pub const DAY_MS: u64 = 86_400_000;

/// The samples of a series that an evaluation may use, with where the held-out part begins.
#[derive(Debug, Clone, Copy)]
pub struct Span<'a> {
    /// Stamps (UTC, epoch milliseconds) and values, in order.
    pub points: &'a [(u64, f64)],
    /// The last instant of the training part.
    pub cut_ms: u64,
    /// Median gap between samples.
    pub cadence_ms: u64,
}

/// A series as the evaluation reads it: stamps in unsigned milliseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct TimedSeries {
    /// The set.
    pub set: String,
    /// Set-wide unique name.
    pub name: String,
    /// Stamps (UTC, epoch milliseconds) and values, in order.
    pub points: Vec<(u64, f64)>,
}

impl TimedSeries {
    /// Take a series over; points before 1970 have no place in it and are counted.
    #[must_use]
    pub fn new(series: &LoadSeries) -> (Self, usize) {
        let points: Vec<(u64, f64)> = series
            .points
            .iter()
            .filter_map(|point| Some((u64::try_from(point.at_ms).ok()?, point.value)))
            .collect();
        let left_out = series.points.len() - points.len();
        let name = match series.dimension.as_str() {
            "value" => series.name.clone(),
            dimension => format!("{}/{dimension}", series.name),
        };
        (Self { set: series.set.clone(), name, points }, left_out)
    }

    /// The part an evaluation may use; `None` when fewer than two samples are left.
    #[must_use]
    pub fn span(&self, split: &Split) -> Option<Span<'_>> {
        let last_ms = self.points.last()?.0.checked_sub(split.skip_ms)?;
        let end = self.points.partition_point(|point| point.0 <= last_ms);
        let points = &self.points[..end];
        let last_ms = points.last()?.0;
        let mut gaps: Vec<u64> = points.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        gaps.sort_unstable();
        let cadence_ms = *gaps.get(gaps.len() / 2)?;
        Some(Span { points, cut_ms: last_ms.saturating_sub(split.holdout_ms), cadence_ms })
    }
}

impl Span<'_> {
    /// The sample nearest to `at_ms` within half a cadence.
    #[must_use]
    pub fn near(&self, at_ms: u64) -> Option<f64> {
        self.nearest(at_ms, self.cadence_ms / 2)
    }

    /// What came true of a forecast made at `at_ms`: the sample nearest to its target time within half a cadence,
    /// and within half the horizon, so that a series slower than the horizon has no truth instead of its own past.
    #[must_use]
    pub fn truth(&self, at_ms: u64, horizon_ms: u64) -> Option<f64> {
        self.nearest(at_ms + horizon_ms, (self.cadence_ms / 2).min(horizon_ms / 2))
    }

    fn nearest(&self, at_ms: u64, tolerance_ms: u64) -> Option<f64> {
        let after = self.points.partition_point(|point| point.0 < at_ms);
        let candidates = [after.checked_sub(1), Some(after)];
        candidates
            .into_iter()
            .flatten()
            .filter_map(|index| self.points.get(index))
            .map(|point| (point.0.abs_diff(at_ms), point.1))
            .filter(|(away, _)| *away <= tolerance_ms)
            .min_by_key(|(away, _)| *away)
            .map(|(_, value)| value)
    }
}

/// Parse a length of time such as `1d`, `12h`, `30m` or `90s` into milliseconds.
///
/// # Errors
/// Another form, or a length beyond ten years.
pub fn parse_duration_ms(text: &str) -> anyhow::Result<u64> {
    let split = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: u64 =
        number.parse().with_context(|| format!("`{text}` is not a length of time like 1d or 12h"))?;
    let unit_ms = match unit {
        "d" => DAY_MS,
        "h" => 3_600_000,
        "m" => 60_000,
        "s" => 1_000,
        _ => bail!("`{text}` needs one of the units d, h, m, s, as in 1d or 12h"),
    };
    match number.checked_mul(unit_ms) {
        Some(length_ms) if length_ms <= 3_650 * DAY_MS => Ok(length_ms),
        _ => bail!("`{text}` is longer than ten years"),
    }
}

#[cfg(test)]
mod tests;
