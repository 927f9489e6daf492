//! Adapters, one file a format: each turns a raw file into [`RawFile`].

mod bitbrains_rnd;
mod delimited;
mod mapped;
mod ndjson;
mod parquet;
mod prometheus;
mod simple;

use std::path::Path;

use crate::samples::RawFile;
use crate::{DatasetError, FormatName, ReadOptions};

/// Sets whose files are one series each; their boxes are called `set/name` in an ingested folder.
pub(crate) const NAMED_SETS: [&str; 3] = ["crane_dsp", "nab", "bitbrains_rnd"];

/// Read one file of a known format.
pub(crate) fn read_file(
    path: &Path,
    format: FormatName,
    options: &ReadOptions,
) -> Result<RawFile, DatasetError> {
    let mapping = options.mapping.as_ref();
    let mut raw = match format {
        FormatName::CraneDsp => simple::read_crane_dsp(path)?,
        FormatName::Nab => simple::read_nab(path)?,
        FormatName::BitbrainsRnd => bitbrains_rnd::read(path)?,
        FormatName::Prometheus => prometheus::read(path, mapping)?,
        FormatName::Csv => delimited::read(path, mapping)?,
        FormatName::Ndjson => ndjson::read(path, mapping)?,
        FormatName::Parquet => parquet::read(path, mapping)?,
    };
    raw.tidy();
    Ok(raw)
}

/// A file's name without its extension.
fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// `folder/stem`: the name of a series in sets whose folders matter.
fn folder_and_stem(path: &Path) -> String {
    let folder = path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    folder.map_or_else(|| stem(path), |folder| format!("{folder}/{}", stem(path)))
}

#[cfg(test)]
mod tests;
