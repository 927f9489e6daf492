//! Known real sets are read completely, and their known oddities are counted. Needs the traces' folder.

use std::path::{Path, PathBuf};

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
