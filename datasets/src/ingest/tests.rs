use super::*;
use crate::rows::{FleetData, MetricRow};
use crate::{Mapping, load_series, read_folder, write_folder};

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn run(paths: &[PathBuf], options: &ReadOptions, out: &Path) -> Ingested {
    ingest(paths, options, None, out, &mut |_| {}).unwrap()
}

fn table_mapping(text: &str) -> ReadOptions {
    let mapping: Mapping = serde_json::from_str(text).unwrap();
    ReadOptions { format: None, mapping: Some(mapping) }
}

#[test]
fn tables_come_back_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let ball = BallRow {
        at_ms: 5,
        ball_id: "b".to_owned(),
        class: "low".to_owned(),
        demand_cpu_cores: 0.1 + 0.2,
        work: None,
        expected_residence_ms: Some(7),
        ..BallRow::default()
    };
    let outcome = OutcomeRow {
        ball_id: "b".to_owned(),
        started_at_ms: 6,
        finished_at_ms: None,
        ..OutcomeRow::default()
    };
    let metric = MetricRow {
        at_ms: -3,
        box_id: "ä \"box\"".to_owned(),
        cpu_cores: Some(0.1),
        queue_length: None,
        error_rate: Some(0.0),
        ..MetricRow::default()
    };
    let data = FleetData {
        boxes: vec![BoxRow { box_id: "ä \"box\"".to_owned(), speed: Some(1.5), ..BoxRow::default() }],
        metrics: vec![metric],
        balls: vec![ball],
        outcomes: vec![outcome],
    };
    let out = folder.path().join("tables");
    write_folder(&out, "hand", Some(3), &data).unwrap();
    assert_eq!(read_folder(&out, None).unwrap(), data);
    assert!(read_folder(&out, Some(6..7)).unwrap().balls.is_empty());
    let manifest = Manifest::read(&out).unwrap();
    assert_eq!((manifest.first_ms, manifest.last_ms, manifest.seed), (Some(-3), Some(5), Some(3)));
    assert_eq!(
        (manifest.split_time(4), manifest.split_time(9), manifest.split_time(0)),
        (Some(2), None, None)
    );
    // Writing over tables is fine, over anything else is not.
    write_folder(&out, "hand", None, &FleetData::default()).unwrap();
    assert_eq!(read_folder(&out, None).unwrap(), FleetData::default());
    write(folder.path(), "precious", "data");
    assert!(write_folder(folder.path(), "hand", None, &data).unwrap_err().to_string().contains("precious"));
}

#[test]
fn another_version_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    write_folder(folder.path(), "hand", None, &FleetData::default()).unwrap();
    let path = folder.path().join("manifest.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"format_version\": 1", "\"format_version\": 2")).unwrap();
    let message = read_folder(folder.path(), None).unwrap_err().to_string();
    assert!(message.contains("version 2") && message.contains("version 1"), "{message}");
}

/// One fleet in four raw files: what the placed part is follows from balls and outcomes.
fn ingest_fleet(folder: &Path) -> (PathBuf, Ingested) {
    let data = folder.join("data");
    std::fs::create_dir(&data).unwrap();
    write(&data, "boxes.csv", "box_id,capacity_cpu_cores\na,8\n");
    write(
        &data,
        "use.csv",
        "at_ms,box_id,cpu_cores\n1628640000000,a,1\n1628640060000,a,4\n1628640120000,a,2\n1628640060000,a,3.5\n",
    );
    write(&data, "more.csv", "at_ms,box_id,memory_bytes\n1628640060000,a,100\n1628640120000,a,nan\n");
    write(
        &data,
        "balls.csv",
        "at_ms,ball_id,class,demand_cpu_cores\n1628640030000,x,critical,9\n1628640030000,x,critical,2\n\
         1628640040000,y,urgent,1\n1628640050000,z,,1\n",
    );
    write(
        &data,
        "outcomes.csv",
        "ball_id,box_id,started_at_ms,finished_at_ms,succeeded\nx,a,1628640030000,1628640120000,true\n\
         z,a,1628640060000,,0\nrefused,,1628640060000,1628640060000,false\n",
    );
    let out = folder.join("tables");
    let ingested = run(&[data], &ReadOptions::default(), &out);
    (out, ingested)
}

