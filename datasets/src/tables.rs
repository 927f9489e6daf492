//! The canonical tables as polars frames: rows in and out, Parquet, joins, resampling.

use std::fs::File;
use std::path::Path;

use polars::prelude::*;

use crate::DatasetError;
use crate::rows::{BallRow, BoxRow, MetricRow, OutcomeRow};
use crate::samples::{BoxSamples, METRIC_FIELDS};

/// Rows of one row group.
const GROUP_ROWS: usize = 262_144;

fn texts<'a>(name: &str, values: impl Iterator<Item = &'a str>) -> Column {
    Column::new(name.into(), values.collect::<Vec<&str>>())
}

fn floats(name: &str, values: impl Iterator<Item = Option<f64>>) -> Column {
    Column::new(name.into(), values.collect::<Vec<Option<f64>>>())
}

fn whole(name: &str, values: impl Iterator<Item = Option<i64>>) -> Column {
    Column::new(name.into(), values.collect::<Vec<Option<i64>>>())
}

/// `boxes`.
pub(crate) fn boxes_frame(rows: &[BoxRow]) -> PolarsResult<DataFrame> {
    DataFrame::new_infer_height(vec![
        texts("box_id", rows.iter().map(|row| row.box_id.as_str())),
        floats("capacity_cpu_cores", rows.iter().map(|row| row.capacity_cpu_cores)),
        floats("capacity_memory_bytes", rows.iter().map(|row| row.capacity_memory_bytes)),
        floats("capacity_bandwidth_bps", rows.iter().map(|row| row.capacity_bandwidth_bps)),
        floats("capacity_slots", rows.iter().map(|row| row.capacity_slots)),
        floats("speed", rows.iter().map(|row| row.speed)),
        floats("price_per_hour", rows.iter().map(|row| row.price_per_hour)),
    ])
}

/// `box_metrics` from rows.
pub(crate) fn metrics_frame(rows: &[MetricRow]) -> PolarsResult<DataFrame> {
    let mut columns = vec![
        whole("at_ms", rows.iter().map(|row| Some(row.at_ms))),
        texts("box_id", rows.iter().map(|row| row.box_id.as_str())),
    ];
    for (at, name) in METRIC_FIELDS.into_iter().enumerate() {
        columns.push(floats(name, rows.iter().map(|row| row.measures()[at])));
    }
    DataFrame::new_infer_height(columns)
}

/// `box_metrics` from the samples of one box, whose columns are [`METRIC_FIELDS`] (an empty one is absent).
pub(crate) fn samples_frame(box_id: &str, samples: &BoxSamples) -> PolarsResult<DataFrame> {
    let rows = samples.at_ms.len();
    let mut columns = vec![
        whole("at_ms", samples.at_ms.iter().copied().map(Some)),
        texts("box_id", std::iter::repeat_n(box_id, rows)),
    ];
    for (name, values) in METRIC_FIELDS.into_iter().zip(&samples.values) {
        let known = |row: usize| values.get(row).copied().filter(|value| !value.is_nan());
        columns.push(floats(name, (0..rows).map(known)));
    }
    DataFrame::new_infer_height(columns)
}

/// `balls`.
pub(crate) fn balls_frame(rows: &[BallRow]) -> PolarsResult<DataFrame> {
    DataFrame::new_infer_height(vec![
        whole("at_ms", rows.iter().map(|row| Some(row.at_ms))),
        texts("ball_id", rows.iter().map(|row| row.ball_id.as_str())),
        texts("tenant", rows.iter().map(|row| row.tenant.as_str())),
        texts("class", rows.iter().map(|row| row.class.as_str())),
        texts("kind", rows.iter().map(|row| row.kind.as_str())),
        texts("region", rows.iter().map(|row| row.region.as_str())),
        floats("demand_cpu_cores", rows.iter().map(|row| Some(row.demand_cpu_cores))),
        floats("demand_memory_bytes", rows.iter().map(|row| Some(row.demand_memory_bytes))),
        floats("demand_bandwidth_bps", rows.iter().map(|row| Some(row.demand_bandwidth_bps))),
        floats("demand_slots", rows.iter().map(|row| Some(row.demand_slots))),
        floats("work", rows.iter().map(|row| row.work)),
        whole("expected_residence_ms", rows.iter().map(|row| row.expected_residence_ms)),
    ])
}

