//! The interface of learners of a placement policy.

use berth_models::policy::scorer::PARAMETERS;
use berth_models::policy::{Scale, Scorer};

use super::evolution::Evolution;
use crate::policy::environment::{Chooser, Environment};
use crate::policy::normalisation::Normalisation;
use crate::policy::traffic::Trace;

/// Arrivals to learn from, with the reference's totals on them, in milliseconds.
pub struct Batch {
    /// Arrivals; every rollout of an iteration plays the same ones.
    pub traces: Vec<Trace>,
    /// Total time in the system under the reference, by trace.
    pub reference_ms: Vec<u64>,
}

/// Where rollouts happen.
pub struct World {
    /// Speeds of the boxes.
    pub speeds: Vec<f64>,
    /// Units of the features.
    pub scale: Scale,
    /// Mean and spread of the features.
    pub normalisation: Normalisation,
    /// Rollouts at a time.
    pub threads: usize,
}

impl World {
    /// The scorer of `parameters`; `None` when one is not finite.
    #[must_use]
    pub fn scorer(&self, parameters: &[f32]) -> Option<Scorer> {
        debug_assert_eq!(parameters.len(), PARAMETERS);
        let Normalisation { mean, inverse_spread, .. } = &self.normalisation;
        Scorer::new(parameters.to_vec(), *mean, *inverse_spread)
    }

    /// Mean over the batch of ln(total ÷ reference) under `parameters`: below 0 is better.
    #[must_use]
    pub fn loss(&self, environment: &mut Environment, batch: &Batch, parameters: &[f32]) -> f64 {
        let Some(scorer) = self.scorer(parameters) else {
            return f64::INFINITY;
        };
        let mut loss = |(trace, reference): (&Trace, &u64)| {
            let total = environment.play(trace, Chooser::Scorer(&scorer, &self.scale));
            libm::log(total as f64 / *reference as f64)
        };
        let sum: f64 = batch.traces.iter().zip(&batch.reference_ms).map(&mut loss).sum();
        sum / batch.traces.len() as f64
    }
}

/// Improves the parameters of a scorer, one batch at a time.
pub trait PolicyLearner {
    /// Name and settings, for the manifest.
    fn describe(&self) -> String;

    /// Learn from a batch; returns the mean of ln(total ÷ reference) over the rollouts, and their decisions.
    fn step(&mut self, world: &World, batch: &Batch) -> (f64, u64);

    /// The parameters at present.
    fn parameters(&self) -> &[f32];

    /// Everything needed to go on later.
    ///
    /// # Errors
    /// State that can't be written as JSON.
    fn save(&self) -> anyhow::Result<serde_json::Value>;

    /// Go on from what [`Self::save`] gave.
    ///
    /// # Errors
    /// State of another learner or another form.
    fn restore(&mut self, state: serde_json::Value) -> anyhow::Result<()>;
}

/// Learners by name.
pub const NAMES: [&str; 1] = ["evolution"];

/// The learner `name`, to run for `iterations`; `None` when there is none of that name.
#[must_use]
pub fn by_name(name: &str, seed: u64, iterations: u32) -> Option<Box<dyn PolicyLearner>> {
    (name == "evolution").then(|| Box::new(Evolution::new(seed, iterations)) as Box<dyn PolicyLearner>)
}
