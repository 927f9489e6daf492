//! The trained model: one ensemble a horizon, each with one output a quantile.

use super::ensemble::Ensemble;
use super::features::{FEATURE_COUNT, FeatureRow};
use super::{HORIZON_COUNT, HORIZONS_MS, QUANTILE_COUNT};

/// Why ensembles don't make a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// An ensemble reads rows of another length than this build computes.
    #[error(
        "the ensemble for {horizon_ms} ms reads {have} features, this build computes {FEATURE_COUNT}; train again with this build"
    )]
    FeatureCount {
        /// The horizon.
        horizon_ms: u64,
        /// Features the ensemble reads.
        have: usize,
    },
    /// An ensemble gives another number of quantiles.
    #[error(
        "the ensemble for {horizon_ms} ms has {have} outputs, needed are {QUANTILE_COUNT}; train again with this build"
    )]
    OutputCount {
        /// The horizon.
        horizon_ms: u64,
        /// Outputs the ensemble has.
        have: usize,
    },
    /// No horizon has an ensemble.
    #[error("no horizon was trained; give the trainer more data")]
    Empty,
}

/// A trained forecast model; it holds no state of any series.
#[derive(Debug, Clone, PartialEq)]
pub struct ForecastModel {
    horizons: [Option<Ensemble>; HORIZON_COUNT],
}

impl ForecastModel {
    /// A model of one ensemble a trained horizon, in the order of [`HORIZONS_MS`].
    ///
    /// # Errors
    /// No ensemble at all, or one with another number of features or outputs.
    pub fn new(horizons: [Option<Ensemble>; HORIZON_COUNT]) -> Result<Self, ModelError> {
        for (ensemble, horizon_ms) in horizons.iter().zip(HORIZONS_MS) {
            let Some(ensemble) = ensemble else { continue };
            if ensemble.features() != FEATURE_COUNT {
                return Err(ModelError::FeatureCount { horizon_ms, have: ensemble.features() });
            }
            if ensemble.outputs() != QUANTILE_COUNT {
                return Err(ModelError::OutputCount { horizon_ms, have: ensemble.outputs() });
            }
        }
        if horizons.iter().all(Option::is_none) {
            return Err(ModelError::Empty);
        }
        Ok(Self { horizons })
    }

    /// The ensemble of one horizon, where it was trained.
    #[must_use]
    pub fn ensemble(&self, horizon: usize) -> Option<&Ensemble> {
        self.horizons.get(horizon).and_then(Option::as_ref)
    }

    /// Raw outputs (ascending, in units of the row's scale, relative to its newest sample); `None` where the horizon
    /// was not trained or gives no number.
    #[must_use]
    pub fn outputs(&self, horizon: usize, values: &[f32]) -> Option<[f32; QUANTILE_COUNT]> {
        let mut out = [0.0; QUANTILE_COUNT];
        self.ensemble(horizon)?.predict_into(values, &mut out);
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
