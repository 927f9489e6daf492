//! What the log says is what the server was: replay to the same bytes, refused commits, a ledger that
//! fails, artifacts over a restart.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use berth_models::domain::{Ball, BoxSpec, Capacity};
use berth_models::event::{Event, EventKind};
use berth_models::fleet::Fleet;
use berth_scheduler::clock::EngineClock;
use berth_scheduler::ledger::{
    ArtifactFiles, Journal, Ledger, LedgerError, Logged, MemoryLedger, Placement, PlacementQuery, Refused,
    SqliteLedger,
};
use berth_scheduler::recovery::{RecoveryError, recover, write_snapshot};
use berth_scheduler::sequencer::{Denied, Sequencer};
use berth_scheduler::snapshot::Snapshotter;
use berth_scheduler::telemetry::Telemetry;
use berth_scheduler::{Settings, Store};
use serde_json::json;
use support::{Api, Running, settings, write_artifact};

/// Traffic with everything in it that makes state: reports, forecasts, groups, failures, releases.
fn traffic(api: Api, name: &str) {
    for number in 0..120 {
        let ball_id = format!("{name}-{number}");
        let class = ["critical", "normal", "low"][number % 3];
        let body = json!({
            "ball_id": ball_id, "class": class, "demand": { "cpu_cores": 0.1, "slots": 1 },
            "expected_residence_ms": 30_000 + 1_000 * number, "group": (number % 5 == 0).then(|| format!("{name}-group")),
        });
        let answer = api.post("/v1/allocate", body);
        if answer.status != 200 {
            continue;
        }
        let path = format!("/v1/leases/{}", answer.body["lease_id"]);
        match number % 4 {
            0 => drop(api.post(
                &format!("{path}/complete"),
                json!({ "ball_id": ball_id, "succeeded": number % 8 != 0 }),
            )),
            1 => drop(api.post(&format!("{path}/release"), json!({ "ball_id": ball_id }))),
            2 => drop(api.post(&format!("{path}/heartbeat"), json!({ "ball_id": ball_id }))),
            _ => {}
        }
        if number % 10 == 0 {
            let usage = json!({ "cpu_cores": f64::from(number as u32 % 7), "slots": 3 });
            api.post(&format!("/v1/boxes/box-{}/report", number / 10 % 4), json!({ "usage": usage })).ok();
        }
    }
}

/// The bytes of a fleet at a moment; two fleets are equal when these are.
fn bytes(mut fleet: Fleet, at_ms: u64) -> Vec<u8> {
    fleet.advance(at_ms);
    write_snapshot(&fleet, 0).unwrap()
}

#[test]
fn a_restart_reaches_the_very_state_the_server_had_with_and_without_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("berth.db");
    let artifact = folder.path().join("artifact");
    let artifact_id = write_artifact(&artifact, 0.25);
    let settings = || Settings {
        store: Store::Sqlite(path.clone()),
        artifact: Some(artifact.clone()),
        // Leases expire and boxes grow up meanwhile.
        time_scale: 500.0,
        ..settings(
            json!({ "primary": "predicted_load", "lease_ms_default": 10_000, "idempotency_keep_ms": 20_000 }),
        )
    };
    for round in 0..3 {
        let server = Running::start(settings());
        for number in 0..4 {
            let body = json!({ "capacity": { "cpu_cores": 8, "slots": 40 }, "stage": "mature" });
            server.api.send("PUT", &format!("/v1/boxes/box-{number}"), body).ok();
        }
        traffic(server.api, &round.to_string());
        let sequencer = server.sequencer();
        let live = sequencer.look(Clone::clone);
        sequencer.flush().wait_blocking().unwrap();
        let recovered = recover(&SqliteLedger::open_reader(&path).unwrap(), live.seq()).unwrap();
        assert_eq!(recovered.snapshot_seq > 0, round > 0, "the first round has no snapshot, the others do");
        assert!(recovered.events > 100);
        let at_ms = live.at_ms();
        assert!(bytes(recovered.fleet, at_ms) == bytes(live, at_ms), "round {round}: the states differ");
        server.stop();
    }
    // Without --artifact the one that was active comes back, from the ledger itself.
    std::fs::remove_dir_all(&artifact).unwrap();
    let server = Running::start(Settings { artifact: None, ..settings() });
    let ready = server.api.get("/readyz").ok();
    assert_eq!((&ready["artifact_id"], &ready["has_model"]), (&json!(artifact_id), &json!(true)));
    server.stop();
}

