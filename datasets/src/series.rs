//! Load series: what forecasts are trained on.

use std::path::PathBuf;

use crate::{DatasetError, FormatName, Mapping, QualityReport};

/// One measured point of one dimension of one box.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadPoint {
    /// UTC, epoch milliseconds.
    pub at_ms: i64,
    /// In the dimension's unit; always finite.
    pub value: f64,
}

/// A load series of one dimension of one box: sorted by time, strictly increasing stamps, finite values.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadSeries {
    /// The set, for example `crane_dsp`.
    pub set: String,
    /// The series inside the set, for example `input0` or `box-03`.
    pub name: String,
    /// `cpu_cores`, `memory_bytes`, `bandwidth_bps`, `slots` or `value`; sets with other columns name them with units.
    pub dimension: String,
    /// Capacity in the dimension's unit, where the source states one.
    pub capacity: Option<f64>,
    /// True when load that a scheduler placed was subtracted.
    pub is_background: bool,
    /// The points.
    pub points: Vec<LoadPoint>,
}

/// How to read.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// Take the files for this format instead of detecting it from content and path.
    pub format: Option<FormatName>,
    /// The columns of a CSV, NDJSON or Parquet file that no adapter knows.
    pub mapping: Option<Mapping>,
}

/// Read raw files of a known format, an ingested folder, or a directory holding either.
///
/// # Errors
/// A path that doesn't exist, a file whose format can't be told, or a file with no usable row.
pub fn load_series(
    paths: &[PathBuf],
    options: &ReadOptions,
) -> Result<(Vec<LoadSeries>, QualityReport), DatasetError> {
    let _ = (paths, options);
    Ok((Vec::new(), QualityReport::default()))
}
