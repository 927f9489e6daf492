//! Numbers drawn one after another from a seed, for scenarios.

use berth_models::chance::{draw_of, unit};

/// A stream of draws.
pub struct Draws {
    seed: u64,
    count: u64,
}

impl Draws {
    /// The stream `stream` of `seed`.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        Self { seed: draw_of(seed, stream), count: 0 }
    }

    /// In [0, 1).
    pub fn unit(&mut self) -> f64 {
        self.count += 1;
        unit(draw_of(self.seed, self.count), 0)
    }

    /// Standard normal (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.unit()));
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }

    /// Exponential with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.unit())
    }

    /// Log-normal with this median and spread of the logarithm.
    pub fn log_normal(&mut self, median: f64, spread: f64) -> f64 {
        median * libm::exp(spread * self.normal())
    }

    /// Pareto from `least` with this shape, cut at `most`.
    pub fn pareto(&mut self, least: f64, shape: f64, most: f64) -> f64 {
        (least / libm::pow(1.0 - self.unit(), 1.0 / shape)).min(most)
    }
}
