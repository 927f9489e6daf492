//! Walk forward through a series event by event, as the server does, and hand out every scored forecast.

use berth_models::forecast::{
    Detail, ForecastModel, HORIZON_COUNT, HORIZONS_MS, HorizonForecast, NAIVE_COUNT, QUANTILE_COUNT,
    SeriesState,
};

use super::{DAY_MS, Span};

/// One forecast whose truth and day-ago value are known.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// When it was made; UTC, epoch milliseconds.
    pub at_ms: u64,
    /// Index into [`HORIZONS_MS`].
    pub horizon: usize,
    /// The sample nearest to the target time, within half a cadence.
    pub truth: f64,
    /// The sample a day before the target time, within half a cadence.
    pub day_ago: f64,
    /// What was given: the guarded forecast.
    pub given: HorizonForecast,
    /// The naive forecasts.
    pub naive: [f64; NAIVE_COUNT],
    /// The model without the guard.
    pub model: Option<[f64; QUANTILE_COUNT]>,
}

/// What a walk left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Forecasts of the held-out part without a sample at the target time.
    pub without_truth: usize,
    /// Forecasts with truth but without a sample a day before the target time.
    pub without_day_ago: usize,
}

/// Walk through `span` and hand out every forecast made after `from_ms`, for every horizon that is forecast itself.
///
/// The model is used from the cut on, as when an artifact is loaded into a running server: before it, only the
/// naive forecasts are scored, so the guard knows nothing of how the model does on data it was trained on.
/// `left_out` counts forecasts after the cut for the last horizon.
pub fn walk(
    span: &Span<'_>,
    model: Option<&ForecastModel>,
    from_ms: u64,
    mut each: impl FnMut(&Scored),
) -> LeftOut {
    let mut state = SeriesState::new();
    let mut left_out = LeftOut::default();
    for &(at_ms, value) in span.points {
        state.observe(at_ms, value);
        let mut details: [Option<Detail>; HORIZON_COUNT] = Default::default();
        let in_use = model.filter(|_| at_ms > span.cut_ms);
        let Some(forecast) =
            state.predict_detailed(in_use, |horizon, detail| details[horizon] = Some(detail.clone()))
        else {
            continue;
        };
        if at_ms <= from_ms {
            continue;
        }
        for (horizon, detail) in details.iter().enumerate() {
            let Some(detail) = detail else { continue };
            let counts = horizon + 1 == HORIZON_COUNT && at_ms > span.cut_ms;
            let target_ms = at_ms + HORIZONS_MS[horizon];
            let Some(truth) = span.truth(at_ms, HORIZONS_MS[horizon]) else {
                left_out.without_truth += usize::from(counts);
                continue;
            };
            let Some(day_ago) = target_ms.checked_sub(DAY_MS).and_then(|day_ago_ms| span.near(day_ago_ms))
            else {
                left_out.without_day_ago += usize::from(counts);
                continue;
            };
            each(&Scored {
                at_ms,
                horizon,
                truth,
                day_ago,
                given: forecast.horizons[horizon],
                naive: detail.naive,
                model: detail.model,
            });
        }
    }
    left_out
}
