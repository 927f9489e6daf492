//! What recent traffic looks like: offered load and sizes, for the regime table and the drift check.

use serde::{Deserialize, Serialize};

use super::Scale;

/// Balls the running means remember, about.
const MEMORY: f64 = 512.0;
/// Balls before which nothing is said.
const BALLS_MIN: u64 = 32;
/// Standard errors by which the mean logarithm of sizes may differ from the training's.
const DRIFT_ERRORS: f64 = 4.0;
/// The least work that counts, in milliseconds: a logarithm needs one.
const WORK_MS_MIN: f64 = 1e-3;

/// Sizes of the training's traffic.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Mean of ln(work in milliseconds).
    pub log_work_mean: f64,
    /// Its standard deviation.
    pub log_work_spread: f64,
    /// Mean work, in milliseconds.
    pub work_ms_mean: f64,
}

impl Shape {
    /// The shape of a sample of sizes, in milliseconds; `None` of an empty one.
    #[must_use]
    pub fn of(works_ms: &[f64]) -> Option<Self> {
        let count = works_ms.len() as f64;
        if works_ms.is_empty() {
            return None;
        }
        let logs: Vec<f64> = works_ms.iter().map(|work| libm::log(work.max(WORK_MS_MIN))).collect();
        let mean = logs.iter().sum::<f64>() / count;
        let variance = logs.iter().map(|log| (log - mean) * (log - mean)).sum::<f64>() / count;
        Some(Self {
            log_work_mean: mean,
            log_work_spread: libm::sqrt(variance),
            work_ms_mean: works_ms.iter().sum::<f64>() / count,
        })
    }

    /// Units of the features for boxes of mean speed `speed_mean`.
    #[must_use]
    pub fn scale(&self, speed_mean: f64) -> Scale {
        Scale { work_ms: self.work_ms_mean, time_ms: self.work_ms_mean / speed_mean }
    }
}

/// Running means over placed balls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    balls: u64,
    last_at_ms: u64,
    gap_ms: f64,
    log_work: f64,
}

impl Traffic {
    /// A ball of `work_ms` was placed at `at_ms`.
    pub fn count(&mut self, at_ms: u64, work_ms: f64) {
        self.balls += 1;
        let gain = (1.0 / self.balls as f64).max(1.0 / MEMORY);
        self.log_work += gain * (libm::log(work_ms.max(WORK_MS_MIN)) - self.log_work);
        if self.balls > 1 {
            let gap_ms = at_ms.saturating_sub(self.last_at_ms) as f64;
            let gain = (1.0 / (self.balls - 1) as f64).max(1.0 / MEMORY);
            self.gap_ms += gain * (gap_ms - self.gap_ms);
        }
        self.last_at_ms = at_ms;
    }

    /// Offered load: work arriving ÷ work that boxes of summed speed `speed_sum` can do. `None`: too
    /// little traffic to tell.
    ///
    /// Means of heavy tails say little, so the mean work is the running geometric mean times the
    /// training's ratio of the two means; another shape is drift, see [`Self::has_drifted`].
    #[must_use]
    pub fn load(&self, trained_on: &Shape, speed_sum: f64) -> Option<f64> {
        let work_ms = trained_on.work_ms_mean * libm::exp(self.log_work - trained_on.log_work_mean);
        let load = work_ms / (self.gap_ms * speed_sum);
        (self.balls >= BALLS_MIN && load.is_finite()).then_some(load)
    }

    /// Whether sizes differ from the training's by more than chance would make them.
    #[must_use]
    pub fn has_drifted(&self, trained_on: &Shape) -> bool {
        let error = trained_on.log_work_spread / libm::sqrt(MEMORY.min(self.balls.max(1) as f64));
        let difference = (self.log_work - trained_on.log_work_mean).abs();
        // What is no number has drifted.
        difference.is_nan() || difference > DRIFT_ERRORS * error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_work_arriving_per_work_done_and_other_sizes_are_drift() {
        let shape = Shape { log_work_mean: libm::log(200.0), log_work_spread: 0.5, work_ms_mean: 300.0 };
        let run = |work_ms: f64| {
            let mut traffic = Traffic::default();
            (0..1_000).for_each(|index| traffic.count(index * 50, work_ms));
            traffic
        };
        assert_eq!(Traffic::default().load(&shape, 6.0), None);
        let load = run(200.0).load(&shape, 6.0).unwrap();
        assert!((load - 1.0).abs() < 1e-9, "{load}");
        assert!(!run(200.0).has_drifted(&shape));
        assert!(run(240.0).has_drifted(&shape) && run(0.0).has_drifted(&shape));
    }
}
