//! An ingested folder: four tables, `manifest.json`, `quality.json` and `rejected.ndjson`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use polars::prelude::{DataFrame, PolarsResult};
use serde::{Deserialize, Serialize};

use crate::adapters::NAMED_SETS;
use crate::rows::FleetData;
use crate::samples::{METRIC_FIELDS, Measure, RawFile};
use crate::tables::{self, TableWriter};
use crate::{DatasetError, QualityReport, RejectReason, Table};

/// The version of the folder's layout that this code writes, and the only one it reads.
pub const FORMAT_VERSION: u32 = 1;
const MANIFEST: &str = "manifest.json";
const QUALITY: &str = "quality.json";
const REJECTED: &str = "rejected.ndjson";
const KIND: &str = "berth_tables";

/// A file that went into a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFile {
    /// The file, as it was named.
    pub file: String,
    /// The format it was read as.
    pub format: String,
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256 in hex.
    pub sha256: String,
}

/// What an ingested folder holds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Always `berth_tables`.
    pub kind: String,
    /// The layout's version.
    pub format_version: u32,
    /// The set's name: that of its only source set, else the folder's.
    pub set: String,
    /// The seed of generated data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Where the rows came from.
    pub sources: Vec<SourceFile>,
    /// Rows by table.
    pub rows: BTreeMap<Table, u64>,
    /// The first stamp of samples and balls, UTC epoch ms.
    pub first_ms: Option<i64>,
    /// The last stamp of samples and balls, UTC epoch ms.
    pub last_ms: Option<i64>,
    /// What was repaired over all sources, for example `repeated_balls`.
    pub repaired: BTreeMap<String, u64>,
}

impl Manifest {
    /// An empty manifest of this version.
    pub(crate) fn new(set: &str) -> Self {
        Self { kind: KIND.to_owned(), format_version: FORMAT_VERSION, set: set.to_owned(), ..Self::default() }
    }

    /// Read a folder's manifest.
    ///
    /// # Errors
    /// No manifest, not one of these tables, or another version.
    pub fn read(folder: &Path) -> Result<Self, DatasetError> {
        let path = folder.join(MANIFEST);
        let text = std::fs::read_to_string(&path).map_err(DatasetError::io(&path))?;
        let manifest: Self = serde_json::from_str(&text).map_err(DatasetError::json(&path))?;
        if manifest.kind != KIND || manifest.format_version != FORMAT_VERSION {
            let message = format!(
                "holds `{}` version {}; this program reads `{KIND}` version {FORMAT_VERSION}: ingest the sources again",
                manifest.kind, manifest.format_version
            );
            return Err(DatasetError::malformed(&path, message));
        }
        Ok(manifest)
    }

    /// The moment that parts the time into training (before) and holdout (from it on), `holdout_ms` long.
    /// `None` when the data isn't longer than the holdout.
    #[must_use]
    pub fn split_time(&self, holdout_ms: i64) -> Option<i64> {
        let (first_ms, last_ms) = (self.first_ms?, self.last_ms?);
        let at_ms = last_ms.checked_add(1)?.checked_sub(holdout_ms)?;
        (holdout_ms > 0 && at_ms > first_ms).then_some(at_ms)
    }
}

/// Whether a path is an ingested folder (of any version).
pub(crate) fn is_ingested(path: &Path) -> bool {
    let manifest = path.join(MANIFEST);
    if !manifest.is_file() {
        return false;
    }
    let text = std::fs::read_to_string(manifest).unwrap_or_default();
    serde_json::from_str::<serde_json::Value>(&text).is_ok_and(|value| value["kind"] == KIND)
}

/// The path of one table.
pub(crate) fn table_path(folder: &Path, table: Table) -> PathBuf {
    folder.join(format!("{}.parquet", table.as_str()))
}

