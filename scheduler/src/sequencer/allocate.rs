//! Allocation: a ball's place, the same for every retry.

use std::sync::Arc;
use std::time::Instant;

use berth_models::chance::draw_of;
use berth_models::decide::{self, Explanation, decide_by};
use berth_models::decision::Decision;
use berth_models::domain::{Ball, BoxSpec};
use berth_models::event::EventKind;
use berth_models::fleet::{Lease, LeaseState};

use super::{Denied, Sequencer, Turn};
use crate::ledger::{CommitError, Ticket};
use crate::telemetry::Counted;

/// Turns one allocation may take: one for a decision, one more after a refused commit, and one more
/// to see what became of an earlier request for the same ball.
const TURNS_MAX: usize = 4;

/// A placed ball. Times are engine milliseconds.
#[derive(Debug, Clone)]
pub struct Placed {
    /// The decision, as it was taken first.
    pub decision: Arc<Decision>,
    /// Its seq: the lease id and the fencing token.
    pub lease_id: u64,
    /// When it was taken.
    pub decided_at_ms: u64,
    /// When the lease ends without a heartbeat.
    pub expires_at_ms: u64,
    /// The box's specification.
    pub spec: Arc<BoxSpec>,
    /// How the lease stands.
    pub state: LeaseState,
    /// When it ended, if it has.
    pub ended_at_ms: Option<u64>,
    /// Whether the answer was given before.
    pub is_replayed: bool,
}

impl Placed {
    fn new(lease: &Lease, spec: Arc<BoxSpec>, is_replayed: bool) -> Self {
        Self {
            decision: lease.decision.clone(),
            lease_id: lease.lease_id,
            decided_at_ms: lease.decided_at_ms,
            expires_at_ms: lease.expires_at_ms,
            spec,
            state: lease.state,
            ended_at_ms: (lease.state != LeaseState::Live).then_some(lease.ended_at_ms),
            is_replayed,
        }
    }
}

impl Sequencer {
    /// Place a ball, or answer what was answered before; returns once that is durable.
    ///
    /// # Errors
    /// See [`Denied`]; refusals are not remembered.
    pub async fn allocate(&self, ball: &Arc<Ball>) -> Result<Placed, Denied> {
        let started = Instant::now();
        let mut last = Err(Denied::Behind);
        for _ in 0..TURNS_MAX {
            let (placed, ticket) = self.allocate_in_turn(ball)?;
            let was_durable = matches!(ticket, Ticket::Durable);
            last = match ticket.wait().await {
                // Somebody else's decision: look again, it may have been undone.
                Ok(()) if placed.is_replayed && !was_durable => Ok(placed),
                Ok(()) => {
                    self.telemetry.allocate_seconds.observe(started.elapsed());
                    return Ok(placed);
                }
                Err(CommitError::Refused(reason)) => Err(Denied::NotReady(reason)),
                Err(CommitError::Failed(reason)) => return Err(Denied::NotReady(reason)),
            };
        }
        last
    }

    /// Decide within one turn; the ticket tells when the decision is durable. For callers that wait
    /// for many at once; [`Self::allocate`] otherwise.
    ///
    /// # Errors
    /// See [`Denied`].
    pub fn allocate_in_turn(&self, ball: &Arc<Ball>) -> Result<(Placed, Ticket), Denied> {
        let mut turn = self.turn()?;
        if let Some(placed) = turn.known(ball)? {
            self.telemetry.count(Counted::AllocationsReplayed);
            let seq = placed.lease_id;
            return Ok((placed, turn.seal(seq)));
        }
        let balls_max = turn.fleet().config().balls_max;
        if turn.fleet().leases().len() >= balls_max {
            self.telemetry.count(Counted::AllocationsLimited);
            return Err(Denied::Limit { field: "balls_max", limit: balls_max });
        }
        let decision = turn.decide(ball);
        if decision.box_id().is_none() {
            return Err(Denied::Unplaceable(Box::new(decision)));
        }
        let seq = turn.append(EventKind::Decided { decision: Arc::new(decision) });
        let placed = turn.placed(seq, false).ok_or(Denied::UnknownLease(seq))?;
        Ok((placed, turn.seal(seq)))
    }

    /// What would happen to a ball now, box by box; nothing is placed.
    ///
    /// # Errors
    /// The ledger has failed or is behind.
    pub fn explain(&self, ball: &Arc<Ball>) -> Result<Explanation, Denied> {
        let turn = self.turn()?;
        let fleet = turn.fleet();
        let draw = draw_of(fleet.config().seed, fleet.seq() + 1);
        Ok(decide::explain(fleet, ball.clone(), draw))
    }

    /// The lease of a ball, live or remembered, and a ticket for its durability.
    ///
    /// # Errors
    /// The ledger has failed or is behind.
    pub fn find(&self, tenant: &str, ball_id: &str) -> Result<Option<(Placed, Ticket)>, Denied> {
        let turn = self.turn()?;
        let key = berth_models::domain::ball::ball_key(tenant, ball_id);
        let lease_id = turn.fleet().leases().of_ball(key).map(|lease| lease.lease_id);
        let found = lease_id.and_then(|lease_id| turn.placed(lease_id, true));
        Ok(found.map(|placed| {
            let seq = placed.lease_id;
            (placed, turn.seal(seq))
        }))
    }
}

impl Turn<'_> {
    /// The answer a ball has had.
    fn known(&mut self, ball: &Arc<Ball>) -> Result<Option<Placed>, Denied> {
        let Some(lease) = self.fleet().leases().of_ball(ball.key()) else { return Ok(None) };
        if *lease.decision.ball != **ball {
            self.sequencer.telemetry.count(Counted::AllocationsConflicting);
            return Err(Denied::Conflict { tenant: ball.tenant.clone(), ball_id: ball.ball_id.clone() });
        }
        let lease_id = lease.lease_id;
        self.settle(lease_id);
        Ok(self.placed(lease_id, true))
    }

    /// End a lease whose time has come and whose turn to be ended has not.
    pub(super) fn settle(&mut self, lease_id: u64) {
        let at_ms = self.at_ms;
        let lease = self.fleet().leases().get(lease_id);
        if lease.is_some_and(|lease| lease.state == LeaseState::Live && lease.expires_at_ms <= at_ms) {
            self.append(EventKind::Expired { lease_id });
        }
    }

    fn decide(&mut self, ball: &Arc<Ball>) -> Decision {
        let inner = &mut *self.inner;
        let fleet = &inner.fleet;
        let draw = draw_of(fleet.config().seed, fleet.seq() + 1);
        let (route, strategy) = decide::route(fleet, ball);
        let decision = decide_by(fleet, ball.clone(), draw, strategy, route, &mut inner.ranking);
        self.sequencer.telemetry.count_decision(&decision, strategy);
        decision
    }

    fn placed(&self, lease_id: u64, is_replayed: bool) -> Option<Placed> {
        let lease = self.fleet().leases().get(lease_id)?;
        let spec = self.fleet().box_of(lease).spec.clone();
        Some(Placed::new(lease, spec, is_replayed))
    }
}
