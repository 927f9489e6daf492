//! Separated text with mapped columns: `,`, `;`, tab or `|`; BOM, CRLF, quotes; with a header or without.

use std::path::Path;

use super::mapped::RowMaker;
use crate::lines::{LineReader, split_fields};
use crate::samples::RawFile;
use crate::{DatasetError, Mapping, RejectReason};

const SEPARATORS: [char; 4] = [',', ';', '\t', '|'];

/// Where the cells of a line are, and how many fields a line has.
struct Layout {
    separator: char,
    width: usize,
    positions: Vec<usize>,
}

pub(super) fn read(path: &Path, mapping: Option<&Mapping>) -> Result<RawFile, DatasetError> {
    let (mut maker, layout, has_header) = plan(path, mapping)?;
    let mut raw = maker.raw_file(path, "csv");
    let mut reader = LineReader::open(path)?;
    let mut fields = Vec::new();
    let mut is_header = has_header;
    while let Some(line) = reader.next_line()? {
        if std::mem::take(&mut is_header) {
            continue;
        }
        raw.quality.rows_read += 1;
        let text = line.unwrap_or_default();
        let result = line
            .and_then(|line| split_fields(line, layout.separator, &mut fields))
            .and_then(|()| accept(&mut maker, &mut raw, &layout, &fields));
        if let Err(reason) = result {
            let text = text.to_owned();
            raw.reject(reader.line, reason, &text);
        }
    }
    Ok(raw)
}

fn accept(
    maker: &mut RowMaker,
    raw: &mut RawFile,
    layout: &Layout,
    fields: &[String],
) -> Result<(), RejectReason> {
    if fields.len() != layout.width {
        return Err(RejectReason::BrokenLine);
    }
    let cells: Vec<&str> = layout.positions.iter().map(|at| fields[*at].as_str()).collect();
    maker.accept(raw, &cells)
}

/// Decide by the first line: separator, header, and where the mapped columns are.
fn plan(path: &Path, mapping: Option<&Mapping>) -> Result<(RowMaker, Layout, bool), DatasetError> {
    let mut reader = LineReader::open(path)?;
    let first = match reader.next_line()? {
        Some(line) => {
            line.map_err(|reason| DatasetError::malformed(path, format!("line 1 can't be read: {reason:?}")))?
        }
        None => {
            return Err(DatasetError::Empty {
                path: path.to_path_buf(),
                summary: "the file is empty".to_owned(),
            });
        }
    };
    let separator = mapping.and_then(|mapping| mapping.separator).unwrap_or_else(|| separator_of(first));
    let mut found = Vec::new();
    split_fields(first, separator, &mut found).map_err(|_| {
        DatasetError::malformed(path, "line 1 has an unclosed quote; mend it or state another separator")
    })?;
    let maker = RowMaker::new(path, mapping, &found)?;
    let names: Option<Vec<usize>> =
        maker.columns.iter().map(|column| found.iter().position(|name| name == column)).collect();
    let has_header = mapping.and_then(|mapping| mapping.has_header).unwrap_or(names.is_some());
    let positions = match names.filter(|_| has_header) {
        Some(positions) => positions,
        None => numbered(path, &maker.columns, &found)?,
    };
    Ok((maker, Layout { separator, width: found.len(), positions }, has_header))
}

/// The separator that parts the line most often.
pub(crate) fn separator_of(line: &str) -> char {
    let count = |separator: &char| line.matches(*separator).count();
    // The first of equals: `max_by_key` takes the last, so the order is reversed.
    SEPARATORS.into_iter().rev().max_by_key(count).unwrap_or(',')
}

/// Columns given by number, from 1.
fn numbered(path: &Path, columns: &[String], found: &[String]) -> Result<Vec<usize>, DatasetError> {
    let number = |column: &String| {
        let number = column.parse::<usize>().ok().filter(|number| (1..=found.len()).contains(number));
        number.map(|number| number - 1).ok_or_else(|| {
            DatasetError::Usage(format!(
                "{}: column `{column}` is neither in the header ({}) nor a column number from 1 to {}",
                path.display(),
                found.join(", ").chars().take(200).collect::<String>(),
                found.len()
            ))
        })
    };
    columns.iter().map(number).collect()
}
