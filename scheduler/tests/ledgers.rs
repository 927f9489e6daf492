//! The conformance suite of ledgers: every backend passes the same tests.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use berth_models::decision::{Decision, Route, Verdict};
use berth_models::domain::{Ball, Outcome};
use berth_models::event::{Event, EventKind};
use berth_scheduler::ledger::{
    ArtifactFiles, Durability, Ledger, LedgerError, MemoryLedger, PlacementQuery, PlacementState,
    SqliteLedger,
};
use serde_json::json;

fn each_backend(test: impl Fn(&mut dyn Ledger)) {
    test(&mut MemoryLedger::default());
    let folder = tempfile::tempdir().unwrap();
    for durability in [Durability::Process, Durability::Disk] {
        let path = folder.path().join(durability.name());
        test(&mut SqliteLedger::open(&path, durability).unwrap());
    }
}

fn event(seq: u64, kind: EventKind) -> Event {
    Event { seq, at_ms: 1_000 * seq, wall_ms: 1_000 * seq + 1, kind }
}

fn placed(seq: u64, tenant: &str, ball_id: &str, box_id: &str) -> Event {
    let ball: Ball = serde_json::from_value(json!({ "tenant": tenant, "ball_id": ball_id })).unwrap();
    let decision = Decision {
        ball: Arc::new(ball),
        verdict: Verdict::Placed { box_id: box_id.into(), lease_expires_at_ms: 9 },
        strategy_id: "least_loaded.v1".into(),
        route: Route::Primary,
        panic: false,
        propensity: 1.0,
        draw: u64::MAX,
        reserved: None,
        config_version: 1,
        candidates: Vec::new(),
        refused: Default::default(),
    };
    event(seq, EventKind::Decided { decision: Arc::new(decision) })
}

fn completed(seq: u64, lease_id: u64) -> Event {
    let outcome = Outcome { succeeded: true, latency_ms: None };
    event(seq, EventKind::Completed { lease_id, outcome })
}

fn find(ledger: &dyn Ledger, tenant: &str, ball_id: &str) -> Option<(u64, PlacementState)> {
    let found = ledger.placements(&PlacementQuery::of_ball(tenant, ball_id)).unwrap();
    found.first().map(|placement| (placement.lease_id, placement.state))
}

#[test]
fn events_come_back_in_order_and_as_they_were() {
    each_backend(|ledger| {
        let events = [placed(1, "t", "a", "x"), placed(2, "t", "b", "y"), completed(3, 1)];
        assert_eq!(ledger.commit(&events[..2]).unwrap(), []);
        assert_eq!(ledger.commit(&events[2..]).unwrap(), []);
        let logged = ledger.events_after(0, 10).unwrap();
        assert!(logged.iter().all(|logged| !logged.is_refused));
        assert!(logged.iter().map(|logged| &logged.event).eq(events.iter()));
        let seqs = |after, limit| -> Vec<u64> {
            ledger.events_after(after, limit).unwrap().iter().map(|logged| logged.event.seq).collect()
        };
        assert_eq!((seqs(1, 10), seqs(1, 1), seqs(3, 10)), (vec![2, 3], vec![2], vec![]));
    });
}

#[test]
fn one_live_placement_a_ball_and_the_refused_one_is_marked() {
    each_backend(|ledger| {
        ledger.commit(&[placed(1, "t", "a", "x")]).unwrap();
        let refused = ledger.commit(&[placed(2, "u", "a", "x"), placed(3, "t", "a", "y")]).unwrap();
        assert_eq!(refused.iter().map(|refused| refused.seq).collect::<Vec<_>>(), [3]);
        assert_eq!(find(ledger, "t", "a"), Some((1, PlacementState::Live)));
        let marks: Vec<bool> =
            ledger.events_after(0, 9).unwrap().iter().map(|logged| logged.is_refused).collect();
        assert_eq!(marks, [false, false, true]);
        // Once the first has ended the ball may come again, within one batch too.
        let again =
            [completed(4, 1), placed(5, "t", "a", "z"), event(6, EventKind::Reverted { lease_id: 5 })];
        assert_eq!(ledger.commit(&again).unwrap(), []);
        assert_eq!(find(ledger, "t", "a"), Some((5, PlacementState::Reverted)));
        assert_eq!(ledger.commit(&[placed(7, "t", "a", "z")]).unwrap(), []);
        assert_eq!(find(ledger, "t", "a"), Some((7, PlacementState::Live)));
    });
}

