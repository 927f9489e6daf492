//! The sequencer: the one place where a pool's state advances.
//!
//! Every change takes a turn: under one lock the engine (`berth_models::engine`, which the simulator
//! runs too) lets leases expire, decides and applies its events; they go to the shadow and to the
//! journal in order. Waiting for durability happens outside. Nothing awaits, reads a file or draws
//! under the lock.

mod allocate;
mod boxes;
mod control;
mod leases;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard};

use berth_models::decision::Decision;
use berth_models::engine::{Engine, EngineError, Stamp};
use berth_models::event::Event;
use berth_models::fleet::{Fleet, LeaseState};

pub use allocate::Placed;
pub use boxes::Registered;
pub use leases::{Ended, Owner};

use crate::clock::{EngineClock, wall_now_ms};
use crate::ledger::{CommitError, Journal, Refused, Ticket};
use crate::shadow::{Feed, Shadow};
use crate::telemetry::Telemetry;

/// Why nothing is acknowledged after a panic: the state may be half changed, the log is not.
const PANICKED: &str = "a turn panicked; restart to recover from the log";

/// Why something was not done. The HTTP layer maps each to one problem.
#[derive(Debug, thiserror::Error)]
pub enum Denied {
    /// The ledger has failed, or answers nothing any more.
    #[error("nothing can be recorded: {0}")]
    NotReady(String),
    /// Too much waits for the ledger.
    #[error("the ledger is behind: too many events wait for it")]
    Behind,
    /// This turn panicked, and nothing is recorded from now on.
    #[error("the scheduler failed at this, and records nothing more; restart it to recover from the log")]
    Panicked,
    /// No box can take the ball.
    #[error("no box can take the ball")]
    Unplaceable(Arc<Decision>),
    /// The engine says no.
    #[error(transparent)]
    Engine(#[from] EngineError),
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

impl From<berth_models::domain::Invalid> for Denied {
    fn from(invalid: berth_models::domain::Invalid) -> Self {
        Self::Engine(invalid.into())
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
    engine: Engine,
    /// What the engine has appended in this turn.
    out: Vec<Event>,
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
        let engine = Engine::new(fleet);
        let inner = Inner { engine, out: Vec::new(), feed };
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

    /// The journal, to share.
    #[must_use]
    pub fn journal_handle(&self) -> Arc<Journal> {
        self.journal.clone()
    }

    /// Why nothing can be recorded, if so: the ledger failed, or a turn panicked.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        if self.inner.is_poisoned() {
            self.journal.fail(PANICKED);
        }
        self.journal.failure()
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
        self.in_turn(|engine, stamp, out| {
            engine.expire(stamp, out);
            (look(engine.fleet()), None)
        })
        .0
    }

    /// Let time pass: end leases whose time has come. Called by a ticker when nobody asks.
    pub fn tick(&self) {
        if self.failure().is_none() {
            self.look(|_| ());
        }
    }

    /// Undo placements that the ledger refused.
    pub fn revert(&self, refused: &[Refused]) {
        self.in_turn(|engine, stamp, out| {
            for Refused { seq, reason } in refused {
                tracing::error!(lease_id = seq, %reason, "the ledger refused a placement; it is undone");
                engine.revert(*seq, stamp, out);
            }
            ((), None)
        });
    }

    /// A ticket for everything up to now.
    pub fn flush(&self) -> Ticket {
        self.in_turn(|engine, _, _| ((), Some(engine.fleet().seq()))).1
    }

    /// Take a turn, unless nothing can be recorded. `work` returns its result and the seq that has to
    /// be durable before it may be answered.
    fn turn<T>(
        &self,
        work: impl FnOnce(&mut Engine, Stamp, &mut Vec<Event>) -> Result<(T, u64), Denied>,
    ) -> Result<(T, Ticket), Denied> {
        if let Some(reason) = self.failure() {
            return Err(Denied::NotReady(reason.to_owned()));
        }
        if self.journal.is_behind() {
            return Err(Denied::Behind);
        }
        let (worked, ticket) = self.in_turn(|engine, stamp, out| {
            // The journal fails before anybody else has the lock, so nothing is built upon half a change.
            match catch_unwind(AssertUnwindSafe(|| work(engine, stamp, out))) {
                Ok(Ok((value, seq))) => (Ok(value), Some(seq)),
                Ok(Err(denied)) => (Err(denied), None),
                Err(_) => {
                    self.journal.fail(PANICKED);
                    (Err(Denied::Panicked), None)
                }
            }
        });
        Ok((worked?, ticket))
    }

    /// Take a turn: what the engine appends goes to the shadow and the journal, whatever came of it.
    fn in_turn<T>(
        &self,
        work: impl FnOnce(&mut Engine, Stamp, &mut Vec<Event>) -> (T, Option<u64>),
    ) -> (T, Ticket) {
        let mut guard = self.lock();
        let Inner { engine, out, feed } = &mut *guard;
        let at_ms = self.clock.now_ms().max(engine.fleet().at_ms());
        let (value, wait_for) = work(engine, Stamp { at_ms, wall_ms: wall_now_ms() }, out);
        if let Some(feed) = feed {
            feed.send(out, engine.fleet());
        }
        if out.is_empty() && wait_for.is_none() {
            return (value, Ticket::Durable);
        }
        (value, self.journal.submit(out, wait_for))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|poisoned| {
            self.journal.fail(PANICKED);
            poisoned.into_inner()
        })
    }
}
