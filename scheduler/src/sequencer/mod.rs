//! The sequencer: the one place where a pool's state advances.
//!
//! Every change takes a turn: under one lock, time passes and leases end, a decision is taken or an
//! operation checked, its event is applied to the fleet at once and handed to the journal in order.
//! Waiting for durability happens outside. Nothing awaits, reads a file or sends under the lock.

mod allocate;
mod boxes;
mod control;
mod leases;

use std::sync::{Arc, Mutex, MutexGuard};

use berth_models::decision::Decision;
use berth_models::domain::Invalid;
use berth_models::event::{Event, EventKind};
use berth_models::fleet::{Fleet, LeaseState};
use berth_models::strategy::Ranking;

pub use allocate::Placed;
pub use boxes::{Registered, Reported};
pub use leases::{Ended, Owner};

use crate::clock::{EngineClock, wall_now_ms};
use crate::ledger::{CommitError, Journal, Refused, Ticket};
use crate::shadow::{Feed, Shadow};
use crate::telemetry::Telemetry;

/// Most leases ended in one turn, so that no request waits for a great many; the ticker goes on.
const EXPIRED_A_TURN_MAX: usize = 256;

/// Why something was not done. The HTTP layer maps each to one problem.
#[derive(Debug, thiserror::Error)]
pub enum Denied {
    /// The ledger has failed, or answers nothing any more.
    #[error("nothing can be recorded: {0}")]
    NotReady(String),
    /// Too much waits for the ledger.
    #[error("the ledger is behind: too many events wait for it")]
    Behind,
    /// No box can take the ball.
    #[error("no box can take the ball")]
    Unplaceable(Box<Decision>),
    /// The ball's id is known with another body.
    #[error("ball {ball_id:?} of tenant {tenant:?} is known with another body")]
    Conflict {
        /// Whose ball.
        tenant: String,
        /// The ball.
        ball_id: String,
    },
    /// A limit of the configuration is reached.
    #[error("{field} = {limit} is reached")]
    Limit {
        /// The limit's name.
        field: &'static str,
        /// Its value.
        limit: usize,
    },
    /// No such box.
    #[error("no box is called {0:?}")]
    UnknownBox(String),
    /// No such lease, or forgotten since.
    #[error("no lease {0} is known")]
    UnknownLease(u64),
    /// The lease is another ball's.
    #[error("lease {0} belongs to another ball")]
    NotOwner(u64),
    /// The lease has ended in another way.
    #[error("lease {lease_id} has ended: {}", state_name(*state))]
    LeaseEnded {
        /// The lease.
        lease_id: u64,
        /// How it ended.
        state: LeaseState,
    },
    /// A value is not allowed.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The configuration has moved on.
    #[error("the configuration has version {have}, the change was made for {given}")]
    Version {
        /// The version in force.
        have: u64,
        /// The version given.
        given: u64,
    },
}

impl From<CommitError> for Denied {
    fn from(error: CommitError) -> Self {
        Self::NotReady(error.to_string())
    }
}

/// The name of a lease's state.
#[must_use]
pub fn state_name(state: LeaseState) -> &'static str {
    match state {
        LeaseState::Live => "live",
        LeaseState::Completed { .. } => "completed",
        LeaseState::Released => "released",
        LeaseState::Expired => "expired",
    }
}

struct Inner {
    fleet: Fleet,
    ranking: Ranking,
    pending: Vec<Arc<Event>>,
    feed: Option<Feed>,
}

/// See the module's text.
pub struct Sequencer {
    inner: Mutex<Inner>,
    clock: EngineClock,
    journal: Arc<Journal>,
    shadow: Shadow,
    telemetry: Arc<Telemetry>,
}

impl Sequencer {
    /// A sequencer that goes on from `fleet`.
    #[must_use]
    pub fn new(fleet: Fleet, clock: EngineClock, journal: Arc<Journal>, telemetry: Arc<Telemetry>) -> Self {
        let shadow = Shadow::default();
        let feed = fleet.config().candidate.and_then(|candidate| shadow.start(&fleet, candidate));
        let inner = Inner { fleet, ranking: Ranking::default(), pending: Vec::new(), feed };
        Self { inner: Mutex::new(inner), clock, journal, shadow, telemetry }
    }

