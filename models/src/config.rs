//! The fleet's configuration: what an operator sets, with defaults that need no file.

use serde::{Deserialize, Serialize};

use crate::domain::Invalid;
use crate::domain::ball::DURATION_MS_MAX;
use crate::strategy::StrategyName;

/// How evenly balls are spread over boxes, whatever the strategy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Balance {
    /// As the strategy has it.
    #[default]
    Free,
    /// Every box that can take a ball gets one before any gets a second.
    NonEmpty,
    /// Only the boxes with the fewest balls get the next one.
    Strong,
}

/// Everything about deciding that an operator may set. Times are in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetConfig {
    /// Goes up by one with every change; every decision names it.
    pub version: u64,
    /// Seed of every draw; taken from the operating system once, at the first start.
    pub seed: u64,
    /// Decides all traffic that is not critical, not in the holdout, and not on rules only.
    pub primary: StrategyName,
    /// Decides critical traffic's neighbours on rules: the holdout, the kill switch, fallbacks.
    pub rule: StrategyName,
    /// Evaluated in shadow; `None`: nothing is.
    pub candidate: Option<StrategyName>,
    /// Share of non-critical balls that always go by `rule`: the permanent control arm.
    pub holdout_share: f64,
    /// The kill switch: everything by `rule`.
    pub rules_only: bool,
    /// Share of every dimension's capacity that only critical balls may reserve.
    pub critical_headroom: f64,
    /// Lease of a ball that asks for none.
    pub lease_ms_default: u64,
    /// Longest lease granted; a heartbeat renews it.
    pub lease_ms_max: u64,
    /// Expected stay of a ball that states none, until its class has finished some.
    pub residence_ms_default: u64,
    /// A finished ball's answer is kept this long, so that a late retry gets it again.
    pub idempotency_keep_ms: u64,
    /// Most balls remembered, live and finished; above it allocation is refused, never forgotten.
    pub balls_max: usize,
    /// Most boxes.
    pub boxes_max: usize,
    /// Without ids in a report, a ball placed this long before `sampled_at` counts as seen by it.
    pub report_delay_ms: u64,
    /// A report older than this makes its box's load unknown.
    pub report_stale_ms: u64,
    /// A box that has reported and then been silent this long gets nothing.
    pub report_expired_ms: u64,
    /// Weight of a warming box.
    pub warming_weight: f64,
    /// Weight an observing box ramps to.
    pub observing_weight: f64,
    /// Time in `warming` of a box that reports no stage.
    pub warming_ms: u64,
    /// Length of the observing ramp.
    pub observing_ms: u64,
    /// Failure share above which an observing box falls back to the warming weight.
    pub observing_failure_share: f64,
    /// Failures in a row that eject a box.
    pub ejection_failures: u32,
    /// First ejection's length; the n-th lasts n times as long.
    pub ejection_ms: u64,
    /// Longest ejection.
    pub ejection_ms_max: u64,
    /// Largest share of boxes ejected at once, rounded down.
    pub ejection_share_max: f64,
    /// Below this share of admissible boxes, staleness and ejection stop counting (panic mode).
    pub panic_share: f64,
    /// Load added to a box whose recent work all failed, in proportion (sinkhole guard).
    pub failure_load: f64,
    /// Half-life of the memory of failures.
    pub failure_half_life_ms: u64,
    /// Quantile of the background forecast that `predicted_load` counts with: 0.5, 0.9 or 0.99.
    pub forecast_quantile: f64,
    /// How evenly balls are spread over boxes, whatever the strategy.
    pub balance: Balance,
    /// Boxes that `power_of_d` draws.
    pub choices: usize,
    /// Best boxes that `top_n` draws one of.
    pub top_n: usize,
    /// Quantile of balls in flight above which `hot_cold` calls a box hot.
    pub hot_quantile: f64,
    /// Most balls a box may hold for `rendezvous`, as a multiple of its share.
    pub hash_bound: f64,
    /// Time between two balls of a box that `next_accept` paces.
    pub accept_interval_ms: u64,
    /// Half-life of a measured latency.
    pub latency_half_life_ms: u64,
    /// While a candidate is in shadow, boxes whose score is above the best by at most this share of it
    /// are drawn from evenly, for non-critical balls; 0 (the default): never.
    pub exploration_tolerance: f64,
}

