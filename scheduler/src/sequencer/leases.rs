//! What a lease's owner does with it: renew, complete, give back.

use berth_models::domain::Outcome;
use berth_models::domain::ball::ball_key;
use berth_models::engine::{Engine, EngineError, Stamp};
use berth_models::event::Event;
use berth_models::fleet::LeaseState;

use super::{Denied, Sequencer};
use crate::ledger::Ticket;
use crate::telemetry::Counted;

/// Who says it owns a lease: the ball it was granted to.
#[derive(Debug, Clone, Copy)]
pub struct Owner<'a> {
    /// The ball's tenant.
    pub tenant: &'a str,
    /// The ball.
    pub ball_id: &'a str,
}

impl Owner<'_> {
    fn key(self) -> u128 {
        ball_key(self.tenant, self.ball_id)
    }
}

/// How a lease ended. Times are engine milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ended {
    /// The lease.
    pub lease_id: u64,
    /// How it stands now.
    pub state: LeaseState,
    /// When it ended.
    pub ended_at_ms: u64,
    /// Whether it had ended in this very way before.
    pub is_repeat: bool,
}

impl Sequencer {
    /// Renew a live lease by the length its ball asked for, or the default; returns its new end in
    /// engine milliseconds.
    ///
    /// # Errors
    /// See [`Denied`]; a lease whose time has come is not renewed.
    pub fn heartbeat(&self, lease_id: u64, owner: Owner) -> Result<(u64, Ticket), Denied> {
        self.turn(|engine, stamp, out| {
            let expires_at_ms = engine.heartbeat(lease_id, owner.key(), stamp, out)?;
            self.telemetry.count(Counted::Heartbeats);
            Ok((expires_at_ms, engine.fleet().seq()))
        })
    }

    /// The work of a live lease ended with `outcome`.
    ///
    /// # Errors
    /// See [`Denied`].
    pub fn complete(&self, lease_id: u64, owner: Owner, outcome: Outcome) -> Result<(Ended, Ticket), Denied> {
        self.end(lease_id, Counted::Completed, |engine, stamp, out| {
            engine.complete(lease_id, owner.key(), outcome, stamp, out)
        })
    }

    /// The owner gives a live lease back unused.
    ///
    /// # Errors
    /// See [`Denied`].
    pub fn release(&self, lease_id: u64, owner: Owner) -> Result<(Ended, Ticket), Denied> {
        self.end(lease_id, Counted::Released, |engine, stamp, out| {
            engine.release(lease_id, owner.key(), stamp, out)
        })
    }

    fn end(
        &self,
        lease_id: u64,
        counted: Counted,
        end: impl FnOnce(&mut Engine, Stamp, &mut Vec<Event>) -> Result<(), EngineError>,
    ) -> Result<(Ended, Ticket), Denied> {
        self.turn(|engine, stamp, out| {
            let was_live = engine.fleet().leases().get(lease_id).is_some_and(|l| l.state == LeaseState::Live);
            end(engine, stamp, out)?;
            if was_live {
                self.telemetry.count(counted);
            }
            let lease = engine.fleet().leases().get(lease_id);
            let lease = lease.ok_or(EngineError::UnknownLease(lease_id))?;
            let (state, ended_at_ms) = (lease.state, lease.ended_at_ms);
            // A repeated end waits for the first one, which may not be durable yet.
            Ok((Ended { lease_id, state, ended_at_ms, is_repeat: !was_live }, engine.fleet().seq()))
        })
    }
}
