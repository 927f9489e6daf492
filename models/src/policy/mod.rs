//! The learned placement policy: one small scorer for every box, served in plain Rust.
//!
//! The trainer and the server compute the same [`features`] and the same [`Scorer`]. The policy decides
//! only where evaluation showed it ahead of the best rule ([`Regime`]), and only while the traffic looks
//! like what it was trained on ([`Traffic`]); elsewhere its `rule` does.

pub mod bundle;
pub mod features;
pub mod safetensors;
pub mod scorer;
pub mod traffic;

use serde::{Deserialize, Serialize};

use crate::decision::Route;
use crate::strategy::StrategyName;
pub use features::{BoxInput, Pool, Scale};
pub use scorer::Scorer;
pub use traffic::Traffic;

/// Boxes the scorer looks at: those with the least work left and those that would end the ball first.
/// Two lists of this length are kept, so that a thousand boxes cost one scan and at most 32 scores.
pub const SHORT_LIST: usize = 16;

/// A range of offered load and how the policy did there against the rule, on held-out traces.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Regime {
    /// Lower end of the offered load (work arriving ÷ work that can be done), inclusive.
    pub load_from: f64,
    /// Upper end, exclusive.
    pub load_to: f64,
    /// The best rule there: it decides where the policy was not ahead.
    pub rule: StrategyName,
    /// Mean over traces of the ratio to that rule; below 1 is better.
    pub ratio: f64,
    /// Lower end of its 95 % interval.
    pub ratio_low: f64,
    /// Upper end.
    pub ratio_high: f64,
    /// Traces it was measured on.
    pub traces: u32,
}

impl Regime {
    /// Whether the policy was ahead: the whole interval below 1.
    #[must_use]
    pub fn is_ahead(&self) -> bool {
        self.ratio_high < 1.0
    }
}

/// A verified policy.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacementPolicy {
    /// Weights.
    pub scorer: Scorer,
    /// Units of the features.
    pub scale: Scale,
    /// Where it was measured, in ascending order of load.
    pub regimes: Vec<Regime>,
    /// Traffic it was trained on.
    pub trained_on: traffic::Shape,
    /// The rule that decides outside all regimes.
    pub rule: StrategyName,
}

impl PlacementPolicy {
    /// Whether the policy decides under `traffic` on boxes of summed speed `speed_sum`, or why not.
    ///
    /// # Errors
    /// The route and the rule that decides instead.
    pub fn admit(&self, traffic: &Traffic, speed_sum: f64) -> Result<(), (Route, StrategyName)> {
        // With too little traffic there is no evidence of any regime, and so none for the policy.
        let Some(load) = traffic.load(&self.trained_on, speed_sum) else {
            return Err((Route::OutsideRegime, self.rule));
        };
        let regime = self.regimes.iter().find(|r| (r.load_from..r.load_to).contains(&load));
        let rule = regime.map_or(self.rule, |regime| regime.rule);
        if traffic.has_drifted(&self.trained_on) {
            return Err((Route::InputDrift, rule));
        }
        if regime.is_some_and(Regime::is_ahead) { Ok(()) } else { Err((Route::OutsideRegime, rule)) }
    }
}
