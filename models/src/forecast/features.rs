//! The features of a forecast: one list, computed here alone, from a series' past, for training and serving.
//!
//! Values are differences from the newest sample in units of the series' own running scale, so one model serves
//! series of any size. What the history does not reach is NaN, which the ensemble routes as it was trained to.

use std::sync::LazyLock;

use sha2::{Digest, Sha256};

use super::adaptive::{Adaptive, REGRESSOR_COUNT, Regressors};
use super::history::{DAY_MINUTES, History, MINUTE_MS};
use super::naive::{NAIVE_COUNT, NaiveKind};
use super::week::DAYS;

/// Version of the meaning of the features; a change of meaning without a change of names must raise it.
const SCHEMA_VERSION: u32 = 1;
/// Minutes back of single values.
const LAGS: [u64; 14] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 45];
/// Minutes of the windows that end now.
const WINDOWS: [u64; 9] = [3, 5, 10, 15, 30, 60, 120, 360, DAY_MINUTES];
/// Windows whose spread is a feature (indices into [`WINDOWS`]).
const SPREADS: [usize; 5] = [1, 3, 5, 7, 8];
/// Windows whose minimum and maximum are features (indices into [`WINDOWS`]).
const EXTREMES: [usize; 4] = [2, 3, 5, 8];
/// Offsets in minutes around "a day before the target".
const DAY_AGO_OFFSETS: [i64; 11] = [-10, -5, -3, -2, -1, 0, 1, 2, 3, 5, 10];
/// Periods in minutes: the value one period before the target, and the change over it one period before.
const PERIODS: [u64; 8] = [10, 15, 20, 30, 60, 120, 180, 720];
/// Hours over which "the change at this minute of the hour" is averaged.
const HOUR_PROFILES: [u64; 3] = [3, 8, 23];
/// Features of the same time on other days, from five-minute means.
const OTHER_DAYS: [&str; 7] = [
    "two_days_ago",
    "two_days_ago_level",
    "week_ago_level",
    "days_mean",
    "days_level",
    "days_change",
    "days_count",
];
/// Features that describe the series and the target's place in the calendar.
const CONTEXT: [&str; 9] = [
    "level_in_scale",
    "scale_in_level",
    "previous_sample",
    "trend_5m",
    "cadence_minutes",
    "history_hours",
    "target_minute_of_day",
    "target_minute_of_hour",
    "target_day_of_week",
];

/// Number of features of one row.
pub const FEATURE_COUNT: usize = CONTEXT.len()
    + LAGS.len()
    + WINDOWS.len()
    + SPREADS.len()
    + 2 * EXTREMES.len()
    + DAY_AGO_OFFSETS.len()
    + 5
    + 2 * PERIODS.len()
    + HOUR_PROFILES.len()
    + OTHER_DAYS.len()
    + 1
    + NAIVE_COUNT;
/// What the adaptive forecaster sees, after a constant.
const REGRESSORS: [&str; REGRESSOR_COUNT - 1] = [
    "lag_1m",
    "lag_5m",
    "mean_5m",
    "mean_15m",
    "mean_60m",
    "mean_1440m",
    "day_ago_change",
    "day_ago_level",
    "period_60m_change",
    "hour_profile_23h",
    "period_30m_change",
    "days_change",
    "days_level",
    "week_ago_level",
    "previous_sample",
];
/// A regressor beyond this many scales counts as this.
const REGRESSOR_MAX: f32 = 10.0;

