use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::{FormatName, ReadOptions, load_series};

const NGINX: &str = r#"10.1.1.1 - - [29/Mar/2026:01:59:58 +0100] "GET /a HTTP/1.1" 200 1000 "-" "curl \"8\"" rt=0.500 uct="0.001" urt="0.499" upstream="10.0.0.1:80"
10.1.1.1 - bob smith [29/Mar/2026:03:00:01 +0200] "POST /b HTTP/1.1" 502 - "-" "x" 1.250 "10.0.0.1:80, 10.0.0.2:80"
cut in the mid
10.1.1.1 - - [29/Mar/2026:03:00:00 +0200] "GET /c HTTP/1.1" 499 0 "-" "x" 0.000 10.0.0.2:80 17
10.1.1.1 - - [29/Mar/2026:03:00:00 +0200] "GET /d HTTP/1.1" 200 x "-" "x"
10.1.1.1 - - [29/Mar/2026:03:00:00 +0200] "GET /d HTTP/1.1" 200 5 "-" "no end
10.1.1.1 - - [32/Mar/2026:03:00:00 +0200] "GET /d HTTP/1.1" 200 5
10.1.1.1 - - [29/Mar/2026:03:00:02 +0200] "GET /d HTTP/1.1" 200 5 "-" "x" rt=-1"#;

fn read_text(name: &str, text: &str) -> RawFile {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    let format = crate::format::detect(&path, false).unwrap();
    assert_eq!(format, FormatName::AccessLog);
    let raw = crate::adapters::read_file(&path, format, &ReadOptions::default()).unwrap();
    assert_eq!(raw.quality.rows_read, raw.quality.rows_accepted + raw.quality.rejected_total());
    raw
}

#[test]
fn nginx_lines_become_balls_with_outcomes_through_a_change_of_zone() {
    let raw = read_text("access.log", NGINX);
    let rejected: Vec<_> = raw.rejects.iter().map(|reject| (reject.line, reject.reason)).collect();
    assert_eq!(
        rejected,
        [
            (3, RejectReason::BrokenLine),
            (5, RejectReason::BadNumber),
            (6, RejectReason::BrokenLine),
            (7, RejectReason::BadTime),
            (8, RejectReason::Negative),
        ]
    );
    // 00:59:58 UTC less half a second; the clocks went forward between this line and the next.
    let second_ms = 1_774_746_000_000;
    let balls: Vec<_> = raw.balls.iter().map(|ball| (ball.at_ms - second_ms, ball.work)).collect();
    assert_eq!(balls, [(-2_500, Some(0.5)), (-250, None), (0, None)]);
    assert_eq!(raw.balls[0].demand_bandwidth_bps, 16_000.0);
    assert_eq!((raw.balls[1].kind.as_str(), raw.balls[1].demand_bandwidth_bps), ("POST", 0.0));
    let outcomes: Vec<_> = raw
        .outcomes
        .iter()
        .map(|one| (one.box_id.as_str(), one.finished_at_ms.unwrap() - second_ms, one.succeeded))
        .collect();
    assert_eq!(
        outcomes,
        [("10.0.0.1:80", -2_000, true), ("10.0.0.2:80", 1_000, false), ("10.0.0.2:80", 0, false)]
    );
    let counted = |what: &str| raw.quality.counted[what];
    assert_eq!(raw.quality.backward, 1);
    assert_eq!(
        [
            "zone_changes",
            "retried_requests",
            "censored_requests",
            "rows_without_bytes",
            "rows_with_unkeyed_whole_numbers"
        ]
        .map(counted),
        [1, 1, 2, 1, 1]
    );
    let minutes: Vec<_> =
        raw.boxes.iter().map(|(name, samples)| (name.as_str(), samples.values[0].clone())).collect();
    assert_eq!(minutes, [("10.0.0.1:80", vec![1.0]), ("10.0.0.2:80", vec![1.0, 1.0])]);
}

#[test]
fn common_lines_without_more_have_no_outcome() {
    let text = "\u{FEFF}h1 - - [01/Aug/1995:00:00:01 -0400] \"GET / HTTP/1.0\" 200 10\r\n\
        h1 - - [01/Aug/1995:00:02:01 -0400] \"GET / HTTP/1.0\" 304 0";
    let raw = read_text("old.log", text);
    assert!(raw.outcomes.is_empty() && raw.balls[0].work.is_none());
    assert_eq!((raw.balls[0].at_ms, raw.balls[0].demand_bandwidth_bps), (807_249_601_000, 80.0));
    assert_eq!(raw.boxes["old"].values[0], [1.0, 0.0, 1.0]);
    assert!(raw.quality.notes.iter().any(|note| note.contains("no outcome")));
}

