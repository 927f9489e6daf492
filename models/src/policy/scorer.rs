//! The scorer: features of one box to one score, lower is better.
//!
//! `score = work_left + output · relu(pool_weights · pool + box_weights · box + bias)`, with features
//! standardised by the artifact's mean and spread. The first term is the rule of least work left, so a
//! policy whose output weights are 0 is that rule: training starts there.

use super::features::{BOX_FEATURES, POOL_FEATURES};

/// Units of the hidden layer.
pub const HIDDEN: usize = 16;
/// All features of one score.
pub const INPUTS: usize = POOL_FEATURES + BOX_FEATURES;
/// Trainable parameters: hidden weights, hidden bias, output weights.
pub const PARAMETERS: usize = INPUTS * HIDDEN + HIDDEN + HIDDEN;

/// Weights and the normalisation of the features.
#[derive(Debug, Clone, PartialEq)]
pub struct Scorer {
    /// `[INPUTS × HIDDEN]` hidden weights by input, `[HIDDEN]` bias, `[HIDDEN]` output weights.
    parameters: Vec<f32>,
    mean: [f32; INPUTS],
    inverse_spread: [f32; INPUTS],
}

impl Scorer {
    /// A scorer; `None` when the number of parameters is not [`PARAMETERS`] or a value is not finite.
    #[must_use]
    pub fn new(parameters: Vec<f32>, mean: [f32; INPUTS], inverse_spread: [f32; INPUTS]) -> Option<Self> {
        let is_finite = |values: &[f32]| values.iter().all(|value| value.is_finite());
        let is_usable = parameters.len() == PARAMETERS
            && is_finite(&parameters)
            && is_finite(&mean)
            && is_finite(&inverse_spread);
        is_usable.then_some(Self { parameters, mean, inverse_spread })
    }

    /// The trainable parameters.
    #[must_use]
    pub fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    /// Mean of every feature.
    #[must_use]
    pub fn mean(&self) -> &[f32; INPUTS] {
        &self.mean
    }

    /// 1 ÷ spread of every feature.
    #[must_use]
    pub fn inverse_spread(&self) -> &[f32; INPUTS] {
        &self.inverse_spread
    }

    /// The hidden layer's input from what all boxes of a decision share.
    #[must_use]
    pub fn begin(&self, pool: &[f32; POOL_FEATURES]) -> [f32; HIDDEN] {
        let mut hidden = [0.0; HIDDEN];
        hidden.copy_from_slice(&self.parameters[INPUTS * HIDDEN..][..HIDDEN]);
        self.accumulate(&mut hidden, pool, 0);
        hidden
    }

    /// The score of one box; `begun` is [`Self::begin`]'s answer for this decision.
    #[must_use]
    #[inline]
    pub fn score(&self, begun: &[f32; HIDDEN], one: &[f32; BOX_FEATURES]) -> f32 {
        let mut hidden = *begun;
        self.accumulate(&mut hidden, one, POOL_FEATURES);
        let output = &self.parameters[(INPUTS + 1) * HIDDEN..];
        // The order of every sum is fixed, so the score is the same on every machine.
        let learned = hidden.iter().zip(output).fold(0.0, |sum, (unit, weight)| sum + relu(*unit) * weight);
        one[0] + learned
    }

    #[inline]
    fn accumulate(&self, hidden: &mut [f32; HIDDEN], features: &[f32], first: usize) {
        for (index, feature) in features.iter().enumerate() {
            let input = first + index;
            let value = (feature - self.mean[input]) * self.inverse_spread[input];
            let weights = &self.parameters[input * HIDDEN..(input + 1) * HIDDEN];
            for (unit, weight) in hidden.iter_mut().zip(weights) {
                *unit += value * weight;
            }
        }
    }
}

/// max(x, 0), and NaN stays NaN: a poisoned scorer must be seen.
#[inline]
fn relu(value: f32) -> f32 {
    if value < 0.0 { 0.0 } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_output_weights_the_score_is_the_work_left() {
        let scorer = Scorer::new(vec![0.0; PARAMETERS], [0.5; INPUTS], [2.0; INPUTS]).unwrap();
        let begun = scorer.begin(&[1.0; POOL_FEATURES]);
        assert_eq!(scorer.score(&begun, &[3.5, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0]), 3.5);
    }

    #[test]
    fn a_scorer_of_another_size_or_with_a_value_that_is_no_number_is_refused() {
        assert!(Scorer::new(vec![0.0; PARAMETERS + 1], [0.0; INPUTS], [1.0; INPUTS]).is_none());
        let mut parameters = vec![0.0; PARAMETERS];
        parameters[7] = f32::NAN;
        assert!(Scorer::new(parameters, [0.0; INPUTS], [1.0; INPUTS]).is_none());
    }

    #[test]
    fn features_that_are_no_numbers_give_scores_that_are_none() {
        let mut parameters = vec![0.1; PARAMETERS];
        parameters[INPUTS * HIDDEN] = 0.2;
        let scorer = Scorer::new(parameters, [0.0; INPUTS], [1.0; INPUTS]).unwrap();
        let begun = scorer.begin(&[f32::NAN; POOL_FEATURES]);
        assert!(scorer.score(&begun, &[0.0; BOX_FEATURES]).is_nan());
    }
}
