//! Counts of requests a minute by box: the load series that a log of requests holds.

use std::collections::{BTreeMap, BTreeSet};

use crate::RejectReason;
use crate::samples::{BoxSamples, MAX_BOXES, RawFile};

const MINUTE_MS: i64 = 60_000;
/// Minutes without a request anywhere after which a log is taken to be missing, not quiet.
const SILENT_MINUTES: i64 = 60;
/// Quiet minutes of one file that are filled with zero; a stray stamp must not fill the memory.
const MAX_QUIET_MINUTES: u64 = 10_000_000;

/// Requests by box and minute.
#[derive(Default)]
pub(crate) struct MinuteCounts {
    boxes: BTreeMap<String, BTreeMap<i64, u64>>,
}

impl MinuteCounts {
    /// Count one request.
    pub fn add(&mut self, box_id: &str, at_ms: i64) -> Result<(), RejectReason> {
        if !self.boxes.contains_key(box_id) {
            if self.boxes.len() >= MAX_BOXES {
                return Err(RejectReason::TooManyBoxes);
            }
            self.boxes.insert(box_id.to_owned(), BTreeMap::new());
        }
        if let Some(minutes) = self.boxes.get_mut(box_id) {
            *minutes.entry(at_ms.div_euclid(MINUTE_MS)).or_default() += 1;
        }
        Ok(())
    }

    /// Write the counts as the only measure of `raw`, stamped with the minute's end.
    ///
    /// Between a box's first and last request a minute without one is zero, unless the whole log was silent
    /// for more than an hour around it: then nothing is known.
    pub fn write(self, raw: &mut RawFile) {
        if self.boxes.is_empty() {
            return;
        }
        let silences = self.silences();
        if !silences.is_empty() {
            raw.quality.counted.insert("silences_of_over_an_hour".to_owned(), silences.len() as u64);
            raw.note("the log is silent for over an hour: those minutes are left out, not taken for zero");
        }
        raw.note("`value` is the count of requests a minute, stamped with its end; the first and last minute may be partial");
        let mut quiet = 0;
        for (box_id, minutes) in self.boxes {
            let samples = fill(&minutes, &silences, &mut quiet);
            raw.boxes.insert(box_id, samples);
        }
        if quiet > MAX_QUIET_MINUTES {
            raw.quality.counted.insert("quiet_minutes_not_filled".to_owned(), quiet - MAX_QUIET_MINUTES);
        }
    }

    /// Ranges of minutes, first and last of each, in which no box got a request for too long.
    fn silences(&self) -> Vec<(i64, i64)> {
        let all: BTreeSet<i64> = self.boxes.values().flat_map(|minutes| minutes.keys().copied()).collect();
        let pairs = all.iter().zip(all.iter().skip(1));
        pairs
            .filter(|(before, after)| *after - *before > SILENT_MINUTES)
            .map(|(before, after)| (before + 1, after - 1))
            .collect()
    }
}

/// One box's minutes with the quiet ones between; `quiet` counts those of all boxes.
fn fill(minutes: &BTreeMap<i64, u64>, silences: &[(i64, i64)], quiet: &mut u64) -> BoxSamples {
    let mut at_ms = Vec::with_capacity(minutes.len());
    let mut counts = Vec::with_capacity(minutes.len());
    let mut next = None;
    for (minute, count) in minutes {
        let mut between = next.unwrap_or(*minute);
        while between < *minute {
            let silence = silences.partition_point(|silence| silence.1 < between);
            if let Some((_, last)) = silences.get(silence).filter(|silence| silence.0 <= between) {
                between = last + 1;
                continue;
            }
            *quiet += 1;
            if *quiet <= MAX_QUIET_MINUTES {
                at_ms.push((between + 1) * MINUTE_MS);
                counts.push(0.0);
            }
            between += 1;
        }
        at_ms.push((minute + 1) * MINUTE_MS);
        counts.push(*count as f64);
        next = Some(minute + 1);
    }
    BoxSamples { at_ms, values: vec![counts], is_count: true, ..BoxSamples::default() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::samples::Measure;

    #[test]
    fn quiet_minutes_are_zero_and_silent_hours_unknown() {
        let mut counts = MinuteCounts::default();
        for (box_id, minute) in [("a", 0), ("a", 0), ("b", 2), ("a", 3), ("a", 100), ("b", 101)] {
            counts.add(box_id, minute * MINUTE_MS + 59_999).unwrap();
        }
        let mut raw = RawFile::new(Path::new("log"), "access_log", "log", vec![Measure::of_table("value")]);
        counts.write(&mut raw);
        let seen = |name: &str| -> Vec<(i64, f64)> {
            let samples = &raw.boxes[name];
            samples.at_ms.iter().map(|at_ms| at_ms / MINUTE_MS).zip(samples.values[0].clone()).collect()
        };
        assert_eq!(seen("a"), [(1, 2.0), (2, 0.0), (3, 0.0), (4, 1.0), (101, 1.0)]);
        assert_eq!(seen("b"), [(3, 1.0), (4, 0.0), (101, 0.0), (102, 1.0)]);
        assert_eq!(raw.quality.counted["silences_of_over_an_hour"], 1);
    }
}
