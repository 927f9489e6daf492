//! Names of the formats that can be read, and their detection.

use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use crate::adapters::{access_log, alibaba2018, azure_llm2023, berth_log, genai2026, grid, swf};
use crate::{DatasetError, source};

/// A format that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatName {
    /// `ts,value`, epoch seconds.
    CraneDsp,
    /// `timestamp,value`, naive UTC.
    Nab,
    /// One virtual machine a file, `;` and a tab between fields, eleven columns.
    BitbrainsRnd,
    /// Nine columns without a header, machine by machine.
    Alibaba2018MachineUsage,
    /// One CPU share a line, no stamps; the folder is the day.
    Planetlab,
    /// Shares of CPU and memory, no stamps.
    Google2011GcdVms,
    /// `period,count`, requests a minute.
    Worldcup98,
    /// One measure a file by container, or the request trace.
    AlibabaGenai2026,
    /// Means over a whole data centre, no stamps.
    DatacenterAggregates,
    /// Access log: common or combined text, with more behind it; Envoy's text; or JSON lines.
    AccessLog,
    /// Standard Workload Format of batch jobs, with or without lists of nodes.
    Swf,
    /// `TIMESTAMP,ContextTokens,GeneratedTokens`.
    AzureLlm2023,
    /// Berth's own event log, as `berth-scheduler export` writes it.
    BerthLog,
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
    pub const ALL: [(Self, &'static str); 17] = [
        (Self::CraneDsp, "crane_dsp"),
        (Self::Nab, "nab"),
        (Self::BitbrainsRnd, "bitbrains_rnd"),
        (Self::Alibaba2018MachineUsage, "alibaba2018_machine_usage"),
        (Self::Planetlab, "planetlab"),
        (Self::Google2011GcdVms, "google2011_gcd_vms"),
        (Self::Worldcup98, "worldcup98"),
        (Self::AlibabaGenai2026, "alibaba_genai2026"),
        (Self::DatacenterAggregates, "datacenter_aggregates"),
        (Self::AccessLog, "access_log"),
        (Self::Swf, "swf"),
        (Self::AzureLlm2023, "azure_llm2023"),
        (Self::BerthLog, "berth_log"),
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

    /// Every name, parted by commas.
    #[must_use]
    pub(crate) fn names() -> String {
        Self::ALL.map(|(_, name)| name).join(", ")
    }
}

impl FromStr for FormatName {
    type Err = DatasetError;

    fn from_str(text: &str) -> Result<Self, DatasetError> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text).map(|(format, _)| *format);
        found.ok_or_else(|| {
            DatasetError::Usage(format!("format `{text}` is unknown; allowed: {}", Self::names()))
        })
    }
}

/// Bytes of a file that detection looks at.
const HEAD_BYTES: u64 = 65_536;

/// Tell a file's format by its first bytes and its name; `Err` with what was found.
pub(crate) fn detect(path: &Path, is_mapped: bool) -> Result<FormatName, DatasetError> {
    let mut head = Vec::new();
    source::open(path)?.take(HEAD_BYTES).read_to_end(&mut head).map_err(DatasetError::io(path))?;
    let unknown =
        |found: &str| DatasetError::UnknownFormat { path: path.to_path_buf(), found: found.to_owned() };
    if head.starts_with(b"PAR1") {
        let is_packed = crate::source::is_packed(path)?;
        return if is_packed {
            Err(unknown("Parquet in gzip; unpack it first"))
        } else {
            Ok(FormatName::Parquet)
        };
    }
    let text = String::from_utf8_lossy(head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&head)).into_owned();
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    if first.is_empty() {
        return Err(unknown("the file is empty"));
    }
    if text.contains('\0') {
        return Err(unknown("binary bytes"));
    }
    if first.starts_with('{') {
        let is_reply = text.contains("\"resultType\"") || text.contains("\"errorType\"");
        return Ok(match is_reply {
            true => FormatName::Prometheus,
            false if !is_mapped && berth_log::is_event(first) => FormatName::BerthLog,
            false if !is_mapped && access_log::is_access_log(&text) => FormatName::AccessLog,
            false => FormatName::Ndjson,
        });
    }
    if !is_mapped && let Some(format) = known_header(first).or_else(|| known_rows(path, first, &text)) {
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
    source::unpacked_name(path)
        .extension()
        .is_some_and(|extension| DATA.iter().any(|known| extension == *known))
}

fn known_header(first: &str) -> Option<FormatName> {
    match first {
        "ts,value" => Some(FormatName::CraneDsp),
        "timestamp,value" => Some(FormatName::Nab),
        "period,count" => Some(FormatName::Worldcup98),
        azure_llm2023::HEADER => Some(FormatName::AzureLlm2023),
        _ if grid::is_datacenter(first) => Some(FormatName::DatacenterAggregates),
        _ if genai2026::is_genai(first) => Some(FormatName::AlibabaGenai2026),
        _ if first.starts_with("Timestamp [ms];") && first.contains("CPU usage [%]") => {
            Some(FormatName::BitbrainsRnd)
        }
        _ => None,
    }
}

/// Formats without a header, told by their rows.
fn known_rows(path: &Path, first: &str, text: &str) -> Option<FormatName> {
    if alibaba2018::is_machine_usage(first) {
        Some(FormatName::Alibaba2018MachineUsage)
    } else if grid::is_planetlab(path, first) {
        Some(FormatName::Planetlab)
    } else if grid::is_gcd(path, first) {
        Some(FormatName::Google2011GcdVms)
    } else if swf::is_swf(text) {
        Some(FormatName::Swf)
    } else {
        access_log::is_access_log(text).then_some(FormatName::AccessLog)
    }
}
