//! One JSON object a line; a column is a dotted path such as `host.name`.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::mapped::RowMaker;
use crate::lines::LineReader;
use crate::samples::RawFile;
use crate::{DatasetError, Mapping, RejectReason};

/// Lines from which the names of unmapped columns are gathered.
const LOOK_AHEAD_LINES: usize = 100;

pub(super) fn read(path: &Path, mapping: Option<&Mapping>) -> Result<RawFile, DatasetError> {
    let mut maker = RowMaker::new(path, mapping, &columns_of(path)?)?;
    let mut raw = maker.raw_file(path, "ndjson");
    let mut reader = LineReader::open(path)?;
    while let Some(line) = reader.next_line()? {
        raw.quality.rows_read += 1;
        let text = line.unwrap_or_default().to_owned();
        let result = line.and_then(|line| accept(&mut maker, &mut raw, line));
        if let Err(reason) = result {
            raw.reject(reader.line, reason, &text);
        }
    }
    Ok(raw)
}

fn accept(maker: &mut RowMaker, raw: &mut RawFile, line: &str) -> Result<(), RejectReason> {
    let object: Value = serde_json::from_str(line).map_err(|_| RejectReason::BrokenLine)?;
    if !object.is_object() {
        return Err(RejectReason::BrokenLine);
    }
    let texts = maker.columns.iter().map(|column| cell(&object, column)).collect::<Result<Vec<_>, _>>()?;
    let cells: Vec<&str> = texts.iter().map(String::as_str).collect();
    maker.accept(raw, &cells)
}

/// A value as text; absent and null are empty. The whole name is tried before its parts.
fn cell(object: &Value, column: &str) -> Result<String, RejectReason> {
    let value =
        object.get(column).or_else(|| column.split('.').try_fold(object, |value, key| value.get(key)));
    match value {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.trim().to_owned()),
        Some(Value::Number(number)) => Ok(number.to_string()),
        Some(Value::Bool(flag)) => Ok(flag.to_string()),
        Some(Value::Array(_) | Value::Object(_)) => Err(RejectReason::BadNumber),
    }
}

fn columns_of(path: &Path) -> Result<Vec<String>, DatasetError> {
    let mut names = BTreeSet::new();
    let mut reader = LineReader::open(path)?;
    for _ in 0..LOOK_AHEAD_LINES {
        match reader.next_line()? {
            None => break,
            Some(Err(_)) => {}
            Some(Ok(line)) => {
                if let Ok(Value::Object(object)) = serde_json::from_str(line) {
                    names.extend(object.keys().cloned());
                }
            }
        }
    }
    Ok(names.into_iter().collect())
}
