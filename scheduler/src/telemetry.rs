//! Counters and histograms, kept as atomics and read by `/metrics`.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use berth_models::decision::{Decision, Refusal, Route};
use berth_models::domain::{Class, FieldIssue};
use berth_models::strategy::StrategyName;

/// Upper bounds of the latency buckets, in microseconds.
pub const BUCKETS_US: [u64; 16] = [
    10, 20, 50, 100, 200, 300, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 500_000, 1_000_000,
];
/// A kind of fallback is logged at most this often.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// A histogram of durations.
#[derive(Default)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS_US.len()],
    count: AtomicU64,
    sum_us: AtomicU64,
}

impl Histogram {
    /// Count one duration.
    pub fn observe(&self, duration: Duration) {
        let us = duration.as_micros() as u64;
        if let Some(bucket) = BUCKETS_US.iter().position(|most| us <= *most) {
            self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Cumulative counts by bucket, then the count and the sum in seconds.
    #[must_use]
    pub fn read(&self) -> ([u64; BUCKETS_US.len()], u64, f64) {
        let mut sum = 0;
        let cumulative = std::array::from_fn(|bucket| {
            sum += self.buckets[bucket].load(Ordering::Relaxed);
            sum
        });
        let seconds = self.sum_us.load(Ordering::Relaxed) as f64 / 1e6;
        (cumulative, self.count.load(Ordering::Relaxed), seconds)
    }
}

/// What becomes of requests, beside placed and refused balls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// A ball came again and got its answer again.
    AllocationsRepeated,
    /// A ball's id came with another body.
    AllocationsConflicting,
    /// Allocations refused at a limit.
    AllocationsLimited,
    /// A report was taken.
    ReportsAccepted,
    /// A report was not newer than the last one.
    ReportsNotNewer,
    /// A report came from a box that is not registered.
    ReportsUnknownBox,
    /// A report's stamp lay in the future and was taken for now.
    ReportsFutureStamp,
    /// Leases renewed.
    Heartbeats,
    /// Balls completed.
    Completed,
    /// Balls released.
    Released,
    /// Warm-up hooks that answered with success.
    WarmupsCalled,
    /// Warm-up hooks that failed.
    WarmupsFailed,
}

impl Counted {
    /// All, in order.
    pub const ALL: [Self; 12] = [
        Self::AllocationsRepeated,
        Self::AllocationsConflicting,
        Self::AllocationsLimited,
        Self::ReportsAccepted,
        Self::ReportsNotNewer,
        Self::ReportsUnknownBox,
        Self::ReportsFutureStamp,
        Self::Heartbeats,
        Self::Completed,
        Self::Released,
        Self::WarmupsCalled,
        Self::WarmupsFailed,
    ];

    /// Name in metrics and what is said of it there, in the order of [`Self::ALL`].
    const TEXTS: [(&str, &str); Self::ALL.len()] = [
        ("allocations_repeated", "Balls that came again and got their answer again."),
        ("allocations_conflicting", "Balls whose id came with another body."),
        ("allocations_limited", "Allocations refused because balls_max is reached."),
        ("reports_accepted", "Reports taken."),
        ("reports_not_newer", "Reports not newer than the last one of their box."),
        ("reports_unknown_box", "Reports from boxes that are not registered."),
        ("reports_future_stamp", "Reports whose stamp lay in the future and was taken for now."),
        ("heartbeats", "Leases renewed."),
        ("completed", "Balls completed."),
        ("released", "Balls released unused."),
        ("warmups_called", "Warm-up hooks that answered with success."),
        ("warmups_failed", "Warm-up hooks that failed."),
    ];

    /// The name used in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::TEXTS[self as usize].0
    }

    /// What the metric counts.
    #[must_use]
    pub fn help(self) -> &'static str {
        Self::TEXTS[self as usize].1
    }
}

/// All counters of a scheduler.
#[derive(Default)]
pub struct Telemetry {
    decided: [[AtomicU64; Class::ALL.len()]; Route::ALL.len()],
    refused: [[AtomicU64; Class::ALL.len()]; Route::ALL.len()],
    strategies: [AtomicU64; StrategyName::ALL.len()],
    causes: [AtomicU64; Refusal::ALL.len()],
    panicking: AtomicU64,
    counted: [AtomicU64; Counted::ALL.len()],
    set_aside: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
    fallback_log: Mutex<BTreeMap<&'static str, (Option<Instant>, u64)>>,
    /// Seconds from a parsed ball to its answer.
    pub allocate_seconds: Histogram,
}

