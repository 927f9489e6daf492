//! Samples of boxes as columns: what adapters fill, and what series and tables are made from.

use std::collections::BTreeMap;

use crate::quality::{FileQuality, Reject, RejectReason};
use crate::rows::{BallRow, BoxRow, OutcomeRow};
use crate::{LoadPoint, LoadSeries, QualityReport};

/// Boxes that one reading may hold; a label that never repeats would otherwise fill the memory.
pub(crate) const MAX_BOXES: usize = 100_000;
/// A step this many times the median is a gap.
const GAP_STEPS: i64 = 3;
/// Characters of a rejected line that are kept.
const DETAIL_CHARS: usize = 200;

/// Fields of `box_metrics` that hold a measure, in the table's order.
pub(crate) const METRIC_FIELDS: [&str; 13] = [
    "cpu_cores",
    "memory_bytes",
    "bandwidth_bps",
    "slots",
    "value",
    "placed_cpu_cores",
    "placed_memory_bytes",
    "placed_bandwidth_bps",
    "placed_slots",
    "latency_ms_p99",
    "error_rate",
    "queue_length",
    "cpu_steal_share",
];
/// How many of [`METRIC_FIELDS`] are dimensions of load.
pub(crate) const DIMENSIONS: usize = 5;

/// One measure of every box of a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Measure {
    /// A name of [`METRIC_FIELDS`], or the format's own with its unit.
    pub name: String,
    /// Whether it is a load series.
    pub is_series: bool,
    /// Whether its name and unit are those of `box_metrics`.
    pub is_in_table: bool,
}

impl Measure {
    /// A measure of `box_metrics`; a load series if it is a dimension.
    pub fn of_table(name: &str) -> Self {
        let is_series = METRIC_FIELDS[..DIMENSIONS].contains(&name);
        Self { name: name.to_owned(), is_series, is_in_table: true }
    }

    /// A format's own measure: a load series that no table has a column for.
    pub fn own(name: &str) -> Self {
        Self { name: name.to_owned(), is_series: true, is_in_table: false }
    }

    /// `value` for tables alone: it repeats the first measure of a format that has only its own.
    pub fn table_value() -> Self {
        Self { name: "value".to_owned(), is_series: false, is_in_table: true }
    }
}

/// The samples of one box: `values[measure][row]` at `at_ms[row]`; NaN = not measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct BoxSamples {
    pub at_ms: Vec<i64>,
    pub values: Vec<Vec<f64>>,
    /// Capacity by measure, where the source states one.
    pub capacity: BTreeMap<String, f64>,
    /// Whether values count what happened: those of one stamp add up, as where a log was rotated in a minute.
    pub is_count: bool,
}

/// Everything one file (or an ingested folder) holds.
#[derive(Debug, Default)]
pub(crate) struct RawFile {
    pub set: String,
    pub measures: Vec<Measure>,
    pub boxes: BTreeMap<String, BoxSamples>,
    pub box_rows: Vec<BoxRow>,
    pub balls: Vec<BallRow>,
    pub outcomes: Vec<OutcomeRow>,
    pub quality: FileQuality,
    pub rejects: Vec<Reject>,
}

impl RawFile {
    pub fn new(file: &std::path::Path, format: &str, set: &str, measures: Vec<Measure>) -> Self {
        let quality = FileQuality {
            file: file.display().to_string(),
            format: format.to_owned(),
            ..FileQuality::default()
        };
        Self { set: set.to_owned(), measures, quality, ..Self::default() }
    }

    /// Count a row that can't be used, and keep it for the side file.
    pub fn reject(&mut self, line: u64, reason: RejectReason, detail: &str) {
        *self.quality.rejected.entry(reason).or_default() += 1;
        if (self.rejects.len() as u64) < QualityReport::REJECTS_KEPT_PER_FILE {
            let detail = detail.chars().take(DETAIL_CHARS).collect();
            self.rejects.push(Reject { file: self.quality.file.clone(), line, reason, detail });
        }
    }

    pub fn count(&mut self, what: &str) {
        *self.quality.counted.entry(what.to_owned()).or_default() += 1;
    }

