//! Adapters against ugly hand-made input.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::{
    DatasetError, FileQuality, FormatName, LoadSeries, Mapping, QualityReport, ReadOptions, RejectReason,
    load_series,
};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

fn mapped(maps: &[&str]) -> ReadOptions {
    let mut mapping = Mapping::default();
    for text in maps {
        mapping.add(text).unwrap();
    }
    ReadOptions { format: None, mapping: Some(mapping) }
}

fn read(path: &PathBuf, options: &ReadOptions) -> (Vec<LoadSeries>, QualityReport) {
    let (series, report) = load_series(std::slice::from_ref(path), options).unwrap();
    for file in &report.files {
        assert_eq!(
            file.rows_read,
            file.rows_accepted + file.rejected_total(),
            "every row has a fate: {file:?}"
        );
    }
    (series, report)
}

fn points(series: &LoadSeries) -> Vec<(i64, f64)> {
    series.points.iter().map(|point| (point.at_ms, point.value)).collect()
}

fn lines(report: &QualityReport) -> Vec<(u64, RejectReason)> {
    report.rejects.iter().map(|reject| (reject.line, reject.reason)).collect()
}

#[test]
fn crane_is_sorted_folded_and_every_bad_line_named() {
    let folder = Folder::new();
    let text = "\u{FEFF}ts,value\r\n1628640000,1.5\r\n1628640120,3\r\n\r\nbroken line\r\n1628640060,NaN\r\n\
        1628640060,2\r\n1628640060,2.5\r\n1628640180,-1\r\n1628640180000,4\r\n1628640180,\"4\r\n1628640240,+inf\r\n\
        1628640600,5";
    let path = folder.write("input7.csv", text);
    let (series, report) = read(&path, &ReadOptions::default());
    let [one] = series.as_slice() else { panic!("one series") };
    assert_eq!(
        (one.set.as_str(), one.name.as_str(), one.dimension.as_str()),
        ("crane_dsp", "input7", "value")
    );
    assert!(one.is_primary() && !one.is_background);
    let seconds = |s: i64| (1_628_640_000 + s) * 1000;
    assert_eq!(
        points(one),
        [(seconds(0), 1.5), (seconds(60), 2.5), (seconds(120), 3.0), (seconds(600), 5.0)]
    );
    assert_eq!(
        lines(&report),
        [
            (5, RejectReason::BrokenLine),
            (6, RejectReason::NonFinite),
            (9, RejectReason::Negative),
            (10, RejectReason::ImplausibleTime),
            (11, RejectReason::BrokenLine),
            (12, RejectReason::NonFinite),
        ]
    );
    let quality = &report.files[0];
    assert_eq!(
        (quality.rows_read, quality.rows_accepted, quality.duplicates, quality.backward),
        (11, 5, 1, 1)
    );
    assert_eq!((quality.gaps, quality.longest_gap_ms, quality.median_step_ms), (1, 480_000, 60_000));
    assert_eq!((quality.first_ms, quality.last_ms), (Some(seconds(0)), Some(seconds(600))));
}

#[test]
fn nab_takes_naive_stamps_as_utc() {
    let folder = Folder::new();
    let path = folder.write(
        "realAWSCloudwatch/ec2.csv",
        "timestamp,value\n2014-02-14 14:30:00,0.13\n2014-02-14 14:35:00,\n14/02/2014,1\n2014-02-30 00:00:00,1\n",
    );
    let (series, report) = read(&path, &ReadOptions::default());
    assert_eq!(series[0].name, "realAWSCloudwatch/ec2");
    assert_eq!(points(&series[0]), [(1_392_388_200_000, 0.13)]);
    assert_eq!(
        lines(&report),
        [(3, RejectReason::MissingField), (4, RejectReason::BadTime), (5, RejectReason::BadTime)]
    );
}

const BITBRAINS_HEADER: &str = "Timestamp [ms];\tCPU cores;\tCPU capacity provisioned [MHZ];\tCPU usage [MHZ];\t\
    CPU usage [%];\tMemory capacity provisioned [KB];\tMemory usage [KB];\tDisk read throughput [KB/s];\t\
    Disk write throughput [KB/s];\tNetwork received throughput [KB/s];\tNetwork transmitted throughput [KB/s]\r\n";

