//! The candidate in shadow: what it agrees on, what it would have done, and that it costs no answer.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use berth_models::config::FleetConfig;
use berth_models::domain::{BoxSpec, Capacity};
use berth_models::engine::{Engine, Stamp};
use berth_models::event::{Event, EventKind};
use berth_models::fleet::Fleet;
use berth_models::strategy::StrategyName;
use berth_scheduler::shadow::{QUEUE_MAX, Shadow};
use serde_json::{Value, json};
use support::{Api, Running, eventually, settings};

fn shadow(api: Api, compared: u64) -> Value {
    eventually("the shadow has compared all", || {
        api.get("/v1/shadow").ok()["agreement"]["compared"] == compared
    });
    api.get("/v1/shadow").ok()
}

#[test]
fn a_candidate_equal_to_the_primary_agrees_on_everything() {
    let server = Running::start(settings(json!({ "primary": "random", "candidate": "random" })));
    let api = server.api;
    (0..5).for_each(|number| api.add_box(&format!("box-{number}"), 1_000));
    (0..200).for_each(|number| drop(api.allocate(&number.to_string()).ok()));
    let summary = shadow(api, 200);
    assert_eq!(summary["agreement"]["agreed"], 200, "the same draw in the same state: {summary}");
    assert_eq!((&summary["load_now"]["mean"], &summary["load_now"]["worse"]), (&json!(0.0), &json!(0)));
    assert_eq!(summary["by_route"]["primary"]["compared"], 200);
    server.stop();
}

#[test]
fn a_better_candidate_is_seen_to_choose_emptier_boxes() {
    let server = Running::start(settings(json!({ "primary": "random", "candidate": "least_loaded" })));
    let api = server.api;
    (0..5).for_each(|number| api.add_box(&format!("box-{number}"), 1_000));
    for number in 0..200 {
        let class = if number % 4 == 0 { "critical" } else { "normal" };
        api.post("/v1/allocate", json!({ "ball_id": number.to_string(), "class": class })).ok();
    }
    let summary = shadow(api, 200);
    assert_eq!(summary["by_class"]["critical"]["share"], 1.0, "the critical rule is least_loaded: {summary}");
    let normal = summary["by_class"]["normal"]["share"].as_f64().unwrap();
    assert!(normal > 0.05 && normal < 0.6, "{normal}");
    assert!(summary["load_now"]["mean"].as_f64().unwrap() > 0.0 && summary["load_now"]["worse"] == 0);
    // Another candidate starts from nothing; none, and the last summary stays.
    api.send("PATCH", "/v1/config", json!({ "candidate": "round_robin" })).ok();
    assert_eq!(api.get("/v1/shadow").ok()["agreement"]["compared"], 0);
    api.send("PATCH", "/v1/config", json!({ "candidate": null })).ok();
    api.allocate("after").ok();
    assert_eq!(api.get("/v1/shadow").ok()["candidate"], "round_robin");
    server.stop();
}

#[test]
fn a_shadow_that_falls_behind_loses_events_and_counts_them() {
    let mut engine = Engine::new(Fleet::default());
    let (mut events, stamp) = (Vec::new(), Stamp { at_ms: 1_000, wall_ms: 1_000 });
    engine.configure(FleetConfig::default(), stamp, &mut events).unwrap();
    for number in 0..300 {
        let capacity = Capacity([None, None, None, Some(1 << 40)]);
        engine.register(BoxSpec::new(&format!("box-{number}"), capacity), stamp, &mut events).unwrap();
    }
    let shadow = Shadow::default();
    let mut feed = shadow.start(engine.fleet(), StrategyName::LeastLoaded).unwrap();
    // Far more than its queue, faster than it can compare: sending never waits.
    let sent = 40 * QUEUE_MAX as u64;
    let event = |seq: u64| {
        let kind = EventKind::Released { lease_id: 0 };
        Event { seq, at_ms: 1_000, wall_ms: 1_000, kind }
    };
    let events: Vec<_> = (0..sent).map(event).collect();
    feed.send(&events, engine.fleet());
    let lost = shadow.summary().unwrap().lost;
    assert!(lost > 0 && lost < sent, "{lost} of {sent}");
}