#[test]
fn placements_are_found_by_ball_by_range_and_by_box() {
    each_backend(|ledger| {
        let balls = ["a", "b", "c", "d"];
        let events: Vec<_> = (1..)
            .zip(balls)
            .map(|(seq, ball_id)| placed(seq, "t", ball_id, if seq % 2 == 0 { "x" } else { "y" }))
            .collect();
        ledger.commit(&events).unwrap();
        ledger
            .commit(&[
                event(5, EventKind::Released { lease_id: 2 }),
                event(6, EventKind::Expired { lease_id: 3 }),
            ])
            .unwrap();
        let ids = |query: PlacementQuery| -> Vec<String> {
            ledger.placements(&query).unwrap().into_iter().map(|placement| placement.ball_id).collect()
        };
        let all = PlacementQuery { limit: 10, ..PlacementQuery::default() };
        assert_eq!(ids(all.clone()), ["d", "c", "b", "a"], "newest first");
        assert_eq!(ids(PlacementQuery { limit: 2, ..all.clone() }), ["d", "c"]);
        assert_eq!(ids(PlacementQuery { box_id: Some("x".to_owned()), ..all.clone() }), ["d", "b"]);
        let range = PlacementQuery { from: Some("b".to_owned()), to: Some("c".to_owned()), ..all.clone() };
        assert_eq!(ids(range), ["c", "b"]);
        assert_eq!(ids(PlacementQuery { tenant: Some("u".to_owned()), ..all }), Vec::<String>::new());
        assert_eq!(find(ledger, "t", "b"), Some((2, PlacementState::Released)));
        assert_eq!(find(ledger, "t", "c"), Some((3, PlacementState::Expired)));
        assert_eq!(find(ledger, "t", "e"), None);
        let ended = &ledger.placements(&PlacementQuery::of_ball("t", "c")).unwrap()[0];
        assert_eq!((ended.decided_at_ms, ended.ended_at_ms), (3_000, Some(6_000)));
    });
}

#[test]
fn a_snapshot_counts_when_it_is_whole_and_two_are_kept() {
    each_backend(|ledger| {
        assert_eq!(ledger.newest_snapshot().unwrap(), None);
        for seq in [10, 20, 30] {
            ledger.save_snapshot_part(seq, 0, &[seq as u8, 1]).unwrap();
            let before = ledger.newest_snapshot().unwrap();
            assert_ne!(before.map(|(seq, _)| seq), Some(seq), "half a snapshot is none");
            ledger.save_snapshot_part(seq, 1, &[2]).unwrap();
            let older = ledger.finish_snapshot(seq, 2).unwrap();
            assert_eq!(older, if seq == 10 { 10 } else { seq - 10 });
            assert_eq!(ledger.newest_snapshot().unwrap(), Some((seq, vec![seq as u8, 1, 2])));
        }
    });
}

#[test]
fn truncation_needs_both_age_and_a_snapshot() {
    each_backend(|ledger| {
        let events: Vec<_> = (1..=10).map(|seq| placed(seq, "t", &format!("{seq:02}"), "x")).collect();
        ledger.commit(&events).unwrap();
        assert_eq!(ledger.truncate(1, 1_000_000, 100).unwrap(), 0);
        assert_eq!(ledger.truncate(100, 1, 100).unwrap(), 0);
        ledger.truncate(6, 1_000_000, 3).unwrap();
        ledger.truncate(6, 1_000_000, 100).unwrap();
        assert_eq!(ledger.events_after(0, 100).unwrap()[0].event.seq, 6);
    });
}

#[test]
fn artifacts_are_kept_by_id() {
    each_backend(|ledger| {
        let files = ArtifactFiles::from([("a".to_owned(), vec![1, 2]), ("b".to_owned(), vec![])]);
        ledger.save_artifact("one", &files).unwrap();
        ledger.save_artifact("one", &files).unwrap();
        assert_eq!(ledger.artifact("one").unwrap(), files);
        assert_eq!(ledger.artifact("two").unwrap(), ArtifactFiles::new());
    });
}

#[test]
fn a_sqlite_file_has_one_owner_keeps_its_events_and_refuses_a_seq_twice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("berth.db");
    let mut ledger = SqliteLedger::open(&path, Durability::Disk).unwrap();
    ledger.commit(&[placed(1, "t", "a", "x")]).unwrap();
    let second = SqliteLedger::open(&path, Durability::Disk).err();
    assert!(matches!(second, Some(LedgerError::InUse { .. })), "{second:?}");
    assert!(matches!(
        ledger.commit(&[placed(2, "t", "b", "x"), placed(1, "t", "c", "x")]),
        Err(LedgerError::Io { .. })
    ));
    assert_eq!(find(&ledger, "t", "b"), None, "a batch is committed whole or not at all");
    drop(ledger);
    let ledger = SqliteLedger::open(&path, Durability::Process).unwrap();
    assert_eq!(ledger.events_after(0, 10).unwrap().len(), 1);
}
