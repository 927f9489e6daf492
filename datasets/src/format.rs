//! Names of the formats that can be read, and their detection.

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
        Self::ALL
            .iter()
            .find(|(format, _)| *format == self)
            .map_or("", |(_, name)| name)
    }
}

impl FromStr for FormatName {
    type Err = DatasetError;

    fn from_str(text: &str) -> Result<Self, DatasetError> {
        let found = Self::ALL
            .iter()
            .find(|(_, name)| *name == text)
            .map(|(format, _)| *format);
        found.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(_, name)| *name).collect();
            DatasetError::Usage(format!(
                "format `{text}` is unknown; allowed: {}",
                names.join(", ")
            ))
        })
    }
}
