//! The trained model: one predictor a horizon, each with one output a quantile.

use super::ensemble::Ensemble;
use super::features::{FEATURE_COUNT, FeatureRow};
use super::linear::Linear;
use super::{HORIZON_COUNT, HORIZONS_MS, QUANTILE_COUNT};

/// Why ensembles don't make a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// A predictor reads rows of another length than this build computes.
    #[error(
        "the predictor for {horizon_ms} ms reads {have} features, this build computes {FEATURE_COUNT}; train again with this build"
    )]
    FeatureCount {
        /// The horizon.
        horizon_ms: u64,
        /// Features it reads.
        have: usize,
    },
    /// A predictor gives another number of quantiles.
    #[error(
        "the predictor for {horizon_ms} ms has {have} outputs, needed are {QUANTILE_COUNT}; train again with this build"
    )]
    OutputCount {
        /// The horizon.
        horizon_ms: u64,
        /// Outputs it has.
        have: usize,
    },
    /// No horizon has a predictor.
    #[error("no horizon was trained; give the trainer more data")]
    Empty,
}

/// What forecasts one horizon.
#[derive(Debug, Clone, PartialEq)]
pub enum Predictor {
    /// Regression trees.
    Trees(Ensemble),
    /// A line.
    Linear(Linear),
}

impl From<Ensemble> for Predictor {
    fn from(ensemble: Ensemble) -> Self {
        Self::Trees(ensemble)
    }
}

impl From<Linear> for Predictor {
    fn from(linear: Linear) -> Self {
        Self::Linear(linear)
    }
}

impl Predictor {
    fn features(&self) -> usize {
        match self {
            Self::Trees(ensemble) => ensemble.features(),
            Self::Linear(linear) => linear.features(),
        }
    }

    fn outputs(&self) -> usize {
        match self {
            Self::Trees(ensemble) => ensemble.outputs(),
            Self::Linear(linear) => linear.outputs(),
        }
    }

    /// Evaluate one row into `out`, one value a quantile.
    pub fn predict_into(&self, row: &[f32], out: &mut [f32]) {
        match self {
            Self::Trees(ensemble) => ensemble.predict_into(row, out),
            Self::Linear(linear) => linear.predict_into(row, out),
        }
    }

    /// How much each feature is used: splits of trees, absolute weights of a line.
    #[must_use]
    pub fn importance(&self) -> Vec<f64> {
        match self {
            Self::Trees(ensemble) => ensemble.split_counts().into_iter().map(|count| count as f64).collect(),
            Self::Linear(linear) => linear.weights().iter().map(|weight| weight.abs()).collect(),
        }
    }
}

/// A trained forecast model; it holds no state of any series.
#[derive(Debug, Clone, PartialEq)]
pub struct ForecastModel {
    horizons: [Option<Predictor>; HORIZON_COUNT],
}

impl ForecastModel {
    /// A model of one predictor a trained horizon, in the order of [`HORIZONS_MS`].
    ///
    /// # Errors
    /// No predictor at all, or one with another number of features or outputs.
    pub fn new(horizons: [Option<impl Into<Predictor>>; HORIZON_COUNT]) -> Result<Self, ModelError> {
        let horizons = horizons.map(|predictor| predictor.map(Into::into));
        for (predictor, horizon_ms) in horizons.iter().zip(HORIZONS_MS) {
            let Some(predictor) = predictor else { continue };
            if predictor.features() != FEATURE_COUNT {
                return Err(ModelError::FeatureCount { horizon_ms, have: predictor.features() });
            }
            if predictor.outputs() != QUANTILE_COUNT {
                return Err(ModelError::OutputCount { horizon_ms, have: predictor.outputs() });
            }
        }
        if horizons.iter().all(Option::is_none) {
            return Err(ModelError::Empty);
        }
        Ok(Self { horizons })
    }

    /// The predictor of one horizon, where it was trained.
    #[must_use]
    pub fn predictor(&self, horizon: usize) -> Option<&Predictor> {
        self.horizons.get(horizon).and_then(Option::as_ref)
    }

    /// Raw outputs (ascending, in units of the row's scale, relative to its newest sample); `None` where the horizon
    /// was not trained or gives no number.
    #[must_use]
    pub fn outputs(&self, horizon: usize, values: &[f32]) -> Option<[f32; QUANTILE_COUNT]> {
        let mut out = [0.0; QUANTILE_COUNT];
        self.predictor(horizon)?.predict_into(values, &mut out);
        // Sorting is the monotone rearrangement: quantiles never cross.
        out.sort_by(f32::total_cmp);
        out.iter().all(|value| value.is_finite()).then_some(out)
    }

    /// The quantiles in the series' unit; `None` where the horizon was not trained or gives no number.
    #[must_use]
    pub fn predict(&self, horizon: usize, row: &FeatureRow) -> Option<[f64; QUANTILE_COUNT]> {
        let outputs = self.outputs(horizon, &row.values)?;
        let values = outputs.map(|output| row.current + row.scale * f64::from(output));
        values.iter().all(|value| value.is_finite()).then_some(values)
    }
}
