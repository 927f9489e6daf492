//! What a hostile or hurried operator does: second names for a store, other people's files, devices for
//! folders, half-wrong batches, and a scheduler that has failed.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use berth_scheduler::sequencer::Denied;
use berth_scheduler::{Settings, Store};
use serde_json::{Value, json};
use support::{Binary, Running, command, eventually, settings, write_artifact};

/// Exit code and messages of a start that must be refused.
#[track_caller]
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let mut child = command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if !line.is_empty() {
        child.kill().unwrap();
        panic!("{arguments:?}: it started, {line}");
    }
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_store_has_one_owner_whatever_name_it_is_opened_by() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("berth.db");
    let store = |name: &str| format!("sqlite:{}", folder.path().join(name).display());
    let server = Binary::serve(&["--store", &store("berth.db")]);
    server.api.add_box("a", 10);
    std::fs::hard_link(&path, folder.path().join("hard.db")).unwrap();
    std::os::unix::fs::symlink(&path, folder.path().join("soft.db")).unwrap();
    for name in ["berth.db", "hard.db", "soft.db"] {
        let (code, text) = refused(&["--store", &store(name)]);
        assert_eq!(code, Some(2), "{name}: {text}");
        assert!(text.contains("is held by another scheduler"), "{name}: {text}");
    }
    // The lock is not in the way of SQLite's own, and goes with the process.
    server.api.allocate("1").ok();
    assert_eq!(server.terminate(), Some(0));
    let server = Binary::serve(&["--store", &store("soft.db")]);
    assert_eq!(server.api.get("/readyz").ok()["live_leases"], 1);
}

#[test]
fn a_file_of_somebody_else_is_refused_and_left_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let foreign = folder.path().join("foreign.db");
    let other = rusqlite::Connection::open(&foreign).unwrap();
    other.execute_batch("CREATE TABLE songs (title TEXT); INSERT INTO songs VALUES ('x');").unwrap();
    drop(other);
    let text_file = folder.path().join("notes.txt");
    std::fs::write(&text_file, "not a database at all, but longer than the header of one is").unwrap();
    for path in [&foreign, &text_file] {
        let before = std::fs::read(path).unwrap();
        let path_text = path.display().to_string();
        let (code, text) = refused(&["--store", &format!("sqlite:{path_text}")]);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(&path_text) && text.contains("another --store"), "{text}");
        assert_eq!(std::fs::read(path).unwrap(), before, "untouched");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left beside them");
}

