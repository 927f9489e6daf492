//! Names of the formats that can be read, and their detection.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use crate::DatasetError;

/// A format that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatName {
    /// `ts,value`, epoch seconds.
    CraneDsp,
    /// `timestamp,value`, naive UTC.
    Nab,
    /// One virtual machine a file, `;` and a tab between fields, eleven columns.
    BitbrainsRnd,
    /// The reply of Prometheus' `query_range`.
    Prometheus,
    /// Separated text with mapped columns.
    Csv,
    /// One JSON object a line with mapped fields.
    Ndjson,
    /// Parquet with mapped columns.
    Parquet,
}

impl FormatName {
    /// Every format, with the name used on the command line.
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::CraneDsp, "crane_dsp"),
        (Self::Nab, "nab"),
        (Self::BitbrainsRnd, "bitbrains_rnd"),
        (Self::Prometheus, "prometheus"),
        (Self::Csv, "csv"),
        (Self::Ndjson, "ndjson"),
        (Self::Parquet, "parquet"),
    ];

    /// The name used on the command line and in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(format, _)| *format == self).map_or("", |(_, name)| name)
    }
}

impl FromStr for FormatName {
    type Err = DatasetError;

    fn from_str(text: &str) -> Result<Self, DatasetError> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text).map(|(format, _)| *format);
        found.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(_, name)| *name).collect();
            DatasetError::Usage(format!("format `{text}` is unknown; allowed: {}", names.join(", ")))
        })
    }
}

/// Bytes of a file that detection looks at.
const HEAD_BYTES: u64 = 65_536;

/// Tell a file's format by its first bytes and its name; `Err` with what was found.
pub(crate) fn detect(path: &Path, is_mapped: bool) -> Result<FormatName, DatasetError> {
    let mut head = Vec::new();
    let file = File::open(path).map_err(DatasetError::io(path))?;
    file.take(HEAD_BYTES).read_to_end(&mut head).map_err(DatasetError::io(path))?;
    if head.starts_with(b"PAR1") {
        return Ok(FormatName::Parquet);
    }
    let text = String::from_utf8_lossy(head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&head)).into_owned();
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    let unknown =
        |found: &str| DatasetError::UnknownFormat { path: path.to_path_buf(), found: found.to_owned() };
    if first.is_empty() {
        return Err(unknown("the file is empty"));
    }
    if head.starts_with(b"\x1F\x8B") {
        return Err(unknown("gzip; unpack it first"));
    }
    if text.contains('\0') {
        return Err(unknown("binary bytes"));
    }
    if first.starts_with('{') {
        let is_reply = text.contains("\"resultType\"") || text.contains("\"errorType\"");
        return Ok(if is_reply { FormatName::Prometheus } else { FormatName::Ndjson });
    }
    if !is_mapped && let Some(format) = known_header(first) {
        return Ok(format);
    }
    let is_canonical = ["at_ms", "box_id", "ball_id"].iter().any(|field| first.contains(field));
    if is_mapped || (is_canonical && has_data_extension(path)) {
        return Ok(FormatName::Csv);
    }
    Err(unknown(&format!("first line `{}`", first.chars().take(120).collect::<String>())))
}

/// Whether a file's name says that it holds data.
pub(crate) fn has_data_extension(path: &Path) -> bool {
    const DATA: [&str; 8] = ["csv", "tsv", "txt", "log", "json", "jsonl", "ndjson", "parquet"];
    path.extension().is_some_and(|extension| DATA.iter().any(|known| extension == *known))
}

fn known_header(first: &str) -> Option<FormatName> {
    match first {
        "ts,value" => Some(FormatName::CraneDsp),
        "timestamp,value" => Some(FormatName::Nab),
        _ if first.starts_with("Timestamp [ms];") && first.contains("CPU usage [%]") => {
            Some(FormatName::BitbrainsRnd)
        }
        _ => None,
    }
}
