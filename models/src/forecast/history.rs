//! The bounded past of one series: a few raw samples and about a day of one-minute means.
//!
//! Everything is looked up by *time*, never by row, so cadences from 5 s to 5 min, jitter and gaps need no
//! special case: a minute without a sample is missing (NaN), and a look-up takes the nearest filled minute
//! within half the series' own cadence.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::packed;
use super::week::{SLOT_MINUTES, Week};

/// Milliseconds in a minute, the width of one bin.
pub const MINUTE_MS: u64 = 60_000;
/// Minutes in a day.
pub const DAY_MINUTES: u64 = 1_440;
/// One-minute bins kept: a day, plus room for windows around "this time yesterday".
pub const MINUTES_KEPT: usize = DAY_MINUTES as usize + 48;
/// Raw samples kept: half a horizon of five minutes at a cadence of 5 s.
pub const RECENT_KEPT: usize = 32;
/// A look-up never reaches farther than this from the minute it was asked for.
const REACH_MINUTES_MAX: u64 = 5;
/// Weight of the newest gap between samples in the running cadence.
const CADENCE_WEIGHT: f64 = 0.05;

/// One sample of a series.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// UTC, epoch milliseconds.
    pub at_ms: u64,
    /// In the unit the caller feeds; always finite.
    pub value: f64,
}

/// The bounded past of one series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct History {
    recent: VecDeque<Sample>,
    /// Ring of the bits of minute means (`f32`); minute `m` lies at `m % MINUTES_KEPT`. NaN where no sample was.
    #[serde(with = "packed")]
    minutes: Vec<u32>,
    /// The minute the newest bin stands for (minutes since the epoch).
    newest_minute: u64,
    /// Sum and count of the samples in the newest bin.
    newest_sum: f64,
    newest_count: u32,
    week: Week,
    /// Sum and count of the finished minutes of the current five-minute slot.
    slot_sum: f64,
    slot_count: u32,
    first_ms: u64,
    /// Running gap between samples.
    cadence_ms: f64,
}

impl Default for History {
    fn default() -> Self {
        Self::new()
    }
}

impl History {
    /// An empty past.
    #[must_use]
    pub fn new() -> Self {
        Self {
            recent: VecDeque::new(),
            minutes: Vec::new(),
            newest_minute: 0,
            newest_sum: 0.0,
            newest_count: 0,
            week: Week::default(),
            slot_sum: 0.0,
            slot_count: 0,
            first_ms: 0,
            cadence_ms: 0.0,
        }
    }

    /// The newest sample.
    #[must_use]
    pub fn last(&self) -> Option<Sample> {
        self.recent.back().copied()
    }

    /// The sample `back` places before the newest.
    #[must_use]
    pub fn recent(&self, back: usize) -> Option<Sample> {
        self.recent.len().checked_sub(back + 1).and_then(|index| self.recent.get(index)).copied()
    }

    /// Running gap between samples in milliseconds; 0 before the second sample.
    #[must_use]
    pub fn cadence_ms(&self) -> f64 {
        self.cadence_ms
    }

    /// Milliseconds between the first and the newest sample.
    #[must_use]
    pub fn span_ms(&self) -> u64 {
        self.last().map_or(0, |last| last.at_ms - self.first_ms)
    }

    /// The minute the newest sample lies in, in minutes since the epoch.
    #[must_use]
    pub fn newest_minute(&self) -> u64 {
        self.newest_minute
    }

    /// Append a sample that is later than the last one and finite; the caller has checked both.
    pub fn push(&mut self, sample: Sample) {
        match self.last() {
            None => self.first_ms = sample.at_ms,
            Some(last) => self.learn_cadence((sample.at_ms - last.at_ms) as f64),
        }
        if self.recent.len() == RECENT_KEPT {
            self.recent.pop_front();
        }
        self.recent.push_back(sample);
        self.push_minute(sample);
    }

    /// A gap far above the cadence is an outage, not a new cadence: it counts as twice the cadence.
    fn learn_cadence(&mut self, gap_ms: f64) {
        if self.cadence_ms == 0.0 {
            self.cadence_ms = gap_ms;
        } else {
            let bounded = gap_ms.min(2.0 * self.cadence_ms);
            self.cadence_ms += CADENCE_WEIGHT * (bounded - self.cadence_ms);
        }
    }