/// Read an ingested folder into plain rows; with a range, only samples, arrivals and starts inside it.
///
/// # Errors
/// No folder of this version, or a table that can't be read.
pub fn read_folder(folder: &Path, range_ms: Option<Range<i64>>) -> Result<FleetData, DatasetError> {
    Manifest::read(folder)?;
    let read = |table: Table, time: &'static str, order: &[&str]| {
        let range = range_ms.clone().map(|range| (time, range));
        tables::read_table(&table_path(folder, table), range, order)
    };
    let wrap = DatasetError::table(folder);
    let boxes = tables::read_table(&table_path(folder, Table::Boxes), None, &["box_id"])?;
    Ok(FleetData {
        boxes: tables::boxes_rows(&boxes).map_err(&wrap)?,
        metrics: tables::metrics_rows(&read(Table::BoxMetrics, "at_ms", &["box_id", "at_ms"])?)
            .map_err(&wrap)?,
        balls: tables::balls_rows(&read(Table::Balls, "at_ms", &["at_ms", "ball_id"])?).map_err(&wrap)?,
        outcomes: tables::outcomes_rows(&read(
            Table::Outcomes,
            "started_at_ms",
            &["started_at_ms", "ball_id"],
        )?)
        .map_err(&wrap)?,
    })
}

/// Write tables in memory as an ingested folder.
///
/// # Errors
/// A folder that holds something else, or that can't be written.
pub fn write_folder(
    folder: &Path,
    set: &str,
    seed: Option<u64>,
    data: &FleetData,
) -> Result<Manifest, DatasetError> {
    prepare(folder)?;
    let mut manifest = Manifest::new(set);
    manifest.seed = seed;
    let wrap = DatasetError::table(folder);
    let frames = [
        (Table::Boxes, tables::boxes_frame(&data.boxes)),
        (Table::BoxMetrics, tables::metrics_frame(&data.metrics)),
        (Table::Balls, tables::balls_frame(&data.balls)),
        (Table::Outcomes, tables::outcomes_frame(&data.outcomes)),
    ];
    for (table, frame) in frames {
        let frame = frame.map_err(&wrap)?;
        let mut writer = TableWriter::create(&table_path(folder, table), &frame)?;
        writer.write(&frame)?;
        manifest.rows.insert(table, writer.finish()?);
    }
    let stamps = || data.metrics.iter().map(|row| row.at_ms).chain(data.balls.iter().map(|row| row.at_ms));
    manifest.first_ms = stamps().min();
    manifest.last_ms = stamps().max();
    finish(folder, &manifest, &QualityReport::default())?;
    Ok(manifest)
}

/// Check that a folder may be written: it must be new, empty, or hold nothing but tables of ours (whole, or
/// left by a write that was cut short).
pub(crate) fn check_free(folder: &Path) -> Result<(), DatasetError> {
    if !folder.exists() {
        return Ok(());
    }
    let tables = Table::ALL.map(|table| table_path(folder, table));
    for entry in std::fs::read_dir(folder).map_err(DatasetError::io(folder))? {
        let path = entry.map_err(DatasetError::io(folder))?.path();
        let is_ours = [MANIFEST, QUALITY, REJECTED].iter().any(|name| path == folder.join(name));
        if !is_ours && !tables.contains(&path) {
            return Err(DatasetError::Usage(format!(
                "can't write tables to {}: it holds {}, which is no table of ours; name a new folder",
                folder.display(),
                path.display()
            )));
        }
    }
    Ok(())
}

/// Make a folder ready to be written; a manifest goes first, so that half-written tables are never taken for whole.
pub(crate) fn prepare(folder: &Path) -> Result<(), DatasetError> {
    check_free(folder)?;
    std::fs::create_dir_all(folder).map_err(DatasetError::io(folder))?;
    match std::fs::remove_file(folder.join(MANIFEST)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(DatasetError::io(folder)(error)),
        _ => Ok(()),
    }
}

/// Write the report and the side file, and last the manifest, which makes the folder whole.
pub(crate) fn finish(folder: &Path, manifest: &Manifest, report: &QualityReport) -> Result<(), DatasetError> {
    write_json(&folder.join(QUALITY), report)?;
    let path = folder.join(REJECTED);
    let mut file = BufWriter::new(File::create(&path).map_err(DatasetError::io(&path))?);
    for reject in &report.rejects {
        let line = serde_json::to_string(reject).map_err(DatasetError::json(&path))?;
        writeln!(file, "{line}").map_err(DatasetError::io(&path))?;
    }
    file.flush().map_err(DatasetError::io(&path))?;
    write_json(&folder.join(MANIFEST), manifest)
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), DatasetError> {
    let text = serde_json::to_string_pretty(value).map_err(DatasetError::json(path))?;
    std::fs::write(path, text + "\n").map_err(DatasetError::io(path))
}