#[test]
fn a_fleet_of_raw_files_becomes_tables_with_the_placed_part() {
    let folder = tempfile::tempdir().unwrap();
    let (out, ingested) = ingest_fleet(folder.path());
    let rows = |table| ingested.manifest.rows[&table];
    assert_eq!(
        [Table::Boxes, Table::BoxMetrics, Table::Balls, Table::Outcomes].map(rows),
        [1, 3, 2, 3],
        "{:?}",
        ingested.report
    );
    assert_eq!(ingested.manifest.repaired["repeated_balls"], 1);
    assert_eq!(ingested.manifest.sources.len(), 5);
    let data = read_folder(&out, None).unwrap();
    let used: Vec<_> =
        data.metrics.iter().map(|row| (row.cpu_cores, row.placed_cpu_cores, row.memory_bytes)).collect();
    let (x, z) = (2.0, 1.0);
    assert_eq!(
        used,
        [(Some(1.0), Some(0.0), None), (Some(3.5), Some(x + z), Some(100.0)), (Some(2.0), Some(z), None)]
    );
    assert_eq!(data.balls.iter().map(|ball| ball.class.as_str()).collect::<Vec<_>>(), ["critical", "normal"]);
    let (series, _) = load_series(std::slice::from_ref(&out), &ReadOptions::default()).unwrap();
    assert!(series[0].is_background);
    assert_eq!(series[0].capacity, Some(8.0));
    assert_eq!(series[0].points.iter().map(|point| point.value).collect::<Vec<_>>(), [1.0, 0.5, 1.0]);
    let rejected = std::fs::read_to_string(out.join("rejected.ndjson")).unwrap();
    let rejects: Vec<Reject> = rejected.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rejects, ingested.report.rejects);
    let reasons: Vec<_> = rejects.iter().map(|reject| (reject.line, reject.reason)).collect();
    assert_eq!(reasons, [(4, crate::RejectReason::UnknownWord), (3, crate::RejectReason::NonFinite)]);
}

#[test]
fn an_ingested_folder_can_be_ingested_again() {
    let folder = tempfile::tempdir().unwrap();
    let (first, _) = ingest_fleet(folder.path());
    let second = folder.path().join("again");
    run(std::slice::from_ref(&first), &ReadOptions::default(), &second);
    assert_eq!(read_folder(&first, None).unwrap(), read_folder(&second, None).unwrap());
}

#[test]
fn resampled_rows_are_stamped_with_the_end_of_their_window() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(
        folder.path(),
        "use.csv",
        "at_ms,box_id,cpu_cores\n1628640000000,a,1\n1628640015000,a,2\n1628640060000,a,4\n1628640061000,b,8\n",
    );
    let out = folder.path().join("tables");
    ingest(&[path], &ReadOptions::default(), Some(60_000), &out, &mut |_| {}).unwrap();
    let rows: Vec<_> = read_folder(&out, None)
        .unwrap()
        .metrics
        .into_iter()
        .map(|row| (row.box_id, row.at_ms - 1_628_640_000_000, row.cpu_cores))
        .collect();
    let row = |name: &str, at_ms, cores| (name.to_owned(), at_ms, Some(cores));
    assert_eq!(rows, [row("a", 0, 1.0), row("a", 60_000, 3.0), row("b", 120_000, 8.0)]);
}

#[test]
fn parquet_with_foreign_columns_is_mapped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("foreign.parquet");
    let mut frame = polars::df!(
        "when" => [Some(1_628_640_000_i64), Some(1_628_640_060), None],
        "host" => ["a", "b", "a"],
        "cpu" => [Some(0.25_f32), Some(f32::NAN), Some(1.0)],
    )
    .unwrap();
    let file = File::create(&path).unwrap();
    polars::prelude::ParquetWriter::new(file).finish(&mut frame).unwrap();
    let options = table_mapping(r#"{"columns":{"when":"at_ms","host":"box_id","cpu":"cpu_cores"}}"#);
    let (series, report) = load_series(&[path], &options).unwrap();
    assert_eq!(
        (series.len(), series[0].points[0].at_ms, series[0].points[0].value),
        (1, 1_628_640_000_000, 0.25)
    );
    let reasons: Vec<_> = report.rejects.iter().map(|reject| (reject.line, reject.reason)).collect();
    assert_eq!(reasons, [(2, crate::RejectReason::NonFinite), (3, crate::RejectReason::MissingField)]);
}

#[test]
fn named_sets_keep_their_names_through_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "input3.csv", "ts,value\n1628640000,1\n");
    let out = folder.path().join("tables");
    run(&[path], &ReadOptions::default(), &out);
    assert_eq!(read_folder(&out, None).unwrap().metrics[0].box_id, "crane_dsp/input3");
    let (series, _) = load_series(&[out], &ReadOptions::default()).unwrap();
    assert_eq!((series[0].set.as_str(), series[0].name.as_str()), ("crane_dsp", "input3"));
}
