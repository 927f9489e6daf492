//! Ingest: raw files of any format into one folder of canonical tables.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use polars::prelude::DataFrame;
use sha2::{Digest, Sha256};

use crate::adapters::NAMED_SETS;
use crate::folder::{self, Manifest, SourceFile, table_path};
use crate::placed::{PlacedUse, placed_use_of};
use crate::rows::{BallRow, BoxRow, OutcomeRow};
use crate::samples::{BoxSamples, METRIC_FIELDS, RawFile};
use crate::series::{nothing_usable, read_each};
use crate::tables::{self, TableWriter};
use crate::{DatasetError, FileQuality, QualityReport, ReadOptions, Reject, Table};

/// What an ingest made.
#[derive(Debug, Clone, PartialEq)]
pub struct Ingested {
    /// What the folder holds.
    pub manifest: Manifest,
    /// What was read, rejected and repaired.
    pub report: QualityReport,
}

/// All sources together: samples by box, with columns [`METRIC_FIELDS`] (an empty one is absent).
#[derive(Default)]
struct Gathered {
    sets: Vec<String>,
    sources: Vec<SourceFile>,
    boxes: BTreeMap<String, BoxSamples>,
    box_rows: BTreeMap<String, BoxRow>,
    balls: Vec<BallRow>,
    outcomes: Vec<OutcomeRow>,
}