/// `outcomes`.
pub(crate) fn outcomes_frame(rows: &[OutcomeRow]) -> PolarsResult<DataFrame> {
    DataFrame::new_infer_height(vec![
        texts("ball_id", rows.iter().map(|row| row.ball_id.as_str())),
        texts("box_id", rows.iter().map(|row| row.box_id.as_str())),
        whole("started_at_ms", rows.iter().map(|row| Some(row.started_at_ms))),
        whole("finished_at_ms", rows.iter().map(|row| row.finished_at_ms)),
        Column::new("succeeded".into(), rows.iter().map(|row| row.succeeded).collect::<Vec<bool>>()),
    ])
}

fn read_texts(frame: &DataFrame, name: &str) -> PolarsResult<Vec<String>> {
    Ok(frame.column(name)?.str()?.iter().map(|text| text.unwrap_or_default().to_owned()).collect())
}

pub(crate) fn read_floats(frame: &DataFrame, name: &str) -> PolarsResult<Vec<Option<f64>>> {
    Ok(frame.column(name)?.f64()?.iter().collect())
}

pub(crate) fn read_whole(frame: &DataFrame, name: &str) -> PolarsResult<Vec<Option<i64>>> {
    Ok(frame.column(name)?.i64()?.iter().collect())
}

/// Rows of `boxes`.
pub(crate) fn boxes_rows(frame: &DataFrame) -> PolarsResult<Vec<BoxRow>> {
    let cores = read_floats(frame, "capacity_cpu_cores")?;
    let memory = read_floats(frame, "capacity_memory_bytes")?;
    let bandwidth = read_floats(frame, "capacity_bandwidth_bps")?;
    let slots = read_floats(frame, "capacity_slots")?;
    let speed = read_floats(frame, "speed")?;
    let price = read_floats(frame, "price_per_hour")?;
    let one = |(row, box_id): (usize, String)| BoxRow {
        box_id,
        capacity_cpu_cores: cores[row],
        capacity_memory_bytes: memory[row],
        capacity_bandwidth_bps: bandwidth[row],
        capacity_slots: slots[row],
        speed: speed[row],
        price_per_hour: price[row],
    };
    Ok(read_texts(frame, "box_id")?.into_iter().enumerate().map(one).collect())
}

/// Rows of `box_metrics`.
pub(crate) fn metrics_rows(frame: &DataFrame) -> PolarsResult<Vec<MetricRow>> {
    let at_ms = read_whole(frame, "at_ms")?;
    let mut rows: Vec<MetricRow> = read_texts(frame, "box_id")?
        .into_iter()
        .zip(at_ms)
        .map(|(box_id, at_ms)| MetricRow { box_id, at_ms: at_ms.unwrap_or_default(), ..MetricRow::default() })
        .collect();
    let held = |(_, name): &(usize, &str)| frame.schema().contains(name);
    for (at, name) in METRIC_FIELDS.into_iter().enumerate().filter(held) {
        for (row, value) in rows.iter_mut().zip(frame.column(name)?.f64()?.iter()) {
            *row.measures_mut()[at] = value;
        }
    }
    Ok(rows)
}

