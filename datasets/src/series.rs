//! Load series: what forecasts are trained on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::adapters::read_file;
use crate::format::{detect, has_data_extension};
use crate::samples::RawFile;
use crate::{DatasetError, FileQuality, FormatName, Mapping, QualityReport, Reject, folder};

/// How deep folders may be nested.
const MAX_DEPTH: usize = 16;

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

impl LoadSeries {
    /// Whether this is the measure that a forecast of its box is about: processor use, or a single measure.
    #[must_use]
    pub fn is_primary(&self) -> bool {
        ["cpu_cores", "cpu_percent", "value"].contains(&self.dimension.as_str())
    }
}

/// Read raw files of a known format, an ingested folder, or a directory holding either.
///
/// Series come in the order of `paths`, then of file names, boxes and measures. An ingested folder yields,
/// per box and dimension, the *background* (use minus the placed part, clamped at zero and counted) where
/// the placed part is known.
///
/// # Errors
/// A path that doesn't exist, a named file whose format can't be told, a mapping that can't be used, or no
/// usable row at all.
pub fn load_series(
    paths: &[PathBuf],
    options: &ReadOptions,
) -> Result<(Vec<LoadSeries>, QualityReport), DatasetError> {
    let mut all = Vec::new();
    let mut report = QualityReport::default();
    read_each(paths, options, folder::read_raw, &mut report, |raw| {
        let (series, quality, rejects) = raw.into_series();
        all.extend(series);
        Ok((quality, rejects))
    })?;
    if all.is_empty() {
        return Err(nothing_usable(paths, &report));
    }
    Ok((all, report))
}

/// Read every file below `paths` (ingested folders by `read_folder`), handing each to `take`, which returns
/// its report.
pub(crate) fn read_each(
    paths: &[PathBuf],
    options: &ReadOptions,
    read_folder: fn(&Path) -> Result<RawFile, DatasetError>,
    report: &mut QualityReport,
    mut take: impl FnMut(RawFile) -> Result<(FileQuality, Vec<Reject>), DatasetError>,
) -> Result<(), DatasetError> {
    for source in find_sources(paths, options, report)? {
        let raw = match &source {
            Source::Folder(path) => read_folder(path)?,
            Source::File(path, format) => read_file(path, *format, options)?,
        };
        let (quality, rejects) = take(raw)?;
        report.add(quality, rejects);
    }
    Ok(())
}

/// The error of a reading that found nothing.
pub(crate) fn nothing_usable(paths: &[PathBuf], report: &QualityReport) -> DatasetError {
    let rows: u64 = report.files.iter().map(|file| file.rows_read).sum();
    let mut summary =
        format!("{} files, {rows} rows read, {} rejected", report.files.len(), report.rejected_total());
    let accepted: u64 = report.files.iter().map(|file| file.rows_accepted).sum();
    if accepted > 0 {
        summary += &format!("; {accepted} accepted, but they hold no load series: they can be ingested");
    }
    if let Some(reject) = report.rejects.first() {
        summary += &format!(
            "; the first: {} line {}: {:?}: {}",
            reject.file, reject.line, reject.reason, reject.detail
        );
    }
    if let Some(skipped) = report.skipped.first() {
        summary += &format!("; {} skipped, the first: {skipped}", report.skipped.len());
    }
    DatasetError::Empty { path: paths.first().cloned().unwrap_or_default(), summary }
}

/// Something to read.
pub(crate) enum Source {
    /// A folder with a manifest.
    Folder(PathBuf),
    /// A raw file.
    File(PathBuf, FormatName),
}

/// Walk `paths`. A file named directly must be of a known format; one found in a directory is skipped, and
/// listed, when it isn't.
fn find_sources(
    paths: &[PathBuf],
    options: &ReadOptions,
    report: &mut QualityReport,
) -> Result<Vec<Source>, DatasetError> {
    let is_mapped = options.mapping.as_ref().is_some_and(|mapping| !mapping.columns.is_empty());
    let mut sources = Vec::new();
    for path in paths {
        let mut files = Vec::new();
        let is_named = !path.is_dir();
        if !path.exists() {
            let message = format!("{} doesn't exist; name a file or a folder", path.display());
            return Err(DatasetError::Usage(message));
        }
        let mut found = Walk { files: &mut files, entered: BTreeSet::new(), skipped: &mut report.skipped };
        walk(path, 0, &mut found)?;
        for file in files {
            if folder::is_ingested(&file) {
                sources.push(Source::Folder(file));
                continue;
            }
            // A mapping in a directory speaks of its data files, not of a README beside them.
            let is_data = is_named || has_data_extension(&file);
            let format = options.format.map_or_else(|| detect(&file, is_mapped && is_data), Ok);
            match format {
                Ok(format) => sources.push(Source::File(file, format)),
                Err(DatasetError::UnknownFormat { path, found }) if !is_named => {
                    report.skipped.push(format!("{}: {found}", path.display()));
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(sources)
}

/// A walk through folders.
struct Walk<'a> {
    files: &'a mut Vec<PathBuf>,
    /// Folders that have been entered, without links: a link back to one of them would never end.
    entered: BTreeSet<PathBuf>,
    skipped: &'a mut Vec<String>,
}

/// Gather the files (and ingested folders) below a path, sorted by name; hidden ones are left out, and links that
/// lead nowhere or to a folder that was entered before are listed as skipped.
fn walk(path: &Path, depth: usize, found: &mut Walk<'_>) -> Result<(), DatasetError> {
    let kind = match std::fs::metadata(path) {
        Err(error) if depth > 0 => {
            found.skipped.push(format!("{}: {error}", path.display()));
            return Ok(());
        }
        other => other.map_err(DatasetError::io(path))?,
    };
    if !kind.is_dir() || folder::is_ingested(path) {
        found.files.push(path.to_path_buf());
        return Ok(());
    }
    if !found.entered.insert(path.canonicalize().map_err(DatasetError::io(path))?) {
        found.skipped.push(format!("{}: a link to a folder that is read already", path.display()));
        return Ok(());
    }
    if depth >= MAX_DEPTH {
        return Err(DatasetError::malformed(
            path,
            format!("folders are nested deeper than {MAX_DEPTH}; name the folder that holds the data"),
        ));
    }
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path).map_err(DatasetError::io(path))? {
        entries.push(entry.map_err(DatasetError::io(path))?.path());
    }
    entries.sort();
    for entry in entries {
        let is_hidden = entry.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if !is_hidden {
            walk(&entry, depth + 1, found)?;
        }
    }
    Ok(())
}
