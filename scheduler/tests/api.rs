//! The API over real HTTP, on both stores where it matters.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::channel;

use berth_scheduler::link::{LinkKey, verify};
use berth_scheduler::{Settings, Store};
use serde_json::{Value, json};
use support::{Running, eventually, settings};

/// Run `test` against a fresh server on each store.
fn each_store(config: Value, test: impl Fn(&Running)) {
    let folder = tempfile::tempdir().unwrap();
    for store in [Store::Memory, Store::Sqlite(folder.path().join("berth.db"))] {
        let server = Running::start(Settings { store, ..settings(config.clone()) });
        test(&server);
        server.stop();
    }
}

#[test]
fn a_retry_gets_the_same_answer_and_another_body_a_conflict() {
    each_store(json!({}), |server| {
        let api = server.api;
        api.add_box("a", 10);
        let mut first = api.allocate("1").ok();
        let mut again = api.allocate("1").ok();
        assert_eq!(again["repeated"], "live");
        for answer in [&mut first, &mut again] {
            answer.as_object_mut().unwrap().remove("repeated");
        }
        assert_eq!(first, again, "link and all");
        api.post("/v1/allocate", json!({ "ball_id": "1", "class": "low" })).problem(409, "conflict");
        // The same id of another tenant is another ball.
        let other = api.post("/v1/allocate", json!({ "ball_id": "1", "tenant": "other" })).ok();
        assert_ne!(other["lease_id"], first["lease_id"]);
        let lease_id = first["lease_id"].as_u64().unwrap();
        api.post(&format!("/v1/leases/{lease_id}/release"), json!({ "ball_id": "1" })).ok();
        assert_eq!(api.allocate("1").ok()["repeated"], "released", "remembered after its end");
    });
}

#[test]
fn concurrent_duplicates_share_one_result() {
    each_store(json!({}), |server| {
        let api = server.api;
        (0..4).for_each(|number| api.add_box(&format!("box-{number}"), 1_000));
        for round in 0..20 {
            let ball_id = format!("ball-{round}");
            let leases: Vec<u64> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| api.allocate(&ball_id).ok())).collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap()["lease_id"].as_u64().unwrap())
                    .collect()
            });
            assert!(leases.iter().all(|lease_id| *lease_id == leases[0]), "{leases:?}");
        }
        assert_eq!(api.get("/readyz").ok()["live_leases"], 20);
    });
}

#[test]
fn reports_may_come_twice_and_out_of_order() {
    each_store(json!({}), |server| {
        let api = server.api;
        let capacity = json!({ "capacity": { "cpu_cores": 10 }, "stage": "mature" });
        api.send("PUT", "/v1/boxes/a", capacity).ok();
        let now_ms = api.get("/readyz").ok()["wall_ms"].as_u64().unwrap();
        let report = |sampled_at_ms: u64, cores: f64| {
            let body = json!({ "sampled_at_ms": sampled_at_ms, "usage": { "cpu_cores": cores } });
            api.post("/v1/boxes/a/report", body).ok()
        };
        let load = || (api.get("/v1/boxes/a").ok()["load"].as_f64().unwrap() * 1e9).round() / 1e9;
        assert_eq!(report(now_ms - 2_000, 4.0)["accepted"], true);
        assert_eq!(load(), 0.4);
        assert_eq!(report(now_ms - 2_000, 9.0)["reason"], "not_newer");
        assert_eq!(report(now_ms - 5_000, 9.0)["accepted"], false, "overtaken");
        assert_eq!(load(), 0.4);
        assert_eq!(report(now_ms - 1_000, 5.0)["accepted"], true);
        // Nonsense is named and counts as unknown; the future counts as now.
        let body =
            json!({ "sampled_at_ms": now_ms + 3_600_000, "usage": { "cpu_cores": -1 }, "error_rate": 7 });
        let answer = api.post("/v1/boxes/a/report", body).ok();
        assert_eq!(answer["set_aside"][0], json!({ "field": "cpu_cores", "reason": "negative" }));
        assert!(load() >= 0.5, "unknown is never empty");
        assert!(api.get("/metrics").text.contains("berth_reports_future_stamp_total 1\n"));
        // A report of the same millisecond as the last one is no news, so this may need another try.
        let batch = json!([{ "age_ms": 0, "usage": { "cpu_cores": 1 } }, { "sampled_at_ms": 5 }]);
        eventually("a batch brings news", || {
            let answer = api.post("/v1/boxes/a/report/batch", batch.clone()).ok();
            answer["accepted"] == 1 && answer["not_newer"] == 1
        });
        api.post("/v1/boxes/b/report", json!({})).problem(404, "unknown");
        api.post("/v1/boxes/a/report", json!({ "sampled_at_ms": 1, "age_ms": 1 })).problem(400, "invalid");
    });
}

