//! Off-policy values: what a candidate's choices would have earned, from decisions of another
//! strategy with known propensities.

use serde::{Deserialize, Serialize};

use super::Wager;

/// Share of the candidate's probability mass that must lie on boxes that were ever tried.
pub const COVERED_SHARE_LEAST: f64 = 0.99;
/// Precision of the ends of an interval.
const PRECISION: f64 = 1e-4;
/// Weight of the prior guess in the running centre, in squared importance weights.
const PRIOR_SQUARES: f64 = 8.0;

/// What a model that looks at no outcome expects of a decision; every value from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Direct {
    /// Of the box that was chosen.
    pub chosen: f64,
    /// Of the candidate's choice, averaged over its distribution.
    pub target: f64,
    /// Of the worst eligible box.
    pub least: f64,
    /// Of the best eligible box.
    pub most: f64,
}

impl Direct {
    /// No model: every box earns the same.
    pub const NONE: Self = Self { chosen: 0.5, target: 0.5, least: 0.5, most: 0.5 };

    fn mirrored(self) -> Self {
        Self {
            chosen: 1.0 - self.chosen,
            target: 1.0 - self.target,
            least: 1.0 - self.most,
            most: 1.0 - self.least,
        }
    }

    fn moved(self, by: f64) -> Self {
        let moved = |value: f64| (value + by).clamp(0.0, 1.0);
        Self {
            chosen: moved(self.chosen),
            target: moved(self.target),
            least: moved(self.least),
            most: moved(self.most),
        }
    }
}

/// One logged decision as the estimators see it. Everything but `weight`, `reward` and
/// `direct.chosen` is known before the choice.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Candidate's probability of the chosen box ÷ the logged one.
    pub weight: f64,
    /// The largest weight any eligible box would have had.
    pub weight_most: f64,
    /// Mean of the squared weight over the logged distribution.
    pub weight_square_mean: f64,
    /// Share of the candidate's probability on boxes with a logged probability above 0.
    pub covered: f64,
    /// What it earned, from 0 to 1.
    pub reward: f64,
    /// The direct model's word.
    pub direct: Direct,
}

impl Sample {
    /// From the two distributions over the eligible boxes, and the position that was chosen.
    /// `None`: a probability or the reward is no number in its range, or the choice was impossible.
    #[must_use]
    pub fn new(logged: &[f64], target: &[f64], chosen: usize, reward: f64, direct: Direct) -> Option<Self> {
        let is_share = |value: &f64| (0.0..=1.0).contains(value);
        let fits = logged.len() == target.len()
            && logged.iter().chain(target).chain([&reward]).all(is_share)
            && [direct.chosen, direct.target, direct.least, direct.most].iter().all(is_share);
        if !fits || *logged.get(chosen)? <= 0.0 {
            return None;
        }
        let tried = || logged.iter().zip(target).filter(|(logged, _)| **logged > 0.0);
        Some(Self {
            weight: target[chosen] / logged[chosen],
            weight_most: tried().map(|(logged, target)| target / logged).fold(0.0, f64::max),
            weight_square_mean: tried().map(|(logged, target)| target * target / logged).sum(),
            covered: tried().map(|(_, target)| target).sum(),
            reward,
            direct,
        })
    }

    fn mirrored(&self) -> Self {
        Self { reward: 1.0 - self.reward, direct: self.direct.mirrored(), ..*self }
    }
}

/// Why there is no value.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Unsupported {
    /// Nothing was logged.
    #[error("no decision with a logged propensity and an outcome; let some balls finish")]
    Empty,
    /// The candidate prefers boxes that were never tried.
    #[error(
        "only {covered:.3} of the candidate's choices were ever tried, and {COVERED_SHARE_LEAST} are \
         needed; widen exploration_tolerance, wait for more decisions, or trust the twin"
    )]
    NotCovered {
        /// Share of the candidate's probability that is covered.
        covered: f64,
    },
}

/// The values of one candidate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Values {
    /// Decisions.
    pub samples: u64,
    /// Inverse propensity score: unbiased, widest.
    pub ips: f64,
    /// Self-normalised: the same divided by the mean weight; 0 when every weight was 0.
    pub self_normalised: f64,
    /// Doubly robust with the direct model (Dudík, Langford and Li, 2011).
    pub doubly_robust: f64,
    /// (Σ weight)² ÷ Σ weight²: as many decisions of the candidate's own would say as much.
    pub effective_samples: f64,
    /// Mean covered share of the candidate's probability.
    pub covered: f64,
    /// Share of decisions whose weight was cut to the limit; such values are biased downwards.
    pub clipped_share: f64,
}

/// Both ends of an anytime-valid interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Samples of one candidate, in the order of the log.
#[derive(Debug, Clone, Default)]
pub struct OffPolicy {
    samples: Vec<Sample>,
}

impl OffPolicy {
    /// Add one decision.
    pub fn add(&mut self, sample: Sample) {
        self.samples.push(sample);
    }

    /// The values, with weights cut at `weight_max` (infinite: not at all).
    ///
    /// # Errors
    /// [`Unsupported`].
    pub fn values(&self, weight_max: f64) -> Result<Values, Unsupported> {
        let covered = self.covered()?;
        let count = self.samples.len() as f64;
        let (mut sum, mut squares, mut earned, mut doubly, mut clipped) = (0.0, 0.0, 0.0, 0.0, 0_u64);
        for sample in &self.samples {
            let weight = sample.weight.min(weight_max);
            clipped += u64::from(sample.weight > weight_max);
            sum += weight;
            squares += weight * weight;
            earned += weight * sample.reward;
            doubly += sample.direct.target + weight * (sample.reward - sample.direct.chosen);
        }
        Ok(Values {
            samples: self.samples.len() as u64,
            ips: earned / count,
            self_normalised: if sum > 0.0 { earned / sum } else { 0.0 },
            doubly_robust: doubly / count,
            effective_samples: if squares > 0.0 { sum * sum / squares } else { 0.0 },
            covered,
            clipped_share: clipped as f64 / count,
        })
    }

