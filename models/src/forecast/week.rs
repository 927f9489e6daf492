//! The past week in five-minute means, packed small: what "this time on other days" is looked up in.
//!
//! Finished days are kept in 16 bits a slot between each day's own lowest and highest mean, so a thousand boxes
//! cost megabytes, not tens of them; the error is at most 1/131,000 of the day's range.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::history::{DAY_MINUTES, MINUTE_MS};
use super::packed;

/// Minutes of one slot.
pub const SLOT_MINUTES: u64 = 5;
/// Days that can be looked back.
pub const DAYS: u64 = 7;
const SLOTS: u64 = DAY_MINUTES / SLOT_MINUTES;
const MISSING: u16 = u16::MAX;
const STEPS: f64 = (u16::MAX - 1) as f64;

/// A finished day.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Day {
    /// Days since the epoch.
    number: u64,
    low: f64,
    step: f64,
    slots: Vec<u16>,
}

/// Five-minute means of the current day and the [`DAYS`] before it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Week {
    /// Oldest first; days without a sample are not there.
    finished: VecDeque<Day>,
    /// The current day's number, and the bits of its means (`f32`, NaN where missing).
    number: u64,
    #[serde(with = "packed")]
    current: Vec<u32>,
}

impl Week {
    /// Put the mean of a finished slot (slots since the epoch) in; slots come in order.
    pub fn push(&mut self, slot: u64, mean: f64) {
        let number = slot / SLOTS;
        if self.current.is_empty() || number > self.number {
            self.finish_day();
            self.number = number;
            self.current = vec![f32::NAN.to_bits(); SLOTS as usize];
            while self.finished.front().is_some_and(|day| day.number + DAYS + 1 < number) {
                self.finished.pop_front();
            }
        }
        self.current[(slot % SLOTS) as usize] = (mean as f32).to_bits();
    }

    fn finish_day(&mut self) {
        let values = || self.current.iter().map(|bits| f64::from(f32::from_bits(*bits)));
        let known = || values().filter(|value| value.is_finite());
        let low = known().fold(f64::INFINITY, f64::min);
        let high = known().fold(f64::NEG_INFINITY, f64::max);
        if low > high {
            return;
        }
        let step = (high - low) / STEPS;
        let code = |value: f64| match value.is_finite() {
            true if step > 0.0 => ((value - low) / step).round() as u16,
            true => 0,
            false => MISSING,
        };
        let slots = values().map(code).collect();
        self.finished.push_back(Day { number: self.number, low, step, slots });
    }

    /// Mean of a slot (slots since the epoch); NaN where it is missing or not kept.
    fn slot(&self, slot: u64) -> f64 {
        let (number, index) = (slot / SLOTS, (slot % SLOTS) as usize);
        if number == self.number && !self.current.is_empty() {
            return f64::from(f32::from_bits(self.current[index]));
        }
        let day = self.finished.iter().rev().find(|day| day.number == number);
        match day.map(|day| (day, day.slots.get(index).copied().unwrap_or(MISSING))) {
            Some((day, code)) if code != MISSING => day.low + day.step * f64::from(code),
            _ => f64::NAN,
        }
    }

    /// The value at `at_ms`, interpolated between the middles of the slots around it; NaN where one is missing.
    #[must_use]
    pub fn value(&self, at_ms: u64) -> f64 {
        let slot_ms = SLOT_MINUTES * MINUTE_MS;
        let from_middle = at_ms.saturating_sub(slot_ms / 2);
        let share = (from_middle % slot_ms) as f64 / slot_ms as f64;
        let slot = from_middle / slot_ms;
        (1.0 - share) * self.slot(slot) + share * self.slot(slot + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: u64 = DAY_MINUTES * MINUTE_MS;

    /// A ramp over every day, plus the day's number times a thousand; the third day is missing.
    fn week() -> Week {
        let mut week = Week::default();
        for slot in (0..10 * SLOTS).filter(|slot| slot / SLOTS != 3) {
            week.push(slot, (slot % SLOTS) as f64 + 1_000.0 * (slot / SLOTS) as f64);
        }
        week
    }

    #[test]
    fn days_are_kept_to_a_small_part_of_their_range() {
        let week = week();
        for day in [2, 4, 8, 9] {
            let middle_ms = day * DAY_MS + 100 * SLOT_MINUTES * MINUTE_MS + SLOT_MINUTES * MINUTE_MS / 2;
            let want = 100.0 + 1_000.0 * day as f64;
            assert!((week.value(middle_ms) - want).abs() < 0.01, "{day}: {}", week.value(middle_ms));
            assert!((week.value(middle_ms + SLOT_MINUTES * MINUTE_MS / 2) - want - 0.5).abs() < 0.01);
        }
    }

    #[test]
    fn missing_and_forgotten_days_have_no_value() {
        let week = week();
        assert!(week.value(3 * DAY_MS + DAY_MS / 2).is_nan());
        assert!(week.value(DAY_MS / 2).is_nan());
        assert!(week.value(20 * DAY_MS).is_nan());
        assert!(Week::default().value(0).is_nan());
    }
}
