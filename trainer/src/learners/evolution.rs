//! Evolution strategies: the gradient of a smoothed objective from mirrored perturbations
//! (Salimans et al. 2017, arXiv 1703.03864), with common random numbers: every perturbation plays the same
//! arrivals, so their differences are the policy's and not the traffic's.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, ensure};
use berth_models::chance::unit;
use berth_models::policy::scorer::{HIDDEN, INPUTS, PARAMETERS};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::policy::{Batch, PolicyLearner, World};
use crate::policy::environment::Environment;

/// Mirrored pairs an iteration: 24 give a usable direction in a few hundred parameters.
const PAIRS: usize = 24;
/// Standard deviation of the perturbations, in units of a weight on a standardised feature.
const SIGMA: f64 = 0.08;
/// First step size of Adam, in the same units; falls to a tenth along a half cosine.
const STEP: f64 = 0.04;
/// Memory of Adam's mean and of its square.
const BETA: (f64, f64) = (0.9, 0.99);
/// Keeps Adam's division away from 0.
const EPSILON: f64 = 1e-8;
/// Shrinks the weights a little in every iteration, so that they stay where features are smooth.
const DECAY: f64 = 1e-4;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct State {
    iteration: u32,
    parameters: Vec<f32>,
    mean: Vec<f64>,
    square: Vec<f64>,
}

/// The learner.
pub struct Evolution {
    seed: u64,
    iterations: u32,
    state: State,
}

impl Evolution {
    /// A learner that begins at the rule of least work left: output weights of 0, hidden weights by chance.
    #[must_use]
    pub fn new(seed: u64, iterations: u32) -> Self {
        let spread = 1.0 / libm::sqrt(INPUTS as f64);
        let hidden = |index: usize| (normal(seed, u64::MAX, index) * spread) as f32;
        let parameters =
            (0..PARAMETERS).map(|index| if index < INPUTS * HIDDEN { hidden(index) } else { 0.0 });
        let state = State {
            iteration: 0,
            parameters: parameters.collect(),
            mean: vec![0.0; PARAMETERS],
            square: vec![0.0; PARAMETERS],
        };
        Self { seed, iterations, state }
    }

    fn perturbed(&self, noise: &[f64], sign: f64) -> Vec<f32> {
        let shifted =
            |(parameter, noise): (&f32, &f64)| (f64::from(*parameter) + sign * SIGMA * noise) as f32;
        self.state.parameters.iter().zip(noise).map(shifted).collect()
    }

    /// One Adam step down `gradient` (Kingma and Ba 2015).
    fn descend(&mut self, gradient: &[f64]) {
        let state = &mut self.state;
        state.iteration += 1;
        let done = f64::from(state.iteration);
        let progress = (done / f64::from(self.iterations.max(1))).min(1.0);
        let step = STEP * (0.1 + 0.45 * (1.0 + libm::cos(std::f64::consts::PI * progress)));
        let unbiased = (1.0 - libm::pow(BETA.0, done), 1.0 - libm::pow(BETA.1, done));
        for (index, slope) in gradient.iter().enumerate() {
            let (mean, square) = (&mut state.mean[index], &mut state.square[index]);
            *mean = BETA.0 * *mean + (1.0 - BETA.0) * slope;
            *square = BETA.1 * *square + (1.0 - BETA.1) * slope * slope;
            let change = (*mean / unbiased.0) / (libm::sqrt(*square / unbiased.1) + EPSILON);
            let before = f64::from(state.parameters[index]);
            state.parameters[index] = (before * (1.0 - DECAY) - step * change) as f32;
        }
    }
}

impl PolicyLearner for Evolution {
    fn describe(&self) -> String {
        format!("evolution, pairs {PAIRS}, sigma {SIGMA}, step {STEP}, decay {DECAY}, hidden {HIDDEN}")
    }

