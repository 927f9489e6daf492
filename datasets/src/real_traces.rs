//! Known real sets are read completely, and their known oddities are counted. Needs the traces' folder.

use std::path::{Path, PathBuf};

use crate::samples::RawFile;
use crate::{FileQuality, LoadSeries, QualityReport, ReadOptions, load_series};

/// The folder of one set, or `None`, said aloud.
fn set_folder(set: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let root = std::env::var_os("BERTH_TRACES").map_or(beside, PathBuf::from);
    let folder = root.join(set);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("SKIPPED: no real traces at {}; set BERTH_TRACES to their folder", folder.display());
    None
}

fn read(folder: &Path) -> (Vec<LoadSeries>, QualityReport) {
    let (series, report) = load_series(&[folder.to_path_buf()], &ReadOptions::default()).unwrap();
    assert_eq!(report.rejected_total(), 0, "{:?}", report.rejects.first());
    for one in &series {
        assert!(one.points.windows(2).all(|pair| pair[0].at_ms < pair[1].at_ms), "{}", one.name);
        assert!(one.points.iter().all(|point| point.value.is_finite()), "{}", one.name);
    }
    (series, report)
}

fn file<'a>(report: &'a QualityReport, end: &str) -> &'a FileQuality {
    report.files.iter().find(|file| file.file.ends_with(end)).unwrap()
}

#[test]
fn crane_dsp_is_complete() {
    let Some(folder) = set_folder("crane_dsp") else {
        return;
    };
    let (series, report) = read(&folder);
    assert_eq!(series.len(), 12);
    assert_eq!(report.files.iter().map(|file| file.rows_accepted).sum::<u64>(), 330_112);
    let fine = file(&report, "input15.csv");
    assert_eq!((fine.rows_read, fine.median_step_ms), (89_632, 15_000));
    assert_eq!(series[0].points[0].at_ms, 1_628_640_000_000);
}

#[test]
fn nab_is_complete_with_its_repeats_and_its_step_back() {
    let Some(folder) = set_folder("nab") else {
        return;
    };
    let (series, report) = read(&folder);
    assert_eq!((series.len(), report.skipped.len()), (19, 2));
    for (end, duplicates, longest_s) in [
        ("ec2_disk_write_bytes_1ef3de.csv", 11, 3_660),
        ("ec2_network_in_5abac7.csv", 11, 3_840),
        ("ec2_request_latency_system_failure.csv", 11, 3_840),
        ("exchange-2_cpc_results.csv", 1, 75_600),
    ] {
        let quality = file(&report, end);
        assert_eq!(
            (quality.duplicates, quality.longest_gap_ms / 1000, quality.gaps),
            (duplicates, longest_s, 1),
            "{end}"
        );
    }
    let machine = file(&report, "machine_temperature_system_failure.csv");
    assert_eq!((machine.rows_read, machine.backward, machine.gaps), (22_695, 1, 0));
    assert_eq!(file(&report, "TravelTime_451.csv").gaps, 378);
}

#[test]
fn bitbrains_rnd_is_complete_with_its_switched_off_machine() {
    let Some(folder) = set_folder("bitbrains_rnd") else {
        return;
    };
    let (series, report) = read(&folder);
    assert_eq!(series.iter().filter(|series| series.is_primary()).count(), 7);
    let off = file(&report, "2013-7/194.csv");
    assert_eq!((off.rows_read, off.duplicates, off.counted["switched_off_rows"]), (23_007, 7_402, 21_747));
    let busy = file(&report, "2013-8/41.csv");
    assert_eq!((busy.counted["rows_above_100_percent"], busy.counted["capacity_changes"]), (2_766, 39));
    assert_eq!(file(&report, "2013-7/411.csv").longest_gap_ms, 2_704_000);
    // Stamps are seconds in spite of the header: July 2013.
    assert!(report.files.iter().all(|file| file.first_ms > Some(1_370_000_000_000)));
    assert!(
        report.files.iter().all(|file| { file.notes.iter().any(|note| note.contains("says milliseconds")) })
    );
}

/// One raw file, read as its format is detected.
fn raw(path: &Path, format: &str) -> RawFile {
    let found = crate::format::detect(path, false).unwrap();
    assert_eq!(found.as_str(), format);
    let raw = crate::adapters::read_file(path, found, &ReadOptions::default()).unwrap();
    assert_eq!(raw.quality.rows_read, raw.quality.rows_accepted + raw.quality.rejected_total());
    raw
}

#[test]
fn alibaba2018_machine_usage_is_complete_with_its_abnormal_disks() {
    let Some(folder) = set_folder("alibaba2018_machine_usage") else {
        return;
    };
    let (series, report) = read(&folder);
    let primary: Vec<&LoadSeries> = series.iter().filter(|series| series.is_primary()).collect();
    assert_eq!((primary.len(), report.skipped.len()), (16, 1));
    assert_eq!(primary.iter().map(|series| series.points.len()).sum::<usize>(), 100_002);
    let quality = file(&report, "machine_usage.csv");
    assert_eq!((quality.rows_read, quality.duplicates, quality.backward), (100_002, 0, 0));
    assert_eq!((quality.longest_gap_ms, quality.median_step_ms), (26_660_000, 60_000));
    assert_eq!(quality.counted["rows_without_memory_bandwidth"], 78_325);
    assert_eq!(quality.counted["abnormal_disk_values_left_out"], 16);
    assert_eq!((primary[0].name.as_str(), primary[0].points[0].value), ("m_1932", 41.0));
}