#[test]
fn a_lease_expires_without_a_heartbeat_and_is_its_owners_alone() {
    // A hundred engine seconds a second, so that a lease of twenty seconds is over soon.
    let config = json!({ "lease_ms_default": 20_000 });
    let server = Running::start(Settings { time_scale: 100.0, ..settings(config) });
    let api = server.api;
    api.add_box("a", 10);
    let lease = |ball_id: &str, lease_ms: u64| {
        let body = json!({ "ball_id": ball_id, "lease_ms": lease_ms });
        api.post("/v1/allocate", body).ok()["lease_id"].as_u64().unwrap()
    };
    let long = lease("long", 3_600_000);
    let path = |action: &str| format!("/v1/leases/{long}/{action}");
    for action in ["release", "heartbeat"] {
        api.post(&path(action), json!({ "ball_id": "other" })).problem(403, "not_owner");
        api.post(&path(action), json!({ "ball_id": "long", "tenant": "other" })).problem(403, "not_owner");
    }
    let stolen = api.post(&path("complete"), json!({ "ball_id": "other", "succeeded": true }));
    stolen.problem(403, "not_owner");
    api.post(&path("heartbeat"), json!({ "ball_id": "long" })).ok();
    api.post("/v1/leases/999/release", json!({ "ball_id": "long" })).problem(404, "unknown");

    let short = lease("short", 1_000);
    eventually("the short lease expires", || api.get("/readyz").ok()["live_leases"] == 1);
    let late = api.post(&format!("/v1/leases/{short}/heartbeat"), json!({ "ball_id": "short" }));
    assert!(late.problem(409, "lease_ended")["detail"].as_str().unwrap().contains("expired"));
    assert_eq!(api.get("/v1/balls/default/short").ok()["state"], "expired");

    let done = json!({ "ball_id": "long", "succeeded": true });
    assert_eq!(api.post(&path("complete"), done.clone()).ok()["state"], "completed");
    assert_eq!(api.post(&path("complete"), done).ok()["repeated"], true);
    let other = json!({ "ball_id": "long", "succeeded": false });
    api.post(&path("complete"), other).problem(409, "lease_ended");
    api.post(&path("release"), json!({ "ball_id": "long" })).problem(409, "lease_ended");
    server.stop();
}

#[test]
fn the_kill_switch_holds_from_the_very_next_request() {
    each_store(json!({ "primary": "random" }), |server| {
        let api = server.api;
        api.add_box("a", 100);
        let route = |ball_id: &str| api.allocate(ball_id).ok()["route"].clone();
        for round in 0..10 {
            assert_eq!(route(&format!("on-{round}")), "primary");
            api.post("/v1/rules-only", json!({ "on": true })).ok();
            assert_eq!(route(&format!("off-{round}")), "rules_only");
            let critical = json!({ "ball_id": format!("critical-{round}"), "class": "critical" });
            assert_eq!(api.post("/v1/allocate", critical).ok()["route"], "critical");
            api.post("/v1/rules-only", json!({ "on": false })).ok();
        }
    });
}

#[test]
fn the_configuration_changes_by_field_and_never_by_accident() {
    let server = Running::start(settings(json!({})));
    let api = server.api;
    let before = api.get("/v1/config").ok();
    let version = before["version"].as_u64().unwrap();
    let after = api.send("PATCH", "/v1/config", json!({ "holdout_share": 0.5, "version": version })).ok();
    assert_eq!((&after["holdout_share"], &after["primary"]), (&json!(0.5), &json!("least_loaded")));
    assert_eq!(after["version"], version + 1);
    api.send("PATCH", "/v1/config", json!({ "version": version })).problem(409, "version");
    let invalid = api.send("PATCH", "/v1/config", json!({ "holdout_share": -1 })).problem(400, "invalid");
    assert_eq!((&invalid["field"], &invalid["allowed"]), (&json!("holdout_share"), &json!("0 to 1")));
    api.send("PATCH", "/v1/config", json!({ "holdout": 1 })).problem(400, "malformed");
    api.send("PATCH", "/v1/config", json!({ "seed": 3 })).problem(400, "invalid");
    api.send("PATCH", "/v1/config", json!({ "rule": "predicted_load" })).problem(400, "invalid");
    let replaced = api.send("PUT", "/v1/config", json!({ "primary": "random" })).ok();
    assert_eq!((&replaced["primary"], &replaced["holdout_share"]), (&json!("random"), &json!(0.0)));
    assert_eq!(replaced["seed"], before["seed"]);
    let same = api.send("PATCH", "/v1/config", json!({ "primary": "random" })).ok();
    assert_eq!(same["version"], replaced["version"], "no change, no version");
    server.stop();
}

