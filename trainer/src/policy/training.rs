//! The training loop: batches under a curriculum, validation, early stop, checkpoints.

use std::time::Instant;

use anyhow::{Context, ensure};
use berth_models::policy::Scorer;
use serde::{Deserialize, Serialize};

use super::environment::{Chooser, Environment};
use super::traffic::{Family, Purpose, Trace};
use crate::learners::policy::{Batch, PolicyLearner, World};
use crate::suites::bootstrap::{Interval, interval};

/// Traces of a batch: the first ones at the suite's own load, the others at loads in turn.
const HOME_TRACES: u64 = 5;
const OTHER_TRACES: u64 = 2;
/// Loads that the others take in turn.
const OTHER_LOADS: [f64; 5] = [0.8, 0.6, 0.97, 0.7, 0.5];
/// The curriculum: from this share of the iterations on, episodes have this many jobs. Short episodes
/// first, so that early blunders don't drown every difference in one endless queue.
const CURRICULUM: [(f64, usize); 3] = [(0.0, 300), (0.08, 1_000), (0.6, 2_000)];
/// Validation traces, at the suite's own load and length, every so many iterations.
const VALIDATION_TRACES: u64 = 64;
const VALIDATION_JOBS: usize = 1_000;
const VALIDATE_EVERY: u32 = 10;
/// A checkpoint every so many iterations.
const SAVE_EVERY: u32 = 50;

/// One point of the learning curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Iterations done.
    pub iteration: u32,
    /// Mean ratio to the reference over the rollouts since the last point (geometric).
    pub training_ratio: f64,
    /// Mean ratio to the reference on the validation traces.
    pub validation_ratio: f64,
    /// Seconds since the start, earlier runs included.
    pub wall_s: f64,
}

/// Where a training stands: everything a checkpoint holds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Progress {
    /// Learner, settings, family and seed; another one can't go on from here.
    pub settings: String,
    /// Iterations done.
    pub iteration: u32,
    /// Decisions simulated.
    pub steps: u64,
    /// Seconds it took.
    pub wall_s: f64,
    /// Parameters with the best validation ratio, that ratio, and their iteration.
    pub best: Vec<f32>,
    /// See `best`.
    pub best_ratio: f64,
    /// See `best`.
    pub best_iteration: u32,
    /// The learning curve.
    pub curve: Vec<Point>,
    /// The learner's own state.
    pub learner: serde_json::Value,
}

/// Settings of a training.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The traffic.
    pub family: Family,
    /// Seed of every draw.
    pub seed: u64,
    /// Most iterations.
    pub iterations: u32,
    /// Iterations without a better validation ratio after which it stops.
    pub patience: u32,
}

/// Traces with the reference's totals.
#[must_use]
pub fn batch(speeds: &[f64], traces: Vec<Trace>, reference: Chooser<'_>) -> Batch {
    let mut environment = Environment::new(speeds);
    let reference_ms = traces.iter().map(|trace| environment.play(trace, reference)).collect();
    Batch { traces, reference_ms }
}

/// Ratios of a scorer to the reference, trace by trace.
#[must_use]
pub fn ratios(world: &World, batch: &Batch, scorer: &Scorer) -> Vec<f64> {
    let mut environment = Environment::new(&world.speeds);
    let mut ratio = |(trace, reference): (&Trace, &u64)| {
        environment.play(trace, Chooser::Scorer(scorer, &world.scale)) as f64 / *reference as f64
    };
    batch.traces.iter().zip(&batch.reference_ms).map(&mut ratio).collect()
}

fn training_batch(settings: &Settings, world: &World, iteration: u32) -> Batch {
    let share = f64::from(iteration) / f64::from(settings.iterations.max(1));
    let stage = CURRICULUM.iter().rev().find(|stage| share >= stage.0);
    let jobs = stage.map_or(CURRICULUM[0].1, |stage| stage.1);
    let trace = |index: u64| {
        let number = u64::from(iteration) * (HOME_TRACES + OTHER_TRACES) + index;
        let load = match index.checked_sub(HOME_TRACES) {
            None => settings.family.home_load(),
            Some(_) => OTHER_LOADS[(number % OTHER_LOADS.len() as u64) as usize],
        };
        // The normalisation has used the numbers below.
        settings.family.trace(Purpose::Training, settings.seed, 1_000 + number, load, jobs)
    };
    let traces = (0..HOME_TRACES + OTHER_TRACES).map(trace).collect();
    batch(&world.speeds, traces, Chooser::LeastWorkLeft)
}

