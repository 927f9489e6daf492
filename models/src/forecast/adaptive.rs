//! A small linear forecaster of one series and horizon that learns while it runs: recursive least squares with
//! forgetting. It knows what is peculiar to the series; the trees know what series have in common.

use serde::{Deserialize, Serialize};

/// Number of regressors.
pub const REGRESSOR_COUNT: usize = 16;
/// Share of the past that is kept at an update: about a day and a half of minutes.
const KEEP: f64 = 1.0 - 1.0 / 2_000.0;
/// Variance of a weight before anything was learnt.
const PRIOR: f64 = 0.05;
/// Errors beyond this many scales teach no more than this: one outlier must not turn the weights.
const ERROR_MAX: f64 = 4.0;
/// A variance never grows beyond this while a regressor is silent.
const VARIANCE_MAX: f64 = 100.0;

/// What the forecaster sees: differences in units of the series' scale; missing ones are 0.
pub type Regressors = [f32; REGRESSOR_COUNT];

/// The learnt state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Adaptive {
    weights: [f64; REGRESSOR_COUNT],
    /// Symmetric, row-major.
    covariance: Vec<f64>,
}

impl Default for Adaptive {
    fn default() -> Self {
        Self::new()
    }
}

impl Adaptive {
    /// Nothing learnt: it forecasts no change.
    #[must_use]
    pub fn new() -> Self {
        let mut covariance = vec![0.0; REGRESSOR_COUNT * REGRESSOR_COUNT];
        for index in 0..REGRESSOR_COUNT {
            covariance[index * REGRESSOR_COUNT + index] = PRIOR;
        }
        Self { weights: [0.0; REGRESSOR_COUNT], covariance }
    }

    /// The forecast change, in units of the scale.
    #[must_use]
    pub fn forecast(&self, regressors: &Regressors) -> f64 {
        self.weights.iter().zip(regressors).map(|(weight, value)| weight * f64::from(*value)).sum()
    }

    /// Learn from a change that came true, in units of the scale of its time.
    pub fn learn(&mut self, regressors: &Regressors, change: f64) {
        let error = change - self.forecast(regressors);
        if !error.is_finite() {
            return;
        }
        let mut gain = [0.0; REGRESSOR_COUNT];
        for (gain, row) in gain.iter_mut().zip(self.covariance.chunks(REGRESSOR_COUNT)) {
            *gain = row.iter().zip(regressors).map(|(entry, value)| entry * f64::from(*value)).sum();
        }
        let spread: f64 = gain.iter().zip(regressors).map(|(gain, value)| gain * f64::from(*value)).sum();
        let divisor = KEEP + spread;
        let bounded = error.clamp(-ERROR_MAX, ERROR_MAX);
        for (weight, gain) in self.weights.iter_mut().zip(gain) {
            *weight += gain / divisor * bounded;
        }
        let trace: f64 =
            (0..REGRESSOR_COUNT).map(|index| self.covariance[index * (REGRESSOR_COUNT + 1)]).sum();
        let keep = if trace < VARIANCE_MAX { KEEP } else { 1.0 };
        for row in 0..REGRESSOR_COUNT {
            for column in 0..REGRESSOR_COUNT {
                let entry = &mut self.covariance[row * REGRESSOR_COUNT + column];
                *entry = (*entry - gain[row] * gain[column] / divisor) / keep;
            }
        }
    }
}