#[test]
fn envoy_and_json_lines_tell_arrival_and_end_apart() {
    let text = r#"[2026-03-01T10:00:00.250Z] "GET /a HTTP/1.1" 200 - 0 2000 100 99 "-" "curl" "id" "host" "10.0.0.1:80"
[2026-03-01T10:00:01.000Z] "GET /a HTTP/2" 503 UF upstream_failure - "TLS: no" 0 95 5 - "-" "curl" "id" "host" "10.0.0.2:80" outbound 1.1.1.1:1 - - -
{"start_time":"2026-03-01T10:00:02.000Z","response_code":200,"duration":40,"bytes_sent":10,"upstream_host":"10.0.0.1:80","method":"GET"}
{"time_local":"01/Mar/2026:11:00:03 +0100","status":"200","request_time":"0.040","body_bytes_sent":10,"upstream_addr":"10.0.0.1:80","request":"PUT /x HTTP/1.1"}
{"ts":1772359204.5,"status":200,"duration":0.5,"size":7,"request":{"method":"GET"}}
{"time":"2026-03-01T10:00:05Z","status":"healthy"}"#;
    let raw = read_text("mixed.log", text);
    assert_eq!(raw.rejects.len(), 1);
    assert_eq!((raw.rejects[0].line, raw.rejects[0].reason), (6, RejectReason::MissingField));
    let zero_ms = 1_772_359_200_000;
    let balls: Vec<_> =
        raw.balls.iter().map(|ball| (ball.at_ms - zero_ms, ball.work, ball.kind.as_str())).collect();
    assert_eq!(
        balls,
        [
            (250, Some(0.1), "GET"),
            (1_000, None, "GET"),
            (2_000, Some(0.04), "GET"),
            (2_960, Some(0.04), "PUT"),
            (4_000, Some(0.5), "GET")
        ]
    );
    let ends: Vec<_> =
        raw.outcomes.iter().map(|one| (one.box_id.as_str(), one.finished_at_ms.unwrap() - zero_ms)).collect();
    assert_eq!(
        ends,
        [("10.0.0.1:80", 350), ("10.0.0.2:80", 1_005), ("10.0.0.1:80", 2_040), ("10.0.0.1:80", 3_000)]
    );
}

#[test]
fn other_logs_are_not_taken_for_access_logs() {
    for text in
        ["{\"time\":\"2026-03-01\",\"status\":200}", "10:00 [main] \"x\" done", "a,b", "[x] \"y\" 200"]
    {
        assert!(!is_access_log(text), "{text}");
    }
    let missing = PathBuf::from("absent.log");
    assert!(load_series(&[missing], &ReadOptions::default()).is_err());
}

#[test]
fn rotated_files_join_where_one_minute_was_cut() {
    let folder = tempfile::tempdir().unwrap();
    let line = |second: u32| {
        format!(
            "h - - [01/Mar/2026:10:00:{second:02} +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"x\" rt=0.001 a:80\n"
        )
    };
    let paths = [("access.log.1", line(1) + &line(2)), ("access.log", line(3))].map(|(name, text)| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    });
    let out = folder.path().join("tables");
    let ingested = crate::ingest(&paths, &ReadOptions::default(), None, &out, &mut |_| {}).unwrap();
    let data = crate::read_folder(&out, None).unwrap();
    assert_eq!((data.balls.len(), data.outcomes.len()), (3, 3));
    assert!(!ingested.manifest.repaired.contains_key("repeated_balls"));
    let counts: Vec<_> = data.metrics.iter().map(|row| (row.box_id.as_str(), row.value)).collect();
    assert_eq!(counts, [("a:80", Some(3.0))]);
    assert_eq!(data.boxes[0].box_id, "a:80");
}

proptest! {
    /// What a server writes is read back, whatever stands in the request, the agent and before the line's end.
    #[test]
    fn a_written_line_is_read_back(
        path in "[^\"\\\\\r\n]{0,20}",
        agent in "[^\"\\\\\r\n]{0,20}",
        status in 100_u16..600,
        bytes in 0_u32..u32::MAX,
        duration_ms in 0_u32..2_000_000,
        port in 1_u16..,
    ) {
        let seconds = f64::from(duration_ms) / 1000.0;
        let line = format!(
            "h - - [01/Mar/2026:10:00:00 +0000] \"GET {path}\" {status} {bytes} \"-\" \"{agent}\" \
             {seconds:.3} \"[::1]:{port}\""
        );
        let request = parse(&line).unwrap();
        prop_assert_eq!((request.status, request.bytes), (status, Some(f64::from(bytes))));
        prop_assert_eq!(arrival_ms(&request), 1_772_359_200_000 - i64::from(duration_ms));
        prop_assert_eq!(request.upstream, Some(format!("[::1]:{port}")));
    }

    /// A line that was cut anywhere, or that had something put in, is read or rejected and never stops the file.
    #[test]
    fn spoilt_lines_are_no_end(line in 0_usize..8, cut in 0_usize..200, put in ".{0,4}") {
        let whole: Vec<char> = NGINX.lines().nth(line).unwrap_or_default().chars().collect();
        let cut = cut.min(whole.len());
        let (left, right): (String, String) = (whole[..cut].iter().collect(), whole[cut..].iter().collect());
        for spoilt in [left.clone(), right.clone(), left + &put + &right] {
            if let Ok(request) = parse(&spoilt) {
                prop_assert!(request.duration_ms.is_none_or(|ms| (0.0..=MOST_MS).contains(&ms)), "{}", spoilt);
                prop_assert!(request.upstream.is_none_or(|upstream| !upstream.is_empty()), "{}", spoilt);
            }
        }
    }
}