impl Default for FleetConfig {
    fn default() -> Self {
        Self {
            version: 1,
            seed: 0,
            primary: StrategyName::PredictedLoad,
            rule: StrategyName::LeastLoaded,
            candidate: None,
            holdout_share: 0.0,
            rules_only: false,
            critical_headroom: 0.1,
            lease_ms_default: 60_000,
            lease_ms_max: 24 * 3_600_000,
            residence_ms_default: 60_000,
            idempotency_keep_ms: 600_000,
            balls_max: 1_000_000,
            boxes_max: 100_000,
            report_delay_ms: 1_000,
            report_stale_ms: 30_000,
            report_expired_ms: 180_000,
            warming_weight: 0.1,
            observing_weight: 0.5,
            warming_ms: 60_000,
            observing_ms: 240_000,
            observing_failure_share: 0.05,
            ejection_failures: 5,
            ejection_ms: 30_000,
            ejection_ms_max: 300_000,
            ejection_share_max: 0.34,
            panic_share: 0.5,
            failure_load: 1.0,
            failure_half_life_ms: 30_000,
            forecast_quantile: 0.5,
            balance: Balance::Free,
            choices: 3,
            top_n: 5,
            // Prequal's own; 0.6 to 0.9 do nearly as well.
            hot_quantile: 0.84,
            hash_bound: 1.01,
            accept_interval_ms: 60_000,
            latency_half_life_ms: 10_000,
            exploration_tolerance: 0.0,
        }
    }
}

impl FleetConfig {
    /// Check every field.
    ///
    /// # Errors
    /// [`Invalid`] naming the first field that is refused.
    pub fn check(&self) -> Result<(), Invalid> {
        for (field, share) in [
            ("holdout_share", self.holdout_share),
            ("critical_headroom", self.critical_headroom),
            ("warming_weight", self.warming_weight),
            ("observing_weight", self.observing_weight),
            ("observing_failure_share", self.observing_failure_share),
            ("ejection_share_max", self.ejection_share_max),
            ("panic_share", self.panic_share),
            ("hot_quantile", self.hot_quantile),
            ("exploration_tolerance", self.exploration_tolerance),
        ] {
            if !(0.0..=1.0).contains(&share) {
                return Err(Invalid::new(field, share, "0 to 1"));
            }
        }
        if !(0.0..=1_000.0).contains(&self.failure_load) {
            return Err(Invalid::new("failure_load", self.failure_load, "0 to 1000"));
        }
        if !crate::forecast::QUANTILES.contains(&self.forecast_quantile) {
            let allowed = format!("one of {:?}", crate::forecast::QUANTILES);
            return Err(Invalid::new("forecast_quantile", self.forecast_quantile, allowed));
        }
        if !(1.0..=100.0).contains(&self.hash_bound) {
            return Err(Invalid::new("hash_bound", self.hash_bound, "1 to 100"));
        }
        for (field, count) in [("choices", self.choices), ("top_n", self.top_n)] {
            if !(1..=1_000).contains(&count) {
                return Err(Invalid::new(field, count, "1 to 1000"));
            }
        }
        for (field, name) in [("rule", self.rule)] {
            if name.needs_model() || name.needs_policy() {
                return Err(Invalid::new(field, name, "a strategy that needs no model and no policy"));
            }
        }
        // A time may be none at all where that means "at once"; every time is bounded, so that no
        // sum of times can overflow.
        for (field, least, value) in [
            ("lease_ms_default", 1, self.lease_ms_default),
            ("lease_ms_max", self.lease_ms_default, self.lease_ms_max),
            ("residence_ms_default", 1, self.residence_ms_default),
            ("idempotency_keep_ms", 0, self.idempotency_keep_ms),
            ("report_delay_ms", 0, self.report_delay_ms),
            ("report_stale_ms", 1, self.report_stale_ms),
            ("report_expired_ms", 1, self.report_expired_ms),
            ("warming_ms", 0, self.warming_ms),
            ("observing_ms", 0, self.observing_ms),
            ("ejection_ms", 1, self.ejection_ms),
            ("ejection_ms_max", 1, self.ejection_ms_max),
            ("failure_half_life_ms", 1, self.failure_half_life_ms),
            ("accept_interval_ms", 0, self.accept_interval_ms),
            ("latency_half_life_ms", 1, self.latency_half_life_ms),
        ] {
            if !(least..=DURATION_MS_MAX).contains(&value) {
                return Err(Invalid::new(field, value, format!("{least} to {DURATION_MS_MAX} ms (30 days)")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_allowed_and_every_time_is_bounded() {
        let defaults = serde_json::to_value(FleetConfig::default()).unwrap();
        assert_eq!(FleetConfig::default().check(), Ok(()));
        let fields = defaults.as_object().unwrap().keys();
        let times: Vec<&String> = fields.filter(|field| field.contains("_ms")).collect();
        assert_eq!(times.len(), 14);
        for field in times {
            let mut config = defaults.clone();
            config[field] = u64::MAX.into();
            let config: FleetConfig = serde_json::from_value(config).unwrap();
            assert!(config.check().is_err(), "{field}");
        }
    }
}
