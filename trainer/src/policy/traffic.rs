//! Traffic of the training: the distributions of the published sets, at any load, length and seed.
//!
//! Draws come from [`berth_models::chance`], the suites' from the Mersenne twister: no training trace can
//! be a trace of a suite.

use berth_models::chance::unit;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// What a trace is for; traces of different purposes never share a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Gradients.
    Training,
    /// Which weights are kept and when to stop.
    Validation,
    /// The verdict and the regime table: looked at once.
    Verdict,
}

/// A distribution of work and gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Sizes uniform in 100..1000 (`iclr19`).
    Iclr19,
    /// Sizes Pareto of shape 1.5 from 100 (`park`).
    Park,
}

/// Arrivals: time in milliseconds, and work in milliseconds at speed 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// In order of time.
    pub arrivals: Vec<(u64, f64)>,
}

impl Family {
    /// The family of a suite; `None` when policies can't be trained on it.
    #[must_use]
    pub fn of_suite(suite: &str) -> Option<Self> {
        [("iclr19", Self::Iclr19), ("park", Self::Park)].into_iter().find(|f| f.0 == suite).map(|f| f.1)
    }

    /// Its suite.
    #[must_use]
    pub fn suite(self) -> &'static str {
        ["iclr19", "park"][self as usize]
    }

    /// Speeds of the ten servers of both suites.
    #[must_use]
    pub fn speeds(self) -> Vec<f64> {
        (0..10).map(|index| f64::from(15 + 10 * index) / 100.0).collect()
    }

    /// Load of the suite itself: work arriving ÷ work that can be done.
    #[must_use]
    pub fn home_load(self) -> f64 {
        let gap_ms = [100.0, 55.0][self as usize];
        self.work_ms_mean() / (gap_ms * self.speeds().iter().sum::<f64>())
    }

    /// Mean work, in milliseconds.
    fn work_ms_mean(self) -> f64 {
        [550.0, 300.0][self as usize]
    }

    fn work_ms(self, uniform: f64) -> f64 {
        let work_ms = match self {
            Self::Iclr19 => 100.0 + 900.0 * uniform,
            Self::Park => pareto_ms(uniform, 1.5),
        };
        work_ms.trunc()
    }

    /// A trace of `jobs` arrivals at `load`. `index` under `seed` and `purpose` names it.
    #[must_use]
    pub fn trace(self, purpose: Purpose, seed: u64, index: u64, load: f64, jobs: usize) -> Trace {
        let gap_ms = self.work_ms_mean() / (load * self.speeds().iter().sum::<f64>());
        let name = format!("{} {purpose:?} {index}", self.suite());
        let draw = xxh3_64_with_seed(name.as_bytes(), seed);
        let mut at_ms = 0;
        let arrivals = (0..jobs as u64)
            .map(|job| {
                let work_ms = self.work_ms(unit(draw, 2 * job + 1));
                at_ms += (gap_ms * -libm::log(1.0 - unit(draw, 2 * job + 2))) as u64;
                (at_ms, work_ms)
            })
            .collect();
        Trace { arrivals }
    }
}

/// Pareto of `shape` from 100.
fn pareto_ms(uniform: f64, shape: f64) -> f64 {
    100.0 * libm::pow(1.0 - uniform, -1.0 / shape)
}

/// A trace of Pareto sizes of any shape, for evaluation under shift; no training sees these seeds.
#[must_use]
pub fn pareto_trace(seed: u64, index: u64, shape: f64, gap_ms: f64, jobs: usize) -> Trace {
    let draw = xxh3_64_with_seed(format!("shift {shape} {gap_ms} {index}").as_bytes(), seed);
    let mut at_ms = 0;
    let arrivals = (0..jobs as u64)
        .map(|job| {
            let work_ms = pareto_ms(unit(draw, 2 * job + 1), shape).trunc();
            at_ms += (gap_ms * -libm::log(1.0 - unit(draw, 2 * job + 2))) as u64;
            (at_ms, work_ms)
        })
        .collect();
    Trace { arrivals }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_have_the_load_they_are_asked_for_and_purposes_share_none() {
        let trace = Family::Iclr19.trace(Purpose::Training, 1, 0, 0.8, 20_000);
        let work: f64 = trace.arrivals.iter().map(|arrival| arrival.1).sum();
        let load = work / (trace.arrivals[19_999].0 as f64 * 6.0);
        assert!((load - 0.8).abs() < 0.02, "{load}");
        let other = Family::Iclr19.trace(Purpose::Validation, 1, 0, 0.8, 20_000);
        assert_ne!(trace, other);
        assert!((Family::Park.home_load() - 0.909).abs() < 1e-3);
    }
}
