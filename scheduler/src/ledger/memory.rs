//! The ledger in memory: nothing survives the process; the last [`EVENTS_KEPT`] events stay for
//! look-ups and replay, older ones are dropped and counted.

use std::collections::{BTreeMap, HashMap, VecDeque};

use berth_models::event::Event;
use berth_models::fleet::KeyIndex;

use super::{
    ArtifactFiles, Change, Ledger, LedgerError, Logged, Placement, PlacementQuery, PlacementState, RANGE_MAX,
    Refused, change,
};

/// Events kept.
pub const EVENTS_KEPT: usize = 16_384;

/// See the module's text.
#[derive(Default)]
pub struct MemoryLedger {
    events: VecDeque<(Event, bool)>,
    dropped: u64,
    /// Live lease by ball, and back.
    live: KeyIndex<u64>,
    balls: KeyIndex<u128>,
    parts: BTreeMap<u64, BTreeMap<u32, Vec<u8>>>,
    snapshots: BTreeMap<u64, Vec<u8>>,
    artifacts: BTreeMap<String, ArtifactFiles>,
}

impl MemoryLedger {
    /// Events that were dropped to make room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Take one event; returns whether its placement was refused.
    pub fn push(&mut self, event: Event) -> bool {
        let mut is_refused = false;
        match change(&event) {
            Change::Place { ball, .. } => {
                let key = ball.key();
                is_refused = *self.live.entry_or(key, event.seq) != event.seq;
                if !is_refused {
                    self.balls.insert(u128::from(event.seq), key);
                }
            }
            Change::End { lease_id, .. } => {
                if let Some(key) = self.balls.remove(u128::from(lease_id)) {
                    self.live.remove(key);
                }
            }
            Change::None => {}
        }
        self.keep(event, is_refused);
        is_refused
    }

    /// Keep one event without looking for another live placement of its ball: within one process the
    /// fleet has looked already, under the same lock.
    pub fn keep(&mut self, event: Event, is_refused: bool) {
        if self.events.len() == EVENTS_KEPT {
            self.events.pop_front();
            self.dropped += 1;
        }
        self.events.push_back((event, is_refused));
    }

    /// The events kept, so that a look-up need not hold the ledger while it scans.
    #[must_use]
    pub fn kept(&self) -> Vec<(Event, bool)> {
        self.events.iter().cloned().collect()
    }

    /// Placements of a range among `events`, newest first.
    #[must_use]
    pub fn scan(events: &[(Event, bool)], query: &PlacementQuery) -> Vec<Placement> {
        scan(events, query)
    }
}

/// See [`MemoryLedger::scan`].
fn scan(events: &[(Event, bool)], query: &PlacementQuery) -> Vec<Placement> {
    let limit = query.limit.min(RANGE_MAX);
    let mut ended: HashMap<u64, (PlacementState, u64)> = HashMap::new();
    let mut found = Vec::new();
    for (event, is_refused) in events.iter().rev() {
        match change(event) {
            Change::End { lease_id, state } => {
                // What ended a lease first counts; this goes backwards, so the last write wins.
                ended.insert(lease_id, (state, event.at_ms));
            }
            Change::Place { ball, box_id, strategy_id } if !is_refused => {
                let end = ended.get(&event.seq);
                let placement = Placement {
                    tenant: ball.tenant.clone(),
                    ball_id: ball.ball_id.clone(),
                    lease_id: event.seq,
                    box_id: box_id.to_owned(),
                    strategy_id: strategy_id.to_owned(),
                    state: end.map_or(PlacementState::Live, |(state, _)| *state),
                    decided_at_ms: event.at_ms,
                    ended_at_ms: end.map(|(_, at_ms)| *at_ms),
                };
                if is_within(&placement, query) {
                    found.push(placement);
                    if found.len() == limit {
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    found
}

fn is_within(placement: &Placement, query: &PlacementQuery) -> bool {
    let is = |wanted: &Option<String>, have: &str| wanted.as_deref().is_none_or(|wanted| wanted == have);
    is(&query.tenant, &placement.tenant)
        && is(&query.box_id, &placement.box_id)
        && query.from.as_ref().is_none_or(|from| *from <= placement.ball_id)
        && query.to.as_ref().is_none_or(|to| *to >= placement.ball_id)
}

impl Ledger for MemoryLedger {
    fn commit(&mut self, events: &[Event]) -> Result<Vec<Refused>, LedgerError> {
        let mut refused = Vec::new();
        for event in events {
            if self.push(event.clone()) {
                let reason = "the ball has a live placement".to_owned();
                refused.push(Refused { seq: event.seq, reason });
            }
        }
        Ok(refused)
    }

    fn events_after(&self, seq: u64, limit: usize) -> Result<Vec<Logged>, LedgerError> {
        let start = self.events.partition_point(|(event, _)| event.seq <= seq);
        let logged =
            |(event, is_refused): &(Event, bool)| Logged { event: event.clone(), is_refused: *is_refused };
        Ok(self.events.range(start..).take(limit).map(logged).collect())
    }

    fn placements(&self, query: &PlacementQuery) -> Result<Vec<Placement>, LedgerError> {
        Ok(scan(&self.kept(), query))
    }

    fn save_snapshot_part(&mut self, seq: u64, part: u32, body: &[u8]) -> Result<(), LedgerError> {
        self.parts.entry(seq).or_default().insert(part, body.to_vec());
        Ok(())
    }

    fn finish_snapshot(&mut self, seq: u64, parts: u32) -> Result<u64, LedgerError> {
        let written = self.parts.remove(&seq).unwrap_or_default();
        if written.len() != parts as usize {
            let reason = format!("snapshot {seq} has {} of {parts} parts", written.len());
            return Err(LedgerError::Damaged(reason));
        }
        self.snapshots.insert(seq, written.into_values().flatten().collect());
        while self.snapshots.len() > 2 {
            self.snapshots.pop_first();
        }
        Ok(self.snapshots.keys().next().copied().unwrap_or(seq))
    }

    fn newest_snapshot(&self) -> Result<Option<(u64, Vec<u8>)>, LedgerError> {
        let newest = self.snapshots.last_key_value();
        Ok(newest.map(|(seq, body)| (*seq, body.clone())))
    }

    fn truncate(&mut self, seq: u64, at_ms: u64, limit: usize) -> Result<usize, LedgerError> {
        let mut deleted = 0;
        while deleted < limit
            && let Some((event, _)) = self.events.front()
            && event.seq < seq
            && event.at_ms < at_ms
        {
            self.events.pop_front();
            deleted += 1;
        }
        Ok(deleted)
    }

    fn save_artifact(&mut self, artifact_id: &str, files: &ArtifactFiles) -> Result<(), LedgerError> {
        self.artifacts.insert(artifact_id.to_owned(), files.clone());
        Ok(())
    }

    fn artifact(&self, artifact_id: &str) -> Result<ArtifactFiles, LedgerError> {
        Ok(self.artifacts.get(artifact_id).cloned().unwrap_or_default())
    }
}