    fn covered(&self) -> Result<f64, Unsupported> {
        if self.samples.is_empty() {
            return Err(Unsupported::Empty);
        }
        let covered =
            self.samples.iter().map(|sample| sample.covered).sum::<f64>() / self.samples.len() as f64;
        if covered < COVERED_SHARE_LEAST { Err(Unsupported::NotCovered { covered }) } else { Ok(covered) }
    }

    /// An interval that holds the candidate's value with probability at least 1 − `alpha` at every
    /// moment of the log at once, narrowest near `planned` samples. Weights are not cut.
    ///
    /// # Errors
    /// [`Unsupported`].
    pub fn interval(&self, alpha: f64, planned: u64) -> Result<Interval, Unsupported> {
        // What is not covered could have earned anything from 0 to 1.
        let uncovered = 1.0 - self.covered()?;
        let low = lower(self.samples.iter().copied(), alpha / 2.0, planned);
        let high = 1.0 - lower(self.samples.iter().map(Sample::mirrored), alpha / 2.0, planned);
        Ok(Interval { low, high: (high + uncovered).min(1.0) })
    }
}

/// The largest value known to be refuted from below, to the precision; bisection takes the refuted
/// values to have no gaps, which is not proven for stakes that depend on the value.
fn lower(samples: impl Iterator<Item = Sample> + Clone, alpha: f64, planned: u64) -> f64 {
    let is_refuted = |mean| refutes(samples.clone(), mean, alpha, planned);
    let (mut low, mut high) = (0.0, 1.0);
    if !is_refuted(low) {
        return 0.0;
    }
    while high - low > PRECISION {
        let middle = (low + high) / 2.0;
        if is_refuted(middle) { low = middle } else { high = middle }
    }
    low
}

/// Bet that the candidate's value is above `mean`. The direct model, moved by the running mean of
/// what it missed, is the control variate; it is held back where it would forbid the stake wished for.
fn refutes(samples: impl Iterator<Item = Sample>, mean: f64, alpha: f64, planned: u64) -> bool {
    let mut wager = Wager::new(alpha, planned);
    let (mut squares, mut missed, mut missed_squares) = (PRIOR_SQUARES, 0.0, PRIOR_SQUARES * 0.25);
    for sample in samples {
        let direct = sample.direct.moved(missed / squares);
        let spread = (missed_squares / squares - (missed / squares) * (missed / squares)).max(0.01);
        let wish = wager.wish(sample.weight_square_mean * spread);
        let depth_full = sample.weight_most * direct.most + mean;
        let held = (Wager::limit(depth_full) / wish).min(1.0);
        let value = held * direct.target + sample.weight * (sample.reward - held * direct.chosen) - mean;
        let depth = held * sample.weight_most * direct.most - held * direct.target + mean;
        let kept = (1.0 - held) * direct.target;
        wager.observe(value, depth, sample.weight_square_mean * (spread + kept * kept));
        if wager.is_won() {
            return true;
        }
        let (square, miss) = (sample.weight * sample.weight, sample.reward - sample.direct.chosen);
        squares += square;
        missed += square * miss;
        missed_squares += square * miss * miss;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(rewards: [f64; 2], count: usize) -> OffPolicy {
        let mut log = OffPolicy::default();
        for index in 0..count {
            let chosen = index % 2;
            let sample = Sample::new(&[0.5, 0.5], &[0.9, 0.1], chosen, rewards[chosen], Direct::NONE);
            log.add(sample.unwrap());
        }
        log
    }

    #[test]
    fn every_estimator_finds_a_value_that_is_known() {
        let values = log([1.0, 0.0], 1_000).values(f64::INFINITY).unwrap();
        for value in [values.ips, values.self_normalised, values.doubly_robust] {
            assert!((value - 0.9).abs() < 1e-9, "{values:?}");
        }
        assert!((values.effective_samples - 1_000.0 / 1.64).abs() < 1e-6);
        let interval = log([1.0, 0.0], 1_000).interval(0.05, 1_000).unwrap();
        assert!(interval.low < 0.9 && interval.high > 0.9, "{interval:?}");
    }

    #[test]
    fn what_was_never_tried_is_refused_and_what_is_no_number_is_no_sample() {
        let mut log = OffPolicy::default();
        assert_eq!(log.values(9.0), Err(Unsupported::Empty));
        log.add(Sample::new(&[1.0, 0.0], &[0.1, 0.9], 0, 1.0, Direct::NONE).unwrap());
        assert!(matches!(log.values(9.0), Err(Unsupported::NotCovered { .. })));
        assert!(matches!(log.interval(0.05, 10), Err(Unsupported::NotCovered { .. })));
        assert_eq!(Sample::new(&[1.0], &[1.0], 0, f64::NAN, Direct::NONE), None);
        assert_eq!(Sample::new(&[1.0], &[f64::NAN], 0, 1.0, Direct::NONE), None);
        assert_eq!(Sample::new(&[0.0], &[1.0], 0, 1.0, Direct::NONE), None);
    }

    #[test]
    fn cut_weights_are_counted() {
        let values = log([1.0, 0.0], 100).values(1.0).unwrap();
        assert!((values.clipped_share - 0.5).abs() < 1e-9);
        assert!(values.ips < 0.9);
    }
}
