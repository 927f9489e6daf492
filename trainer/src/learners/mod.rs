//! One learner a file, behind one interface.

pub mod evolution;
pub mod hessboost;
pub mod policy;

use berth_models::forecast::FEATURE_COUNT;
use berth_models::forecast::ensemble::Ensemble;

/// Rows of one horizon: features, and targets in units of each row's scale relative to its newest sample.
#[derive(Debug, Clone, Default)]
pub struct TrainingSet {
    /// Row-major, [`FEATURE_COUNT`] values a row, NaN where missing.
    pub values: Vec<f32>,
    /// One a row.
    pub targets: Vec<f32>,
}

impl TrainingSet {
    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// The features of one row.
    #[must_use]
    pub fn row(&self, index: usize) -> &[f32] {
        &self.values[index * FEATURE_COUNT..(index + 1) * FEATURE_COUNT]
    }
}

/// What a learner made of the rows of one horizon.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The model in the form that the server evaluates.
    pub ensemble: Ensemble,
    /// Rows of features with the learner's own outputs for them, ascending.
    pub probes: Vec<(Vec<f32>, Vec<f32>)>,
}

/// Probes of one horizon.
pub const PROBES: usize = 24;

/// Fits quantiles of one horizon.
pub trait Learner {
    /// Name and settings, for the manifest.
    fn describe(&self) -> String;

    /// Fit one output a quantile; `progress` is called after every round with the rounds done.
    ///
    /// # Errors
    /// Rows the learner can't take, or a model that can't be exported.
    fn fit(
        &self,
        horizon: usize,
        rows: TrainingSet,
        progress: &(dyn Fn(usize) + Sync),
    ) -> anyhow::Result<Fitted>;

    /// Rounds of the fit of one horizon (an index into the horizons).
    fn rounds(&self, horizon: usize) -> usize;
}
