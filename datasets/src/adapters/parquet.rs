//! Parquet with mapped columns, one row group's rows at a time.

use std::path::Path;

use polars::prelude::*;

use super::mapped::RowMaker;
use crate::samples::RawFile;
use crate::{DatasetError, Mapping};

/// Rows that are held as text at a time.
const CHUNK_ROWS: usize = 65_536;

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
    let frame = reader.with_columns(Some(maker.columns.clone())).finish().map_err(&table)?;
    let rows = frame.height();
    for offset in (0..rows).step_by(CHUNK_ROWS) {
        let chunk = frame.slice(offset as i64, CHUNK_ROWS);
        let texts = chunk_texts(&chunk, &maker.columns).map_err(&table)?;
        for row in 0..chunk.height() {
            raw.quality.rows_read += 1;
            let cells: Vec<&str> = texts.iter().map(|column| column[row].as_str()).collect();
            if let Err(reason) = maker.accept(&mut raw, &cells) {
                let detail = cells.join(",");
                raw.reject((offset + row + 1) as u64, reason, &detail);
            }
        }
    }
    Ok(raw)
}

/// Cells as text; null is empty, times become epoch ms.
fn chunk_texts(chunk: &DataFrame, columns: &[String]) -> PolarsResult<Vec<Vec<String>>> {
    let text = |name: &String| -> PolarsResult<Vec<String>> {
        let column = chunk.column(name)?;
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
        (0..chunk.height()).map(cell).collect()
    };
    columns.iter().map(text).collect()
}
