//! The command: exit codes, refusals, the line with the address, and the stop.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use serde_json::{Value, json};
use support::{Binary, command};

/// Exit code and messages of a start that is refused.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let output = command(arguments).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn bad_usage_exits_with_2_and_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (unknown, share, seed) = (
        file("a.json", r#"{"holdout":1}"#),
        file("b.json", r#"{"holdout_share":2}"#),
        file("c.json", r#"{"seed":1}"#),
    );
    let (short_token, short_key) = (file("token", "secret"), file("key", "short"));
    let empty = folder.path().display().to_string();
    for (arguments, message) in [
        (vec!["--listen", "0.0.0.0:0"], "give --token-file"),
        (vec!["--store", "redis:x"], "memory or sqlite:PATH"),
        (vec!["--primary", "best"], "no strategy is called"),
        (vec!["--rule", "predicted_load"], "needs no model"),
        (vec!["--config", &unknown], "unknown field `holdout`"),
        (vec!["--config", &share], "holdout_share = 2 is not allowed: 0 to 1"),
        (vec!["--config", &seed], "leave it out"),
        (vec!["--config", "/nowhere.json"], "/nowhere.json"),
        (vec!["--token-file", &short_token], "at least 16"),
        (vec!["--link-key-file", &short_key], "at least 16"),
        (vec!["--time-scale", "0"], "--time-scale 0 is not allowed"),
        (vec!["--artifact", &empty], "manifest.json"),
        (vec!["--nonsense"], "unexpected argument"),
    ] {
        // The last --listen and --store count, as with most commands.
        let mut all = if arguments.contains(&"--store") { vec![] } else { vec!["--store", "memory"] };
        all.extend(&arguments);
        let (code, text) = refused(&all);
        assert_eq!(code, Some(2), "{arguments:?}: {text}");
        assert!(text.contains(message), "{arguments:?}: {text}");
    }
}

#[test]
fn everything_but_healthz_needs_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "0123456789abcdef0123\n").unwrap();
    let server = Binary::serve(&["--store", "memory", "--token-file", &path.display().to_string()]);
    server.api.get("/healthz").ok();
    for (method, route) in
        [("GET", "/readyz"), ("GET", "/metrics"), ("POST", "/v1/allocate"), ("GET", "/nope")]
    {
        let answer = server.api.send(method, route, Value::Null);
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        answer.problem(401, "unauthorized");
    }
    let with = |token: &str| {
        let header = format!("authorization: Bearer {token}\r\n");
        server.api.try_send("GET", "/readyz", "", &header).unwrap().status
    };
    assert_eq!(with("0123456789abcdef0123"), 200);
    assert_eq!((with("0123456789abcdef0124"), with("0123456789abcdef012"), with("")), (401, 401, 401));
}

#[test]
fn a_stop_leaves_a_snapshot_and_the_next_start_goes_on_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("berth.db").display());
    let arguments = ["--store", &store, "--primary", "round_robin"];
    let server = Binary::serve(&arguments);
    server.api.add_box("a", 10);
    let lease_id = server.api.allocate("1").ok()["lease_id"].clone();
    let before = server.api.get("/readyz").ok();
    assert_eq!((&before["durability"], &before["ready"]), (&json!("disk"), &json!(true)));

    let (code, text) = refused(&arguments);
    assert_eq!(code, Some(2), "a store has one owner: {text}");
    assert!(text.contains("is held by another scheduler"), "{text}");
    assert_eq!(server.terminate(), Some(0));

    let server = Binary::serve(&["--store", &store, "--durability", "process", "--candidate", "random"]);
    let after = server.api.get("/readyz").ok();
    assert_eq!(after["durability"], "process");
    assert!(after["snapshot_seq"].as_u64() >= before["seq"].as_u64(), "{after}");
    assert_eq!(after["live_leases"], 1);
    assert!(after["at_ms"].as_u64() >= before["at_ms"].as_u64(), "engine time never goes back");
    let config = server.api.get("/v1/config").ok();
    assert_eq!((&config["primary"], &config["candidate"]), (&json!("round_robin"), &json!("random")));
    assert_eq!(server.api.allocate("1").ok()["lease_id"], lease_id);
}
