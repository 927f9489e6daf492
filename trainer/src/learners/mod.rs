//! One learner a file, behind one interface.

pub mod choose;
pub mod evolution;
pub mod hessboost;
mod line;
pub mod linfa_linear;
pub mod policy;
pub mod smartcore_ridge;

use berth_models::forecast::{FEATURE_COUNT, Predictor};

/// Rows of one horizon: features, and targets in units of each row's scale relative to its newest sample.
#[derive(Debug, Clone, Default)]
pub struct TrainingSet {
    /// Row-major, [`FEATURE_COUNT`] values a row, NaN where missing.
    pub values: Vec<f32>,
    /// One a row.
    pub targets: Vec<f32>,
    /// Whether the row's truth lies in the last fifth of its series' training part: what learners are judged on.
    pub is_late: Vec<bool>,
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

    /// The early rows, of which the last fifth becomes late, and the late ones.
    #[must_use]
    pub fn early_and_late(&self) -> (Self, Self) {
        let (mut early, mut late) = (Self::default(), Self::default());
        for index in 0..self.len() {
            let set = if self.is_late[index] { &mut late } else { &mut early };
            set.push(self.row(index), self.targets[index], false);
        }
        let first_late = early.len() - early.len() / 5;
        early.is_late[first_late..].fill(true);
        (early, late)
    }

    /// Append a row.
    pub fn push(&mut self, values: &[f32], target: f32, is_late: bool) {
        self.values.extend_from_slice(values);
        self.targets.push(target);
        self.is_late.push(is_late);
    }
}

/// What a learner made of the rows of one horizon.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The model in the form that the server evaluates.
    pub predictor: Predictor,
    /// Rows of features with the learner's own outputs for them, ascending.
    pub probes: Vec<(Vec<f32>, Vec<f32>)>,
}

/// Probes of one horizon.
pub const PROBES: usize = 24;

/// Fits quantiles of one horizon.
pub trait Learner {
    /// The name.
    fn name(&self) -> &'static str;

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
}

/// Rows from all over the training set, with every third feature taken out of every other one, and an empty row.
fn probe_inputs(rows: &TrainingSet) -> Vec<Vec<f32>> {
    let step = (rows.len() / PROBES).max(1);
    let mut inputs: Vec<Vec<f32>> =
        (0..rows.len()).step_by(step).take(PROBES - 1).map(|index| rows.row(index).to_vec()).collect();
    for (index, input) in inputs.iter_mut().enumerate().filter(|(index, _)| index % 2 == 1) {
        input.iter_mut().skip(index % 3).step_by(3).for_each(|value| *value = f32::NAN);
    }
    inputs.push(vec![f32::NAN; FEATURE_COUNT]);
    inputs
}

#[cfg(test)]
mod tests;