#[test]
fn problems_name_the_field_the_value_and_what_is_allowed() {
    let server = Running::start(settings(json!({ "balls_max": 2, "boxes_max": 1 })));
    let api = server.api;
    let none = api.allocate("1").problem(503, "no_box");
    assert!(none["detail"].as_str().unwrap().contains("no box is registered"));
    api.add_box("a", 10);
    let second = json!({ "capacity": { "slots": 1 } });
    assert_eq!(api.send("PUT", "/v1/boxes/b", second).problem(429, "limit")["field"], "boxes_max");
    let big = api.post("/v1/allocate", json!({ "ball_id": "big", "demand": { "slots": 11 } }));
    assert_eq!(big.header("retry-after"), Some("1"));
    assert_eq!(big.problem(503, "no_box")["causes"], json!({ "slots": 1 }));
    let explained = api.post("/v1/explain", json!({ "ball_id": "big", "demand": { "slots": 11 } })).ok();
    assert_eq!(explained["boxes"][0]["refusal"], "slots");
    for (body, text) in [
        (r#"{"ball_id":"1","foo":1}"#, "unknown field `foo`"),
        (r#"{"ball_id":"1","class":"vip"}"#, "unknown variant `vip`"),
        (r#"{"ball_id":"1","demand":{"slots":-1}}"#, "slots = -1 is not allowed"),
        (r#"{"ball_id":"1"#, "EOF"),
        ("", "EOF"),
        (r#"{"tenant":"t"}"#, "missing field `ball_id`"),
    ] {
        let answer = api.try_send("POST", "/v1/allocate", body, "").unwrap();
        let problem = answer.problem(400, "malformed");
        assert!(problem["detail"].as_str().unwrap().contains(text), "{problem}");
    }
    let empty = api.allocate("").problem(400, "invalid");
    assert_eq!((&empty["field"], &empty["value"]), (&json!("ball_id"), &json!("\"\"")));
    let mismatch = json!({ "box_id": "b", "capacity": { "slots": 1 } });
    assert_eq!(api.send("PUT", "/v1/boxes/a", mismatch).problem(400, "invalid")["field"], "box_id");
    let https = json!({ "capacity": { "slots": 1 }, "warmup_url": "https://x/" });
    assert_eq!(api.send("PUT", "/v1/boxes/a", https).problem(400, "invalid")["field"], "warmup_url");
    api.get("/v1/nope").problem(404, "unknown");
    api.get("/v1/allocate").problem(405, "method_not_allowed");
    api.post("/v1/leases/x/release", json!({ "ball_id": "1" })).problem(400, "malformed");
    api.get("/v1/balls?limit=0").problem(400, "invalid");
    let huge = format!("{{\"ball_id\":\"{}\"}}", "x".repeat(5 << 20));
    api.try_send("POST", "/v1/allocate", &huge, "").unwrap().problem(413, "too_large");
    api.allocate("1").ok();
    api.allocate("2").ok();
    let full = api.allocate("3").problem(429, "limit");
    assert_eq!((&full["field"], &full["value"]), (&json!("balls_max"), &json!("2")));
    server.stop();
}

#[test]
fn a_batch_succeeds_and_fails_ball_by_ball() {
    each_store(json!({}), |server| {
        let api = server.api;
        api.add_box("a", 2);
        let balls = json!([{ "ball_id": "1" }, { "ball_id": "" }, 5, { "ball_id": "1" }, { "ball_id": "2" }, { "ball_id": "3" }]);
        let answer = api.post("/v1/allocate/batch", json!({ "balls": balls })).ok();
        let results = answer["results"].as_array().unwrap();
        assert_eq!(results[0]["lease_id"], results[3]["lease_id"]);
        assert_eq!(results[1]["problem"]["field"], "ball_id");
        assert_eq!(results[2]["problem"]["status"], 400);
        assert_eq!(results[4]["box_id"], "a");
        assert_eq!(results[5]["problem"]["causes"], json!({ "slots": 1 }));
        let many: Vec<Value> = (0..1_001).map(|number| json!({ "ball_id": number.to_string() })).collect();
        api.post("/v1/allocate/batch", json!({ "balls": many })).problem(413, "too_large");
    });
}

#[test]
fn a_link_is_signed_for_its_box() {
    let key = b"0123456789abcdef0123456789abcdef".to_vec();
    let server = Running::start(Settings { link_key: Some(key.clone()), ..settings(json!({})) });
    server.api.add_box("a", 2);
    let answer = server.api.allocate("a ball").ok();
    let link = answer["link"].as_str().unwrap();
    let (endpoint, query) = link.split_once('?').unwrap();
    assert_eq!(endpoint, "http://a/");
    let now_ms = berth_scheduler::clock::wall_now_ms();
    let grant = verify(query, "a", &[LinkKey::new(&key).unwrap()], now_ms, 1_000).unwrap();
    assert_eq!((&*grant.ball_id, Some(grant.lease_id)), ("a ball", answer["lease_id"].as_u64()));
    assert_eq!(Some(grant.expires_at_ms), answer["lease_expires_at_ms"].as_u64());
    server.stop();
}

#[test]
fn placements_stay_findable_after_the_fleet_forgot_them() {
    each_store(json!({ "idempotency_keep_ms": 1 }), |server| {
        let api = server.api;
        api.add_box("a", 10);
        for ball_id in ["1", "2", "3"] {
            let lease_id = api.allocate(ball_id).ok()["lease_id"].as_u64().unwrap();
            let done = json!({ "ball_id": ball_id, "succeeded": true });
            api.post(&format!("/v1/leases/{lease_id}/complete"), done).ok();
        }
        eventually("the fleet forgets", || api.get("/metrics").text.contains("berth_balls_remembered 0\n"));
        let found = api.get("/v1/balls/default/2").ok();
        assert_eq!((&found["state"], &found["box_id"]), (&json!("completed"), &json!("a")));
        api.get("/v1/balls/default/4").problem(404, "unknown");
        let range = api.get("/v1/balls?tenant=default&from=2&box_id=a&limit=10").ok();
        let ids: Vec<&str> =
            range.as_array().unwrap().iter().map(|row| row["ball_id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["3", "2"]);
    });
}

#[test]
fn a_warming_box_is_called_once() {
    let hook = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/warm?x=1", hook.local_addr().unwrap());
    let (sender, calls) = channel();
    std::thread::spawn(move || {
        for stream in hook.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 256];
            let length = stream.read(&mut head).unwrap();
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
            sender.send(String::from_utf8_lossy(&head[..length]).into_owned()).unwrap();
        }
    });
    let server = Running::start(settings(json!({})));
    let body = json!({ "capacity": { "slots": 1 }, "stage": "warming", "warmup_url": url });
    for _ in 0..3 {
        server.api.send("PUT", "/v1/boxes/a", body.clone()).ok();
    }
    let call = calls.recv().unwrap();
    assert!(call.starts_with("POST /warm?x=1 HTTP/1.1\r\n"), "{call}");
    eventually("the call is counted", || {
        server.api.get("/metrics").text.contains("berth_warmups_called_total 1\n")
    });
    assert!(calls.try_recv().is_err(), "once");
    server.stop();
}

#[test]
fn a_drained_box_takes_nothing_new() {
    each_store(json!({}), |server| {
        let api = server.api;
        api.add_box("a", 10);
        api.allocate("1").ok();
        assert_eq!(api.post("/v1/boxes/a/drain", Value::Null).ok()["gate"], "draining");
        assert_eq!(api.allocate("2").problem(503, "no_box")["causes"], json!({ "draining": 1 }));
        assert_eq!(api.get("/v1/boxes/a").ok()["live_leases"], 1);
        api.post("/v1/boxes/b/drain", Value::Null).problem(404, "unknown");
    });
}

#[test]
fn every_described_route_is_there() {
    let server = Running::start(settings(json!({})));
    let api = server.api;
    let description = api.get("/openapi.json").ok();
    let mut count = 0;
    for (path, methods) in description["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let path = path.replace("{lease_id}", "1").replace("{box_id}", "a").replace("{tenant}", "t");
            let answer = api.send(&method.to_uppercase(), &path.replace("{ball_id}", "b"), json!({}));
            assert_ne!(answer.status, 405, "{method} {path}");
            assert!(!answer.text.contains("is no route"), "{method} {path}");
            count += 1;
        }
    }
    assert!(count >= 24, "{count}");
    let ball = &description["components"]["schemas"]["Ball"]["properties"];
    assert!(ball["demand"].is_object() && ball["ball_id"].is_object(), "{ball}");
    server.stop();
}