    /// The engine's clock.
    #[must_use]
    pub fn clock(&self) -> &EngineClock {
        &self.clock
    }

    /// The journal.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The evaluation of the candidate.
    #[must_use]
    pub fn shadow(&self) -> &Shadow {
        &self.shadow
    }

    /// The counters.
    #[must_use]
    pub fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }

    /// Look at the fleet as it stands now. Keep `look` short: decisions wait for it.
    pub fn look<T>(&self, look: impl FnOnce(&Fleet) -> T) -> T {
        let mut inner = self.lock();
        let now_ms = self.clock.now_ms();
        inner.fleet.advance(now_ms);
        look(&inner.fleet)
    }

    /// Let time pass: end leases whose time has come. Called by a ticker when nobody asks.
    pub fn tick(&self) {
        while let Ok(turn) = self.turn() {
            if turn.fleet().first_expired(turn.at_ms).is_none() {
                return;
            }
        }
    }

    /// Undo placements that the ledger refused.
    pub fn revert(&self, refused: &[Refused]) {
        let mut turn = Turn::begin(self);
        for refused in refused {
            tracing::error!(
                lease_id = refused.seq,
                reason = %refused.reason,
                "the ledger refused a placement; it is undone"
            );
            turn.append(EventKind::Reverted { lease_id: refused.seq });
        }
    }

    /// A ticket for everything up to now.
    pub fn flush(&self) -> Ticket {
        let turn = Turn::begin(self);
        let seq = turn.fleet().seq();
        turn.seal(seq)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|poisoned| {
            // The state may be half changed; the log is not.
            self.journal.fail("a turn panicked; restart to recover from the log");
            poisoned.into_inner()
        })
    }

    /// Begin a turn: time passes and leases end.
    fn turn(&self) -> Result<Turn<'_>, Denied> {
        if self.journal.is_behind() {
            return Err(Denied::Behind);
        }
        let mut turn = Turn::begin(self);
        if let Some(reason) = self.journal.failure() {
            return Err(Denied::NotReady(reason.to_owned()));
        }
        let at_ms = turn.at_ms;
        for _ in 0..EXPIRED_A_TURN_MAX {
            let Some((_, lease_id)) = turn.fleet().first_expired(at_ms) else { break };
            turn.append(EventKind::Expired { lease_id });
        }
        Ok(turn)
    }
}

/// One turn under the lock. What it has appended is handed over when it ends, however it ends.
struct Turn<'a> {
    inner: MutexGuard<'a, Inner>,
    sequencer: &'a Sequencer,
    at_ms: u64,
    wall_ms: u64,
}

impl<'a> Turn<'a> {
    fn begin(sequencer: &'a Sequencer) -> Self {
        let mut inner = sequencer.lock();
        let at_ms = sequencer.clock.now_ms().max(inner.fleet.at_ms());
        inner.fleet.advance(at_ms);
        Self { inner, sequencer, at_ms, wall_ms: wall_now_ms() }
    }

    fn fleet(&self) -> &Fleet {
        &self.inner.fleet
    }

    /// Apply an event and queue it for the journal; returns its seq.
    fn append(&mut self, kind: EventKind) -> u64 {
        let inner = &mut *self.inner;
        let seq = inner.fleet.seq() + 1;
        let event = Arc::new(Event { seq, at_ms: self.at_ms, wall_ms: self.wall_ms, kind });
        inner.fleet.apply(&event);
        if let Some(feed) = &mut inner.feed {
            feed.send(&event, &inner.fleet);
        }
        inner.pending.push(event);
        seq
    }

    /// End the turn, with a ticket for `seq`.
    fn seal(mut self, seq: u64) -> Ticket {
        let sequencer = self.sequencer;
        sequencer.journal.submit(&mut self.inner.pending, Some(seq))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.inner.pending.is_empty() {
            let sequencer = self.sequencer;
            // Nobody waits for it.
            let _ = sequencer.journal.submit(&mut self.inner.pending, None);
        }
    }
}