#[test]
fn bitbrains_reads_seconds_and_takes_switched_off_rows_as_not_measured() {
    let folder = Folder::new();
    let rows = [
        "1372629804;\t2;\t5200.0;\t1300.0;\t25.0;\t1024.0;\t512.0;\t1.0;\t2.0;\t3.0;\t5.0",
        "1372630104;\t4;\t10400.0;\t10816.0;\t104.0;\t2048.0;\t512.0;\t0;\t0;\t0;\t0",
        "1372630404;\t0;\t0.0;\t0.0;\t104.0;\t0.0;\t0.0;\t0;\t0;\t0;\t0",
        "1372630404;\t0;\t0.0;\t0.0;\t104.0;\t0.0;\t0.0;\t0;\t0;\t0;\t0",
        "1372630704;\t4;\t10400.0",
    ];
    let path = folder.write("2013-7/9.csv", format!("{BITBRAINS_HEADER}{}", rows.join("\r\n")));
    let (series, report) = read(&path, &ReadOptions::default());
    let by_dimension: BTreeMap<&str, &LoadSeries> =
        series.iter().map(|series| (series.dimension.as_str(), series)).collect();
    assert_eq!(by_dimension.len(), 7);
    let percent = by_dimension["cpu_percent"];
    assert_eq!((percent.name.as_str(), percent.capacity), ("2013-7/9", Some(100.0)));
    assert_eq!(points(percent), [(1_372_629_804_000, 25.0), (1_372_630_104_000, 104.0)]);
    assert_eq!(by_dimension["memory_bytes"].points[0].value, 524_288.0);
    assert_eq!(by_dimension["memory_bytes"].capacity, Some(2048.0 * 1024.0));
    assert_eq!(series.iter().filter(|series| series.is_primary()).count(), 1);
    let quality = &report.files[0];
    assert_eq!((quality.duplicates, lines(&report)), (1, vec![(6, RejectReason::BrokenLine)]));
    let counted: Vec<(&str, u64)> =
        quality.counted.iter().map(|(what, count)| (what.as_str(), *count)).collect();
    assert_eq!(counted, [("capacity_changes", 1), ("rows_above_100_percent", 1), ("switched_off_rows", 2)]);
    assert!(quality.notes.iter().any(|note| note.contains("says milliseconds but the stamps are seconds")));
}

#[test]
fn mapped_text_of_any_layout_gives_the_same_series() {
    let folder = Folder::new();
    let comma = folder
        .write("a.csv", "\u{FEFF}\"when\",host,cpu\r\n1628640000,\"a,1\",0.5\r\n1628640060,\"a,1\",1\r\n");
    let semicolon =
        folder.write("b.txt", "host;\twhen;\tcpu\na,1;\t1628640000000;\t0.5\na,1;\t1628640060000;\t1");
    let tabs = folder.write("c.tsv", "a,1\t2021-08-11T00:00:00Z\t0.5\na,1\t2021-08-11 02:01+02:00\t1");
    let named = mapped(&["when=at_ms", "host=box_id", "cpu=cpu_cores"]);
    let numbered = mapped(&["2=at_ms", "1=box_id", "3=cpu_cores"]);
    let mut found = Vec::new();
    for (path, options) in [(comma, &named), (semicolon, &named), (tabs, &numbered)] {
        let (series, _) = read(&path, options);
        assert_eq!(
            (series.len(), series[0].name.as_str(), series[0].dimension.as_str()),
            (1, "a,1", "cpu_cores")
        );
        found.push(points(&series[0]));
    }
    assert_eq!(found[0], [(1_628_640_000_000, 0.5), (1_628_640_060_000, 1.0)]);
    assert!(found.iter().all(|points| *points == found[0]));
}

