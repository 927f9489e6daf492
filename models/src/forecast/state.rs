//! The state of one series: fed samples, asked for forecasts, scoring them as truth arrives.

use serde::{Deserialize, Serialize};

use super::features::{self, FeatureRow, Source, Windows};
use super::guard::{Candidates, Guard};
use super::history::{History, MINUTE_MS, Sample};
use super::model::ForecastModel;
use super::naive::{self, NAIVE_COUNT, NaiveKind};
use super::{HORIZON_COUNT, HORIZONS_MS, QUANTILE_COUNT};

/// Time constant of the running scale.
const SCALE_MS: f64 = 12.0 * 3_600_000.0;
/// Minutes over which the change is taken whose running mean is the scale.
const SCALE_CHANGE_MINUTES: u64 = 5;
/// The scale is never below this share of the level, so that a constant series has one.
const SCALE_FLOOR: f64 = 1e-3;
/// Time constant of the exponentially weighted mean: 0.3 of a sample a minute after the one before.
const EWMA_MS: f64 = 168_000.0;
/// A horizon counts as longer than the cadence from this share of it on, so jitter does not switch it on and off.
const CADENCE_SHARE: f64 = 0.75;

/// What became of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed {
    /// It was taken.
    Accepted {
        /// Forecasts that were scored by it.
        scored: u32,
        /// Forecasts that came due without a sample near their target time.
        missed: u32,
    },
    /// Its stamp is not after the last one: ignored.
    NotAfterLast,
    /// Its value is NaN or infinite: ignored.
    NotFinite,
}

/// Whose value a forecast mostly is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForecastSource {
    /// The model counts for half or more.
    Model,
    /// A naive forecast counts for more than half.
    Naive(NaiveKind),
}

/// The forecast for one horizon, in the unit of the samples; `p50 <= p90 <= p99`, all finite.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HorizonForecast {
    /// Median.
    pub p50: f64,
    /// Exceeded one time in ten.
    pub p90: f64,
    /// Exceeded one time in a hundred.
    pub p99: f64,
    /// Whose value it mostly is.
    pub source: ForecastSource,
    /// How much the model counts, 0 to 1.
    pub model_weight: f64,
}

/// The forecasts of one series.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SeriesForecast {
    /// Stamp of the newest sample, from which the horizons count; UTC, epoch milliseconds.
    pub at_ms: u64,
    /// In the order of [`HORIZONS_MS`].
    pub horizons: [HorizonForecast; HORIZON_COUNT],
}

/// What went into the forecast of one horizon, for training, evaluation and explanation.
#[derive(Debug, Clone, PartialEq)]
pub struct Detail {
    /// The features.
    pub row: FeatureRow,
    /// The naive forecasts in the order of [`NaiveKind::ALL`]; NaN where the history does not reach.
    pub naive: [f64; NAIVE_COUNT],
    /// The model alone, before the guard.
    pub model: Option<[f64; QUANTILE_COUNT]>,
}

/// Bounded history and running statistics of one series (one dimension of one box).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeriesState {
    history: History,
    ewma: f64,
    scale_sum: f64,
    scale_weight: f64,
    guards: [Guard; HORIZON_COUNT],
}

impl Default for SeriesState {
    fn default() -> Self {
        Self::new()
    }
}

impl SeriesState {
    /// A series without a sample.
    #[must_use]
    pub fn new() -> Self {
        Self {
            history: History::new(),
            ewma: 0.0,
            scale_sum: 0.0,
            scale_weight: 0.0,
            guards: std::array::from_fn(|_| Guard::default()),
        }
    }

    /// The past of the series.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Feed one sample: `value` in any unit (normalised by capacity or raw), `at_ms` UTC epoch milliseconds.
    ///
    /// Scores every forecast that has come due, of the model and of the naive ones, and updates the guard.
    pub fn observe(&mut self, at_ms: u64, value: f64) -> Observed {
        if !value.is_finite() {
            return Observed::NotFinite;
        }
        let Some(last) = self.history.last() else {
            self.history.push(Sample { at_ms, value });
            self.ewma = value;
            return Observed::Accepted { scored: 0, missed: 0 };
        };
        if at_ms <= last.at_ms {
            return Observed::NotAfterLast;
        }
        self.history.push(Sample { at_ms, value });
        let gap_ms = (at_ms - last.at_ms) as f64;
        self.ewma += (1.0 - libm::exp(-gap_ms / EWMA_MS)) * (value - self.ewma);
        self.learn_scale(at_ms, value, gap_ms);
        let tolerance_ms = (self.history.cadence_ms() / 2.0) as u64;
        let (mut scored, mut missed) = (0, 0);
        for (guard, horizon_ms) in self.guards.iter_mut().zip(HORIZONS_MS) {
            // Nearer to the origin than to the target is no truth, however slow the series.
            let tolerance_ms = tolerance_ms.min(horizon_ms / 2);
            let counts = guard.score((last.at_ms, last.value), (at_ms, value), tolerance_ms);
            scored += counts.0;
            missed += counts.1;
        }
        Observed::Accepted { scored, missed }
    }

