//! Named sets and job logs against ugly hand-made input.

use std::path::PathBuf;

use crate::samples::RawFile;
use crate::{ReadOptions, RejectReason, load_series};

fn write(folder: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}

fn raw(name: &str, text: &str, format: &str) -> RawFile {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&folder, name, text);
    let found = crate::format::detect(&path, false).unwrap();
    assert_eq!(found.as_str(), format);
    let raw = super::read_file(&path, found, &ReadOptions::default()).unwrap();
    assert_eq!(raw.quality.rows_read, raw.quality.rows_accepted + raw.quality.rejected_total());
    raw
}

fn lines(raw: &RawFile) -> Vec<(u64, RejectReason)> {
    raw.rejects.iter().map(|reject| (reject.line, reject.reason)).collect()
}

fn column(raw: &RawFile, box_id: &str, measure: usize) -> Vec<(i64, f64)> {
    let samples = &raw.boxes[box_id];
    samples.at_ms.iter().copied().zip(samples.values[measure].iter().copied()).collect()
}

#[test]
fn machines_one_after_another_are_taken_apart() {
    let text = "m_2,600,41,92,,,43.04,33.08,5\r\nm_2,620,42,92,1.5,3,43.04,33.08,101\r\nm_2,60\r\n\
        m_1,10,101,50,,,1,1,-1\r\nm_1,10,7,50,,,1,1,3\r\nm_1,-5,7,50,,,1,1,3\r\nm_1,20,-7,50,,,1,1,3\r\n\
        m_1,30,,50,,,1,1,3\r\nm_2,610,43,,,,,,";
    let raw = raw("machine_usage.csv", text, "alibaba2018_machine_usage");
    assert_eq!(
        lines(&raw),
        [
            (3, RejectReason::BrokenLine),
            (6, RejectReason::ImplausibleTime),
            (7, RejectReason::Negative),
            (8, RejectReason::MissingField),
        ]
    );
    let origin_ms = 946_684_800_000;
    assert_eq!(
        column(&raw, "m_2", 0),
        [(origin_ms + 600_000, 41.0), (origin_ms + 610_000, 43.0), (origin_ms + 620_000, 42.0)]
    );
    assert_eq!(column(&raw, "m_1", 0), [(origin_ms + 10_000, 7.0)]);
    let disk: Vec<f64> = raw.boxes["m_2"].values[6].clone();
    assert!(disk[0] == 5.0 && disk[1].is_nan() && disk[2].is_nan());
    assert_eq!((raw.quality.duplicates, raw.quality.backward), (1, 1));
    let counted = |what: &str| raw.quality.counted[what];
    assert_eq!(
        ["abnormal_disk_values_left_out", "rows_above_100_percent", "machines_that_come_back"].map(counted),
        [2, 1, 1]
    );
}

#[test]
fn a_broken_row_keeps_its_place_on_a_grid() {
    let raw = raw("20110303/host.name_slice", "5\n\nx\n7 8\n-1\n101", "planetlab");
    assert_eq!(
        lines(&raw),
        [(3, RejectReason::BadNumber), (4, RejectReason::BrokenLine), (5, RejectReason::Negative)]
    );
    let day_ms = 1_299_110_400_000;
    assert_eq!(column(&raw, "20110303/host.name_slice", 0), [(day_ms, 5.0), (day_ms + 1_500_000, 101.0)]);
    assert_eq!(raw.quality.counted["rows_above_100_percent"], 1);
}

#[test]
fn shares_of_other_sets_without_stamps() {
    let gcd = raw("vm_1_1", "6.763 5.103\r\n7.288 \r\n8 6e-1", "google2011_gcd_vms");
    assert_eq!(lines(&gcd), [(2, RejectReason::BrokenLine)]);
    assert_eq!(column(&gcd, "vm_1_1", 1), [(1_304_208_000_000, 5.103), (1_304_208_600_000, 0.6)]);
    let header = "avg_cpu,avg_mem,avg_assigned_mem,avg_cycles_per_instruction";
    let google = raw(
        "month.csv",
        &format!("\u{FEFF}{header}\n0.25,0.5,0.75,148.5\n0.25,,0.75,1"),
        "datacenter_aggregates",
    );
    assert_eq!(lines(&google), [(3, RejectReason::MissingField)]);
    let samples = google.boxes.values().next().unwrap();
    assert_eq!(samples.at_ms, [1_556_668_800_000]);
    assert_eq!(samples.values.concat(), [25.0, 50.0, 75.0, 148.5, 25.0]);
}

#[test]
fn a_number_alone_is_a_series_only_in_a_day() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["notes/list", "20111399/host", "vm_x"] {
        let path = write(&folder, name, "5\n6\n");
        let message = load_series(&[path], &ReadOptions::default()).unwrap_err().to_string();
        assert!(message.contains("planetlab") && message.contains("access_log"), "{message}");
    }
}

#[test]
fn missing_minutes_are_counted_not_filled() {
    let text = "period,count\n1998-04-30 21:30:00,2\n1998-04-30 21:31:00,x\n1998-04-30 21:33:00,11";
    let raw = raw("count.csv", text, "worldcup98");
    assert_eq!(lines(&raw), [(3, RejectReason::BadNumber)]);
    assert_eq!(column(&raw, "count", 0), [(893_971_800_000, 2.0), (893_971_980_000, 11.0)]);
    assert_eq!(raw.quality.counted["minutes_missing"], 2);
}

