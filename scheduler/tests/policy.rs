//! The shipped placement policy over HTTP: in shadow, as primary, and after `kill -9`.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use serde_json::json;
use support::{Api, Binary, eventually};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../trainer/policies/park");

fn place(api: Api, name: &str, count: usize) {
    for number in 0..count {
        api.post("/v1/allocate", json!({ "ball_id": format!("{name}-{number}"), "work_ms": 200 })).ok();
    }
}

#[test]
fn a_policy_is_shadowed_then_decides_and_outlives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("berth.db").display());
    let start =
        |more: &[&str]| Binary::serve(&[&["--store", &store, "--durability", "process"], more].concat());
    let mut server = start(&["--primary", "least_work_left", "--candidate", "learned"]);
    let api = server.api;
    (0..5).for_each(|number| api.add_box(&format!("box-{number}"), 1_000));
    place(api, "before", 20);
    eventually("what can't be compared is counted", || api.get("/v1/shadow").ok()["without_policy"] == 20);
    assert_eq!(api.get("/v1/shadow").ok()["agreement"]["compared"], 0);

    let active = api.post("/v1/policies/activate", json!({ "path": FOLDER })).ok();
    let policy_id = active["policy_id"].clone();
    place(api, "shadowed", 20);
    eventually("the policy is compared", || api.get("/v1/shadow").ok()["agreement"]["compared"] == 20);
    let learned = format!("learned.v1+{}", policy_id.as_str().unwrap());
    assert_eq!(api.get("/v1/shadow").ok()["strategy_id"], learned.as_str());

    api.send("PATCH", "/v1/config", json!({ "primary": "learned" })).ok();
    place(api, "decided", 20);
    server.kill();
    let server = start(&[]);
    let ready = server.api.get("/readyz").ok();
    assert_eq!((&ready["policy_id"], &ready["has_policy"]), (&policy_id, &json!(true)));
    place(server.api, "after", 5);
    let refused = server.api.post("/v1/policies/activate", json!({ "path": "/nowhere" }));
    assert_eq!(refused.status, 422, "{}", refused.text);
}
