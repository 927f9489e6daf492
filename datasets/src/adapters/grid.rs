//! Sets without stamps: planetlab, google2011_gcd_vms and datacenter_aggregates. Each row is one step of
//! 300 s after the row before it, so a row that can't be used still takes its place on the grid.

use std::path::Path;

use super::{each_line, folder_and_stem};
use crate::samples::{Measure, RawFile, parse_load};
use crate::time::{ORIGIN_MS, ORIGIN_NOTE, parse_day};
use crate::{DatasetError, RejectReason};

const STEP_MS: i64 = 300_000;
/// 2011-05-01: the set's own description says ten days of May 2011, not which day a file is.
const GCD_ORIGIN_MS: i64 = 1_304_208_000_000;
/// 2019-05-01: the trace is of May 2019.
const GOOGLE_2019_ORIGIN_MS: i64 = 1_556_668_800_000;
/// Rows of eight whole days: the file's name says that it holds days 1 to 8.
const EIGHT_DAYS_ROWS: u64 = 8 * 288;

/// Header, measures and factors to percent of a whole data centre's file.
const ALIBABA_HEADER: &str = "cpu_util_percent,mem_util_percent,net_in,net_out,disk_io_percent";
const GOOGLE_HEADER: &str = "avg_cpu,avg_mem,avg_assigned_mem,avg_cycles_per_instruction";

/// One CPU share a line; the folder's name is the day.
pub(super) fn read_planetlab(path: &Path) -> Result<RawFile, DatasetError> {
    let mut raw = new_file(path, "planetlab", &["cpu_percent"]);
    let folder = path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let origin_ms = match folder.as_deref().and_then(parse_day) {
        Some(day_ms) => {
            raw.note("no stamps: 300 s steps from midnight UTC of the day that the folder is named after");
            day_ms
        }
        None => {
            raw.note(format!("no stamps: 300 s steps; {ORIGIN_NOTE}"));
            ORIGIN_MS
        }
    };
    // Hosts have dots in their names; nothing here is an extension.
    let host = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = folder.map_or_else(|| host.clone(), |folder| format!("{folder}/{host}"));
    read_rows(path, raw, &name, origin_ms, None, |line| {
        // A second column would be another set's.
        let is_single = line.split_whitespace().count() == 1;
        is_single.then(|| vec![line.trim().to_owned()]).ok_or(RejectReason::BrokenLine)
    })
}

/// Shares of CPU and memory, a space between.
pub(super) fn read_gcd(path: &Path) -> Result<RawFile, DatasetError> {
    let mut raw = new_file(path, "google2011_gcd_vms", &["cpu_percent", "memory_percent"]);
    raw.note(
        "no stamps: 300 s steps from 2011-05-01 00:00 UTC, the month of the trace; its day is not known",
    );
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    read_rows(path, raw, &name, GCD_ORIGIN_MS, None, |line| {
        Ok(line.split_whitespace().map(str::to_owned).collect())
    })
}

/// Means over a whole data centre.
pub(super) fn read_datacenter(path: &Path) -> Result<RawFile, DatasetError> {
    let first = super::first_line(path)?;
    let is_google = first == GOOGLE_HEADER;
    let (measures, origin_ms): (&[&str], i64) = if is_google {
        (
            &["cpu_percent", "memory_percent", "memory_assigned_percent", "cycles_per_instruction"],
            GOOGLE_2019_ORIGIN_MS,
        )
    } else {
        (
            &["cpu_percent", "memory_percent", "network_in_percent", "network_out_percent", "disk_percent"],
            ORIGIN_MS,
        )
    };
    let header = if is_google { GOOGLE_HEADER } else { ALIBABA_HEADER };
    if first != header {
        let message = format!("header `{first}`; allowed: `{ALIBABA_HEADER}` or `{GOOGLE_HEADER}`");
        return Err(DatasetError::malformed(path, message));
    }
    let mut raw = new_file(path, "datacenter_aggregates", measures);
    if is_google {
        raw.note("no stamps: 300 s steps from 2019-05-01 00:00 UTC; shares are given in percent");
    } else {
        raw.note(format!("no stamps: 300 s steps; {ORIGIN_NOTE}"));
    }
    let name = folder_and_stem(path);
    let mut raw = read_rows(path, raw, &name, origin_ms, Some(header), |line| {
        let mut fields = Vec::new();
        crate::lines::split_fields(line, ',', &mut fields)?;
        Ok(fields)
    })?;
    if is_google {
        to_percent(&mut raw);
    } else if raw.quality.rows_read < EIGHT_DAYS_ROWS {
        let missing = EIGHT_DAYS_ROWS - raw.quality.rows_read;
        raw.quality.counted.insert("steps_missing_of_eight_days".to_owned(), missing);
        raw.note("steps are missing and nothing says where: later rows may be stamped too early");
    }
    Ok(raw)
}

