//! Forecast features, inference and the guard over them, fed event by event.
//!
//! A [`SeriesState`] is the bounded past of one series: one dimension of one box. It is fed samples, gives
//! forecasts, and scores each of them when its truth arrives, so how much a model counts follows its own recent
//! error on that very series. The trainer evaluates by feeding the same state, so offline and online figures are
//! figures of the same code.
//!
//! Four horizons are forecast, each with three quantiles. A horizon shorter than the series' cadence has no truth
//! to learn from or to be scored by, and a horizon the model was not trained for has no trees: both are
//! interpolated between the newest sample and the next horizon that is forecast itself.

mod adaptive;
pub mod ensemble;
mod features;
mod foresight;
mod guard;
mod history;
pub mod linear;
mod model;
mod naive;
pub(crate) mod packed;
mod state;
mod week;

pub use features::{FEATURE_COUNT, FeatureRow, feature_names, schema_hash};
pub use foresight::Foresight;
pub(crate) use foresight::foresee;
pub use history::{History, MINUTE_MS, Sample};
pub use model::{ForecastModel, ModelError, Predictor};
pub use naive::{NAIVE_COUNT, NaiveKind};
pub use state::{Detail, ForecastSource, HorizonForecast, Observed, SeriesForecast, SeriesState};

/// Forecast horizons, in milliseconds after the newest sample.
pub const HORIZONS_MS: [u64; HORIZON_COUNT] = [30_000, 60_000, 120_000, 300_000];
/// Number of horizons.
pub const HORIZON_COUNT: usize = 4;
/// Quantiles of every forecast.
pub const QUANTILES: [f64; QUANTILE_COUNT] = [0.5, 0.9, 0.99];
/// Number of quantiles.
pub const QUANTILE_COUNT: usize = 3;