/// Train until the iterations or the patience are used up. `each` hears of every iteration, `keep` gets
/// checkpoints.
///
/// # Errors
/// A checkpoint of other settings, or one that `keep` can't keep.
pub fn train(
    settings: &Settings,
    world: &World,
    learner: &mut dyn PolicyLearner,
    resumed: Option<Progress>,
    each: &mut dyn FnMut(&Progress, f64),
    keep: &mut dyn FnMut(&Progress) -> anyhow::Result<()>,
) -> anyhow::Result<Progress> {
    let mut progress = begin(settings, learner, resumed)?;
    let (earlier_s, start) = (progress.wall_s, Instant::now());
    let validation: Vec<Trace> = (0..VALIDATION_TRACES)
        .map(|i| {
            let load = settings.family.home_load();
            settings.family.trace(Purpose::Validation, settings.seed, i, load, VALIDATION_JOBS)
        })
        .collect();
    let validation = batch(&world.speeds, validation, Chooser::LeastWorkLeft);
    let mut since = Vec::new();
    while progress.iteration < settings.iterations
        && progress.iteration < progress.best_iteration + settings.patience
    {
        let (loss, steps) = learner.step(world, &training_batch(settings, world, progress.iteration));
        progress.iteration += 1;
        progress.steps += steps;
        progress.wall_s = earlier_s + start.elapsed().as_secs_f64();
        since.push(loss);
        if progress.iteration.is_multiple_of(VALIDATE_EVERY) {
            validate(&mut progress, world, &validation, learner.parameters(), &mut since)?;
        }
        if progress.iteration.is_multiple_of(SAVE_EVERY) {
            progress.learner = learner.save()?;
            keep(&progress)?;
        }
        each(&progress, loss);
    }
    progress.learner = learner.save()?;
    keep(&progress)?;
    Ok(progress)
}

fn begin(
    settings: &Settings,
    learner: &mut dyn PolicyLearner,
    resumed: Option<Progress>,
) -> anyhow::Result<Progress> {
    let Settings { family, seed, iterations, .. } = settings;
    let text = format!("{}; {}, seed {seed}, {iterations} iterations", learner.describe(), family.suite());
    let Some(progress) = resumed else {
        return Ok(Progress {
            settings: text,
            iteration: 0,
            steps: 0,
            wall_s: 0.0,
            best: learner.parameters().to_vec(),
            best_ratio: f64::INFINITY,
            best_iteration: 0,
            curve: Vec::new(),
            learner: serde_json::Value::Null,
        });
    };
    ensure!(
        progress.settings == text,
        "the checkpoint is of other settings ({}); these are: {text}; give those, or another --out",
        progress.settings
    );
    learner.restore(progress.learner.clone())?;
    Ok(progress)
}

fn validate(
    progress: &mut Progress,
    world: &World,
    validation: &Batch,
    parameters: &[f32],
    since: &mut Vec<f64>,
) -> anyhow::Result<()> {
    let scorer = world.scorer(parameters).context("training has left the numbers: a weight is not finite")?;
    let Interval { mean, .. } = interval(&ratios(world, validation, &scorer));
    let training = since.iter().sum::<f64>() / since.len() as f64;
    since.clear();
    progress.curve.push(Point {
        iteration: progress.iteration,
        training_ratio: libm::exp(training),
        validation_ratio: mean,
        wall_s: progress.wall_s,
    });
    if mean < progress.best_ratio {
        progress.best_ratio = mean;
        progress.best_iteration = progress.iteration;
        progress.best = parameters.to_vec();
    }
    Ok(())
}