/// Rows of `balls`.
pub(crate) fn balls_rows(frame: &DataFrame) -> PolarsResult<Vec<BallRow>> {
    let mut rows = vec![BallRow::default(); frame.height()];
    let float = |name: &str| -> PolarsResult<Vec<f64>> {
        Ok(read_floats(frame, name)?.into_iter().map(|value| value.unwrap_or(0.0)).collect())
    };
    macro_rules! fill {
        ($($field:ident: $values:expr),* $(,)?) => {
            $(for (row, value) in rows.iter_mut().zip($values) { row.$field = value; })*
        };
    }
    fill! {
        at_ms: read_whole(frame, "at_ms")?.into_iter().map(Option::unwrap_or_default),
        ball_id: read_texts(frame, "ball_id")?,
        tenant: read_texts(frame, "tenant")?,
        class: read_texts(frame, "class")?,
        kind: read_texts(frame, "kind")?,
        region: read_texts(frame, "region")?,
        demand_cpu_cores: float("demand_cpu_cores")?,
        demand_memory_bytes: float("demand_memory_bytes")?,
        demand_bandwidth_bps: float("demand_bandwidth_bps")?,
        demand_slots: float("demand_slots")?,
        work: read_floats(frame, "work")?,
        expected_residence_ms: read_whole(frame, "expected_residence_ms")?,
    }
    Ok(rows)
}

/// Rows of `outcomes`.
pub(crate) fn outcomes_rows(frame: &DataFrame) -> PolarsResult<Vec<OutcomeRow>> {
    let boxes = read_texts(frame, "box_id")?;
    let started = read_whole(frame, "started_at_ms")?;
    let finished = read_whole(frame, "finished_at_ms")?;
    let succeeded: Vec<Option<bool>> = frame.column("succeeded")?.bool()?.iter().collect();
    let rows = read_texts(frame, "ball_id")?.into_iter().zip(boxes).enumerate();
    let one = |(row, (ball_id, box_id)): (usize, (String, String))| OutcomeRow {
        ball_id,
        box_id,
        started_at_ms: started[row].unwrap_or_default(),
        finished_at_ms: finished[row],
        succeeded: succeeded[row].unwrap_or(false),
    };
    Ok(rows.map(one).collect())
}

/// Writes one table, row group by row group.
pub(crate) struct TableWriter {
    path: std::path::PathBuf,
    writer: polars::io::parquet::write::BatchedWriter<File>,
    pending: DataFrame,
    /// Rows written.
    pub rows: u64,
}

impl TableWriter {
    /// A writer of frames shaped like `empty`.
    pub fn create(path: &Path, empty: &DataFrame) -> Result<Self, DatasetError> {
        let table = DatasetError::table(path);
        let file = File::create(path).map_err(DatasetError::io(path))?;
        let writer = ParquetWriter::new(file).with_statistics(StatisticsOptions::default());
        let writer = writer.batched(empty.schema()).map_err(&table)?;
        Ok(Self { path: path.to_path_buf(), writer, pending: empty.clear(), rows: 0 })
    }

    /// Write rows; small frames are gathered into one group.
    pub fn write(&mut self, frame: &DataFrame) -> Result<(), DatasetError> {
        let table = DatasetError::table(&self.path);
        self.rows += frame.height() as u64;
        self.pending.vstack_mut(frame).map_err(&table)?;
        if self.pending.height() >= GROUP_ROWS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), DatasetError> {
        let table = DatasetError::table(&self.path);
        self.pending.rechunk_mut();
        for offset in (0..self.pending.height()).step_by(GROUP_ROWS) {
            let group = self.pending.slice(offset as i64, GROUP_ROWS);
            self.writer.write_batch(&group).map_err(&table)?;
        }
        self.pending = self.pending.clear();
        Ok(())
    }

    /// Write what is pending and the footer; returns the rows written.
    pub fn finish(mut self) -> Result<u64, DatasetError> {
        self.flush()?;
        self.writer.finish().map_err(DatasetError::table(&self.path))?;
        Ok(self.rows)
    }
}

/// Those of `columns` that hold any value.
pub(crate) fn measured_columns(
    path: &Path,
    columns: &[&'static str],
) -> Result<Vec<&'static str>, DatasetError> {
    let schema = scan(path)?.collect_schema().map_err(DatasetError::table(path))?;
    // A folder of an earlier program lacks the columns that came later: nothing was measured.
    let columns: Vec<&'static str> = columns.iter().copied().filter(|name| schema.contains(name)).collect();
    let counts: Vec<Expr> = columns.iter().map(|name| col(*name).count().cast(DataType::Int64)).collect();
    let counted = scan(path)?.select(counts).collect().map_err(DatasetError::table(path))?;
    let has_any = |name: &&&'static str| {
        read_whole(&counted, name).is_ok_and(|count| count.first().is_some_and(|count| *count > Some(0)))
    };
    Ok(columns.iter().filter(has_any).copied().collect())
}

