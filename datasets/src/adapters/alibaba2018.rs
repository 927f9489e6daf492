//! alibaba2018_machine_usage: nine columns, no header, machine by machine, seconds from the trace's start.

use std::path::Path;

use super::each_line;
use crate::lines::split_fields;
use crate::samples::{Measure, RawFile, parse_load};
use crate::time::{ORIGIN_MS, ORIGIN_NOTE};
use crate::{DatasetError, RejectReason};

const SET: &str = "alibaba2018_machine_usage";
const COLUMNS: usize = 9;
/// Seconds from the start that a stamp may have: the trace is of eight days, a year is beyond doubt wrong.
const MAX_STAMP_S: i64 = 366 * 86_400;
const MEASURES: [&str; 7] = [
    "cpu_percent",
    "memory_percent",
    "memory_bandwidth_percent",
    "cache_misses_per_1000_instructions",
    "network_in_percent",
    "network_out_percent",
    "disk_percent",
];
const MEMORY_BANDWIDTH: usize = 2;
const DISK: usize = 6;

/// Whether a first line is one of this set: `m_1932,386640,41,92,,,43.04,33.08,5`.
pub(crate) fn is_machine_usage(first: &str) -> bool {
    let fields: Vec<&str> = first.split(',').collect();
    let is_machine = fields[0].strip_prefix("m_").is_some_and(|id| id.parse::<u64>().is_ok());
    is_machine && fields.len() == COLUMNS && fields[1].parse::<f64>().is_ok()
}

pub(super) fn read(path: &Path) -> Result<RawFile, DatasetError> {
    let measures = MEASURES.iter().map(|name| Measure::own(name)).chain([Measure::table_value()]);
    let mut raw = RawFile::new(path, SET, SET, measures.collect());
    raw.note(format!("stamps are seconds from the trace's start; {ORIGIN_NOTE}"));
    let mut fields = Vec::new();
    let mut machine = String::new();
    each_line(
        path,
        &mut raw,
        |line| line.starts_with("machine_id,"),
        |raw, _, line| {
            split_fields(line, ',', &mut fields)?;
            let (at_ms, values) = parse_row(raw, &fields)?;
            if machine != fields[0] {
                if raw.boxes.contains_key(&fields[0]) {
                    raw.count("machines_that_come_back");
                }
                fields[0].clone_into(&mut machine);
            }
            raw.push(&fields[0], at_ms, &values)
        },
    )?;
    if raw.boxes.len() > 1 {
        raw.note("rows come machine by machine, not by time");
    }
    for measure in ["cpu_percent", "memory_percent", "disk_percent"] {
        raw.state_capacity(measure, 100.0);
    }
    Ok(raw)
}

fn parse_row(raw: &mut RawFile, fields: &[String]) -> Result<(i64, Vec<f64>), RejectReason> {
    if fields.len() != COLUMNS {
        return Err(RejectReason::BrokenLine);
    }
    if fields[0].is_empty() {
        return Err(RejectReason::MissingField);
    }
    let stamp = fields[1].parse::<f64>().map_err(|_| RejectReason::BadTime)?;
    if !(0.0..=MAX_STAMP_S as f64).contains(&stamp) {
        return Err(RejectReason::ImplausibleTime);
    }
    let mut values = Vec::with_capacity(MEASURES.len() + 1);
    for (measure, field) in fields[2..].iter().enumerate() {
        values.push(match parse_load(field) {
            // The schema: "abnormal values are of -1 or 101".
            Err(RejectReason::Negative) if measure == DISK => bad_disk(raw),
            Ok(Some(share)) if measure == DISK && share > 100.0 => bad_disk(raw),
            parsed => parsed?.unwrap_or(f64::NAN),
        });
    }
    if values[0].is_nan() {
        return Err(RejectReason::MissingField);
    }
    if values[0] > 100.0 {
        raw.count("rows_above_100_percent");
    }
    if values[MEMORY_BANDWIDTH].is_nan() {
        raw.count("rows_without_memory_bandwidth");
    }
    values.push(values[0]);
    Ok((ORIGIN_MS + (stamp * 1000.0).round() as i64, values))
}

/// A disk's share that the schema calls abnormal: not measured, the rest of the row is good.
fn bad_disk(raw: &mut RawFile) -> f64 {
    raw.count("abnormal_disk_values_left_out");
    f64::NAN
}
