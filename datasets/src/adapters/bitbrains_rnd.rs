//! bitbrains_rnd (GWA-T-12): one virtual machine a file, eleven columns parted by `;` and a tab.
//!
//! The header says `[ms]`; the stamps are seconds. A machine that is switched off keeps writing rows, with
//! zero cores, and a CPU share that stays at its last value: such rows measure nothing.

use std::path::Path;

use super::folder_and_stem;
use crate::lines::{LineReader, split_fields};
use crate::samples::{Measure, RawFile, parse_load};
use crate::time::Clock;
use crate::{DatasetError, RejectReason, TimeUnit};

const COLUMNS: usize = 11;
const BYTES_PER_KB: f64 = 1024.0;

/// The measures: the set's own columns as series, and what `box_metrics` calls them.
const MEASURES: [(&str, bool, bool); 9] = [
    ("cpu_percent", true, false),
    ("cpu_mhz", true, false),
    ("memory_bytes", true, true),
    ("disk_read_bytes_per_s", true, false),
    ("disk_write_bytes_per_s", true, false),
    ("network_received_bytes_per_s", true, false),
    ("network_transmitted_bytes_per_s", true, false),
    ("cpu_cores", false, true),
    ("bandwidth_bps", false, true),
];

/// One row: capacity and use.
struct Row {
    at_ms: i64,
    cores: f64,
    capacity_mhz: f64,
    capacity_memory_bytes: f64,
    values: [f64; MEASURES.len()],
}

pub(super) fn read(path: &Path) -> Result<RawFile, DatasetError> {
    let measures = MEASURES.map(|(name, is_series, is_in_table)| Measure {
        name: name.to_owned(),
        is_series,
        is_in_table,
    });
    let mut raw = RawFile::new(path, "bitbrains_rnd", "bitbrains_rnd", measures.to_vec());
    let name = folder_and_stem(path);
    let mut reader = LineReader::open(path)?;
    let mut fields = Vec::new();
    let mut clock = None;
    // Cores and MHz of the last row of the machine while it was on.
    let mut last_capacity = None;
    while let Some(line) = reader.next_line()? {
        let (line, number) = (line.map(str::to_owned), reader.line);
        let text = line.as_deref().unwrap_or("");
        if text.starts_with("Timestamp") {
            continue;
        }
        raw.quality.rows_read += 1;
        let row = line.as_ref().map_err(|reason| *reason).and_then(|line| {
            split_fields(line, ';', &mut fields)?;
            parse_row(&fields, &mut clock, &mut raw.quality.notes)
        });
        let pushed = row.and_then(|mut row| {
            count_state(&mut raw, &mut row, &mut last_capacity);
            raw.push(&name, row.at_ms, &row.values)?;
            remember_capacity(&mut raw, &name, &row);
            Ok(())
        });
        if let Err(reason) = pushed {
            raw.reject(number, reason, text);
        }
    }
    Ok(raw)
}

fn parse_row(
    fields: &[String],
    clock: &mut Option<Clock>,
    notes: &mut Vec<String>,
) -> Result<Row, RejectReason> {
    if fields.len() != COLUMNS {
        return Err(RejectReason::BrokenLine);
    }
    if clock.is_none() {
        *clock = Clock::detect(&fields[0], None, Some(TimeUnit::Milliseconds), notes);
    }
    let at_ms = clock.ok_or(RejectReason::BadTime)?.parse(&fields[0])?;
    let mut numbers = [0.0; COLUMNS];
    for (number, field) in numbers.iter_mut().zip(fields).skip(1) {
        *number = parse_load(field)?.ok_or(RejectReason::MissingField)?;
    }
    let [_, cores, capacity_mhz, mhz, percent, capacity_kb, memory_kb, read, write, received, transmitted] =
        numbers;
    let values = [
        percent,
        mhz,
        memory_kb * BYTES_PER_KB,
        read * BYTES_PER_KB,
        write * BYTES_PER_KB,
        received * BYTES_PER_KB,
        transmitted * BYTES_PER_KB,
        percent / 100.0 * cores,
        (received + transmitted) * BYTES_PER_KB * 8.0,
    ];
    Ok(Row { at_ms, cores, capacity_mhz, capacity_memory_bytes: capacity_kb * BYTES_PER_KB, values })
}

/// Count what is odd about a row; one of a switched-off machine becomes "not measured".
fn count_state(raw: &mut RawFile, row: &mut Row, last_capacity: &mut Option<(f64, f64)>) {
    if row.cores == 0.0 {
        raw.count("switched_off_rows");
        raw.note("rows of a switched-off machine (0 cores) are kept as not measured");
        row.values = [f64::NAN; MEASURES.len()];
        return;
    }
    let capacity = (row.cores, row.capacity_mhz);
    if last_capacity.is_some_and(|last| last != capacity) {
        raw.count("capacity_changes");
    }
    *last_capacity = Some(capacity);
    if row.values[0] > 100.0 {
        raw.count("rows_above_100_percent");
    }
}

/// A series' capacity is the last one stated while the machine was on.
fn remember_capacity(raw: &mut RawFile, name: &str, row: &Row) {
    let Some(samples) = raw.boxes.get_mut(name).filter(|_| row.cores > 0.0) else {
        return;
    };
    for (measure, value) in [
        ("cpu_percent", 100.0),
        ("cpu_mhz", row.capacity_mhz),
        ("cpu_cores", row.cores),
        ("memory_bytes", row.capacity_memory_bytes),
    ] {
        match samples.capacity.get_mut(measure) {
            Some(known) => *known = value,
            None => {
                samples.capacity.insert(measure.to_owned(), value);
            }
        }
    }
}