#[test]
fn artifacts_are_exchanged_under_load_without_a_failed_decision() {
    let folder = tempfile::tempdir().unwrap();
    let paths = [0.25, 0.5].map(|seed| folder.path().join(seed.to_string()));
    let ids: Vec<String> =
        paths.iter().zip([0.25, 0.5]).map(|(path, seed)| write_artifact(path, seed)).collect();
    let store = Store::Sqlite(folder.path().join("berth.db"));
    let server = Running::start(Settings { store, ..settings(json!({ "primary": "predicted_load" })) });
    let api = server.api;
    (0..4).for_each(|number| api.add_box(&format!("box-{number}"), 100_000));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        let clients: Vec<_> = (0..3)
            .map(|client| {
                scope.spawn(move || {
                    let mut strategies = std::collections::BTreeSet::new();
                    for number in 0.. {
                        let answer = api.allocate(&format!("{client}-{number}")).ok();
                        strategies.insert(answer["strategy_id"].as_str().unwrap().to_owned());
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                    strategies
                })
            })
            .collect();
        for round in 0..10 {
            let path = &paths[round % 2];
            let active = api.post("/v1/artifacts/activate", json!({ "path": path })).ok();
            assert_eq!(active["artifact_id"], ids[round % 2]);
            let answer = api.allocate(&format!("round-{round}")).ok();
            assert_eq!(answer["strategy_id"], format!("predicted_load.v1+{}", ids[round % 2]));
        }
        std::fs::write(paths[0].join("probes.json"), "[]").unwrap();
        let refused =
            api.post("/v1/artifacts/activate", json!({ "path": paths[0] })).problem(422, "artifact");
        assert!(refused["detail"].as_str().unwrap().contains("probes.json"), "{refused}");
        assert_eq!(api.get("/readyz").ok()["artifact_id"], ids[1], "the one before stays");
        api.post("/v1/artifacts/activate", json!({ "path": null })).ok();
        assert_eq!(api.allocate("last").ok()["route"], "no_model");
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().unwrap();
        }
    });
    server.stop();
}

/// A ledger that refuses the first placement of every ball whose id begins with `twice`, and fails
/// from `fails_at` on.
struct Moody {
    inner: Arc<Mutex<MemoryLedger>>,
    seen: Vec<String>,
    fails_at: Arc<AtomicU64>,
}

