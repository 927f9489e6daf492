//! Adapters, one file a format: each turns a raw file into [`RawFile`].

pub(crate) mod access_log;
pub(crate) mod alibaba2018;
pub(crate) mod azure_llm2023;
pub(crate) mod berth_log;
mod bitbrains_rnd;
mod delimited;
pub(crate) mod genai2026;
pub(crate) mod grid;
mod mapped;
mod ndjson;
mod parquet;
pub(crate) mod prometheus;
mod simple;
pub(crate) mod swf;

use std::path::Path;

use crate::lines::LineReader;
use crate::samples::RawFile;
use crate::{DatasetError, FormatName, ReadOptions, RejectReason};

/// Sets whose series have names of their own; their boxes are called `set/name` in an ingested folder.
pub(crate) const NAMED_SETS: [&str; 9] = [
    "crane_dsp",
    "nab",
    "bitbrains_rnd",
    "alibaba2018_machine_usage",
    "planetlab",
    "google2011_gcd_vms",
    "worldcup98",
    "alibaba_genai2026",
    "datacenter_aggregates",
];

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
        FormatName::Alibaba2018MachineUsage => alibaba2018::read(path)?,
        FormatName::Planetlab => grid::read_planetlab(path)?,
        FormatName::Google2011GcdVms => grid::read_gcd(path)?,
        FormatName::Worldcup98 => simple::read_worldcup98(path)?,
        FormatName::AlibabaGenai2026 => genai2026::read(path)?,
        FormatName::DatacenterAggregates => grid::read_datacenter(path)?,
        FormatName::AccessLog => access_log::read(path)?,
        FormatName::Swf => swf::read(path)?,
        FormatName::AzureLlm2023 => azure_llm2023::read(path)?,
        FormatName::BerthLog => berth_log::read(path)?,
        FormatName::Prometheus => prometheus::read(path, mapping)?,
        FormatName::Csv => delimited::read(path, mapping)?,
        FormatName::Ndjson => ndjson::read(path, mapping)?,
        FormatName::Parquet => parquet::read(path, mapping)?,
    };
    raw.tidy();
    Ok(raw)
}

/// Hand every line that isn't a header to `accept`, with its number; what it can't use is rejected.
fn each_line(
    path: &Path,
    raw: &mut RawFile,
    mut is_header: impl FnMut(&str) -> bool,
    mut accept: impl FnMut(&mut RawFile, u64, &str) -> Result<(), RejectReason>,
) -> Result<(), DatasetError> {
    let mut reader = LineReader::open(path)?;
    while let Some(line) = reader.next_line()? {
        let (line, number) = (line.map(str::to_owned), reader.line);
        let text = line.as_deref().unwrap_or("");
        if line.is_ok() && is_header(text) {
            continue;
        }
        raw.quality.rows_read += 1;
        let result = line.as_ref().map_err(|reason| *reason).and_then(|line| accept(raw, number, line));
        if let Err(reason) = result {
            raw.reject(number, reason, text);
        }
    }
    Ok(())
}

/// The first line that isn't blank, trimmed; empty when there is none that can be read.
fn first_line(path: &Path) -> Result<String, DatasetError> {
    let mut reader = LineReader::open(path)?;
    Ok(reader.next_line()?.and_then(Result::ok).unwrap_or_default().trim().to_owned())
}

/// A file's name without its extension.
fn stem(path: &Path) -> String {
    crate::source::unpacked_name(path)
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// `folder/stem`: the name of a series in sets whose folders matter.
fn folder_and_stem(path: &Path) -> String {
    let folder = path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    folder.map_or_else(|| stem(path), |folder| format!("{folder}/{}", stem(path)))
}

#[cfg(test)]
mod set_tests;
#[cfg(test)]
mod tests;