    fn push_minute(&mut self, sample: Sample) {
        let minute = sample.at_ms / MINUTE_MS;
        if self.minutes.is_empty() {
            self.minutes = vec![f32::NAN.to_bits(); MINUTES_KEPT];
            self.newest_minute = minute;
        }
        if minute > self.newest_minute {
            self.finish_minute(minute);
            let skipped = (minute - self.newest_minute - 1).min(MINUTES_KEPT as u64);
            for gap in 0..skipped {
                let slot = self.slot(minute - 1 - gap);
                self.minutes[slot] = f32::NAN.to_bits();
            }
            self.newest_minute = minute;
            self.newest_sum = 0.0;
            self.newest_count = 0;
        }
        self.newest_sum += sample.value;
        self.newest_count += 1;
        let slot = self.slot(minute);
        self.minutes[slot] = ((self.newest_sum / f64::from(self.newest_count)) as f32).to_bits();
    }

    /// The newest minute is complete and goes into its slot; a complete slot goes into the week.
    fn finish_minute(&mut self, next_minute: u64) {
        self.slot_sum += self.newest_sum / f64::from(self.newest_count);
        self.slot_count += 1;
        let slot = self.newest_minute / SLOT_MINUTES;
        if next_minute / SLOT_MINUTES != slot {
            self.week.push(slot, self.slot_sum / f64::from(self.slot_count));
            (self.slot_sum, self.slot_count) = (0.0, 0);
        }
    }

    /// The past week in five-minute means.
    #[must_use]
    pub fn week(&self) -> &Week {
        &self.week
    }

    fn slot(&self, minute: u64) -> usize {
        (minute % MINUTES_KEPT as u64) as usize
    }

    /// Mean of the samples in one minute; NaN when there were none, or when it is not kept.
    #[must_use]
    pub fn minute(&self, minute: u64) -> f64 {
        let kept = minute <= self.newest_minute && minute + MINUTES_KEPT as u64 > self.newest_minute;
        if kept && !self.minutes.is_empty() {
            f64::from(f32::from_bits(self.minutes[self.slot(minute)]))
        } else {
            f64::NAN
        }
    }

    /// Mean of the filled minute nearest to `minute` within half the cadence; the earlier of two equally near.
    #[must_use]
    pub fn near(&self, minute: u64) -> f64 {
        let half = (self.cadence_ms / (2.0 * MINUTE_MS as f64)) as u64 + 1;
        let reach = half.min(REACH_MINUTES_MAX);
        for away in 0..=reach {
            for candidate in [minute.checked_sub(away), minute.checked_add(away)].into_iter().flatten() {
                let value = self.minute(candidate);
                if !value.is_nan() {
                    return value;
                }
            }
        }
        f64::NAN
    }

    /// Mean of the filled minutes in `from..=to`; NaN when none is filled.
    #[must_use]
    pub fn mean(&self, from: u64, to: u64) -> f64 {
        let (mut sum, mut count) = (0.0, 0.0);
        for minute in from..=to {
            let value = self.minute(minute);
            if !value.is_nan() {
                sum += value;
                count += 1.0;
            }
        }
        if count > 0.0 { sum / count } else { f64::NAN }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(step_ms: u64, count: u64) -> History {
        let mut history = History::new();
        for index in 0..count {
            history.push(Sample { at_ms: 1_000_000 * MINUTE_MS + index * step_ms, value: index as f64 });
        }
        history
    }

    #[test]
    fn minute_is_the_mean_of_its_samples() {
        let history = filled(15_000, 8);
        assert_eq!(history.minute(1_000_000), 1.5);
        assert_eq!(history.minute(1_000_001), 5.5);
    }

    #[test]
    fn gaps_are_missing_and_old_minutes_are_forgotten() {
        let mut history = filled(MINUTE_MS, 10);
        history.push(Sample { at_ms: 1_000_200 * MINUTE_MS, value: 7.0 });
        assert!(history.minute(1_000_100).is_nan());
        assert_eq!(history.minute(1_000_009), 9.0);
        history.push(Sample { at_ms: 1_005_000 * MINUTE_MS, value: 8.0 });
        assert!(history.minute(1_000_200).is_nan());
        for minute in 1_004_999 - MINUTES_KEPT as u64..1_005_000 {
            assert!(history.minute(minute).is_nan(), "minute {minute}");
        }
    }

    #[test]
    fn near_reaches_half_a_cadence() {
        let history = filled(5 * MINUTE_MS, 20);
        assert_eq!(history.near(1_000_052), 10.0);
        assert_eq!(history.near(1_000_053), 11.0);
        let every_minute = filled(MINUTE_MS, 20);
        assert_eq!(every_minute.near(1_000_007), 7.0);
    }

    #[test]
    fn survives_json_with_missing_minutes() {
        let mut history = filled(MINUTE_MS, 10);
        history.push(Sample { at_ms: 1_000_200 * MINUTE_MS, value: 0.1 });
        let text = serde_json::to_string(&history).expect("serialises");
        let back: History = serde_json::from_str(&text).expect("parses");
        assert!(back.minute(1_000_100).is_nan());
        assert_eq!(back, history);
    }
}