    fn step(&mut self, world: &World, batch: &Batch) -> (f64, u64) {
        let iteration = u64::from(self.state.iteration);
        let noise: Vec<Vec<f64>> = (0..PAIRS)
            .map(|pair| {
                let draw = xxh3_64_with_seed(&iteration.to_le_bytes(), self.seed ^ ((pair as u64) << 40));
                (0..PARAMETERS).map(|index| normal(self.seed, draw, index)).collect()
            })
            .collect();
        let losses = in_parallel(2 * PAIRS, world, |environment, rollout| {
            let sign = if rollout % 2 == 0 { 1.0 } else { -1.0 };
            world.loss(environment, batch, &self.perturbed(&noise[rollout / 2], sign))
        });
        let ranks = centred_ranks(&losses);
        let mut gradient = vec![0.0; PARAMETERS];
        for (pair, noise) in noise.iter().enumerate() {
            let difference = ranks[2 * pair] - ranks[2 * pair + 1];
            gradient.iter_mut().zip(noise).for_each(|(sum, noise)| *sum += difference * noise);
        }
        self.descend(&gradient);
        let decisions: usize = batch.traces.iter().map(|trace| trace.arrivals.len()).sum();
        (losses.iter().sum::<f64>() / losses.len() as f64, (decisions * losses.len()) as u64)
    }

    fn parameters(&self) -> &[f32] {
        &self.state.parameters
    }

    fn save(&self) -> anyhow::Result<serde_json::Value> {
        Ok(serde_json::to_value(&self.state)?)
    }

    fn restore(&mut self, state: serde_json::Value) -> anyhow::Result<()> {
        let state: State = serde_json::from_value(state).context("the state is not evolution's")?;
        let lengths = [state.parameters.len(), state.mean.len(), state.square.len()];
        ensure!(lengths == [PARAMETERS; 3], "the state has {lengths:?} numbers, needed are {PARAMETERS}");
        self.state = state;
        Ok(())
    }
}

/// Ranks of losses, from −0.5 (least) to 0.5: one disastrous rollout moves no more than any other.
fn centred_ranks(losses: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..losses.len()).collect();
    order.sort_by(|a, b| losses[*a].total_cmp(&losses[*b]));
    let mut ranks = vec![0.0; losses.len()];
    for (rank, index) in order.into_iter().enumerate() {
        ranks[index] = rank as f64 / (losses.len() - 1) as f64 - 0.5;
    }
    ranks
}

/// A standard normal number (Box and Muller 1958) of a draw.
fn normal(seed: u64, draw: u64, index: usize) -> f64 {
    let first = unit(draw ^ seed, 2 * index as u64 + 1);
    let second = unit(draw ^ seed, 2 * index as u64 + 2);
    libm::sqrt(-2.0 * libm::log(1.0 - first)) * libm::cos(2.0 * std::f64::consts::PI * second)
}

/// `count` rollouts on the world's threads; results in order, whatever the number of threads.
fn in_parallel(
    count: usize,
    world: &World,
    rollout: impl Fn(&mut Environment, usize) -> f64 + Sync,
) -> Vec<f64> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut environment = Environment::new(&world.speeds);
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return done;
            }
            done.push((index, rollout(&mut environment, index)));
        }
    };
    let mut losses = vec![f64::INFINITY; count];
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..world.threads.max(1)).map(|_| scope.spawn(work)).collect();
        for handle in handles {
            // A rollout that panicked must not be taken for one that was bad.
            let done = handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            done.into_iter().for_each(|(index, loss)| losses[index] = loss);
        }
    });
    losses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_centred_and_numbers_normal() {
        assert_eq!(centred_ranks(&[3.0, f64::INFINITY, 1.0]), [0.0, 0.5, -0.5]);
        let values: Vec<f64> = (0..10_000).map(|index| normal(7, 3, index)).collect();
        let mean = values.iter().sum::<f64>() / 10_000.0;
        let square = values.iter().map(|value| value * value).sum::<f64>() / 10_000.0;
        assert!(mean.abs() < 0.03 && (square - 1.0).abs() < 0.05, "{mean} {square}");
    }
}