#[test]
fn a_stated_unit_is_obeyed_and_a_columns_claim_is_checked() {
    let folder = Folder::new();
    let path = folder.write("claim.csv", "at_ms,value\n1628640000,1\n1628640060,2\n");
    let (series, report) = read(&path, &ReadOptions::default());
    assert_eq!(series[0].points[0].at_ms, 1_628_640_000_000);
    assert!(report.files[0].notes[0].contains("header says milliseconds but the stamps are seconds"));
    let stated = mapped(&["at_ms=at_ms", "value=value", ":time_unit=ms"]);
    let (series, report) = read(&path, &stated);
    assert_eq!(series[0].points[0].at_ms, 1_628_640_000);
    assert!(report.files[0].notes[0].contains("outside the years 2000 to 2100"));
}

#[test]
fn ndjson_keeps_reading_past_broken_lines_and_follows_paths() {
    let folder = Folder::new();
    let text = concat!(
        "{\"t\":1628640000.5,\"host\":{\"name\":\"a\"},\"cpu\":1.25}\n",
        "{\"t\":1628640060,\"host\":{\"name\":\"a\"},\"cpu\":\n",
        "[1,2]\n",
        "{\"t\":1628640060,\"host\":{\"name\":\"\"},\"cpu\":1}\n",
        "{\"t\":1628640060,\"host\":{\"name\":\"a\"},\"cpu\":null}\n",
        "{\"t\":\"1628640120\",\"host\":{\"name\":\"a\"},\"cpu\":\"2\"}",
    );
    let path = folder.write("a.ndjson", text);
    let (series, report) = read(&path, &mapped(&["t=at_ms", "host.name=box_id", "cpu=cpu_cores"]));
    assert_eq!(points(&series[0]), [(1_628_640_000_500, 1.25), (1_628_640_120_000, 2.0)]);
    assert_eq!(
        lines(&report),
        [
            (2, RejectReason::BrokenLine),
            (3, RejectReason::BrokenLine),
            (4, RejectReason::MissingField),
            (5, RejectReason::MissingField),
        ]
    );
}

#[test]
fn prometheus_rejects_what_is_no_number_and_tells_series_apart() {
    let folder = Folder::new();
    let text = r#"{"status":"success","data":{"resultType":"matrix","result":[
        {"metric":{"instance":"a:9100","job":"x"},"values":[[1628640000.123,"1.5"],[1628640060,"NaN"],[1628640120,"+Inf"],
         [1628640180,"-2"],[1628640240],[1628640300,"2"]]},
        {"metric":{"instance":"b:9100"},"values":[[1628640000,"7"]]},
        {"metric":{"instance":"a:9100","job":"y"},"values":[[1628640000,"9"]]},
        {"metric":{"instance":"c:9100"},"histograms":[]}]}}"#;
    let path = folder.write("range.json", text);
    let (series, report) = read(&path, &mapped(&["instance=box_id", "value=cpu_cores"]));
    let found: Vec<(&str, usize)> =
        series.iter().map(|series| (series.name.as_str(), series.points.len())).collect();
    assert_eq!(found, [("a:9100", 2), ("b:9100", 1), ("instance=a:9100,job=y", 1)]);
    assert_eq!(points(&series[0])[0], (1_628_640_000_123, 1.5));
    assert_eq!(series[0].dimension, "cpu_cores");
    let reasons: Vec<RejectReason> = report.rejects.iter().map(|reject| reject.reason).collect();
    use RejectReason::{BrokenLine, Negative, NonFinite};
    assert_eq!(reasons, [NonFinite, NonFinite, Negative, BrokenLine]);
    assert_eq!(report.files[0].counted["series_without_values"], 1);

    let failed =
        folder.write("error.json", r#"{"status":"error","errorType":"bad_data","error":"too many points"}"#);
    let message = load_series(&[failed], &ReadOptions::default()).unwrap_err().to_string();
    assert!(message.contains("too many points"), "{message}");
    let vector =
        folder.write("vector.json", r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#);
    let message = load_series(&[vector], &ReadOptions::default()).unwrap_err().to_string();
    assert!(message.contains("query_range"), "{message}");
}

#[test]
fn measures_of_one_box_from_several_prometheus_series_become_one_row() {
    let folder = Folder::new();
    let text = r#"{"status":"success","data":{"resultType":"matrix","result":[
        {"metric":{"__name__":"cpu","node":"a"},"values":[[1628640000,"1"],[1628640060,"2"]]},
        {"metric":{"__name__":"mem","node":"a"},"values":[[1628640000,"10"],[1628640060,"20"]]}]}}"#;
    let path = folder.write("range.json", text);
    let (series, report) = read(&path, &mapped(&["cpu=cpu_cores", "mem=memory_bytes"]));
    assert_eq!(series.len(), 2);
    assert_eq!(series[1].points[1].value, 20.0);
    assert_eq!((report.files[0].duplicates, report.files[0].backward), (0, 0));
}