#[test]
fn messages_of_a_failed_start_say_it_once_and_name_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().display());
    let (_, text) = refused(&["--store", &store]);
    assert!(text.contains(&folder.path().display().to_string()), "{text}");
    assert!(!folder.path().with_extension("lock").exists());
    let missing = folder.path().join("missing/x.db").display().to_string();
    let (_, text) = refused(&["--store", &format!("sqlite:{missing}")]);
    assert!(text.contains(&missing) && text.contains("opening the file"), "{text}");

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (_, text) = refused(&["--store", "memory", "--listen", &address]);
    assert_eq!(text.matches("in use").count(), 1, "{text}");

    for (arguments, part) in [
        (["--listen", "localhost:7700"], "an IP address and a port"),
        (["--engine-start-ms", "18446744073709551615"], "4102444800000"),
    ] {
        let (code, text) = refused(&[&["--store", "memory"][..], &arguments].concat());
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_scheduler_that_can_record_nothing_is_not_alive() {
    let server = Running::start(settings(json!({})));
    server.api.get("/healthz").ok();
    let sequencer = server.sequencer();
    let denied = sequencer.configure(|_| panic!("a bug, made for this test")).map(drop);
    assert!(matches!(denied, Err(Denied::Panicked)), "{denied:?}");
    let problem = berth_scheduler::http::problem::Problem::from(Denied::Panicked);
    assert_eq!(problem.status, 500);
    server.api.get("/healthz").problem(503, "not_ready");
    server.api.allocate("1").problem(503, "not_ready");
    assert!(server.api.get("/readyz").body["reason"].as_str().unwrap().contains("panicked"));

    // A panic of a mere look poisons the lock; that counts as well.
    let server = Running::start(settings(json!({})));
    let sequencer = server.sequencer();
    assert!(std::thread::spawn(move || sequencer.look(|_| panic!("another"))).join().is_err());
    server.api.get("/healthz").problem(503, "not_ready");
}

#[test]
fn only_an_explicit_null_deactivates_the_artifact() {
    let folder = tempfile::tempdir().unwrap();
    let artifact_id = write_artifact(folder.path(), 0.25);
    let server = Running::start(settings(json!({})));
    let activate = |body: Value| server.api.post("/v1/artifacts/activate", body);
    activate(json!({ "path": folder.path() })).ok();
    let missing = activate(json!({})).problem(400, "malformed");
    assert!(missing["detail"].as_str().unwrap().contains("missing field `path`"), "{missing}");
    assert_eq!(server.api.get("/readyz").ok()["artifact_id"], artifact_id);
    assert_eq!(activate(json!({ "path": null })).ok()["artifact_id"], Value::Null);
    server.stop();
}

#[test]
fn a_bundle_of_pipes_and_devices_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str| {
        let inner = folder.path().join(name);
        std::fs::create_dir(&inner).unwrap();
        (inner.clone(), inner.join("manifest.json"))
    };
    let (pipe, pipe_manifest) = make("pipe");
    assert!(Command::new("mkfifo").arg(&pipe_manifest).status().unwrap().success());
    let (zero, zero_manifest) = make("zero");
    std::os::unix::fs::symlink("/dev/zero", &zero_manifest).unwrap();
    let server = Binary::serve(&["--store", "memory"]);
    for path in [pipe, zero] {
        let refused =
            server.api.post("/v1/artifacts/activate", json!({ "path": path })).problem(422, "artifact");
        assert!(refused["detail"].as_str().unwrap().contains("regular file"), "{refused}");
    }
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn registering_a_drained_box_again_ends_its_drain() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::Sqlite(folder.path().join("berth.db"));
    let server = Running::start(Settings { store, ..settings(json!({})) });
    let api = server.api;
    api.add_box("a", 10);
    api.post("/v1/boxes/a/drain", Value::Null).ok();
    api.add_box("a", 10);
    assert_eq!(api.get("/v1/boxes/a").ok()["stage"], "mature");
    api.allocate("1").ok();
    let seq = api.get("/readyz").ok()["seq"].clone();
    api.add_box("a", 10);
    assert_eq!(api.get("/readyz").ok()["seq"], seq, "the same again is no event");
    server.stop();
}

#[test]
fn a_retry_of_an_ended_lease_has_no_link_and_says_what_helps() {
    let server = Running::start(Settings { time_scale: 100.0, ..settings(json!({})) });
    let api = server.api;
    api.add_box("a", 10);
    let body = json!({ "ball_id": "1", "lease_ms": 1_000 });
    let first = api.post("/v1/allocate", body.clone()).ok();
    assert!(first["link"].is_string());
    eventually("it expires", || api.get("/readyz").ok()["live_leases"] == 0);
    let again = api.post("/v1/allocate", body).ok();
    assert_eq!((&again["repeated"], &again["link"]), (&json!("expired"), &Value::Null));
    let path = format!("/v1/leases/{}/heartbeat", first["lease_id"]);
    let late = api.post(&path, json!({ "ball_id": "1" })).problem(409, "lease_ended");
    assert!(late["detail"].as_str().unwrap().contains("a new ball_id"), "{late}");
    server.stop();
}

#[test]
fn a_batch_of_reports_succeeds_and_fails_report_by_report() {
    let server = Running::start(settings(json!({})));
    let api = server.api;
    api.add_box("a", 10);
    let now_ms = api.get("/readyz").ok()["wall_ms"].as_u64().unwrap();
    let report = |sampled_at_ms: u64| json!({ "sampled_at_ms": sampled_at_ms, "usage": { "slots": 1 } });
    let batch = json!([
        report(now_ms - 3_000), { "sampled_at_ms": 1, "age_ms": 1 }, { "usage": "junk" }, [1],
        report(now_ms - 2_000), report(now_ms - 2_500),
    ]);
    let answer = api.post("/v1/boxes/a/report/batch", batch).ok();
    assert_eq!((&answer["accepted"], &answer["not_newer"]), (&json!(2), &json!(1)), "{answer}");
    let rejected = answer["rejected"].as_array().unwrap();
    let indices: Vec<u64> = rejected.iter().map(|one| one["index"].as_u64().unwrap()).collect();
    assert_eq!(indices, [1, 2, 3], "{answer}");
    assert!(rejected[0]["detail"].as_str().unwrap().contains("age_ms"), "{answer}");
    api.post("/v1/boxes/b/report/batch", json!([report(now_ms)])).problem(404, "unknown");
    server.stop();
}

