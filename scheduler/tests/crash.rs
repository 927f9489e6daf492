//! `kill -9` under load, several times over one store: nothing acknowledged is lost, nothing granted
//! twice, and what is reserved equals what is leased.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use berth_scheduler::ledger::{Durability, SqliteLedger};
use berth_scheduler::recovery::recover;
use serde_json::json;
use support::{Api, Binary};

const ROUNDS: usize = 3;
const CLIENTS: usize = 8;
/// Answers after which the server is killed.
const ANSWERS: usize = 600;
const SLOTS: u64 = 400;

/// What a client was told: lease by ball, and whether its completion was acknowledged.
type Told = BTreeMap<String, (u64, bool)>;

/// Place balls, complete every third, until the server is gone.
fn client(api: Api, name: &str, told: &Mutex<Told>, answers: &AtomicUsize, stop: &AtomicBool) {
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let ball_id = format!("{name}-{number}");
        let body = json!({ "ball_id": ball_id }).to_string();
        let Ok(answer) = api.try_send("POST", "/v1/allocate", &body, "") else { return };
        if answer.status != 200 {
            assert_eq!(answer.status, 503, "{}", answer.text);
            continue;
        }
        let lease_id = answer.body["lease_id"].as_u64().unwrap();
        told.lock().unwrap().insert(ball_id.clone(), (lease_id, false));
        if number % 3 == 0 {
            let body = json!({ "ball_id": ball_id, "succeeded": true }).to_string();
            match api.try_send("POST", &format!("/v1/leases/{lease_id}/complete"), &body, "") {
                Ok(answer) if answer.status == 200 => {
                    told.lock().unwrap().insert(ball_id, (lease_id, true));
                }
                Ok(answer) => panic!("{}", answer.text),
                // Whether it was completed nobody knows: it is checked no further.
                Err(_) => {
                    told.lock().unwrap().remove(&ball_id);
                    return;
                }
            }
        }
        answers.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_granted_twice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("berth.db");
    let store = format!("sqlite:{}", path.display());
    let config = folder.path().join("config.json");
    let fields =
        json!({ "primary": "power_of_two", "lease_ms_default": 3_600_000, "critical_headroom": 0.0 });
    std::fs::write(&config, fields.to_string()).unwrap();
    let config = config.display().to_string();
    let arguments =
        ["--store", &store, "--durability", "process", "--config", &config, "--snapshot-events", "500"];
    let told = Arc::new(Mutex::new(Told::new()));
    let mut highest = 0;
    for round in 0..ROUNDS {
        let mut server = Binary::serve(&arguments);
        (0..5).for_each(|number| server.api.add_box(&format!("box-{number}"), SLOTS));
        check(server.api, &told.lock().unwrap());
        // A new grant is above every grant that anybody was told of: the fencing token grows.
        let fresh = server.api.allocate(&format!("fresh-{round}")).ok()["lease_id"].as_u64().unwrap();
        assert!(fresh > highest, "{fresh} is not above {highest}");
        load(&mut server, round, &told);
        highest = told.lock().unwrap().values().map(|(lease_id, _)| *lease_id).max().unwrap();
    }
    check_log(&path, &told.lock().unwrap());
}

/// Load the server from many clients, and kill it in the middle.
fn load(server: &mut Binary, round: usize, told: &Arc<Mutex<Told>>) {
    let (answers, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let api = server.api;
    std::thread::scope(|scope| {
        let (answers, stop) = (&answers, &stop);
        for index in 0..CLIENTS {
            let told = told.clone();
            scope.spawn(move || client(api, &format!("{round}-{index}"), &told, answers, stop));
        }
        support::eventually("enough answers", || answers.load(Ordering::Relaxed) >= ANSWERS);
        server.kill();
        stop.store(true, Ordering::Relaxed);
    });
}

/// The restarted server knows everything that was acknowledged.
fn check(api: Api, told: &Told) {
    for (ball_id, (lease_id, is_completed)) in told.iter().step_by(7) {
        let found = api.get(&format!("/v1/balls/default/{ball_id}")).ok();
        let state = if *is_completed { "completed" } else { "live" };
        assert_eq!((&found["lease_id"], &found["state"]), (&json!(lease_id), &json!(state)), "{ball_id}");
    }
    for state in api.get("/v1/boxes").ok().as_array().unwrap() {
        assert!(state["live_leases"].as_u64().unwrap() <= SLOTS, "{state}");
    }
}

/// The log itself: it folds, the recount is exact, and every acknowledged lease is in it once.
fn check_log(path: &std::path::Path, told: &Told) {
    let ledger = SqliteLedger::open(path, Durability::Process).unwrap();
    let fleet = recover(&ledger, 0).unwrap().fleet;
    fleet.recount().unwrap();
    let live: BTreeSet<&str> =
        fleet.leases().live().map(|lease| lease.decision.ball.ball_id.as_str()).collect();
    assert_eq!(live.len(), fleet.leases().live_count(), "one live lease a ball");
    for (ball_id, (lease_id, is_completed)) in told {
        let lease = fleet.leases().get(*lease_id).unwrap();
        assert_eq!(lease.decision.ball.ball_id, *ball_id);
        assert_eq!(live.contains(ball_id.as_str()), !is_completed, "{ball_id}");
    }
    let leases: BTreeSet<u64> = told.values().map(|(lease_id, _)| *lease_id).collect();
    assert_eq!(leases.len(), told.len(), "no lease was granted to two balls");
}
