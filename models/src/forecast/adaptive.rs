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

/// Entries of the upper triangle of the covariance.
const ENTRIES: usize = REGRESSOR_COUNT * (REGRESSOR_COUNT + 1) / 2;

/// The learnt state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Adaptive {
    weights: [f64; REGRESSOR_COUNT],
    /// Upper triangle of the symmetric covariance, row by row; half the memory, and it stays symmetric.
    covariance: Vec<f32>,
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
        let rows =
            (0..REGRESSOR_COUNT).flat_map(|row| (row..REGRESSOR_COUNT).map(move |column| row == column));
        let covariance = rows.map(|diagonal| if diagonal { PRIOR as f32 } else { 0.0 }).collect();
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
        let (gain, trace) = self.gain(regressors);
        let spread: f64 = gain.iter().zip(regressors).map(|(gain, value)| gain * f64::from(*value)).sum();
        if !error.is_finite() || !spread.is_finite() || spread < 0.0 || self.covariance.len() != ENTRIES {
            // Rounding has spoilt the covariance: begin again rather than turn on noise.
            *self = Self::new();
            return;
        }
        let divisor = KEEP + spread;
        let bounded = error.clamp(-ERROR_MAX, ERROR_MAX);
        for (weight, gain) in self.weights.iter_mut().zip(gain) {
            *weight += gain / divisor * bounded;
        }
        let keep = if trace < VARIANCE_MAX { KEEP } else { 1.0 };
        let mut entries = self.covariance.iter_mut();
        for row in 0..REGRESSOR_COUNT {
            for (column, entry) in (row..REGRESSOR_COUNT).zip(entries.by_ref()) {
                *entry = ((f64::from(*entry) - gain[row] * gain[column] / divisor) / keep) as f32;
            }
        }
    }

    /// Covariance times regressors, and the covariance's trace.
    fn gain(&self, regressors: &Regressors) -> ([f64; REGRESSOR_COUNT], f64) {
        let mut gain = [0.0; REGRESSOR_COUNT];
        let mut trace = 0.0;
        let mut entries = self.covariance.iter().map(|entry| f64::from(*entry));
        for row in 0..REGRESSOR_COUNT {
            for (column, entry) in (row..REGRESSOR_COUNT).zip(entries.by_ref()) {
                gain[row] += entry * f64::from(regressors[column]);
                if row == column {
                    trace += entry;
                } else {
                    gain[column] += entry * f64::from(regressors[row]);
                }
            }
        }
        (gain, trace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn learns_a_linear_law_and_shrugs_off_an_outlier() {
        let mut adaptive = Adaptive::new();
        let mut seed = 1_u64;
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        let law = |regressors: &Regressors| f64::from(0.5 * regressors[1] - 0.25 * regressors[2] + 0.1);
        let mut regressors = [1.0; REGRESSOR_COUNT];
        for step in 0..3_000 {
            regressors[1..].fill_with(&mut next);
            let outlier = if step % 500 == 499 { 1e9 } else { 0.0 };
            adaptive.learn(&regressors, law(&regressors) + outlier);
        }
        for _ in 0..20 {
            regressors[1..].fill_with(&mut next);
            assert!((adaptive.forecast(&regressors) - law(&regressors)).abs() < 0.1);
        }
    }
}