/// Read `paths` into the folder `out`; with `resample_ms`, samples become means over windows of that length,
/// stamped with the window's end. `progress` gets a word about each file.
///
/// Samples of a box that several files hold are joined; a later file wins where both measured the same.
/// Where balls and outcomes are there and no placed part is, the placed part is computed from them.
///
/// # Errors
/// As for [`crate::load_series`], and when `out` holds something else or can't be written.
pub fn ingest(
    paths: &[PathBuf],
    options: &ReadOptions,
    resample_ms: Option<i64>,
    out: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<Ingested, DatasetError> {
    if let Some(step_ms) = resample_ms.filter(|step_ms| *step_ms <= 0) {
        return Err(DatasetError::Usage(format!("the resampling step is {step_ms} ms; allowed: 1 and more")));
    }
    folder::check_free(out)?;
    let mut report = QualityReport::default();
    let mut gathered = Gathered::default();
    read_each(paths, options, folder::read_raw_whole, &mut report, |raw| {
        progress(&raw.quality.file);
        gathered.take(raw)
    })?;
    if report.files.iter().all(|file| file.rows_accepted == 0) {
        return Err(nothing_usable(paths, &report));
    }
    folder::prepare(out)?;
    progress("writing tables");
    let manifest = gathered.write(out, resample_ms)?;
    folder::finish(out, &manifest, &report)?;
    Ok(Ingested { manifest, report })
}

impl Gathered {
    fn take(&mut self, raw: RawFile) -> Result<(FileQuality, Vec<Reject>), DatasetError> {
        self.sources.push(source_of(&raw.quality)?);
        if !self.sets.contains(&raw.set) {
            self.sets.push(raw.set.clone());
        }
        let positions: Vec<Option<usize>> = METRIC_FIELDS
            .iter()
            .map(|field| {
                raw.measures.iter().position(|measure| measure.is_in_table && measure.name == *field)
            })
            .collect();
        for (name, samples) in raw.boxes {
            let is_named = NAMED_SETS.contains(&raw.set.as_str());
            let box_id = if is_named { format!("{}/{name}", raw.set) } else { name };
            self.add_capacity(&box_id, &samples);
            self.boxes.entry(box_id).or_default().append(samples, &positions);
        }
        for row in raw.box_rows {
            self.box_rows.insert(row.box_id.clone(), row);
        }
        for outcome in raw.outcomes.iter().filter(|outcome| !outcome.box_id.is_empty()) {
            // A log may name a box that nothing measures; its capacity is unknown.
            if !self.box_rows.contains_key(&outcome.box_id) {
                let row = BoxRow { box_id: outcome.box_id.clone(), ..BoxRow::default() };
                self.box_rows.insert(outcome.box_id.clone(), row);
            }
        }
        self.balls.extend(raw.balls);
        self.outcomes.extend(raw.outcomes);
        Ok((raw.quality, raw.rejects))
    }

    /// Boxes that no table names come from their samples.
    fn add_capacity(&mut self, box_id: &str, samples: &BoxSamples) {
        let row = self.box_rows.entry(box_id.to_owned()).or_default();
        box_id.clone_into(&mut row.box_id);
        let stated = |measure: &str, known: Option<f64>| samples.capacity.get(measure).copied().or(known);
        row.capacity_cpu_cores = stated("cpu_cores", row.capacity_cpu_cores);
        row.capacity_memory_bytes = stated("memory_bytes", row.capacity_memory_bytes);
        row.capacity_bandwidth_bps = stated("bandwidth_bps", row.capacity_bandwidth_bps);
        row.capacity_slots = stated("slots", row.capacity_slots);
    }

    fn write(mut self, out: &Path, resample_ms: Option<i64>) -> Result<Manifest, DatasetError> {
        let folder_name = out.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let set = if self.sets.len() == 1 { self.sets.remove(0) } else { folder_name };
        let mut manifest = Manifest::new(&set);
        manifest.sources = std::mem::take(&mut self.sources);
        let wrap = DatasetError::table(out);
        let (balls, folded) = tables::fold_repeats(
            tables::balls_frame(&self.balls).map_err(&wrap)?,
            "ball_id",
            &["at_ms", "ball_id"],
        )
        .map_err(&wrap)?;
        count(&mut manifest, "repeated_balls", folded);
        let outcomes = tables::outcomes_frame(&self.outcomes).map_err(&wrap)?;
        let (outcomes, folded) =
            tables::fold_repeats(outcomes, "ball_id", &["started_at_ms", "ball_id"]).map_err(&wrap)?;
        count(&mut manifest, "repeated_outcomes", folded);
        for (frame, time) in [(&balls, "at_ms"), (&outcomes, "started_at_ms")] {
            for at_ms in tables::read_whole(frame, time).map_err(&wrap)?.into_iter().flatten() {
                see_time(&mut manifest, at_ms);
            }
        }
        let mut placed = placed_use_of(&balls, &outcomes).map_err(&wrap)?;
        self.write_metrics(out, &mut manifest, &mut placed, resample_ms)?;
        let boxes: Vec<BoxRow> = std::mem::take(&mut self.box_rows).into_values().collect();
        let boxes = tables::boxes_frame(&boxes).map_err(&wrap)?;
        for (table, frame) in [(Table::Boxes, boxes), (Table::Balls, balls), (Table::Outcomes, outcomes)] {
            let mut writer = TableWriter::create(&table_path(out, table), &frame)?;
            writer.write(&frame)?;
            manifest.rows.insert(table, writer.finish()?);
        }
        Ok(manifest)
    }

    fn write_metrics(
        &mut self,
        out: &Path,
        manifest: &mut Manifest,
        placed: &mut BTreeMap<String, PlacedUse>,
        resample_ms: Option<i64>,
    ) -> Result<(), DatasetError> {
        let path = table_path(out, Table::BoxMetrics);
        let wrap = DatasetError::table(&path);
        let empty = tables::metrics_frame(&[]).map_err(&wrap)?;
        let mut writer = TableWriter::create(&path, &empty)?;
        for (box_id, mut samples) in std::mem::take(&mut self.boxes) {
            count(manifest, "repeated_samples", samples.sort_and_fold());
            if let Some(placed) = placed.get_mut(&box_id) {
                count(manifest, "boxes_with_computed_placed_use", u64::from(samples.fill_placed(placed)));
            }
            let mut frame: DataFrame = tables::samples_frame(&box_id, &samples).map_err(&wrap)?;
            if let Some(step_ms) = resample_ms {
                frame = tables::resample(frame, step_ms).map_err(&wrap)?;
            }
            let stamps = tables::read_whole(&frame, "at_ms").map_err(&wrap)?;
            for at_ms in [stamps.first(), stamps.last()].into_iter().flatten().flatten() {
                see_time(manifest, *at_ms);
            }
            writer.write(&frame)?;
        }
        manifest.rows.insert(Table::BoxMetrics, writer.finish()?);
        Ok(())
    }
}

impl BoxSamples {
    /// Append another file's samples of this box; `positions` says where its column of each field is.
    fn append(&mut self, other: BoxSamples, positions: &[Option<usize>]) {
        let (before, after) = (self.at_ms.len(), self.at_ms.len() + other.at_ms.len());
        self.at_ms.extend(other.at_ms);
        self.is_count |= other.is_count;
        self.values.resize(METRIC_FIELDS.len(), Vec::new());
        for (column, position) in self.values.iter_mut().zip(positions) {
            let added = position
                .and_then(|at| other.values.get(at))
                .filter(|added| !added.iter().all(|v| v.is_nan()));
            if let Some(added) = added {
                column.resize(before, f64::NAN);
                column.extend(added);
            } else if !column.is_empty() {
                column.resize(after, f64::NAN);
            }
        }
    }

    /// Fill the placed part of what is measured, unless the source had one; whether it did.
    fn fill_placed(&mut self, placed: &mut PlacedUse) -> bool {
        const FIRST_PLACED: usize = 5;
        let had = self.values[FIRST_PLACED..FIRST_PLACED + 4].iter().any(|column| !column.is_empty());
        if had {
            return false;
        }
        for row in 0..self.at_ms.len() {
            let used = placed.at(self.at_ms[row]);
            for (dimension, used) in used.into_iter().enumerate() {
                if !self.values[dimension].is_empty() {
                    self.values[FIRST_PLACED + dimension].push(used);
                }
            }
        }
        true
    }
}

fn count(manifest: &mut Manifest, what: &str, number: u64) {
    if number > 0 {
        *manifest.repaired.entry(what.to_owned()).or_default() += number;
    }
}

fn see_time(manifest: &mut Manifest, at_ms: i64) {
    manifest.first_ms = Some(manifest.first_ms.map_or(at_ms, |first| first.min(at_ms)));
    manifest.last_ms = Some(manifest.last_ms.map_or(at_ms, |last| last.max(at_ms)));
}

/// Size and hash of a source; of an ingested folder, those of its samples.
fn source_of(quality: &FileQuality) -> Result<SourceFile, DatasetError> {
    let named = Path::new(&quality.file);
    let path = if named.is_dir() { table_path(named, Table::BoxMetrics) } else { named.to_path_buf() };
    let mut file = File::open(&path).map_err(DatasetError::io(&path))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    let mut bytes = 0;
    loop {
        let read = file.read(&mut buffer).map_err(DatasetError::io(&path))?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
        bytes += read as u64;
    }
    let sha256 = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(SourceFile { file: quality.file.clone(), format: quality.format.clone(), bytes, sha256 })
}

#[cfg(test)]
mod tests;
