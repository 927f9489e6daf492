//! Rows of any canonical table from mapped cells; shared by CSV, NDJSON and Parquet.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::stem;
use crate::mapping::Table;
use crate::rows::{BallRow, BoxRow, OutcomeRow};
use crate::samples::{METRIC_FIELDS, Measure, RawFile, parse_load};
use crate::time::Clock;
use crate::{DatasetError, Mapping, RejectReason, TimeUnit};

/// The classes of a ball.
const CLASSES: [&str; 3] = ["critical", "normal", "low"];

const BOX_FIELDS: [&str; 7] = [
    "box_id",
    "capacity_cpu_cores",
    "capacity_memory_bytes",
    "capacity_bandwidth_bps",
    "capacity_slots",
    "speed",
    "price_per_hour",
];
const BALL_FIELDS: [&str; 12] = [
    "at_ms",
    "ball_id",
    "tenant",
    "class",
    "kind",
    "region",
    "demand_cpu_cores",
    "demand_memory_bytes",
    "demand_bandwidth_bps",
    "demand_slots",
    "work",
    "expected_residence_ms",
];
const OUTCOME_FIELDS: [&str; 5] = ["ball_id", "box_id", "started_at_ms", "finished_at_ms", "succeeded"];

/// The fields that a table has, and those that a row can't lack.
fn fields_of(table: Table) -> (Vec<&'static str>, &'static [&'static str]) {
    match table {
        Table::Boxes => (BOX_FIELDS.to_vec(), &["box_id"]),
        Table::BoxMetrics => {
            ([["at_ms", "box_id"].as_slice(), METRIC_FIELDS.as_slice()].concat(), &["at_ms"])
        }
        Table::Balls => (BALL_FIELDS.to_vec(), &["at_ms", "ball_id"]),
        Table::Outcomes => (OUTCOME_FIELDS.to_vec(), &["ball_id", "box_id", "started_at_ms"]),
    }
}

/// Makes rows of one table from cells, one cell a mapped column.
pub(super) struct RowMaker {
    table: Table,
    /// The file's columns, in the order in which cells come.
    pub columns: Vec<String>,
    fields: Vec<String>,
    stated: Option<TimeUnit>,
    clocks: BTreeMap<usize, Clock>,
    default_box: String,
}

impl RowMaker {
    /// Check a mapping; without one, the file's columns must carry the names of a table's fields.
    pub fn new(path: &Path, mapping: Option<&Mapping>, found: &[String]) -> Result<Self, DatasetError> {
        let default_box = stem(path);
        let mapped = mapping.filter(|mapping| !mapping.columns.is_empty());
        let (table, pairs) = match mapped {
            Some(mapping) => (mapping.table, mapping.columns.clone().into_iter().collect()),
            None => canonical(path, found)?,
        };
        let stated = mapping.and_then(|mapping| mapping.time_unit);
        let (columns, fields): (Vec<String>, Vec<String>) = pairs.into_iter().unzip();
        check_fields(path, table, &fields)?;
        Ok(Self { table, columns, fields, stated, clocks: BTreeMap::new(), default_box })
    }

    /// An empty result for this table's rows.
    pub fn raw_file(&self, path: &Path, format: &str) -> RawFile {
        let is_metric = |field: &&String| METRIC_FIELDS.contains(&field.as_str());
        let measures = self.fields.iter().filter(is_metric).map(|field| Measure::of_table(field));
        RawFile::new(path, format, &stem(path), measures.collect())
    }

    /// Take one row of cells into `raw`; an empty cell is absent.
    pub fn accept(&mut self, raw: &mut RawFile, cells: &[&str]) -> Result<(), RejectReason> {
        match self.table {
            Table::BoxMetrics => self.accept_metrics(raw, cells),
            Table::Boxes => {
                let row = self.make_box(cells)?;
                raw.box_rows.push(row);
                raw.quality.rows_accepted += 1;
                Ok(())
            }
            Table::Balls => {
                let row = self.make_ball(raw, cells)?;
                raw.quality.see_time(row.at_ms);
                raw.balls.push(row);
                raw.quality.rows_accepted += 1;
                Ok(())
            }
            Table::Outcomes => {
                let row = self.make_outcome(raw, cells)?;
                raw.quality.see_time(row.started_at_ms);
                raw.outcomes.push(row);
                raw.quality.rows_accepted += 1;
                Ok(())
            }
        }
    }

    fn accept_metrics(&mut self, raw: &mut RawFile, cells: &[&str]) -> Result<(), RejectReason> {
        let at_ms = self.time(raw, cells, "at_ms")?.ok_or(RejectReason::MissingField)?;
        let mut values = [f64::NAN; METRIC_FIELDS.len()];
        let mut count = 0;
        let mut has_value = false;
        for (field, cell) in self.fields.iter().zip(cells) {
            if METRIC_FIELDS.contains(&field.as_str()) {
                if let Some(value) = parse_load(cell)? {
                    values[count] = value;
                    has_value = true;
                }
                count += 1;
            }
        }
        let box_id = match self.cell(cells, "box_id") {
            Some("") => return Err(RejectReason::MissingField),
            found => found.unwrap_or(&self.default_box),
        };
        if !has_value {
            return Err(RejectReason::MissingField);
        }
        raw.push(box_id, at_ms, &values[..count])
    }

    fn make_box(&self, cells: &[&str]) -> Result<BoxRow, RejectReason> {
        Ok(BoxRow {
            box_id: self.required(cells, "box_id")?,
            capacity_cpu_cores: self.load(cells, "capacity_cpu_cores")?,
            capacity_memory_bytes: self.load(cells, "capacity_memory_bytes")?,
            capacity_bandwidth_bps: self.load(cells, "capacity_bandwidth_bps")?,
            capacity_slots: self.load(cells, "capacity_slots")?,
            speed: self.load(cells, "speed")?,
            price_per_hour: self.load(cells, "price_per_hour")?,
        })
    }

    fn make_ball(&mut self, raw: &mut RawFile, cells: &[&str]) -> Result<BallRow, RejectReason> {
        let class = match self.cell(cells, "class") {
            None | Some("") => "normal",
            Some(class) if CLASSES.contains(&class) => class,
            Some(_) => return Err(RejectReason::UnknownWord),
        };
        let text = |field: &str| self.cell(cells, field).unwrap_or_default().to_owned();
        let demand = |field: &str| self.load(cells, field).map(|demand| demand.unwrap_or(0.0));
        let residence = self.load(cells, "expected_residence_ms")?;
        let mut row = BallRow {
            at_ms: 0,
            ball_id: self.required(cells, "ball_id")?,
            tenant: text("tenant"),
            class: class.to_owned(),
            kind: text("kind"),
            region: text("region"),
            demand_cpu_cores: demand("demand_cpu_cores")?,
            demand_memory_bytes: demand("demand_memory_bytes")?,
            demand_bandwidth_bps: demand("demand_bandwidth_bps")?,
            demand_slots: demand("demand_slots")?,
            work: self.load(cells, "work")?,
            expected_residence_ms: residence.map(|residence_ms| residence_ms as i64),
        };
        row.at_ms = self.time(raw, cells, "at_ms")?.ok_or(RejectReason::MissingField)?;
        Ok(row)
    }

    fn make_outcome(&mut self, raw: &mut RawFile, cells: &[&str]) -> Result<OutcomeRow, RejectReason> {
        let succeeded = match self.cell(cells, "succeeded").map(str::to_ascii_lowercase).as_deref() {
            None | Some("" | "true" | "1" | "yes") => true,
            Some("false" | "0" | "no") => false,
            Some(_) => return Err(RejectReason::UnknownWord),
        };
        Ok(OutcomeRow {
            ball_id: self.required(cells, "ball_id")?,
            // Empty = refused.
            box_id: self.cell(cells, "box_id").unwrap_or_default().to_owned(),
            started_at_ms: self.time(raw, cells, "started_at_ms")?.ok_or(RejectReason::MissingField)?,
            finished_at_ms: self.time(raw, cells, "finished_at_ms")?,
            succeeded,
        })
    }

    fn cell<'a>(&self, cells: &[&'a str], field: &str) -> Option<&'a str> {
        let at = self.fields.iter().position(|name| name == field)?;
        cells.get(at).copied()
    }

    fn required(&self, cells: &[&str], field: &str) -> Result<String, RejectReason> {
        let cell = self.cell(cells, field).filter(|cell| !cell.is_empty());
        cell.map(str::to_owned).ok_or(RejectReason::MissingField)
    }

    fn load(&self, cells: &[&str], field: &str) -> Result<Option<f64>, RejectReason> {
        self.cell(cells, field).map_or(Ok(None), parse_load)
    }

    /// A stamp; the clock of its column is decided by the first one that can be read.
    fn time(&mut self, raw: &mut RawFile, cells: &[&str], field: &str) -> Result<Option<i64>, RejectReason> {
        let Some(at) = self.fields.iter().position(|name| name == field) else {
            return Ok(None);
        };
        let text = cells.get(at).copied().unwrap_or_default();
        if text.is_empty() {
            return Ok(None);
        }
        let clock = match self.clocks.get(&at) {
            Some(clock) => *clock,
            None => {
                let claimed = TimeUnit::claimed_by(&self.columns[at]);
                let clock = Clock::detect(text, self.stated, claimed, &mut raw.quality.notes);
                let clock = clock.ok_or(RejectReason::BadTime)?;
                self.clocks.insert(at, clock);
                clock
            }
        };
        clock.parse(text).map(Some)
    }
}

