//! Allocation: a ball's place, the same for every retry.

use std::sync::Arc;
use std::time::Instant;

use berth_models::decide::Explanation;
use berth_models::decision::Decision;
use berth_models::domain::ball::ball_key;
use berth_models::domain::{Ball, BoxSpec};
use berth_models::engine::{Allocation, EngineError};
use berth_models::fleet::{Fleet, LeaseState};
use berth_models::strategy::StrategyName;

use super::{Denied, Sequencer};
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
    pub is_repeat: bool,
}

impl Placed {
    fn of(fleet: &Fleet, lease_id: u64, is_repeat: bool) -> Option<Self> {
        let lease = fleet.leases().get(lease_id)?;
        Some(Self {
            decision: lease.decision.clone(),
            lease_id,
            decided_at_ms: lease.decided_at_ms,
            expires_at_ms: lease.expires_at_ms,
            spec: fleet.box_of(lease).spec.clone(),
            state: lease.state,
            ended_at_ms: (lease.state != LeaseState::Live).then_some(lease.ended_at_ms),
            is_repeat,
        })
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
                Ok(()) if placed.is_repeat && !was_durable => Ok(placed),
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
        self.turn(|engine, stamp, out| {
            let allocation = engine.allocate(ball.clone(), stamp, out);
            self.count(engine.fleet(), &allocation);
            let allocation = allocation?;
            let Some(lease_id) = allocation.lease_id else {
                return Err(Denied::Unplaceable(allocation.decision));
            };
            let placed = Placed::of(engine.fleet(), lease_id, allocation.is_repeat);
            Ok((placed.ok_or(EngineError::UnknownLease(lease_id))?, lease_id))
        })
    }

    fn count(&self, fleet: &Fleet, allocation: &Result<Allocation, EngineError>) {
        match allocation {
            Ok(allocation) if allocation.is_repeat => self.telemetry.count(Counted::AllocationsRepeated),
            Ok(allocation) => {
                let decision = &allocation.decision;
                let is_it =
                    |name: &StrategyName| Arc::ptr_eq(fleet.strategy_id(*name), &decision.strategy_id);
                let strategy = StrategyName::ALL.into_iter().find(is_it);
                self.telemetry.count_decision(decision, strategy);
            }
            Err(EngineError::Conflict { .. }) => self.telemetry.count(Counted::AllocationsConflicting),
            Err(EngineError::TooManyBalls { .. }) => self.telemetry.count(Counted::AllocationsLimited),
            Err(_) => {}
        }
    }

    /// What would happen to a ball now, box by box; nothing is placed.
    ///
    /// # Errors
    /// The ledger has failed or is behind.
    pub fn explain(&self, ball: &Arc<Ball>) -> Result<Explanation, Denied> {
        let explained = self.turn(|engine, stamp, out| Ok((engine.explain(ball.clone(), stamp, out)?, 0)))?;
        Ok(explained.0)
    }

    /// The lease of a ball, live or remembered, and a ticket for its durability.
    ///
    /// # Errors
    /// The ledger has failed or is behind.
    pub fn find(&self, tenant: &str, ball_id: &str) -> Result<(Option<Placed>, Ticket), Denied> {
        self.turn(|engine, stamp, out| {
            engine.expire(stamp, out);
            let fleet = engine.fleet();
            let lease = fleet.leases().of_ball(ball_key(tenant, ball_id));
            let placed = lease.and_then(|lease| Placed::of(fleet, lease.lease_id, true));
            Ok((placed, fleet.seq()))
        })
    }
}