#[test]
fn doubled_fields_lists_for_objects_and_limits_are_named() {
    let server = Running::start(settings(json!({})));
    let api = server.api;
    api.add_box("a", 10);
    for (method, path, body, text) in [
        (
            "PUT",
            "/v1/boxes/b",
            r#"{"capacity":{"slots":1},"capacity":{"slots":2}}"#,
            "`capacity` is given twice",
        ),
        ("PUT", "/v1/boxes/b", r#"{"capacity":{"slots":1,"slots":2}}"#, "slots"),
        (
            "PUT",
            "/v1/config",
            r#"{"holdout_share":0.1,"holdout_share":0.2}"#,
            "`holdout_share` is given twice",
        ),
        ("PATCH", "/v1/config", r#"{"primary":"random","primary":"random"}"#, "`primary` is given twice"),
        ("POST", "/v1/allocate", r#" ["default","1"]"#, "an object"),
        ("POST", "/v1/allocate", "[]", "an object"),
        ("POST", "/v1/rules-only", "[true]", "an object"),
    ] {
        let problem = api.try_send(method, path, body, "").unwrap().problem(400, "malformed");
        assert!(problem["detail"].as_str().unwrap().contains(text), "{body}: {problem}");
    }
    let batch = api.post("/v1/allocate/batch", json!({ "balls": [["default", "1"]] })).ok();
    assert_eq!(batch["results"][0]["problem"]["status"], 400);
    for path in ["/v1/balls", "/v1/boxes"] {
        let problem = api.get(&format!("{path}?limit=0")).problem(400, "invalid");
        assert_eq!(
            (&problem["field"], &problem["value"], &problem["allowed"]),
            (&json!("limit"), &json!("0"), &json!("1 to 10000"))
        );
    }
    server.stop();
}

#[test]
fn every_gated_box_is_counted_and_every_metric_explained() {
    let server = Running::start(settings(json!({})));
    for number in 0..1_005 {
        server.api.add_box(&format!("box-{number:04}"), 1);
    }
    for number in 998..1_005 {
        server.api.post(&format!("/v1/boxes/box-{number:04}/drain"), Value::Null).ok();
    }
    let text = server.api.get("/metrics").text;
    assert!(text.contains("berth_boxes_gated{cause=\"draining\"} 7\n"));
    let helps: Vec<&str> = text.lines().filter(|line| line.starts_with("# HELP")).collect();
    let said: std::collections::BTreeSet<&str> =
        helps.iter().map(|line| line.splitn(4, ' ').nth(3).unwrap()).collect();
    assert_eq!(said.len(), helps.len(), "each metric has a help of its own");
    server.stop();
}

#[test]
fn the_token_scheme_has_no_case_and_is_described() {
    let settings = Settings { token: Some("0123456789abcdef".to_owned()), ..settings(json!({})) };
    let server = Running::start(settings);
    let with = |scheme: &str| {
        let header = format!("authorization: {scheme} 0123456789abcdef\r\n");
        server.api.try_send("GET", "/openapi.json", "", &header).unwrap()
    };
    assert_eq!((with("bearer").status, with("BEARER").status, with("Basic").status), (200, 200, 401));
    let description = with("bearer").ok();
    assert_eq!(description["components"]["securitySchemes"]["token"]["scheme"], "bearer");
    let paths = &description["paths"];
    assert!(paths["/v1/allocate"]["post"]["responses"]["401"].is_object());
    assert!(paths["/healthz"]["get"]["responses"]["401"].is_null());
    server.stop();
}
