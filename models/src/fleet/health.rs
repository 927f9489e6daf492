//! What a box's life and its recent failures do to its weight and its load.

use serde::{Deserialize, Serialize};

use crate::config::FleetConfig;
use crate::domain::Stage;

/// Outcomes that must have been seen before a failure share means anything.
const OUTCOMES_MIN: f64 = 20.0;
/// Imaginary successes added to every box, so that one failure of one is not a share of 1.
const PRIOR_SUCCESSES: f64 = 5.0;

/// A box's recent outcomes, decayed by time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Health {
    successes: f64,
    failures: f64,
    updated_at_ms: u64,
    failures_in_row: u32,
    ejections: u32,
    ejected_until_ms: u64,
}

impl Health {
    fn decay(&self, at_ms: u64, half_life_ms: u64) -> f64 {
        let age_ms = at_ms.saturating_sub(self.updated_at_ms);
        libm::exp2(-(age_ms as f64) / half_life_ms as f64)
    }

    /// Count one outcome; returns true when the box has now failed often enough to be ejected.
    pub fn count(&mut self, succeeded: bool, at_ms: u64, config: &FleetConfig) -> bool {
        let decay = self.decay(at_ms, config.failure_half_life_ms);
        self.successes = self.successes * decay + f64::from(u8::from(succeeded));
        self.failures = self.failures * decay + f64::from(u8::from(!succeeded));
        self.updated_at_ms = at_ms;
        if succeeded {
            self.failures_in_row = 0;
            if !self.is_ejected(at_ms) {
                self.ejections = 0;
            }
            return false;
        }
        self.failures_in_row += 1;
        self.failures_in_row >= config.ejection_failures && !self.is_ejected(at_ms)
    }

    /// Whether any failure is remembered, so that callers can skip work when none is.
    #[must_use]
    pub fn has_failures(&self) -> bool {
        self.failures > 0.0
    }

    /// Eject from `at_ms` on; each further ejection lasts longer, up to the configured most.
    pub fn eject(&mut self, at_ms: u64, config: &FleetConfig) {
        self.ejections += 1;
        self.failures_in_row = 0;
        let length_ms = config.ejection_ms.saturating_mul(u64::from(self.ejections));
        self.ejected_until_ms = at_ms.saturating_add(length_ms.min(config.ejection_ms_max));
    }

    /// Whether the box is ejected at `at_ms`.
    #[must_use]
    pub fn is_ejected(&self, at_ms: u64) -> bool {
        at_ms < self.ejected_until_ms
    }

    /// Share of recent work that failed, 0 to 1; pulled towards 0 when little was seen.
    #[must_use]
    pub fn failure_share(&self, at_ms: u64, config: &FleetConfig) -> f64 {
        if self.failures == 0.0 {
            return 0.0;
        }
        let decay = self.decay(at_ms, config.failure_half_life_ms);
        let seen = (self.successes + self.failures) * decay;
        self.failures * decay / (seen + PRIOR_SUCCESSES)
    }

    /// Whether recent failures are too many for an observing box.
    #[must_use]
    pub fn is_failing(&self, at_ms: u64, config: &FleetConfig) -> bool {
        let decay = self.decay(at_ms, config.failure_half_life_ms);
        let seen = (self.successes + self.failures) * decay;
        seen >= OUTCOMES_MIN.min(f64::from(config.ejection_failures) * 4.0)
            && self.failures > config.observing_failure_share * (self.successes + self.failures)
    }
}

/// A box's place in its life cycle.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Life {
    /// The stage by the box's own word.
    pub stage: Stage,
    /// Since when it has been in that stage, in engine milliseconds.
    pub since_ms: u64,
    /// When it registered, in engine milliseconds.
    pub registered_at_ms: u64,
    /// Whether it has ever reported a stage; a box that never does moves on by time.
    pub reports_stage: bool,
}