impl Telemetry {
    /// Count a decision, by the strategy that took it where it is known.
    pub fn count_decision(&self, decision: &Decision, strategy: Option<StrategyName>) {
        let (route, class) = (decision.route as usize, decision.ball.class as usize);
        if decision.box_id().is_some() {
            self.decided[route][class].fetch_add(1, Ordering::Relaxed);
            if let Some(strategy) = strategy {
                self.strategies[strategy as usize].fetch_add(1, Ordering::Relaxed);
            }
        } else {
            self.refused[route][class].fetch_add(1, Ordering::Relaxed);
            for (refusal, count) in &decision.refused {
                self.causes[*refusal as usize].fetch_add(u64::from(*count), Ordering::Relaxed);
            }
        }
        if decision.panic {
            self.panicking.fetch_add(1, Ordering::Relaxed);
            self.log_fallback("panic");
        }
        if matches!(
            decision.route,
            Route::NoModel
                | Route::SkillLost
                | Route::NoPolicy
                | Route::OutsideRegime
                | Route::InputDrift
                | Route::NotFinite
        ) {
            self.log_fallback(decision.route.name());
        }
    }

    /// Count something.
    pub fn count(&self, counted: Counted) {
        self.counted[counted as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often something was counted.
    #[must_use]
    pub fn counted(&self, counted: Counted) -> u64 {
        self.counted[counted as usize].load(Ordering::Relaxed)
    }

    /// Count fields of a report that were set aside.
    pub fn count_set_aside(&self, issues: &[FieldIssue]) {
        if issues.is_empty() {
            return;
        }
        let mut set_aside = lock(&self.set_aside);
        for issue in issues {
            *set_aside.entry((issue.field, issue.reason)).or_insert(0) += 1;
        }
    }

    /// Fields set aside so far, by field and reason.
    #[must_use]
    pub fn set_aside(&self) -> BTreeMap<(&'static str, &'static str), u64> {
        lock(&self.set_aside).clone()
    }

    /// Placed and refused balls by route and class.
    pub fn each_route(&self, mut visit: impl FnMut(Route, Class, u64, u64)) {
        for route in Route::ALL {
            for class in Class::ALL {
                let read = |table: &[[AtomicU64; 3]; Route::ALL.len()]| {
                    table[route as usize][class as usize].load(Ordering::Relaxed)
                };
                visit(route, class, read(&self.decided), read(&self.refused));
            }
        }
    }

    /// Balls placed by `strategy`.
    #[must_use]
    pub fn placed_by(&self, strategy: StrategyName) -> u64 {
        self.strategies[strategy as usize].load(Ordering::Relaxed)
    }

    /// Boxes that refused a ball which found no place, by reason.
    #[must_use]
    pub fn caused(&self, refusal: Refusal) -> u64 {
        self.causes[refusal as usize].load(Ordering::Relaxed)
    }

    /// Decisions taken in panic mode.
    #[must_use]
    pub fn panicking(&self) -> u64 {
        self.panicking.load(Ordering::Relaxed)
    }

    fn log_fallback(&self, kind: &'static str) {
        let mut log = lock(&self.fallback_log);
        let (last, silent) = log.entry(kind).or_default();
        *silent += 1;
        if last.is_none_or(|last| last.elapsed() >= LOG_EVERY) {
            tracing::warn!(
                kind,
                decisions = *silent,
                "the rule decides instead of the configured strategy, or old news counts"
            );
            *last = Some(Instant::now());
            *silent = 0;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_is_cumulative_and_counts_what_exceeds_it() {
        let histogram = Histogram::default();
        for us in [5, 15, 15, 5_000_000] {
            histogram.observe(Duration::from_micros(us));
        }
        let (cumulative, count, seconds) = histogram.read();
        assert_eq!((cumulative[0], cumulative[1], cumulative[BUCKETS_US.len() - 1]), (1, 3, 3));
        assert_eq!(count, 4);
        assert!((seconds - 5.000_035).abs() < 1e-9);
    }
}