impl Ledger for Moody {
    fn commit(&mut self, events: &[Event]) -> Result<Vec<Refused>, LedgerError> {
        if events.iter().any(|event| event.seq >= self.fails_at.load(Ordering::Relaxed)) {
            return Err(LedgerError::Io { doing: "committing events", reason: "no space left".to_owned() });
        }
        self.inner.lock().unwrap().commit(events)?;
        let mut refused = Vec::new();
        for event in events {
            let EventKind::Decided { decision } = &event.kind else { continue };
            let ball_id = &decision.ball.ball_id;
            if ball_id.starts_with("twice") && !self.seen.contains(ball_id) {
                self.seen.push(ball_id.clone());
                refused.push(Refused { seq: event.seq, reason: "somebody else has it".to_owned() });
            }
        }
        Ok(refused)
    }
    fn events_after(&self, seq: u64, limit: usize) -> Result<Vec<Logged>, LedgerError> {
        self.inner.lock().unwrap().events_after(seq, limit)
    }
    fn placements(&self, query: &PlacementQuery) -> Result<Vec<Placement>, LedgerError> {
        self.inner.lock().unwrap().placements(query)
    }
    fn save_snapshot_part(&mut self, seq: u64, part: u32, body: &[u8]) -> Result<(), LedgerError> {
        self.inner.lock().unwrap().save_snapshot_part(seq, part, body)
    }
    fn finish_snapshot(&mut self, seq: u64, parts: u32) -> Result<u64, LedgerError> {
        self.inner.lock().unwrap().finish_snapshot(seq, parts)
    }
    fn newest_snapshot(&self) -> Result<Option<(u64, Vec<u8>)>, LedgerError> {
        self.inner.lock().unwrap().newest_snapshot()
    }
    fn truncate(&mut self, seq: u64, at_ms: u64, limit: usize) -> Result<usize, LedgerError> {
        self.inner.lock().unwrap().truncate(seq, at_ms, limit)
    }
    fn save_artifact(&mut self, artifact_id: &str, files: &ArtifactFiles) -> Result<(), LedgerError> {
        self.inner.lock().unwrap().save_artifact(artifact_id, files)
    }
    fn artifact(&self, artifact_id: &str) -> Result<ArtifactFiles, LedgerError> {
        self.inner.lock().unwrap().artifact(artifact_id)
    }
}

struct Bench {
    sequencer: Arc<Sequencer>,
    journal: Arc<Journal>,
    inner: Arc<Mutex<MemoryLedger>>,
    fails_at: Arc<AtomicU64>,
}

async fn moody() -> Bench {
    let (inner, fails_at) =
        (Arc::new(Mutex::new(MemoryLedger::default())), Arc::new(AtomicU64::new(u64::MAX)));
    let journal = Arc::new(Journal::grouped(0));
    let clock = EngineClock::start(None, None, 1.0);
    let telemetry = Arc::new(Telemetry::default());
    let sequencer = Arc::new(Sequencer::new(Fleet::default(), clock, journal.clone(), telemetry));
    let reverting = sequencer.clone();
    let ledger = Moody { inner: inner.clone(), seen: Vec::new(), fails_at: fails_at.clone() };
    journal.run(Box::new(ledger), Box::new(move |refused| reverting.revert(refused))).unwrap();
    let spec = BoxSpec::new("a", Capacity([None, None, None, Some(10)]));
    sequencer.register(spec).unwrap().1.wait().await.unwrap();
    Bench { sequencer, journal, inner, fails_at }
}

