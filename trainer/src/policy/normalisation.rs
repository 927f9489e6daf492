//! Mean and spread of every feature, and the shape of sizes, as the best rule meets them.

use anyhow::Context;
use berth_models::policy::scorer::INPUTS;
use berth_models::policy::traffic::Shape;

use super::environment::{Chooser, Environment, row};
use super::traffic::{Family, Purpose};

/// Traces looked at, and jobs of each.
const TRACES: u64 = 16;
const JOBS: usize = 2_000;
/// A feature that hardly varies is not blown up: least spread.
const SPREAD_MIN: f64 = 0.05;

/// What the features are measured in.
#[derive(Debug, Clone, PartialEq)]
pub struct Normalisation {
    /// Sizes of balls.
    pub shape: Shape,
    /// Mean of every feature.
    pub mean: [f32; INPUTS],
    /// 1 ÷ standard deviation of every feature.
    pub inverse_spread: [f32; INPUTS],
}

/// Measure `family`'s traffic at its own load, under least work left.
///
/// # Errors
/// A family without traffic.
pub fn measure(family: Family, seed: u64) -> anyhow::Result<Normalisation> {
    let traces: Vec<_> =
        (0..TRACES).map(|i| family.trace(Purpose::Training, seed, i, family.home_load(), JOBS)).collect();
    let works: Vec<f64> = traces.iter().flat_map(|t| &t.arrivals).map(|arrival| arrival.1).collect();
    let shape = Shape::of(&works).context("there is no traffic to train on")?;
    let speeds = family.speeds();
    let scale = shape.scale(speeds.iter().sum::<f64>() / speeds.len() as f64);
    let mut environment = Environment::new(&speeds);
    let (mut sum, mut squares, mut count) = ([0.0; INPUTS], [0.0; INPUTS], 0.0);
    for trace in &traces {
        environment.play_observed(trace, Chooser::LeastWorkLeft, &mut |(pool, work_ms), boxes| {
            let shared = pool.features(&scale, work_ms);
            for one in boxes {
                count += 1.0;
                for (index, value) in row(&shared, &pool.box_features(&scale, one)).into_iter().enumerate() {
                    sum[index] += f64::from(value);
                    squares[index] += f64::from(value) * f64::from(value);
                }
            }
        });
    }
    let mean = |index: usize| sum[index] / count;
    let spread = |index: usize| (squares[index] / count - mean(index) * mean(index)).max(0.0).sqrt();
    Ok(Normalisation {
        shape,
        mean: std::array::from_fn(|index| mean(index) as f32),
        inverse_spread: std::array::from_fn(|index| (1.0 / spread(index).max(SPREAD_MIN)) as f32),
    })
}
