//! Foresight: what stands in for learned forecasts where the future is known, in simulations.

use std::sync::Arc;

use super::{ForecastSource, HORIZONS_MS, HorizonForecast, SeriesForecast};

/// The background of a box to come, in shares of its capacity: box id, dimension (an index), time in
/// engine milliseconds, and the background now. Persistence gives the last back; a perfect forecast
/// looks it up. Like the model it is no event: whoever replays a log brings the same.
pub type Foresight = Arc<dyn Fn(&str, usize, u64, f64) -> f64 + Send + Sync>;

/// The forecast that `foresight` makes for a box that was sampled at `at_ms`.
pub(crate) fn foresee(
    foresight: &Foresight,
    box_id: &str,
    dimension: usize,
    at_ms: u64,
    now: f64,
) -> SeriesForecast {
    let horizons = HORIZONS_MS.map(|horizon_ms| {
        let value = foresight(box_id, dimension, at_ms + horizon_ms, now);
        HorizonForecast {
            p50: value,
            p90: value,
            p99: value,
            source: ForecastSource::Model,
            model_weight: 1.0,
        }
    });
    SeriesForecast { at_ms, horizons }
}
