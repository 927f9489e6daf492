//! Leases and the memory of finished ones: who holds what, until when, and what a retry is told.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::key_index::KeyIndex;
use crate::decision::Decision;
use crate::domain::Outcome;

/// How a lease ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum LeaseState {
    /// The ball is on its box.
    Live,
    /// The work ended.
    Completed {
        /// How.
        outcome: Outcome,
    },
    /// The owner gave it back.
    Released,
    /// Nobody renewed it.
    Expired,
}

/// A ball's place on a box.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lease {
    /// The decision's seq, and the fencing token.
    pub lease_id: u64,
    /// The decision that granted it.
    pub decision: Arc<Decision>,
    /// Handle of the box.
    pub box_handle: u32,
    /// When it was granted, in engine milliseconds.
    pub decided_at_ms: u64,
    /// When it ends without a heartbeat, in engine milliseconds.
    pub expires_at_ms: u64,
    /// Mean stay assumed at the grant, in milliseconds.
    pub residence_ms: f64,
    /// Work assumed at the grant, in milliseconds on its box.
    pub service_ms: u64,
    /// Whether and how it ended.
    pub state: LeaseState,
    /// When it ended, in engine milliseconds; 0 while live.
    pub ended_at_ms: u64,
    /// [`crate::domain::Ball::key`] of its ball, so that ending it need not read the ball again.
    #[serde(skip)]
    pub key: u128,
}

/// All leases that are live or remembered, by id, by ball and by time.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct LeaseTable {
    leases: BTreeMap<u64, Lease>,
    /// Ended leases in the order in which they are forgotten.
    ended: VecDeque<(u64, u64)>,
    #[serde(skip)]
    by_key: KeyIndex<u64>,
    #[serde(skip)]
    by_expiry: BTreeSet<(u64, u64)>,
}

impl LeaseTable {
    /// Rebuild what a snapshot leaves out.
    pub fn reindex(&mut self) {
        self.by_key = KeyIndex::default();
        self.by_expiry.clear();
        for lease in self.leases.values_mut() {
            lease.key = lease.decision.ball.key();
            self.by_key.insert(lease.key, lease.lease_id);
            if lease.state == LeaseState::Live {
                self.by_expiry.insert((lease.expires_at_ms, lease.lease_id));
            }
        }
    }

    /// Live and remembered leases.
    #[must_use]
    pub fn len(&self) -> usize {
        self.leases.len()
    }

    /// Whether nothing is live or remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// Live leases.
    #[must_use]
    pub fn live_count(&self) -> usize {
        self.by_expiry.len()
    }

    /// The lease `lease_id`, live or remembered.
    #[must_use]
    pub fn get(&self, lease_id: u64) -> Option<&Lease> {
        self.leases.get(&lease_id)
    }

    /// The lease of a ball, live or remembered, by [`crate::domain::Ball::key`].
    #[must_use]
    pub fn of_ball(&self, ball_key: u128) -> Option<&Lease> {
        self.by_key.get(ball_key).and_then(|lease_id| self.leases.get(lease_id))
    }

    /// Every live lease, in the order of ids.
    pub fn live(&self) -> impl Iterator<Item = &Lease> {
        self.leases.values().filter(|lease| lease.state == LeaseState::Live)
    }

    /// The first live lease whose end has come by `at_ms`: (end, lease id).
    #[must_use]
    pub fn first_expired(&self, at_ms: u64) -> Option<(u64, u64)> {
        self.by_expiry.first().copied().filter(|(expires_at_ms, _)| *expires_at_ms <= at_ms)
    }

    /// Add a live lease.
    pub fn insert(&mut self, lease: Lease) {
        self.by_key.insert(lease.key, lease.lease_id);
        self.by_expiry.insert((lease.expires_at_ms, lease.lease_id));
        self.leases.insert(lease.lease_id, lease);
    }

    /// Move a live lease's end; nothing happens when it is not live.
    pub fn renew(&mut self, lease_id: u64, expires_at_ms: u64) {
        let Some(lease) = self.leases.get_mut(&lease_id) else {
            return;
        };
        if lease.state == LeaseState::Live {
            self.by_expiry.remove(&(lease.expires_at_ms, lease_id));
            lease.expires_at_ms = expires_at_ms;
            self.by_expiry.insert((expires_at_ms, lease_id));
        }
    }

    /// End a live lease and remember how; `None` when it is not live.
    pub fn end(&mut self, lease_id: u64, state: LeaseState, at_ms: u64) -> Option<&Lease> {
        let lease = self.leases.get_mut(&lease_id).filter(|l| l.state == LeaseState::Live)?;
        self.by_expiry.remove(&(lease.expires_at_ms, lease_id));
        lease.state = state;
        lease.ended_at_ms = at_ms;
        self.ended.push_back((at_ms, lease_id));
        Some(lease)
    }

    /// Take a live lease out as if it had never been; `None` when it is not live.
    pub fn revert(&mut self, lease_id: u64) -> Option<Lease> {
        if self.leases.get(&lease_id)?.state != LeaseState::Live {
            return None;
        }
        let lease = self.leases.remove(&lease_id)?;
        self.by_expiry.remove(&(lease.expires_at_ms, lease_id));
        self.by_key.remove(lease.key);
        Some(lease)
    }

    /// Forget leases that ended `keep_ms` or longer ago.
    pub fn forget(&mut self, at_ms: u64, keep_ms: u64) {
        while let Some(&(ended_at_ms, lease_id)) = self.ended.front() {
            if ended_at_ms.saturating_add(keep_ms) > at_ms {
                return;
            }
            self.ended.pop_front();
            if let Some(lease) = self.leases.remove(&lease_id) {
                let key = lease.key;
                // A later ball may carry the same id once this one has ended.
                if self.by_key.get(key) == Some(&lease_id) {
                    self.by_key.remove(key);
                }
            }
        }
    }
}
