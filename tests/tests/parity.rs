//! Simulator = server = replay of the log, byte for byte.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use berth_models::config::FleetConfig;
use berth_models::event::{Event, EventKind};
use berth_models::fleet::Fleet;
use berth_models::simulation::simulate;
use berth_models::strategy::StrategyName;
use berth_scheduler::ledger::{Durability, Ledger, SqliteLedger};
use berth_tests::{Client, drive_again, lines, serve};
use berth_trainer::suites::{Seeds, Suite};
use serde_json::{Value, json};

/// Apply `events` to `fleet` and check that every decision would be taken again from the state
/// before it.
fn apply_and_decide_again(mut fleet: Fleet, events: &[Event]) -> Fleet {
    for event in events {
        if let EventKind::Decided { decision } = &event.kind {
            fleet.advance(event.at_ms);
            let ranking = &mut Default::default();
            let again = berth_models::decide::decide(&fleet, decision.ball.clone(), decision.draw, ranking);
            assert_eq!(
                serde_json::to_string(&again).unwrap(),
                serde_json::to_string(&**decision).unwrap(),
                "decision {} can't be taken again",
                event.seq
            );
        }
        fleet.apply(event);
    }
    fleet.recount().unwrap();
    fleet
}

#[test]
fn a_simulation_is_driven_again_to_the_same_bytes() {
    let suite = Suite::new("park", &Seeds::Named, false).unwrap();
    for strategy in [StrategyName::PowerOfTwo, StrategyName::LeastWorkLeft, StrategyName::RoundRobin] {
        let mut scenario = (suite.cases[0].make)(3).unwrap();
        scenario.config = FleetConfig { primary: strategy, seed: 11, ..scenario.config };
        let mut events = Vec::new();
        simulate(&scenario, None, &mut |event| events.push(event.clone()));
        assert!(events.len() > 2_000, "1,000 decisions and as many ends");
        let again = drive_again(&events, Fleet::new(scenario.config.clone()), None);
        assert_eq!(lines(&again), lines(&events), "{strategy}");
        apply_and_decide_again(Fleet::new(scenario.config.clone()), &events);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_servers_log_is_driven_again_to_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("berth.db");
    let store = format!("sqlite:{}", path.display());
    // A hundred times as fast as real time, so that leases expire and boxes grow up meanwhile.
    let arguments = ["--store", &store, "--primary", "power_of_two", "--time-scale", "100", "--seed", "5"];
    let server = serve(&arguments).await;
    traffic(&Client::of(&server)).await;
    server.stop().await.unwrap();
    let ledger = SqliteLedger::open(&path, Durability::Disk).unwrap();
    let events: Vec<Event> =
        ledger.events_after(0, 100_000).unwrap().into_iter().map(|logged| logged.event).collect();
    for kind in [
        "configured",
        "registered",
        "reported",
        "decided",
        "completed",
        "released",
        "renewed",
        "expired",
        "drained",
    ] {
        let tag = format!("\"kind\":\"{kind}\"");
        assert!(lines(&events).iter().any(|line| line.contains(&tag)), "the traffic made no {kind}");
    }
    assert_eq!(lines(&drive_again(&events, Fleet::default(), None)), lines(&events));
    apply_and_decide_again(Fleet::default(), &events);
}

/// Some of everything a server can be asked to do.
async fn traffic(client: &Client) {
    for number in 0..5 {
        let body = json!({ "capacity": { "cpu_cores": 8, "slots": 40 }, "stage": "mature" });
        expect(client, "PUT", &format!("/v1/boxes/box-{number}"), body).await;
    }
    let mut leases: Vec<(u64, String)> = Vec::new();
    for number in 0..300 {
        let ball_id = format!("ball-{number}");
        let class = ["critical", "normal", "low"][number % 3];
        let body = json!({
            "ball_id": ball_id, "class": class, "demand": { "cpu_cores": 0.1, "slots": 1 },
            "lease_ms": 5_000 + 100 * number,
        });
        let (status, answer) = client.send("POST", "/v1/allocate", body).await;
        if let (200 | 201, Some(lease_id)) = (status, answer["lease_id"].as_u64()) {
            leases.push((lease_id, ball_id));
        }
        if number % 10 == 0 {
            let usage = json!({ "cpu_cores": 1.0 + (number % 7) as f64 * 0.3, "slots": 3 });
            let report = json!({ "age_ms": 0, "usage": usage });
            expect(client, "POST", &format!("/v1/boxes/box-{}/report", number / 10 % 5), report).await;
        }
        if number % 4 == 0 && !leases.is_empty() {
            let (lease_id, ball_id) = leases.remove(leases.len() / 2);
            let action = ["heartbeat", "complete", "release"][number / 4 % 3];
            let mut body = json!({ "tenant": "default", "ball_id": ball_id });
            if action == "complete" {
                body["succeeded"] = json!(number % 8 != 0);
            }
            // It may have expired by now; that is an answer, too.
            client.send("POST", &format!("/v1/leases/{lease_id}/{action}"), body).await;
        }
        if number == 250 {
            expect(client, "POST", "/v1/boxes/box-4/drain", Value::Null).await;
        }
    }
    tokio::time::sleep(Duration::from_millis(400)).await;
    expect(client, "GET", "/v1/balls/default/ball-0", Value::Null).await;
}

async fn expect(client: &Client, method: &str, path: &str, body: Value) {
    let (status, answer) = client.send(method, path, body).await;
    assert!(status < 300, "{method} {path}: {status} {answer}");
}
