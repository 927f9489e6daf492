//! A box's recent latency, as its balls' outcomes tell it: peaks at once, relief by and by.

use serde::{Deserialize, Serialize};

/// Half-lives after which a measurement is forgotten, so that a rule that looks at nothing else
/// comes back to the box.
const HALF_LIVES_MAX: u64 = 8;

/// A decaying peak of latencies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    peak_ms: Option<f64>,
    observed_at_ms: u64,
}

impl Latency {
    /// Count one outcome. A failure may raise the estimate and never lowers it: failing fast is no
    /// speed.
    pub(super) fn observe(&mut self, latency_ms: f64, succeeded: bool, at_ms: u64, half_life_ms: u64) {
        let peak_ms = match self.peak_ms {
            None if succeeded => latency_ms,
            None => return,
            Some(peak_ms) if latency_ms >= peak_ms => latency_ms,
            Some(_) if !succeeded => return,
            Some(peak_ms) => {
                latency_ms + (peak_ms - latency_ms) * kept(at_ms - self.observed_at_ms, half_life_ms)
            }
        };
        *self = Self { peak_ms: Some(peak_ms), observed_at_ms: at_ms };
    }

    /// The estimate at its last outcome, in milliseconds; `None`: never measured.
    #[must_use]
    pub fn peak_ms(&self) -> Option<f64> {
        self.peak_ms
    }

    /// The estimate at `at_ms`: what was measured fades towards `usual_ms`, so that a box that was
    /// slow once and is avoided since gets another chance.
    #[must_use]
    pub fn read_ms(&self, at_ms: u64, usual_ms: f64, half_life_ms: u64) -> f64 {
        let age_ms = at_ms.saturating_sub(self.observed_at_ms);
        let remembered = self.peak_ms.filter(|_| age_ms < HALF_LIVES_MAX * half_life_ms);
        remembered.map_or(usual_ms, |peak_ms| usual_ms + (peak_ms - usual_ms) * kept(age_ms, half_life_ms))
    }
}

/// What is left of an observation after `age_ms`.
fn kept(age_ms: u64, half_life_ms: u64) -> f64 {
    libm::exp2(-(age_ms as f64) / half_life_ms as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_count_at_once_relief_by_and_by_and_failures_never_help() {
        let mut latency = Latency::default();
        latency.observe(1.0, false, 0, 1_000);
        assert_eq!(latency.read_ms(0, 40.0, 1_000), 40.0);
        latency.observe(10.0, true, 0, 1_000);
        latency.observe(100.0, true, 1_000, 1_000);
        assert_eq!(latency.peak_ms(), Some(100.0));
        latency.observe(0.0, false, 2_000, 1_000);
        assert_eq!(latency.peak_ms(), Some(100.0));
        latency.observe(20.0, true, 2_000, 1_000);
        assert_eq!(latency.peak_ms(), Some(60.0));
        assert_eq!(latency.read_ms(3_000, 20.0, 1_000), 40.0);
    }
}