#[test]
fn genai_files_are_told_by_their_names_and_censored_requests_have_no_work() {
    let text =
        "value,timestamp_anon,container_ip\n7.5,1662858720.0,a\n1,1662858777.0,\nx,1662858777.0,a\n1,777,a";
    let duty = raw("pod_gpu_duty_cycle_anon.head9.csv", text, "alibaba_genai2026");
    assert_eq!(lines(&duty), [(4, RejectReason::BadNumber), (5, RejectReason::ImplausibleTime)]);
    assert_eq!(column(&duty, "gpu_percent/a", 0), [(1_662_858_720_000, 7.5)]);
    assert_eq!(column(&duty, "gpu_percent/system", 0), [(1_662_858_777_000, 1.0)]);
    let text = "gmt_create,predict_type,predict_status,exec_time_seconds,groupId,prompt_length,\
        negative_prompt_length,num_images_per_prompt,num_inference_steps,checkpoint_model_version_id,num_lora\n\
        2024-11-15 16:57:50,TXT_2_IMG,SUCCEED,32.0,G0,63.0,,1.0,30.0,M0,0\n\
        2024-11-15 16:57:50,TXT_2_IMG,SUCCEED,32.0,G0,63.0,,1.0,30.0,M0,0\n\
        2024-11-15 16:57:51,TXT_2_IMG,PENDING,0.0,G1,,,,,,0\n2024-11-15 16:57:52,TXT_2_IMG,FAILED,9.0\n";
    let requests = raw("lora_request_trace.csv", text, "alibaba_genai2026");
    let work: Vec<_> = requests.balls.iter().map(|ball| ball.work).collect();
    assert_eq!(work, [Some(32.0), Some(32.0), None]);
    assert_eq!(lines(&requests), [(5, RejectReason::BrokenLine)]);
    let counted = |what: &str| requests.quality.counted[what];
    assert_eq!(
        ["equal_stamps", "exact_repeats_kept", "rows_without_sizes", "balls_without_work"].map(counted),
        [1, 1, 1, 1]
    );
}

#[test]
fn tokens_become_work() {
    let text = "\u{FEFF}TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,400,10\r\n\
        2023-11-16 18:15:40.1,1\r\n2023-11-16 18:15:45.9999999,-3,1\r\n2023-11-16 18:15:45.9999999,0,1";
    let raw = raw("code.csv", text, "azure_llm2023");
    assert_eq!(lines(&raw), [(3, RejectReason::BrokenLine), (4, RejectReason::Negative)]);
    assert_eq!(raw.balls[0].at_ms, 1_700_158_546_680);
    assert!((raw.balls[0].work.unwrap() - (0.1 + 0.3)).abs() < 1e-12);
    assert_eq!((raw.quality.backward, raw.boxes["requests"].values[0].clone()), (1, vec![2.0]));
}

#[test]
fn jobs_are_placed_where_their_nodes_say() {
    let text = "; Version: 2.2\n; UnixStartTime: 1000000000\n\
        1 10 5 60 3 1 0 3 100 4096 1 7 1 1 -1 1 1 1 {b,a,b} q 1:ppn=3\n\
        2 10 -1 -1 1 1 0 1 100 4096 1 7 1 1 -1 1 1 1 {a} q x\n3 11 0\n\
        4 9 -1 60 -1 1 0 2 -1 -1 5 -1 1 1 -1 1 1 1 {} q x\n5 12 0 60 -1 1 0 -1 -1 -1 -1 -1 1 1 -1 1 1 1 {} q x\n\
        6 12 0 1e12 1 1 0 1 1 1 1 1 1 1 -1 1 1 1 {a q x\n";
    let raw = raw("jobs.swf", text, "swf");
    assert_eq!(
        lines(&raw),
        [
            (4, RejectReason::Censored),
            (5, RejectReason::BrokenLine),
            (7, RejectReason::MissingField),
            (8, RejectReason::BrokenLine),
        ]
    );
    let outcomes: Vec<_> = raw
        .outcomes
        .iter()
        .map(|one| (one.box_id.as_str(), one.started_at_ms / 1000, one.finished_at_ms.unwrap() / 1000))
        .collect();
    assert_eq!(outcomes, [("a", 1_000_000_015, 1_000_000_075), ("b", 1_000_000_015, 1_000_000_075)]);
    let balls: Vec<_> =
        raw.balls.iter().map(|ball| (ball.demand_cpu_cores, ball.expected_residence_ms)).collect();
    assert_eq!(balls, [(1.0, Some(100_000)), (2.0, Some(100_000)), (2.0, None)]);
    assert_eq!(raw.balls.iter().map(|ball| ball.demand_memory_bytes).sum::<f64>(), 4096.0);
    assert_eq!((raw.quality.backward, raw.balls[2].at_ms), (1, 1_000_000_009_000));
    let counted = |what: &str| raw.quality.counted[what];
    assert_eq!(["nodes", "jobs_over_several_nodes", "waits_unknown_taken_as_none"].map(counted), [2, 1, 1]);
}

#[test]
fn jobs_without_a_header_and_nodes_are_balls_alone() {
    let text = "1 1356996147 0 60 2 1 10 2 100 -1 1 7 1 1 3 1 -1 -1\r\n";
    let raw = raw("jobs.swf", text, "swf");
    assert_eq!((raw.balls[0].at_ms, raw.outcomes.len()), (1_356_996_147_000, 0));
    let folder = tempfile::tempdir().unwrap();
    let path = write(&folder, "jobs.swf", text);
    let message = load_series(&[path], &ReadOptions::default()).unwrap_err().to_string();
    assert!(message.contains("1 accepted") && message.contains("no load series"), "{message}");
    // KB a processor, as the format says.
    assert_eq!((raw.balls[0].demand_memory_bytes, raw.balls[0].kind.as_str()), (20_480.0, "3"));
}