fn ball(ball_id: &str) -> Arc<Ball> {
    Arc::new(serde_json::from_value(json!({ "ball_id": ball_id })).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_commit_is_undone_and_decided_once_more() {
    let bench = moody().await;
    let placed = bench.sequencer.allocate(&ball("twice-1")).await.unwrap();
    assert!(!placed.is_repeat);
    let log: Vec<Event> = bench
        .inner
        .lock()
        .unwrap()
        .events_after(0, 100)
        .unwrap()
        .into_iter()
        .map(|logged| logged.event)
        .collect();
    let first = log.iter().find(|event| matches!(event.kind, EventKind::Decided { .. })).unwrap().seq;
    assert!(log.iter().any(|event| event.kind == EventKind::Reverted { lease_id: first }));
    assert!(placed.lease_id > first, "the second decision is the one that is answered");
    bench.sequencer.look(|fleet| {
        fleet.recount().unwrap();
        assert_eq!((fleet.leases().live_count(), fleet.counters().reverted), (1, 1));
    });
    // Duplicates that wait for the refused decision get the second one, too.
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let sequencer = bench.sequencer.clone();
            tokio::spawn(async move { sequencer.allocate(&ball("twice-2")).await.unwrap().lease_id })
        })
        .collect();
    let mut leases = Vec::new();
    for task in tasks {
        leases.push(task.await.unwrap());
    }
    assert!(leases.iter().all(|lease_id| *lease_id == leases[0]), "{leases:?}");
    assert_eq!(bench.sequencer.look(|fleet| fleet.leases().live_count()), 2);
    bench.journal.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_ledger_fails_nothing_more_is_acknowledged() {
    let bench = moody().await;
    let before = bench.sequencer.allocate(&ball("1")).await.unwrap();
    bench.fails_at.store(before.lease_id + 1, Ordering::Relaxed);
    for ball_id in ["2", "3", "1"] {
        let denied = bench.sequencer.allocate(&ball(ball_id)).await;
        assert!(
            matches!(&denied, Err(Denied::NotReady(reason)) if reason.contains("no space left")),
            "{denied:?}"
        );
    }
    assert_eq!(bench.journal.durable_seq(), before.lease_id);
    bench.journal.close();
}

#[test]
fn a_failed_ledger_shows_in_readyz_and_a_restart_has_what_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("berth.db");
    let settings = || Settings { store: Store::Sqlite(path.clone()), ..settings(json!({})) };
    let server = Running::start(settings());
    server.api.add_box("a", 10);
    let lease_id = server.api.allocate("1").ok()["lease_id"].as_u64().unwrap();
    // A second writer takes the next seq: the fence, and then the log is not this server's any more.
    let intruder = rusqlite::Connection::open(&path).unwrap();
    let row = (lease_id as i64 + 1, "{}");
    intruder.execute("INSERT INTO events VALUES (?1, 0, 0, 0, ?2)", row).unwrap();
    server.api.allocate("2").problem(503, "not_ready");
    let body = json!({ "capacity": { "slots": 1 } });
    server.api.send("PUT", "/v1/boxes/b", body).problem(503, "not_ready");
    let ready = server.api.get("/readyz");
    assert_eq!(ready.status, 503);
    assert!(ready.body["reason"].as_str().unwrap().contains("committing events"), "{}", ready.text);
    assert!(server.try_stop().is_err(), "it says that not all became durable");
    let damaged = Running::try_start(settings()).err().unwrap().to_string();
    assert!(damaged.contains(&format!("event {} is not readable", lease_id + 1)), "{damaged}");
    intruder.execute("DELETE FROM events WHERE seq = ?1", [lease_id as i64 + 1]).unwrap();
    let server = Running::start(settings());
    assert_eq!(server.api.get("/v1/balls/default/1").ok()["lease_id"], lease_id);
    server.api.get("/v1/balls/default/2").problem(404, "unknown");
    server.stop();
}

#[test]
fn snapshots_shorten_the_log_and_a_gap_in_it_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("berth.db");
    let settings = || Settings { store: Store::Sqlite(path.clone()), retention_ms: 0, ..settings(json!({})) };
    let server = Running::start(settings());
    server.api.add_box("a", 1_000);
    let last_seq = Arc::new(AtomicU64::new(0));
    let snapshotter = |server: &Running| {
        let journal = server.sequencer().journal_handle();
        let reader = Box::new(SqliteLedger::open_reader(&path).unwrap());
        Snapshotter::new(journal, reader, 1, 0, last_seq.clone())
    };
    for round in 0..3 {
        (0..20).for_each(|number| drop(server.api.allocate(&format!("{round}-{number}")).ok()));
        snapshotter(&server).take().unwrap();
    }
    let reader = SqliteLedger::open_reader(&path).unwrap();
    let kept = reader.events_after(0, 1_000).unwrap();
    let seq = server.api.get("/readyz").ok()["seq"].as_u64().unwrap();
    assert!(kept[0].event.seq > 20 && kept.last().unwrap().event.seq == seq, "from {}", kept[0].event.seq);
    assert_eq!(recover(&reader, 0).unwrap().fleet.leases().live_count(), 60);
    (0..5).for_each(|number| drop(server.api.allocate(&format!("more-{number}")).ok()));
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute("DELETE FROM events WHERE seq = ?1", [seq as i64 + 2]).unwrap();
    let gap = recover(&reader, 0).err();
    assert!(
        matches!(gap, Some(RecoveryError::Gap { after, found }) if after == seq + 1 && found == seq + 3),
        "{gap:?}"
    );
    server.stop();
}