/// Names of the features, in the order of a row.
#[must_use]
pub fn feature_names() -> &'static [String] {
    static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let mut names: Vec<String> = CONTEXT.iter().map(|name| (*name).to_owned()).collect();
        names.extend(LAGS.iter().map(|minutes| format!("lag_{minutes}m")));
        names.extend(WINDOWS.iter().map(|minutes| format!("mean_{minutes}m")));
        names.extend(SPREADS.iter().map(|&index| format!("spread_{}m", WINDOWS[index])));
        for &index in &EXTREMES {
            names.push(format!("min_{}m", WINDOWS[index]));
            names.push(format!("max_{}m", WINDOWS[index]));
        }
        names.extend(DAY_AGO_OFFSETS.iter().map(|offset| format!("day_ago_{offset:+}m")));
        names.extend(
            ["day_ago_mean_5m", "day_ago_mean_15m", "day_ago_change", "day_ago_level", "day_ago_drift"]
                .map(str::to_owned),
        );
        for period in PERIODS {
            names.push(format!("period_{period}m_value"));
            names.push(format!("period_{period}m_change"));
        }
        names.extend(HOUR_PROFILES.iter().map(|hours| format!("hour_profile_{hours}h")));
        names.extend(OTHER_DAYS.map(str::to_owned));
        names.push("adaptive_change".to_owned());
        names.extend(NaiveKind::ALL.iter().map(|kind| format!("recent_error_{}", kind.name())));
        names
    });
    &NAMES
}

/// SHA-256 of the feature list: a bundle trained on another list is refused.
#[must_use]
pub fn schema_hash() -> String {
    let text = format!("berth-forecast-features {SCHEMA_VERSION}\n{}", feature_names().join("\n"));
    format!("{:x}", Sha256::digest(text.as_bytes()))
}

/// The features of one series for one horizon, with what turns an output back into a value.
#[derive(Debug, Clone, PartialEq)]
pub struct FeatureRow {
    /// One value a feature, NaN where missing, in the order of [`feature_names`].
    pub values: [f32; FEATURE_COUNT],
    /// The newest sample: what an output is added to.
    pub current: f64,
    /// The series' running scale: what an output is multiplied by; positive.
    pub scale: f64,
    pub(super) regressors: Regressors,
}

/// Statistics of the windows that end at the newest minute.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Windows {
    mean: [f64; WINDOWS.len()],
    spread: [f64; WINDOWS.len()],
    min: [f64; WINDOWS.len()],
    max: [f64; WINDOWS.len()],
    /// Mean of the quarter of an hour that ended a day before the newest minute.
    pub(super) day_ago_quarter: f64,
    /// This time on the days before, the nearest first.
    days: [DayPast; DAYS as usize],
}

/// What a day before says about now.
#[derive(Debug, Clone, Copy, PartialEq)]
struct DayPast {
    now: f64,
    /// Over the quarter of an hour that ended at this time of that day.
    quarter: f64,
}

impl DayPast {
    fn new(history: &History, now_ms: u64, day: u64) -> Self {
        let back = |before_ms: u64| match now_ms.checked_sub(day * DAY_MINUTES * MINUTE_MS + before_ms) {
            Some(then_ms) => history.week().value(then_ms),
            None => f64::NAN,
        };
        let thirds = [2, 7, 12].map(|minutes| back(minutes * MINUTE_MS));
        Self { now: back(0), quarter: thirds.iter().sum::<f64>() / 3.0 }
    }
}

impl Windows {
    /// One pass backward over the last day.
    pub(super) fn new(history: &History) -> Self {
        let nan = [f64::NAN; WINDOWS.len()];
        let unknown = DayPast { now: f64::NAN, quarter: f64::NAN };
        let mut windows = Self {
            mean: nan,
            spread: nan,
            min: nan,
            max: nan,
            day_ago_quarter: f64::NAN,
            days: [unknown; DAYS as usize],
        };
        let Some(last) = history.last() else {
            return windows;
        };
        let newest = history.newest_minute();
        let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
        let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
        let mut window = 0;
        for back in 0..DAY_MINUTES {
            let value = newest.checked_sub(back).map_or(f64::NAN, |minute| history.minute(minute));
            if !value.is_nan() {
                // Differences from the newest value keep the sum of squares exact at any level.
                let difference = value - last.value;
                count += 1.0;
                sum += difference;
                squares += difference * difference;
                min = min.min(difference);
                max = max.max(difference);
            }
            if back + 1 == WINDOWS[window] {
                if count > 0.0 {
                    let mean = sum / count;
                    windows.mean[window] = last.value + mean;
                    windows.spread[window] = (squares / count - mean * mean).max(0.0).sqrt();
                    windows.min[window] = last.value + min;
                    windows.max[window] = last.value + max;
                }
                window += 1;
            }
        }
        windows.days = std::array::from_fn(|index| DayPast::new(history, last.at_ms, index as u64 + 1));
        if let Some(day_ago) = newest.checked_sub(DAY_MINUTES) {
            windows.day_ago_quarter = history.mean(day_ago.saturating_sub(14), day_ago);
        }
        windows
    }