/// The table whose needed fields, and most fields, are among a file's own columns.
fn canonical(path: &Path, found: &[String]) -> Result<(Table, Vec<(String, String)>), DatasetError> {
    let mut best: Option<(Table, Vec<(String, String)>)> = None;
    for table in Table::ALL {
        let (fields, required) = fields_of(table);
        let shared: Vec<(String, String)> = found
            .iter()
            .filter(|column| fields.contains(&column.as_str()))
            .map(|column| (column.clone(), column.clone()))
            .collect();
        let is_whole = required.iter().all(|field| shared.iter().any(|(_, name)| name == field));
        // Identity alone says nothing: a table needs one field beyond those that it can't lack.
        let is_better = best.as_ref().is_none_or(|(_, other)| shared.len() > other.len());
        if is_whole && is_better && (shared.len() > required.len() || table == Table::Outcomes) {
            best = Some((table, shared));
        }
    }
    best.ok_or_else(|| DatasetError::UnknownFormat {
        path: path.to_path_buf(),
        found: format!("columns {}", found.join(", ").chars().take(200).collect::<String>()),
    })
}

fn check_fields(path: &Path, table: Table, fields: &[String]) -> Result<(), DatasetError> {
    let (allowed, required) = fields_of(table);
    let mut seen = BTreeSet::new();
    for field in fields {
        if !allowed.contains(&field.as_str()) {
            let message = format!(
                "field `{field}` is not one of table {}; allowed: {}",
                table.as_str(),
                allowed.join(", ")
            );
            return Err(DatasetError::Usage(message));
        }
        if !seen.insert(field) {
            return Err(DatasetError::Usage(format!("two columns are mapped to field `{field}`; map one")));
        }
    }
    let missing = required.iter().find(|needed| !fields.iter().any(|field| field == *needed));
    missing.map_or(Ok(()), |needed| {
        let message = format!(
            "{}: table {} needs field `{needed}`; add --map COLUMN={needed}",
            path.display(),
            table.as_str()
        );
        Err(DatasetError::Usage(message))
    })
}