/// Hand a table's columns to `take`, some row groups' rows at a time, so that a long table never lies in memory
/// as a whole.
pub(crate) fn for_each_group(
    path: &Path,
    columns: &[&str],
    mut take: impl FnMut(&DataFrame) -> PolarsResult<()>,
) -> Result<(), DatasetError> {
    let table = DatasetError::table(path);
    let columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
    let mut offset = 0;
    loop {
        let file = File::open(path).map_err(DatasetError::io(path))?;
        let reader = ParquetReader::new(file).with_columns(Some(columns.clone()));
        let frame = reader.with_slice(Some((offset, GROUP_ROWS))).finish().map_err(&table)?;
        if frame.height() == 0 {
            return Ok(());
        }
        take(&frame).map_err(&table)?;
        offset += frame.height();
    }
}

fn scan(path: &Path) -> Result<LazyFrame, DatasetError> {
    let table = DatasetError::table(path);
    std::fs::metadata(path).map_err(DatasetError::io(path))?;
    let source = PlRefPath::try_from_path(path).map_err(&table)?;
    let options = ScanArgsParquet { glob: false, ..ScanArgsParquet::default() };
    LazyFrame::scan_parquet(source, options).map_err(&table)
}

/// Read a table, only rows whose `time` column lies in `range_ms`, sorted by `order`.
pub(crate) fn read_table(
    path: &Path,
    range_ms: Option<(&str, std::ops::Range<i64>)>,
    order: &[&str],
) -> Result<DataFrame, DatasetError> {
    let mut lazy = scan(path)?;
    if let Some((time, range)) = range_ms {
        lazy = lazy.filter(col(time).gt_eq(lit(range.start)).and(col(time).lt(lit(range.end))));
    }
    if !order.is_empty() {
        let names: Vec<PlSmallStr> = order.iter().map(|name| (*name).into()).collect();
        lazy = lazy.sort(names, SortMultipleOptions::default().with_maintain_order(true));
    }
    lazy.collect().map_err(DatasetError::table(path))
}

/// Keep the last row of each `key`, sort by `order`; returns the frame and how many rows were folded.
pub(crate) fn fold_repeats(frame: DataFrame, key: &str, order: &[&str]) -> PolarsResult<(DataFrame, u64)> {
    let before = frame.height();
    let names: Vec<PlSmallStr> = order.iter().map(|name| (*name).into()).collect();
    let frame = frame
        .lazy()
        .unique_stable_generic(Some(vec![col(key)]), UniqueKeepStrategy::Last)
        .sort(names, SortMultipleOptions::default().with_maintain_order(true))
        .collect()?;
    let folded = (before - frame.height()) as u64;
    Ok((frame, folded))
}

/// Means over windows of `step_ms`. A window is stamped with its end, so that a row never knows the future.
pub(crate) fn resample(mut frame: DataFrame, step_ms: i64) -> PolarsResult<DataFrame> {
    let end = |at_ms: i64| (at_ms + step_ms - 1).div_euclid(step_ms) * step_ms;
    let ends = read_whole(&frame, "at_ms")?;
    frame.with_column(whole("at_ms", ends.into_iter().map(|at_ms| at_ms.map(end))))?;
    let means: Vec<Expr> = METRIC_FIELDS.iter().map(|name| col(*name).mean()).collect();
    let mut columns = vec![col("at_ms"), col("box_id")];
    columns.extend(METRIC_FIELDS.iter().map(|name| col(*name)));
    frame.lazy().group_by_stable([col("box_id"), col("at_ms")]).agg(means).select(columns).collect()
}
