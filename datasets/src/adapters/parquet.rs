//! Parquet with mapped columns, some row groups' rows at a time.

use std::path::Path;

use polars::prelude::*;

use super::mapped::RowMaker;
use crate::samples::RawFile;
use crate::tables::for_each_group;
use crate::{DatasetError, Mapping};

pub(super) fn read(path: &Path, mapping: Option<&Mapping>) -> Result<RawFile, DatasetError> {
    let table = DatasetError::table(path);
    let file = std::fs::File::open(path).map_err(DatasetError::io(path))?;
    let mut reader = ParquetReader::new(file);
    let schema = reader.schema().map_err(&table)?;
    let found: Vec<String> = schema.iter_names().map(ToString::to_string).collect();
    let mut maker = RowMaker::new(path, mapping, &found)?;
    for column in &maker.columns {
        if !found.contains(column) {
            let message = format!("column `{column}` is not in the file; it has {}", found.join(", "));
            return Err(DatasetError::Usage(format!("{}: {message}", path.display())));
        }
    }
    let mut raw = maker.raw_file(path, "parquet");
    let columns = maker.columns.clone();
    let names: Vec<&str> = columns.iter().map(String::as_str).collect();
    for_each_group(path, &names, |frame| {
        let texts = frame_texts(frame, &columns)?;
        for row in 0..frame.height() {
            raw.quality.rows_read += 1;
            let cells: Vec<&str> = texts.iter().map(|column| column[row].as_str()).collect();
            if let Err(reason) = maker.accept(&mut raw, &cells) {
                raw.reject(raw.quality.rows_read, reason, &cells.join(","));
            }
        }
        Ok(())
    })?;
    Ok(raw)
}

/// Cells as text; null is empty, times become epoch ms.
fn frame_texts(frame: &DataFrame, columns: &[String]) -> PolarsResult<Vec<Vec<String>>> {
    let text = |name: &String| -> PolarsResult<Vec<String>> {
        let column = frame.column(name)?;
        let column = match column.dtype() {
            DataType::Datetime(_, _) => {
                column.cast(&DataType::Datetime(TimeUnit::Milliseconds, None))?.cast(&DataType::Int64)?
            }
            _ => column.clone(),
        };
        let cell = |row| -> PolarsResult<String> {
            Ok(match column.get(row)? {
                AnyValue::Null => String::new(),
                AnyValue::String(text) => text.trim().to_owned(),
                AnyValue::StringOwned(text) => text.trim().to_owned(),
                AnyValue::Float64(number) => number.to_string(),
                AnyValue::Float32(number) => number.to_string(),
                other => other.to_string(),
            })
        };
        (0..frame.height()).map(cell).collect()
    };
    columns.iter().map(text).collect()
}