    pub fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.quality.notes.contains(&text) {
            self.quality.notes.push(text);
        }
    }

    /// Add one accepted sample; `values` has one entry a measure.
    pub fn push(&mut self, box_id: &str, at_ms: i64, values: &[f64]) -> Result<(), RejectReason> {
        if !self.boxes.contains_key(box_id) {
            if self.boxes.len() >= MAX_BOXES {
                return Err(RejectReason::TooManyBoxes);
            }
            let values = vec![Vec::new(); self.measures.len()];
            self.boxes.insert(box_id.to_owned(), BoxSamples { values, ..BoxSamples::default() });
        }
        let Some(samples) = self.boxes.get_mut(box_id) else {
            return Err(RejectReason::TooManyBoxes);
        };
        if samples.at_ms.last().is_some_and(|last| *last > at_ms) {
            self.quality.backward += 1;
        }
        samples.at_ms.push(at_ms);
        for (column, value) in samples.values.iter_mut().zip(values) {
            column.push(*value);
        }
        self.quality.rows_accepted += 1;
        Ok(())
    }

    /// Add one accepted ball.
    pub fn push_ball(&mut self, ball: BallRow) {
        self.quality.see_time(ball.at_ms);
        self.quality.rows_accepted += 1;
        self.balls.push(ball);
    }

    /// Count what is odd about a row's stamp after that of the row before; whether they are equal.
    pub fn see_arrival(&mut self, last: &mut Option<i64>, at_ms: i64) -> bool {
        let is_equal = *last == Some(at_ms);
        if is_equal {
            self.count("equal_stamps");
        }
        if last.is_some_and(|last| last > at_ms) {
            self.quality.backward += 1;
        }
        *last = Some(at_ms);
        is_equal
    }

    /// State the capacity of a measure for every box.
    pub fn state_capacity(&mut self, measure: &str, capacity: f64) {
        for samples in self.boxes.values_mut() {
            samples.capacity.insert(measure.to_owned(), capacity);
        }
    }

    /// Sort, fold repeated stamps, and fill the report's figures about time.
    pub fn tidy(&mut self) {
        let mut medians = Vec::new();
        for samples in self.boxes.values_mut() {
            self.quality.duplicates += samples.sort_and_fold();
            let steps = samples.steps();
            medians.extend(steps.median_ms);
            self.quality.gaps += steps.gaps;
            self.quality.longest_gap_ms = self.quality.longest_gap_ms.max(steps.longest_ms);
            for at_ms in [samples.at_ms.first(), samples.at_ms.last()].into_iter().flatten() {
                self.quality.see_time(*at_ms);
            }
        }
        self.quality.boxes = self.boxes.len() as u64;
        medians.sort_unstable();
        self.quality.median_step_ms = medians.get(medians.len() / 2).copied().unwrap_or(0);
        if self.quality.backward > 0 {
            self.note("sorted by time");
        }
        if self.quality.duplicates > 0 {
            self.note("kept the last row of each repeated stamp");
        }
    }

    /// The load series of every box: background where the placed part is known, else the total.
    pub fn into_series(mut self) -> (Vec<LoadSeries>, FileQuality, Vec<Reject>) {
        let mut series = Vec::new();
        for (name, samples) in std::mem::take(&mut self.boxes) {
            for index in 0..self.measures.len() {
                if self.measures[index].is_series {
                    series.extend(self.one_series(&name, &samples, index));
                }
            }
        }
        (series, self.quality, self.rejects)
    }

    fn one_series(&mut self, name: &str, samples: &BoxSamples, index: usize) -> Option<LoadSeries> {
        let dimension = self.measures[index].name.clone();
        let placed = format!("placed_{dimension}");
        let placed = self.measures.iter().position(|measure| measure.name == placed);
        let placed = placed.map(|at| &samples.values[at]).filter(|column| column.iter().any(|v| !v.is_nan()));
        let mut points = Vec::with_capacity(samples.at_ms.len());
        for (row, (at_ms, total)) in samples.at_ms.iter().zip(&samples.values[index]).enumerate() {
            let value = total - placed.map_or(0.0, |column| column[row]);
            if value.is_nan() {
                if !total.is_nan() {
                    self.count("samples_without_placed_part");
                }
                continue;
            }
            // Rounding alone makes a difference a little negative; more than that is worth a count.
            if value < -1e-9 * total.abs() {
                self.count("background_clamped_at_zero");
            }
            points.push(LoadPoint { at_ms: *at_ms, value: value.max(0.0) });
        }
        let capacity = samples.capacity.get(&dimension).copied();
        let is_background = placed.is_some();
        let (set, name) = crate::folder::set_and_name(&self.set, name);
        (!points.is_empty()).then_some(LoadSeries { set, name, dimension, capacity, is_background, points })
    }
}

struct Steps {
    median_ms: Option<i64>,
    longest_ms: i64,
    gaps: u64,
}

