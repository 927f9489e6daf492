//! What a lease's owner does with it: renew, complete, give back.

use berth_models::domain::Outcome;
use berth_models::domain::ball::ball_key;
use berth_models::event::EventKind;
use berth_models::fleet::LeaseState;

use super::{Denied, Sequencer, Turn};
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
    pub is_replayed: bool,
}

impl Sequencer {
    /// Renew a live lease for `lease_ms`, or the configured default; returns its new end in engine
    /// milliseconds.
    ///
    /// # Errors
    /// See [`Denied`]; a lease whose time has come is not renewed.
    pub fn heartbeat(
        &self,
        lease_id: u64,
        owner: Owner,
        lease_ms: Option<u64>,
    ) -> Result<(u64, Ticket), Denied> {
        let mut turn = self.turn()?;
        let state = turn.owned(lease_id, owner)?;
        if state != LeaseState::Live {
            return Err(Denied::LeaseEnded { lease_id, state });
        }
        let config = turn.fleet().config();
        let length_ms = lease_ms.unwrap_or(config.lease_ms_default).min(config.lease_ms_max);
        let expires_at_ms = turn.at_ms + length_ms;
        let seq = turn.append(EventKind::Renewed { lease_id, expires_at_ms });
        self.telemetry.count(Counted::Heartbeats);
        Ok((expires_at_ms, turn.seal(seq)))
    }

    /// The work of a live lease ended with `outcome`.
    ///
    /// # Errors
    /// See [`Denied`].
    pub fn complete(&self, lease_id: u64, owner: Owner, outcome: Outcome) -> Result<(Ended, Ticket), Denied> {
        let kind = EventKind::Completed { lease_id, outcome };
        self.end(lease_id, owner, kind, LeaseState::Completed { outcome }, Counted::Completed)
    }

    /// The owner gives a live lease back unused.
    ///
    /// # Errors
    /// See [`Denied`].
    pub fn release(&self, lease_id: u64, owner: Owner) -> Result<(Ended, Ticket), Denied> {
        let kind = EventKind::Released { lease_id };
        self.end(lease_id, owner, kind, LeaseState::Released, Counted::Released)
    }

    fn end(
        &self,
        lease_id: u64,
        owner: Owner,
        kind: EventKind,
        wanted: LeaseState,
        counted: Counted,
    ) -> Result<(Ended, Ticket), Denied> {
        let mut turn = self.turn()?;
        let state = turn.owned(lease_id, owner)?;
        let is_replayed = state == wanted;
        if state != LeaseState::Live && !is_replayed {
            return Err(Denied::LeaseEnded { lease_id, state });
        }
        if !is_replayed {
            turn.append(kind);
            self.telemetry.count(counted);
        }
        let lease = turn.fleet().leases().get(lease_id);
        let ended_at_ms = lease.map_or(turn.at_ms, |lease| lease.ended_at_ms);
        // A repeated end waits for the first one, which may not be durable yet.
        let seq = turn.fleet().seq();
        Ok((Ended { lease_id, state: wanted, ended_at_ms, is_replayed }, turn.seal(seq)))
    }
}

impl Turn<'_> {
    /// How a lease stands, for its owner alone.
    fn owned(&mut self, lease_id: u64, owner: Owner) -> Result<LeaseState, Denied> {
        self.settle(lease_id);
        let lease = self.fleet().leases().get(lease_id);
        let lease = lease.ok_or(Denied::UnknownLease(lease_id))?;
        if lease.decision.ball.key() != ball_key(owner.tenant, owner.ball_id) {
            return Err(Denied::NotOwner(lease_id));
        }
        Ok(lease.state)
    }
}