#[test]
fn background_is_use_minus_the_placed_part_and_clamped() {
    let folder = Folder::new();
    let path = folder.write(
        "metrics.csv",
        "at_ms,box_id,cpu_cores,placed_cpu_cores,memory_bytes\n1628640000000,a,4,1.5,10\n1628640060000,a,1,2,10\n\
         1628640120000,a,3,,10\n",
    );
    let (series, report) = read(&path, &ReadOptions::default());
    assert_eq!(points(&series[0]), [(1_628_640_000_000, 2.5), (1_628_640_060_000, 0.0)]);
    assert!(series[0].is_background && !series[1].is_background);
    let counted: Vec<(&str, u64)> =
        report.files[0].counted.iter().map(|(what, count)| (what.as_str(), *count)).collect();
    assert_eq!(counted, [("background_clamped_at_zero", 1), ("samples_without_placed_part", 1)]);
}

#[test]
fn what_can_not_be_read_says_why() {
    let folder = Folder::new();
    let options = ReadOptions::default();
    let fails = |path: PathBuf, options: &ReadOptions| load_series(&[path], options).unwrap_err();
    let unknown = fails(folder.write("x.csv", "a,b\n1,2\n"), &options);
    assert!(matches!(unknown, DatasetError::UnknownFormat { .. }), "{unknown}");
    let empty = fails(folder.write("e.csv", ""), &options).to_string();
    assert!(empty.contains("empty"), "{empty}");
    let hopeless = fails(folder.write("h.csv", "ts,value\nx,1\ny,2\n"), &options).to_string();
    assert!(hopeless.contains("2 rejected") && hopeless.contains("line 2: BadTime"), "{hopeless}");
    let absent = fails(folder.0.path().join("absent"), &options);
    assert!(matches!(absent, DatasetError::Usage(_)));
    let path = folder.write("m.csv", "when,cpu\n1628640000,1\n");
    let field = fails(path.clone(), &mapped(&["when=at_ms", "cpu=cpu"])).to_string();
    assert!(field.contains("`cpu`") && field.contains("cpu_cores"), "{field}");
    let column = fails(path.clone(), &mapped(&["when=at_ms", "gpu=cpu_cores"])).to_string();
    assert!(column.contains("`gpu`") && column.contains("when, cpu"), "{column}");
    let stamp = fails(path, &mapped(&["cpu=cpu_cores"])).to_string();
    assert!(stamp.contains("`at_ms`"), "{stamp}");
    assert!("gzip".parse::<FormatName>().is_err());
}

#[test]
fn a_directory_is_walked_in_order_and_strangers_are_listed() {
    let folder = Folder::new();
    folder.write("b/input2.csv", "ts,value\n1628640000,1\n");
    folder.write("a/input1.csv", "ts,value\n1628640000,1\n");
    folder.write("README.md", "# notes\n");
    folder.write(".hidden.csv", "ts,value\n1628640000,1\n");
    let (series, report) = read(&folder.0.path().to_path_buf(), &ReadOptions::default());
    let names: Vec<&str> = series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["input1", "input2"]);
    assert_eq!(report.skipped.len(), 1);
    assert!(report.skipped[0].contains("README.md"));
    assert!(report.to_table().contains("skipped"));
    let json = serde_json::to_string(&report).unwrap();
    let back: QualityReport = serde_json::from_str(&json).unwrap();
    assert_eq!(back.files.iter().map(FileQuality::rejected_total).sum::<u64>(), 0);
    assert_eq!(back.files, report.files);
}