impl BoxSamples {
    /// Sort by time (equal stamps keep the file's order) and fold equal stamps: the last row counts, and what
    /// it lacks is taken from the row before. Returns how many rows were repeats; rows of one stamp that
    /// measured different things are none.
    pub fn sort_and_fold(&mut self) -> u64 {
        if self.at_ms.windows(2).all(|pair| pair[0] < pair[1]) {
            return 0;
        }
        let mut order: Vec<usize> = (0..self.at_ms.len()).collect();
        order.sort_by_key(|row| self.at_ms[*row]);
        let mut repeats = 0;
        let mut kept: Vec<usize> = Vec::with_capacity(order.len());
        for row in order {
            match kept.last_mut() {
                Some(last) if self.at_ms[*last] == self.at_ms[row] => {
                    repeats += u64::from(self.fold(*last, row));
                    *last = row;
                }
                _ => kept.push(row),
            }
        }
        self.at_ms = kept.iter().map(|row| self.at_ms[*row]).collect();
        for column in self.values.iter_mut().filter(|column| !column.is_empty()) {
            *column = kept.iter().map(|row| column[*row]).collect();
        }
        repeats
    }

    /// Carry over to `row` what only `earlier` measured; whether they measured the same, or one of them nothing.
    fn fold(&mut self, earlier: usize, row: usize) -> bool {
        let (mut both, mut old, mut new) = (false, false, false);
        for column in self.values.iter_mut().filter(|column| !column.is_empty()) {
            let (had, has) = (!column[earlier].is_nan(), !column[row].is_nan());
            both |= had && has;
            old |= had;
            new |= has;
            if had && !has {
                column[row] = column[earlier];
            } else if both && self.is_count {
                column[row] += column[earlier];
            }
        }
        (both && !self.is_count) || !old || !new
    }

    fn steps(&self) -> Steps {
        let mut steps: Vec<i64> = self.at_ms.windows(2).map(|pair| pair[1] - pair[0]).collect();
        steps.sort_unstable();
        let median_ms = steps.get(steps.len() / 2).copied();
        let limit_ms = median_ms.unwrap_or(0).saturating_mul(GAP_STEPS);
        let gaps = steps.len() - steps.partition_point(|step| *step <= limit_ms);
        Steps { median_ms, longest_ms: steps.last().copied().unwrap_or(0), gaps: gaps as u64 }
    }
}

impl FileQuality {
    pub(crate) fn see_time(&mut self, at_ms: i64) {
        self.first_ms = Some(self.first_ms.map_or(at_ms, |first| first.min(at_ms)));
        self.last_ms = Some(self.last_ms.map_or(at_ms, |last| last.max(at_ms)));
    }
}

/// A load in text: finite and not negative. An empty field is unknown, not zero.
pub(crate) fn parse_load(text: &str) -> Result<Option<f64>, RejectReason> {
    if text.is_empty() {
        return Ok(None);
    }
    let value = text.parse::<f64>().map_err(|_| RejectReason::BadNumber)?;
    check_load(value).map(Some)
}

/// A load as a number: finite and not negative.
pub(crate) fn check_load(value: f64) -> Result<f64, RejectReason> {
    if !value.is_finite() {
        Err(RejectReason::NonFinite)
    } else if value < 0.0 {
        Err(RejectReason::Negative)
    } else {
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Stamps end up strictly increasing, the last row of each counts, and no row is lost without a count.
        #[test]
        fn folding_keeps_the_last_row_of_each_stamp(rows in prop::collection::vec((0_i64..20, 0_u32..1000), 0..60)) {
            let mut raw = RawFile::new(std::path::Path::new("f"), "csv", "s", vec![Measure::of_table("value")]);
            let mut last = BTreeMap::new();
            for (at_ms, value) in &rows {
                raw.push("a", *at_ms, &[f64::from(*value)]).unwrap();
                last.insert(*at_ms, f64::from(*value));
            }
            raw.tidy();
            let duplicates = raw.quality.duplicates;
            let backward = rows.windows(2).filter(|pair| pair[0].0 > pair[1].0).count() as u64;
            prop_assert_eq!(raw.quality.backward, backward);
            let (series, _, _) = raw.into_series();
            let points: Vec<(i64, f64)> =
                series.iter().flat_map(|one| &one.points).map(|point| (point.at_ms, point.value)).collect();
            prop_assert_eq!(duplicates as usize + points.len(), rows.len());
            prop_assert_eq!(points, last.into_iter().collect::<Vec<_>>());
        }
    }
}