#[test]
fn sets_without_stamps_lie_on_their_grid() {
    let folders = ["planetlab", "google2011_gcd_vms", "datacenter_aggregates"].map(set_folder);
    let [Some(planetlab), Some(gcd), Some(datacenter)] = folders else {
        return;
    };
    let (series, report) = read(&planetlab);
    assert_eq!((series.len(), report.skipped.len()), (200, 0));
    assert!(series.iter().all(|one| one.points.len() == 288 && one.capacity == Some(100.0)));
    let zeros = series.iter().flat_map(|one| &one.points).filter(|point| point.value == 0.0).count();
    assert_eq!(zeros, 9_475);
    // 2011-03-03, midnight.
    assert_eq!(series[0].points[0].at_ms, 1_299_110_400_000);
    let (series, report) = read(&gcd);
    assert_eq!((series.len(), report.skipped.len()), (100, 1));
    let cpu = series.iter().filter(|one| one.is_primary()).flat_map(|one| &one.points);
    let (count, least) =
        cpu.fold((0, 100.0_f64), |(count, least), point| (count + 1, least.min(point.value)));
    assert!(count == 50 * 288 && least > 5.0, "{count} {least}");
    let (series, report) = read(&datacenter);
    assert_eq!(series.len(), 5 + 4);
    let alibaba = file(&report, "grouped_300_seconds.csv");
    assert_eq!((alibaba.rows_read, alibaba.counted["steps_missing_of_eight_days"]), (2_243, 61));
    assert_eq!(file(&report, "month.csv").rows_read, 8_064);
}

#[test]
fn worldcup98_lacks_ten_minutes() {
    let Some(folder) = set_folder("worldcup98_per_minute") else {
        return;
    };
    let (series, report) = read(&folder);
    let quality = &report.files[0];
    assert_eq!((series[0].points.len(), quality.counted["minutes_missing"]), (79_340, 10));
    assert_eq!(series[0].points.iter().map(|point| point.value as u64).sum::<u64>(), 727_353_851);
    assert_eq!(series[0].points[0].at_ms, 893_971_800_000);
}

#[test]
fn genai_measures_are_read_in_any_order_of_columns() {
    let Some(folder) = set_folder("alibaba_genai2026") else {
        return;
    };
    let (series, report) = read(&folder);
    let of = |kind: &str| series.iter().filter(|one| one.name.starts_with(kind)).count();
    assert_eq!(
        ["gpu_percent/", "qps/", "queue_ms/", "queue_length/", "inference_ms/", "predict_ms/"].map(of),
        [122, 98, 97, 1, 118, 116]
    );
    let duty = file(&report, "pod_gpu_duty_cycle_anon.head55578.csv");
    assert_eq!((duty.rows_read, duty.median_step_ms, duty.duplicates), (55_577, 57_000, 0));
    assert_eq!(file(&report, "qps.head17042.csv").counted["rows_without_container"], 480);
    let requests = raw(&folder.join("lora_request_trace.head17765.csv"), "alibaba_genai2026");
    assert_eq!((requests.balls.len(), requests.outcomes.len()), (17_764, 0));
    let counted = |what: &str| requests.quality.counted[what];
    assert_eq!(
        ["balls_without_work", "equal_stamps", "rows_without_sizes"].map(counted),
        [280 + 17, 430, 17]
    );
}

#[test]
fn access_logs_are_read_with_their_broken_lines() {
    let (Some(nasa), Some(apache)) = (set_folder("nasa_http_sample"), set_folder("elastic_apache_combined"))
    else {
        return;
    };
    let nasa = raw(&nasa.join("NASA_access_log_Aug95"), "access_log");
    // One more line is blank; the broken ones are lines that were cut in two.
    assert_eq!((nasa.quality.rows_read, nasa.balls.len()), (1_930, 1_841));
    assert_eq!(nasa.quality.rejected_total(), 89);
    assert_eq!(nasa.quality.counted["rows_without_bytes"], 6);
    let apache = raw(&apache.join("apache_logs"), "access_log");
    assert_eq!((apache.quality.rows_read, apache.quality.rejected_total()), (10_000, 1));
    assert_eq!(apache.quality.counted["rows_without_bytes"], 669);
    assert_eq!(apache.quality.backward, 4_915);
}

#[test]
fn job_logs_are_read_with_their_censored_jobs() {
    let Some(folder) = set_folder("swf_job_logs") else {
        return;
    };
    let wagap = raw(&folder.join("wagap-2013.swf"), "swf");
    let quality = &wagap.quality;
    assert_eq!((quality.rows_read, quality.rejected[&crate::RejectReason::Censored]), (17_900, 2));
    assert_eq!(wagap.rejects.iter().map(|reject| reject.line).collect::<Vec<_>>(), [4_186, 4_200]);
    let counted = |what: &str| quality.counted[what];
    assert_eq!(["nodes", "equal_stamps", "jobs_over_several_nodes"].map(counted), [44, 7_091, 334]);
    assert_eq!((wagap.balls.len(), wagap.outcomes.len()), (19_194, 19_194));
    let hpc2n = raw(&folder.join("hpc2n.swf"), "swf");
    assert_eq!((hpc2n.quality.rows_read, hpc2n.quality.rejected_total()), (3_170, 25));
    assert_eq!(hpc2n.balls[0].at_ms, 1_027_839_845_000);
    assert!(hpc2n.outcomes.is_empty());
}

#[test]
fn azure_llm2023_is_complete_without_its_last_line_end() {
    let Some(folder) = set_folder("azure_llm2023") else {
        return;
    };
    let azure = raw(&folder.join("AzureLLMInferenceTrace_conv.csv"), "azure_llm2023");
    assert_eq!((azure.balls.len(), azure.quality.rejected_total()), (19_366, 0));
    assert_eq!(azure.balls[0].at_ms, 1_700_158_546_680);
    let counts: f64 = azure.boxes["requests"].values[0].iter().sum();
    assert_eq!(counts, 19_366.0);
}