/// Everything that an ingested folder holds, as another ingest wants it.
pub(crate) fn read_raw_whole(folder: &Path) -> Result<RawFile, DatasetError> {
    let mut raw = read_raw(folder)?;
    let wrap = DatasetError::table(folder);
    let balls = tables::read_table(&table_path(folder, Table::Balls), None, &[])?;
    raw.balls = tables::balls_rows(&balls).map_err(&wrap)?;
    let outcomes = tables::read_table(&table_path(folder, Table::Outcomes), None, &[])?;
    raw.outcomes = tables::outcomes_rows(&outcomes).map_err(&wrap)?;
    let rows = (balls.height() + outcomes.height()) as u64;
    raw.quality.rows_read += rows;
    raw.quality.rows_accepted += rows;
    Ok(raw)
}

/// The samples of an ingested folder, as series want them.
pub(crate) fn read_raw(folder: &Path) -> Result<RawFile, DatasetError> {
    let manifest = Manifest::read(folder)?;
    let path = table_path(folder, Table::BoxMetrics);
    let measured = tables::measured_columns(&path, &METRIC_FIELDS)?;
    let measures = measured.iter().map(|name| Measure::of_table(name)).collect();
    let mut raw = RawFile::new(folder, "ingested", &manifest.set, measures);
    let columns = [["at_ms", "box_id"].as_slice(), &measured].concat();
    tables::for_each_group(&path, &columns, |frame| push_frame(&mut raw, frame, &measured))?;
    let boxes = tables::read_table(&table_path(folder, Table::Boxes), None, &["box_id"])?;
    raw.box_rows = tables::boxes_rows(&boxes).map_err(DatasetError::table(folder))?;
    adopt_capacities(&mut raw);
    raw.tidy();
    Ok(raw)
}

fn push_frame(raw: &mut RawFile, frame: &DataFrame, measured: &[&str]) -> PolarsResult<()> {
    let columns = measured.iter().map(|name| frame.column(name)?.f64());
    let columns = columns.collect::<PolarsResult<Vec<_>>>()?;
    let mut columns: Vec<_> = columns.iter().map(|column| column.iter()).collect();
    let mut values = vec![f64::NAN; measured.len()];
    let stamps = frame.column("at_ms")?.i64()?;
    let boxes = frame.column("box_id")?.str()?;
    for (at_ms, box_id) in stamps.iter().zip(boxes.iter()) {
        raw.quality.rows_read += 1;
        for (value, column) in values.iter_mut().zip(&mut columns) {
            *value = column.next().flatten().unwrap_or(f64::NAN);
        }
        let pushed = match (box_id, at_ms) {
            (Some(box_id), Some(at_ms)) => raw.push(box_id, at_ms, &values),
            _ => Err(RejectReason::MissingField),
        };
        if let Err(reason) = pushed {
            raw.reject(raw.quality.rows_read, reason, "box_metrics");
        }
    }
    Ok(())
}

/// Give the samples of a box the capacities of its row.
fn adopt_capacities(raw: &mut RawFile) {
    for row in &raw.box_rows {
        let Some(samples) = raw.boxes.get_mut(&row.box_id) else {
            continue;
        };
        for (name, capacity) in [
            ("cpu_cores", row.capacity_cpu_cores),
            ("memory_bytes", row.capacity_memory_bytes),
            ("bandwidth_bps", row.capacity_bandwidth_bps),
            ("slots", row.capacity_slots),
        ] {
            samples.capacity.extend(capacity.map(|capacity| (name.to_owned(), capacity)));
        }
    }
}

/// The set and the series' name that a box id stands for: `set/name` where a named set was ingested.
pub(crate) fn set_and_name(set: &str, box_id: &str) -> (String, String) {
    let named = NAMED_SETS
        .into_iter()
        .find_map(|known| Some((known, box_id.strip_prefix(known)?.strip_prefix('/')?)));
    named.map_or_else(|| (set.to_owned(), box_id.to_owned()), |(set, name)| (set.to_owned(), name.to_owned()))
}