/// Whether a first line is that of a data centre's file.
pub(crate) fn is_datacenter(first: &str) -> bool {
    first == ALIBABA_HEADER || first == GOOGLE_HEADER
}

/// Whether a first line and a path are those of a planetlab file.
pub(crate) fn is_planetlab(path: &Path, first: &str) -> bool {
    let is_in_day = path
        .parent()
        .and_then(Path::file_name)
        .is_some_and(|folder| parse_day(&folder.to_string_lossy()).is_some());
    is_in_day && first.parse::<u8>().is_ok_and(|share| share <= 100)
}

/// Whether a first line and a path are those of a google2011_gcd_vms file.
pub(crate) fn is_gcd(path: &Path, first: &str) -> bool {
    let is_vm = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vm_"));
    let shares: Vec<Option<f64>> = first.split_whitespace().map(|field| field.parse().ok()).collect();
    is_vm && shares.len() == 2 && shares.iter().all(|share| share.is_some_and(|s| (0.0..=100.0).contains(&s)))
}

fn new_file(path: &Path, set: &str, names: &[&str]) -> RawFile {
    let measures = names.iter().map(|name| Measure::own(name)).chain([Measure::table_value()]);
    RawFile::new(path, set, set, measures.collect())
}

/// Rows of numbers, one a measure (the last measure repeats the first).
fn read_rows(
    path: &Path,
    mut raw: RawFile,
    name: &str,
    origin_ms: i64,
    header: Option<&str>,
    split: impl Fn(&str) -> Result<Vec<String>, RejectReason>,
) -> Result<RawFile, DatasetError> {
    let skipped = 1 + i64::from(header.is_some());
    each_line(
        path,
        &mut raw,
        |line| header == Some(line.trim()),
        |raw, number, line| {
            let fields = split(line)?;
            if fields.len() + 1 != raw.measures.len() {
                return Err(RejectReason::BrokenLine);
            }
            let mut values = Vec::with_capacity(raw.measures.len());
            for field in &fields {
                values.push(parse_load(field)?.ok_or(RejectReason::MissingField)?);
            }
            if values[0] > 100.0 {
                raw.count("rows_above_100_percent");
            }
            values.push(values[0]);
            let step = i64::try_from(number).unwrap_or(i64::MAX).saturating_sub(skipped);
            raw.push(name, origin_ms.saturating_add(step.saturating_mul(STEP_MS)), &values)
        },
    )?;
    raw.state_capacity("cpu_percent", 100.0);
    raw.state_capacity("memory_percent", 100.0);
    Ok(raw)
}

/// Google's shares of 1 in percent; cycles per instruction stay as they are.
fn to_percent(raw: &mut RawFile) {
    for samples in raw.boxes.values_mut() {
        for (measure, column) in raw.measures.iter().zip(&mut samples.values) {
            if measure.name != "cycles_per_instruction" {
                column.iter_mut().for_each(|value| *value *= 100.0);
            }
        }
    }
}
