//! crane_dsp, nab and worldcup98: a stamp and a value, one series a file.

use std::path::Path;

use super::{folder_and_stem, stem};
use crate::lines::{LineReader, split_fields};
use crate::samples::{Measure, RawFile, parse_load};
use crate::time::Clock;
use crate::{DatasetError, RejectReason, TimeUnit};

/// `ts,value` in epoch seconds.
pub(super) fn read_crane_dsp(path: &Path) -> Result<RawFile, DatasetError> {
    let clock = Clock::Epoch { unit: TimeUnit::Seconds, plausible: true };
    read(
        path,
        RawFile::new(path, "crane_dsp", "crane_dsp", vec![Measure::of_table("value")]),
        &stem(path),
        clock,
    )
}

/// `timestamp,value` with naive stamps, taken as UTC.
pub(super) fn read_nab(path: &Path) -> Result<RawFile, DatasetError> {
    let mut raw = RawFile::new(path, "nab", "nab", vec![Measure::of_table("value")]);
    raw.note("stamps carry no zone; read as UTC");
    read(path, raw, &folder_and_stem(path), Clock::Iso)
}

/// `period,count`: requests a minute, naive stamps of the minute's start that are GMT.
pub(super) fn read_worldcup98(path: &Path) -> Result<RawFile, DatasetError> {
    const MINUTE_MS: i64 = 60_000;
    let raw = RawFile::new(path, "worldcup98", "worldcup98", vec![Measure::of_table("value")]);
    let mut raw = read(path, raw, &stem(path), Clock::Iso)?;
    let stamps: Vec<i64> = raw.boxes.values().flat_map(|samples| samples.at_ms.iter().copied()).collect();
    let steps = stamps.windows(2).map(|pair| (pair[1] - pair[0]) / MINUTE_MS);
    let missing: i64 = steps.map(|minutes| (minutes - 1).max(0)).sum();
    if missing > 0 {
        raw.quality.counted.insert("minutes_missing".to_owned(), missing.unsigned_abs());
        raw.note("missing minutes are left out, not taken for zero");
    }
    Ok(raw)
}

fn read(path: &Path, mut raw: RawFile, name: &str, clock: Clock) -> Result<RawFile, DatasetError> {
    let mut reader = LineReader::open(path)?;
    let mut fields = Vec::new();
    let mut is_first = true;
    while let Some(line) = reader.next_line()? {
        let (line, number) = (line.map(str::to_owned), reader.line);
        let text = line.as_deref().unwrap_or("");
        let row =
            line.as_ref().map_err(|reason| *reason).and_then(|line| parse_row(line, clock, &mut fields));
        let is_header =
            is_first && fields.get(1).is_some_and(|field| ["value", "count"].contains(&field.as_str()));
        is_first = false;
        if is_header {
            continue;
        }
        raw.quality.rows_read += 1;
        let pushed = row.and_then(|(at_ms, value)| raw.push(name, at_ms, &[value]));
        if let Err(reason) = pushed {
            raw.reject(number, reason, text);
        }
    }
    Ok(raw)
}

fn parse_row(line: &str, clock: Clock, fields: &mut Vec<String>) -> Result<(i64, f64), RejectReason> {
    split_fields(line, ',', fields)?;
    let [stamp, value] = fields.as_slice() else {
        return Err(RejectReason::BrokenLine);
    };
    let at_ms = clock.parse(stamp)?;
    Ok((at_ms, parse_load(value)?.ok_or(RejectReason::MissingField)?))
}
