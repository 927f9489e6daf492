//! Mappings from the columns of a foreign file to those of a canonical table.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::DatasetError;

/// A canonical table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Table {
    /// `boxes`.
    Boxes,
    /// `box_metrics`.
    #[default]
    BoxMetrics,
    /// `balls`.
    Balls,
    /// `outcomes`.
    Outcomes,
}

impl Table {
    /// Every table.
    pub const ALL: [Self; 4] = [Self::Boxes, Self::BoxMetrics, Self::Balls, Self::Outcomes];

    /// The table's name, and its file's name without `.parquet`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Boxes => "boxes",
            Self::BoxMetrics => "box_metrics",
            Self::Balls => "balls",
            Self::Outcomes => "outcomes",
        }
    }
}

/// The unit of numeric stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TimeUnit {
    /// Seconds since the epoch.
    #[serde(rename = "s")]
    Seconds,
    /// Milliseconds since the epoch.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Microseconds since the epoch.
    #[serde(rename = "us")]
    Microseconds,
    /// Nanoseconds since the epoch.
    #[serde(rename = "ns")]
    Nanoseconds,
}

/// Which column of a file is which field of which table.
///
/// As JSON: `{"table":"box_metrics","columns":{"when":"at_ms","host":"box_id","cpu":"cpu_cores"},"time_unit":"s"}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mapping {
    /// The table that the rows belong to.
    pub table: Table,
    /// The file's column (its name, its number from 1 where there is no header, a dotted path in JSON, or
    /// a label in Prometheus data) to the table's field.
    pub columns: BTreeMap<String, String>,
    /// The unit of numeric stamps; detected when absent. A stated unit is obeyed.
    pub time_unit: Option<TimeUnit>,
    /// The separator of CSV; detected among `,` `;` tab and `|` when absent.
    pub separator: Option<char>,
    /// Whether CSV starts with a header; detected when absent (a first line of which every mapped name is a field).
    pub has_header: Option<bool>,
}

impl Mapping {
    /// Read a mapping from a JSON file.
    ///
    /// # Errors
    /// When the file can't be read or is no such object.
    pub fn read(path: &Path) -> Result<Self, DatasetError> {
        let text = std::fs::read_to_string(path).map_err(DatasetError::io(path))?;
        serde_json::from_str(&text).map_err(DatasetError::json(path))
    }

    /// Take one `column=field` (or `table=NAME`, `time_unit=s|ms|us|ns`, `separator=CHAR`, `header=true|false`,
    /// each with a leading `:`), as `--map` gives it.
    ///
    /// # Errors
    /// When there is no `=`, or a setting has a value that is not allowed.
    pub fn add(&mut self, text: &str) -> Result<(), DatasetError> {
        let (left, right) = text.split_once('=').ok_or_else(|| {
            DatasetError::Usage(format!(
                "mapping `{text}` has no `=`; write column=field, for example host=box_id"
            ))
        })?;
        match left.strip_prefix(':') {
            Some(setting) => self.set(setting, right),
            None => {
                self.columns.insert(left.trim().to_owned(), right.trim().to_owned());
                Ok(())
            }
        }
    }

    fn set(&mut self, setting: &str, value: &str) -> Result<(), DatasetError> {
        let refuse = |allowed: &str| {
            DatasetError::Usage(format!(
                "mapping setting `:{setting}={value}` is unknown; allowed: {allowed}"
            ))
        };
        let quoted = serde_json::Value::String(value.to_owned());
        match setting {
            "table" => {
                self.table = serde_json::from_value(quoted)
                    .map_err(|_| refuse(":table=boxes|box_metrics|balls|outcomes"))?;
            }
            "time_unit" => {
                let unit = serde_json::from_value(quoted).map_err(|_| refuse(":time_unit=s|ms|us|ns"))?;
                self.time_unit = Some(unit);
            }
            "separator" => {
                let separator = if value == "tab" { Some('\t') } else { value.chars().next() };
                self.separator =
                    Some(separator.filter(char::is_ascii).ok_or_else(|| refuse(":separator=,|;|tab"))?);
            }
            "header" => self.has_header = Some(value.parse().map_err(|_| refuse(":header=true|false"))?),
            _ => return Err(refuse(":table :time_unit :separator :header")),
        }
        Ok(())
    }
}