impl Life {
    /// The stage that counts at `at_ms`, and since when it has been in it.
    #[must_use]
    pub fn effective(&self, at_ms: u64, min_warmup_time_ms: u64, config: &FleetConfig) -> (Stage, u64) {
        if self.stage >= Stage::Draining {
            return (self.stage, self.since_ms);
        }
        let warm_at_ms = self.registered_at_ms.saturating_add(min_warmup_time_ms);
        if self.reports_stage || self.stage != Stage::Warming {
            // The grid may lie a little before the registration; without a warm-up time that holds nobody.
            return if at_ms < warm_at_ms && min_warmup_time_ms > 0 {
                (Stage::Warming, self.registered_at_ms)
            } else {
                (self.stage, self.since_ms.max(warm_at_ms))
            };
        }
        let observing_at_ms = warm_at_ms.max(self.registered_at_ms.saturating_add(config.warming_ms));
        let mature_at_ms = observing_at_ms.saturating_add(config.observing_ms);
        match at_ms {
            _ if at_ms < observing_at_ms => (Stage::Warming, self.registered_at_ms),
            _ if at_ms < mature_at_ms => (Stage::Observing, observing_at_ms),
            _ => (Stage::Mature, mature_at_ms),
        }
    }

    /// The factor on the operator's weight at `at_ms`, 0 to 1.
    #[must_use]
    pub fn weight(&self, at_ms: u64, min_warmup_time_ms: u64, is_failing: bool, config: &FleetConfig) -> f64 {
        let (stage, since_ms) = self.effective(at_ms, min_warmup_time_ms, config);
        match stage {
            Stage::Warming => config.warming_weight,
            Stage::Observing if is_failing => config.warming_weight,
            Stage::Observing => {
                let progress = at_ms.saturating_sub(since_ms) as f64 / config.observing_ms.max(1) as f64;
                config.warming_weight + (config.observing_weight - config.warming_weight) * progress.min(1.0)
            }
            Stage::Mature => 1.0,
            Stage::Draining | Stage::Down => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(stage: Stage, reports_stage: bool) -> Life {
        Life { stage, since_ms: 1_000, registered_at_ms: 1_000, reports_stage }
    }

    #[test]
    fn weight_grows_from_a_tenth_to_a_half_to_one_by_time_alone() {
        let config = FleetConfig::default();
        let life = life(Stage::Warming, false);
        let at = |seconds: u64| life.weight(1_000 + seconds * 1_000, 0, false, &config);
        assert_eq!(at(0), 0.1);
        assert_eq!(at(59), 0.1);
        assert!((at(180) - 0.3).abs() < 1e-9);
        assert_eq!(at(300), 1.0);
        assert!((0..400).all(|s| at(s) <= at(s + 1)), "monotone");
    }

    #[test]
    fn min_warmup_time_holds_a_box_that_says_it_is_ready() {
        let config = FleetConfig::default();
        let life = life(Stage::Mature, true);
        assert_eq!(life.weight(60_000, 120_000, false, &config), 0.1);
        assert_eq!(life.weight(121_000, 120_000, false, &config), 1.0);
    }

    #[test]
    fn failures_send_an_observing_box_back_and_decay() {
        let config = FleetConfig::default();
        let mut health = Health::default();
        for index in 0..40 {
            health.count(index % 4 != 0, 1_000, &config);
        }
        assert!(health.is_failing(1_000, &config));
        assert_eq!(life(Stage::Observing, true).weight(200_000, 0, true, &config), 0.1);
        let now = health.failure_share(1_000, &config);
        assert!(now > 0.2 && health.failure_share(61_000, &config) < now);
    }

    #[test]
    fn ejections_grow_and_end() {
        let config = FleetConfig::default();
        let mut health = Health::default();
        let ejected: Vec<bool> = (0..5).map(|_| health.count(false, 0, &config)).collect();
        assert_eq!(ejected, [false, false, false, false, true]);
        health.eject(0, &config);
        assert!(health.is_ejected(29_999) && !health.is_ejected(30_000));
        health.eject(30_000, &config);
        assert!(health.is_ejected(89_999) && !health.is_ejected(90_000));
    }
}