    fn learn_scale(&mut self, at_ms: u64, value: f64, gap_ms: f64) {
        let minute = (at_ms / MINUTE_MS).saturating_sub(SCALE_CHANGE_MINUTES);
        let change = (value - self.history.near(minute)).abs();
        if change.is_finite() {
            let keep = libm::exp(-gap_ms / SCALE_MS);
            self.scale_sum = self.scale_sum * keep + change * (1.0 - keep);
            self.scale_weight = self.scale_weight * keep + (1.0 - keep);
        }
    }

    /// The unit of the features: the running mean change over five minutes, with a floor.
    fn scale(&self, windows: &Windows) -> f64 {
        let change = if self.scale_weight > 0.0 { self.scale_sum / self.scale_weight } else { 0.0 };
        change.max(SCALE_FLOOR * windows.level()).max(f64::MIN_POSITIVE.sqrt())
    }

    /// Forecast every horizon from the newest sample, and remember it for scoring; `None` before any sample.
    ///
    /// Without a model the best naive forecast of the series' own recent past is given.
    pub fn predict(&mut self, model: Option<&ForecastModel>) -> Option<SeriesForecast> {
        self.predict_detailed(model, |_, _| ())
    }

    /// [`Self::predict`], showing what went into every horizon that was forecast itself (not interpolated).
    pub fn predict_detailed(
        &mut self,
        model: Option<&ForecastModel>,
        mut show: impl FnMut(usize, &Detail),
    ) -> Option<SeriesForecast> {
        let last = self.history.last()?;
        let windows = Windows::new(&self.history);
        let mut forecasts = [None; HORIZON_COUNT];
        for (horizon, given) in forecasts.iter_mut().enumerate() {
            if self.is_direct(horizon, model) {
                let detail = self.detail(horizon, &windows, model)?;
                show(horizon, &detail);
                *given = Some(self.forecast(horizon, last, &detail));
            }
        }
        Some(SeriesForecast { at_ms: last.at_ms, horizons: interpolate(last.value, &forecasts)? })
    }

    /// Whether a horizon is forecast itself. The last one always is.
    fn is_direct(&self, horizon: usize, model: Option<&ForecastModel>) -> bool {
        let long = HORIZONS_MS[horizon] as f64 >= CADENCE_SHARE * self.history.cadence_ms();
        let trained = model.is_none_or(|model| model.predictor(horizon).is_some());
        horizon + 1 == HORIZON_COUNT || (long && trained)
    }

    fn detail(&self, horizon: usize, windows: &Windows, model: Option<&ForecastModel>) -> Option<Detail> {
        let horizon_ms = HORIZONS_MS[horizon];
        let source = Source {
            history: &self.history,
            windows,
            scale: self.scale(windows),
            naive_errors: self.guards[horizon].naive_errors(),
            adaptive: &self.guards[horizon].adaptive,
        };
        let row = features::compute(&source, horizon_ms)?;
        let adaptive = row.current + row.scale * self.guards[horizon].adaptive.forecast(&row.regressors);
        let naive = naive::forecast_all(&self.history, windows, self.ewma, adaptive, horizon_ms);
        let model = model.and_then(|model| model.predict(horizon, &row));
        Some(Detail { row, naive, model })
    }

    fn forecast(&mut self, horizon: usize, last: Sample, detail: &Detail) -> HorizonForecast {
        let candidates = Candidates {
            current: last.value,
            naive: detail.naive,
            model: detail.model,
            scale: detail.row.scale,
            regressors: detail.row.regressors,
        };
        let guard = &mut self.guards[horizon];
        let combined = guard.combine(&candidates);
        guard.record(last.at_ms + HORIZONS_MS[horizon], HORIZONS_MS[horizon], &candidates, &combined);
        let [p50, p90, p99] = combined.quantiles;
        let source = if combined.model_weight >= 0.5 {
            ForecastSource::Model
        } else {
            ForecastSource::Naive(combined.naive)
        };
        HorizonForecast { p50, p90, p99, source, model_weight: combined.model_weight }
    }
}

/// Fill the horizons that have no forecast of their own from the newest sample and the next one that has.
fn interpolate(
    current: f64,
    forecasts: &[Option<HorizonForecast>; HORIZON_COUNT],
) -> Option<[HorizonForecast; HORIZON_COUNT]> {
    let mut next = (HORIZON_COUNT - 1, forecasts[HORIZON_COUNT - 1]?);
    let mut filled = [next.1; HORIZON_COUNT];
    for horizon in (0..HORIZON_COUNT).rev() {
        if let Some(forecast) = forecasts[horizon] {
            next = (horizon, forecast);
            filled[horizon] = forecast;
            continue;
        }
        let share = HORIZONS_MS[horizon] as f64 / HORIZONS_MS[next.0] as f64;
        let between = |value: f64| current + share * (value - current);
        filled[horizon] = HorizonForecast {
            p50: between(next.1.p50),
            p90: between(next.1.p90),
            p99: between(next.1.p99),
            ..next.1
        };
    }
    Some(filled)
}

#[cfg(test)]
mod tests;
