//! The forecasts that need no model, and that every model must beat.

use serde::{Deserialize, Serialize};

use super::features::Windows;
use super::history::{DAY_MINUTES, History, MINUTE_MS};

/// Number of naive forecasts.
pub const NAIVE_COUNT: usize = 7;

/// A forecast that needs no model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NaiveKind {
    /// The newest sample.
    Persistence,
    /// The mean of the last day.
    Mean,
    /// The mean of the last ten minutes.
    MovingAverage,
    /// An exponentially weighted mean (0.3 of a new sample a minute after the one before).
    Ewma,
    /// The value a day before the target time.
    DayAgo,
    /// The value a day before the target time, shifted by how the last quarter of an hour differs from yesterday's.
    DayAgoLevel,
    /// The small linear forecaster that learns while it runs.
    Adaptive,
}

impl NaiveKind {
    /// All of them, in the order of their indices.
    pub const ALL: [Self; NAIVE_COUNT] = [
        Self::Persistence,
        Self::Mean,
        Self::MovingAverage,
        Self::Ewma,
        Self::DayAgo,
        Self::DayAgoLevel,
        Self::Adaptive,
    ];

    /// Whether it is a baseline: a forecast that learns nothing.
    #[must_use]
    pub fn is_baseline(self) -> bool {
        self != Self::Adaptive
    }

    /// The name as it appears in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Persistence => "persistence",
            Self::Mean => "mean",
            Self::MovingAverage => "moving_average",
            Self::Ewma => "ewma",
            Self::DayAgo => "day_ago",
            Self::DayAgoLevel => "day_ago_level",
            Self::Adaptive => "adaptive",
        }
    }
}

/// Every naive forecast for `horizon_ms` after the newest sample; NaN where the history doesn't reach.
pub(super) fn forecast_all(
    history: &History,
    windows: &Windows,
    ewma: f64,
    adaptive: f64,
    horizon_ms: u64,
) -> [f64; NAIVE_COUNT] {
    let Some(last) = history.last() else {
        return [f64::NAN; NAIVE_COUNT];
    };
    let target_minute = (last.at_ms + horizon_ms) / MINUTE_MS;
    let day_ago = target_minute.checked_sub(DAY_MINUTES).map_or(f64::NAN, |minute| history.near(minute));
    [
        last.value,
        windows.mean_day(),
        windows.mean_ten(),
        ewma,
        day_ago,
        day_ago + (windows.mean_quarter() - windows.day_ago_quarter),
        adaptive,
    ]
}
