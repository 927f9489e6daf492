//! Engine time: milliseconds on the scale of the UTC epoch that never go backwards.
//!
//! It runs on the machine's monotonic clock, `scale` times as fast as wall time, and goes on over a
//! restart from the last event plus the wall time that has passed since, clamped. Stamps that boxes
//! send are in wall time; a fixed anchor translates them, so the same stamp always becomes the same
//! engine time. A step of the wall clock moves the anchor, never the engine.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Longest downtime that engine time follows over a restart; a longer gap is taken for a wrong wall
/// clock, and leases then last longer rather than end early.
pub const DOWNTIME_MS_MAX: u64 = 24 * 3_600_000;
/// Latest engine time a store may begin at, in milliseconds: the year 2100.
pub const ENGINE_START_MS_MAX: u64 = 4_102_444_800_000;
/// A wall clock this far from where the anchor expects it has been stepped.
const STEP_MS: u64 = 1_000;
/// Fastest and slowest engine time, in engine milliseconds a wall millisecond.
pub const SCALE_RANGE: std::ops::RangeInclusive<f64> = 1e-3..=1e5;

/// Where a log ended: engine and wall time of its last event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEnd {
    /// Engine time, in milliseconds.
    pub at_ms: u64,
    /// Wall time, in UTC epoch milliseconds.
    pub wall_ms: u64,
}

/// A pair of equal moments in wall and engine time.
#[derive(Debug, Clone, Copy)]
struct Anchor {
    wall_ms: u64,
    engine_ms: u64,
}

/// The engine's clock.
pub struct EngineClock {
    base_ms: u64,
    started: Instant,
    scale: f64,
    anchor: Mutex<Anchor>,
    steps: AtomicU64,
}

impl EngineClock {
    /// A clock that goes on after `end`, or from `first_ms` (wall time when not given) when there is no
    /// log; `scale` engine milliseconds pass in a wall millisecond.
    #[must_use]
    pub fn start(end: Option<LogEnd>, first_ms: Option<u64>, scale: f64) -> Self {
        let wall_ms = wall_now_ms();
        Self::start_at(end, first_ms.unwrap_or(wall_ms), scale, wall_ms)
    }

    fn start_at(end: Option<LogEnd>, first_ms: u64, scale: f64, wall_ms: u64) -> Self {
        let base_ms = end.map_or(first_ms, |end| {
            let down_ms = wall_ms.saturating_sub(end.wall_ms).min(DOWNTIME_MS_MAX);
            end.at_ms.saturating_add((down_ms as f64 * scale) as u64)
        });
        let anchor = Anchor { wall_ms, engine_ms: base_ms };
        Self { base_ms, started: Instant::now(), scale, anchor: Mutex::new(anchor), steps: AtomicU64::new(0) }
    }

    /// Engine time now, in milliseconds.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        let elapsed_ms = self.started.elapsed().as_secs_f64() * 1_000.0 * self.scale;
        self.base_ms.saturating_add(elapsed_ms as u64)
    }

    /// Engine milliseconds that pass in a wall millisecond.
    #[must_use]
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Steps of the wall clock seen so far.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Engine time of a wall-clock stamp; a stamp from before engine time began becomes 0.
    #[must_use]
    pub fn to_engine(&self, wall_ms: u64) -> u64 {
        let anchor = self.anchor(wall_now_ms());
        let away_ms = (wall_ms.abs_diff(anchor.wall_ms) as f64 * self.scale) as u64;
        if wall_ms >= anchor.wall_ms {
            anchor.engine_ms.saturating_add(away_ms)
        } else {
            anchor.engine_ms.saturating_sub(away_ms)
        }
    }

    /// Wall-clock time of an engine stamp, in UTC epoch milliseconds.
    #[must_use]
    pub fn to_wall(&self, engine_ms: u64) -> u64 {
        let anchor = *self.lock();
        let away_ms = (engine_ms.abs_diff(anchor.engine_ms) as f64 / self.scale) as u64;
        if engine_ms >= anchor.engine_ms {
            anchor.wall_ms.saturating_add(away_ms)
        } else {
            anchor.wall_ms.saturating_sub(away_ms)
        }
    }

    /// The anchor, moved when the wall clock was stepped.
    fn anchor(&self, wall_now_ms: u64) -> Anchor {
        let engine_now_ms = self.now_ms();
        let mut anchor = self.lock();
        let passed_ms = ((engine_now_ms - anchor.engine_ms.min(engine_now_ms)) as f64 / self.scale) as u64;
        if wall_now_ms.abs_diff(anchor.wall_ms.saturating_add(passed_ms)) > STEP_MS {
            self.steps.fetch_add(1, Ordering::Relaxed);
            *anchor = Anchor { wall_ms: wall_now_ms, engine_ms: engine_now_ms };
        }
        *anchor
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Anchor> {
        self.anchor.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Wall time now, in UTC epoch milliseconds.
#[must_use]
pub fn wall_now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: u64 = 1_700_000_000_000;

    #[test]
    fn goes_on_after_the_last_event_and_clamps_the_downtime() {
        let end = LogEnd { at_ms: NOON, wall_ms: NOON };
        let after = |wall_ms| EngineClock::start_at(Some(end), wall_ms, 1.0, wall_ms).base_ms;
        assert_eq!(after(NOON + 5_000), NOON + 5_000);
        assert_eq!(after(NOON - 3_600_000), NOON, "a clock put back stops nothing");
        assert_eq!(after(NOON + 365 * 86_400_000), NOON + DOWNTIME_MS_MAX);
    }

    #[test]
    fn stamps_translate_alike_both_ways_and_by_the_scale() {
        let clock = EngineClock::start_at(None, NOON, 60.0, wall_now_ms());
        let anchor = *clock.lock();
        let stamp = anchor.wall_ms - 1_000;
        assert_eq!(clock.to_engine(stamp), anchor.engine_ms - 60_000);
        assert_eq!(clock.to_engine(stamp), clock.to_engine(stamp));
        assert_eq!(clock.to_wall(clock.to_engine(stamp)), stamp);
    }

    #[test]
    fn a_step_of_the_wall_clock_moves_the_anchor_and_is_counted() {
        let clock = EngineClock::start_at(None, NOON, 1.0, wall_now_ms() - 7_200_000);
        let before_ms = clock.now_ms();
        let translated_ms = clock.to_engine(wall_now_ms());
        assert_eq!(clock.steps(), 1);
        assert!(translated_ms.abs_diff(before_ms) < 1_000, "now stays now");
    }
}