    pub(super) fn mean_ten(&self) -> f64 {
        self.mean[2]
    }

    pub(super) fn mean_quarter(&self) -> f64 {
        self.mean[3]
    }

    pub(super) fn mean_day(&self) -> f64 {
        self.mean[WINDOWS.len() - 1]
    }

    /// Size of the series' values over the last day.
    pub(super) fn level(&self) -> f64 {
        self.mean_day().abs()
    }
}

/// Appends features in order; the tests hold the order to the names.
struct Row {
    values: [f32; FEATURE_COUNT],
    length: usize,
    current: f64,
    scale: f64,
}

impl Row {
    fn push(&mut self, value: f64) {
        // Trees refuse infinities; a ratio that overflowed is as good as missing.
        self.values[self.length] = if value.is_finite() { value as f32 } else { f32::NAN };
        self.length += 1;
    }

    /// A value of the series, as the difference from the newest sample.
    fn push_value(&mut self, value: f64) {
        self.push((value - self.current) / self.scale);
    }

    /// A width, a change or an error, in units of the scale.
    fn push_width(&mut self, width: f64) {
        self.push(width / self.scale);
    }
}

/// What a row is computed from.
pub(super) struct Source<'a> {
    pub(super) history: &'a History,
    pub(super) windows: &'a Windows,
    /// Positive.
    pub(super) scale: f64,
    /// Recent absolute errors of the naive forecasts at this horizon, NaN before any was scored.
    pub(super) naive_errors: [f64; NAIVE_COUNT],
    pub(super) adaptive: &'a Adaptive,
}

/// The features for `horizon_ms` after the newest sample; `None` without a sample.
pub(super) fn compute(source: &Source<'_>, horizon_ms: u64) -> Option<FeatureRow> {
    let last = source.history.last()?;
    let mut row =
        Row { values: [f32::NAN; FEATURE_COUNT], length: 0, current: last.value, scale: source.scale };
    let target_minute = (last.at_ms + horizon_ms) / MINUTE_MS;
    push_context(&mut row, source, target_minute);
    push_past(&mut row, source);
    push_day_ago(&mut row, source, target_minute);
    push_periods(&mut row, source, target_minute);
    push_other_days(&mut row, source, last.at_ms + horizon_ms);
    let regressors = regressors(&row);
    row.push(source.adaptive.forecast(&regressors));
    for error in source.naive_errors {
        row.push_width(error);
    }
    debug_assert_eq!(row.length, FEATURE_COUNT);
    Some(FeatureRow { values: row.values, current: row.current, scale: row.scale, regressors })
}

fn push_other_days(row: &mut Row, source: &Source<'_>, target_ms: u64) {
    let Source { history, windows, .. } = source;
    let (mut value, mut level, mut change) =
        ([f64::NAN; DAYS as usize], [f64::NAN; DAYS as usize], [f64::NAN; DAYS as usize]);
    for (index, past) in windows.days.iter().enumerate() {
        let back_ms = (index as u64 + 1) * DAY_MINUTES * MINUTE_MS;
        if let Some(then_ms) = target_ms.checked_sub(back_ms) {
            value[index] = history.week().value(then_ms);
            level[index] = value[index] + windows.mean_quarter() - past.quarter;
            change[index] = value[index] - past.now;
        }
    }
    row.push_value(value[1]);
    row.push_value(level[1]);
    row.push_value(level[6]);
    row.push_value(mean_known(&value));
    row.push_value(mean_known(&level));
    row.push_width(mean_known(&change));
    row.push(level.iter().filter(|value| !value.is_nan()).count() as f64);
}

/// Mean of the values that are known; NaN when none is.
fn mean_known(values: &[f64]) -> f64 {
    let known = || values.iter().filter(|value| !value.is_nan());
    known().sum::<f64>() / known().count() as f64
}

