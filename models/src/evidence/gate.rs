//! A rollout's gate: two arms, one metric, read as often as one likes.
//!
//! Each decision goes to the candidate with a known probability, so r · (1[candidate] ÷ share −
//! 1[control] ÷ (1 − share)) has the difference of the arms as its mean, and two wagers watch it: one
//! that the candidate is harmful, one that it is harmless within the margin.

use serde::{Deserialize, Serialize};

use super::Wager;

/// Weight of the prior guess in the running mean, in outcomes.
const PRIOR_OUTCOMES: f64 = 10.0;
/// Guess of a mean before any outcome.
const PRIOR_MEAN: f64 = 0.5;

/// Who decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// The strategy in force.
    Control,
    /// The one that is rolled out.
    Candidate,
}

/// What a gate says now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateState {
    /// Not enough evidence, or none at all.
    Waiting,
    /// Shown to be no worse than the margin allows, after the least number of outcomes.
    Passed,
    /// Shown to be worse than the margin allows, or an outcome was no number.
    Breached,
}

/// The test of one metric from 0 to 1, lower is better (failed, late, overloaded, refused).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmTest {
    share: f64,
    margin: f64,
    outcomes_least: u64,
    outcomes: [u64; 2],
    sums: [f64; 2],
    harmless: Wager,
    harmful: Wager,
    invalid: u64,
}

impl ArmTest {
    /// A test of a candidate that gets `share` of the decisions, in (0, 1). It passes when the
    /// candidate's mean is shown to be below the control's plus `margin` (0: strictly better), wrongly
    /// with probability at most `alpha`; it needs `outcomes_least` of each arm.
    #[must_use]
    pub fn new(share: f64, margin: f64, alpha: f64, planned: u64, outcomes_least: u64) -> Self {
        Self {
            share,
            margin,
            outcomes_least,
            outcomes: [0; 2],
            sums: [0.0; 2],
            harmless: Wager::new(alpha, planned),
            harmful: Wager::new(alpha, planned),
            invalid: 0,
        }
    }

    /// Take one outcome, whatever arm it is of, in the order of the log.
    pub fn observe(&mut self, arm: Arm, outcome: f64) {
        if !(0.0..=1.0).contains(&outcome) {
            self.invalid += 1;
            return;
        }
        let total = self.outcomes.iter().sum::<u64>() as f64;
        let mean = (self.sums.iter().sum::<f64>() + PRIOR_OUTCOMES * PRIOR_MEAN) / (total + PRIOR_OUTCOMES);
        let (rarer, other) = (1.0 / self.share, 1.0 / (1.0 - self.share));
        let difference = match arm {
            Arm::Candidate => (outcome - mean) * rarer,
            Arm::Control => (mean - outcome) * other,
        };
        let variance = mean * (1.0 - mean) * (rarer + other);
        let most = (rarer * (1.0 - mean)).max(other * mean);
        let least = (rarer * mean).max(other * (1.0 - mean));
        self.harmless.observe(self.margin - difference, (most - self.margin).max(0.0), variance);
        self.harmful.observe(difference - self.margin, least + self.margin, variance);
        self.outcomes[arm as usize] += 1;
        self.sums[arm as usize] += outcome;
    }

    /// What the gate says. Silence is no pass, and harm wins over all.
    #[must_use]
    pub fn state(&self) -> GateState {
        if self.harmful.is_won() || self.invalid > 0 {
            return GateState::Breached;
        }
        let is_seen = self.outcomes.iter().all(|outcomes| *outcomes >= self.outcomes_least.max(1));
        if is_seen && self.harmless.is_won() { GateState::Passed } else { GateState::Waiting }
    }

    /// Mean of an arm; `None` before its first outcome.
    #[must_use]
    pub fn mean(&self, arm: Arm) -> Option<f64> {
        let outcomes = self.outcomes[arm as usize];
        (outcomes > 0).then(|| self.sums[arm as usize] / outcomes as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_data_and_nonsense_never_pass() {
        let mut test = ArmTest::new(0.5, 1.0, 0.05, 10, 5);
        assert_eq!(test.state(), GateState::Waiting);
        for _ in 0..10_000 {
            test.observe(Arm::Control, 0.0);
        }
        assert_ne!(test.state(), GateState::Passed, "the candidate's metric has vanished");
        test.observe(Arm::Candidate, f64::NAN);
        assert_eq!(test.state(), GateState::Breached);
    }

    #[test]
    fn harm_breaches_and_a_gain_passes() {
        for (candidate, state) in [(1.0, GateState::Breached), (0.0, GateState::Passed)] {
            let mut test = ArmTest::new(0.5, 0.0, 0.05, 200, 20);
            for index in 0..400_u32 {
                test.observe(Arm::Control, f64::from(index / 2 % 2));
                test.observe(Arm::Candidate, candidate);
            }
            assert_eq!(test.state(), state);
        }
    }
}