fn regressors(row: &Row) -> Regressors {
    static INDICES: LazyLock<Vec<usize>> = LazyLock::new(|| {
        let index = |name: &&str| feature_names().iter().position(|known| known == name);
        REGRESSORS.iter().filter_map(index).collect()
    });
    let mut regressors = [1.0; REGRESSOR_COUNT];
    for (regressor, &index) in regressors[1..].iter_mut().zip(INDICES.iter()) {
        let value = row.values[index];
        *regressor = if value.is_nan() { 0.0 } else { value.clamp(-REGRESSOR_MAX, REGRESSOR_MAX) };
    }
    regressors
}

fn push_context(row: &mut Row, source: &Source<'_>, target_minute: u64) {
    let Source { history, windows, scale, .. } = source;
    let minute_ms = MINUTE_MS as f64;
    row.push(row.current / scale);
    row.push(scale / windows.level());
    row.push_value(history.recent(1).map_or(f64::NAN, |sample| sample.value));
    row.push_width(windows.mean[1] - windows.mean[2]);
    row.push(history.cadence_ms() / minute_ms);
    row.push((history.span_ms() as f64 / (60.0 * minute_ms)).min(48.0));
    row.push((target_minute % DAY_MINUTES) as f64);
    row.push((target_minute % 60) as f64);
    // 1970-01-01 was a Thursday; Monday is 0.
    row.push(((target_minute / DAY_MINUTES + 3) % 7) as f64);
}

fn push_past(row: &mut Row, source: &Source<'_>) {
    let Source { history, windows, .. } = source;
    let newest = history.newest_minute();
    for minutes in LAGS {
        row.push_value(newest.checked_sub(minutes).map_or(f64::NAN, |minute| history.near(minute)));
    }
    for mean in windows.mean {
        row.push_value(mean);
    }
    for index in SPREADS {
        row.push_width(windows.spread[index]);
    }
    for index in EXTREMES {
        row.push_value(windows.min[index]);
        row.push_value(windows.max[index]);
    }
}

fn push_day_ago(row: &mut Row, source: &Source<'_>, target_minute: u64) {
    let Source { history, windows, .. } = source;
    let Some(target) = target_minute.checked_sub(DAY_MINUTES).filter(|minute| *minute > 60) else {
        row.length += DAY_AGO_OFFSETS.len() + 5;
        return;
    };
    for offset in DAY_AGO_OFFSETS {
        row.push_value(history.near(target.saturating_add_signed(offset)));
    }
    let around = history.mean(target - 2, target + 2);
    row.push_value(around);
    row.push_value(history.mean(target - 7, target + 7));
    row.push_width(around - history.near(history.newest_minute() - DAY_MINUTES));
    row.push_value(around + windows.mean_quarter() - windows.day_ago_quarter);
    row.push_width(windows.mean_quarter() - windows.day_ago_quarter);
}

fn push_periods(row: &mut Row, source: &Source<'_>, target_minute: u64) {
    let history = source.history;
    let newest = history.newest_minute();
    let change = |period: u64| match (target_minute.checked_sub(period), newest.checked_sub(period)) {
        (Some(target), Some(origin)) if target <= newest => history.near(target) - history.near(origin),
        _ => f64::NAN,
    };
    for period in PERIODS {
        let value = target_minute.checked_sub(period).map_or(f64::NAN, |minute| history.near(minute));
        row.push_value(value);
        row.push_width(change(period));
    }
    let mut hours_done = 0;
    let (mut sum, mut count) = (0.0, 0.0);
    for hours in HOUR_PROFILES {
        while hours_done < hours {
            hours_done += 1;
            let value = change(60 * hours_done);
            if !value.is_nan() {
                sum += value;
                count += 1.0;
            }
        }
        row.push_width(if count > 0.0 { sum / count } else { f64::NAN });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_count_agree_and_are_unique() {
        let mut names = feature_names().to_vec();
        assert_eq!(names.len(), FEATURE_COUNT);
        assert!(REGRESSORS.iter().all(|name| names.iter().any(|known| known == name)));
        names.sort();
        names.dedup();
        assert_eq!(names.len(), FEATURE_COUNT);
    }
}
