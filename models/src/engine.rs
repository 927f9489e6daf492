//! The engine: requests in, events out. What the server does under its lock and what the
//! simulator does between two moments is this code, so both reach the same decisions.
//!
//! Every call lets leases expire first, then decides, then applies its events to the fleet, and
//! appends them to `out` in the order of `seq`. Nothing here waits, reads a clock or draws.

use std::sync::Arc;

use crate::chance::draw_of;
use crate::config::FleetConfig;
use crate::decide::{Explanation, decide, explain, lease_ms};
use crate::decision::{Decision, Verdict};
use crate::domain::{Ball, BoxReport, BoxSpec, FieldIssue, Invalid, Outcome};
use crate::event::{Event, EventKind};
use crate::fleet::{Fleet, Lease, LeaseState};
use crate::forecast::{ForecastModel, Foresight};
use crate::policy::PlacementPolicy;
use crate::strategy::Ranking;

/// The two times of a request, read by the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Engine time, in milliseconds.
    pub at_ms: u64,
    /// Wall-clock time, in UTC epoch milliseconds.
    pub wall_ms: u64,
}

/// Why a request was not carried out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EngineError {
    /// A field has a value that is not allowed.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The same ball id came before with another body.
    #[error("ball {ball_id} of tenant {tenant} was allocated with another body; use a new ball_id")]
    Conflict {
        /// The tenant.
        tenant: String,
        /// The ball.
        ball_id: String,
    },
    /// The memory of balls is full, and none may be forgotten early.
    #[error(
        "{balls} balls are remembered, and balls_max is {balls_max}; retry later, or raise \
         balls_max or lower idempotency_keep_ms"
    )]
    TooManyBalls {
        /// Balls remembered.
        balls: usize,
        /// The limit.
        balls_max: usize,
    },
    /// The fleet is full.
    #[error("{boxes_max} boxes are registered, which is boxes_max")]
    TooManyBoxes {
        /// The limit.
        boxes_max: usize,
    },
    /// No such box.
    #[error("no box is called {0:?}; register it first")]
    UnknownBox(String),
    /// No such lease, or it was forgotten.
    #[error("no lease {0} is known; it never was, or it ended long ago")]
    UnknownLease(u64),
    /// The caller is not the lease's owner.
    #[error("lease {0} belongs to another ball")]
    NotOwner(u64),
    /// The lease has ended, another way than asked.
    #[error("lease {lease_id} has ended: {state}")]
    Ended {
        /// The lease.
        lease_id: u64,
        /// How.
        state: &'static str,
    },
}

/// The answer to an allocation.
#[derive(Debug, Clone, PartialEq)]
pub struct Allocation {
    /// What was decided.
    pub decision: Arc<Decision>,
    /// The lease, and fencing token; `None` when no box could take the ball.
    pub lease_id: Option<u64>,
    /// Whether this is the answer given before to the same ball.
    pub is_repeat: bool,
}

/// What became of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    /// Whether it was news; a repeated or overtaken report changes nothing.
    pub is_news: bool,
    /// Fields that were set aside.
    pub issues: Vec<FieldIssue>,
}

/// The fleet and the code that advances it.
#[derive(Clone, Default)]
pub struct Engine {
    fleet: Fleet,
    ranking: Ranking,
}

impl Engine {
    /// An engine over a fleet, new or recovered.
    #[must_use]
    pub fn new(fleet: Fleet) -> Self {
        Self { fleet, ranking: Ranking::default() }
    }

    /// The fleet as it stands.
    #[must_use]
    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// Hand in what stands in for the model's forecasts: see [`Fleet::set_foresight`].
    pub fn set_foresight(&mut self, foresight: Option<Foresight>) {
        self.fleet.set_foresight(foresight);
    }

    fn append(&mut self, stamp: Stamp, kind: EventKind, out: &mut Vec<Event>) -> u64 {
        let seq = self.fleet.seq() + 1;
        let at_ms = stamp.at_ms.max(self.fleet.at_ms());
        let event = Event { seq, at_ms, wall_ms: stamp.wall_ms, kind };
        self.fleet.apply(&event);
        out.push(event);
        seq
    }

    /// Let time pass: every lease whose end has come becomes an `Expired` event.
    pub fn expire(&mut self, stamp: Stamp, out: &mut Vec<Event>) {
        while let Some((_, lease_id)) = self.fleet.first_expired(stamp.at_ms) {
            self.append(stamp, EventKind::Expired { lease_id }, out);
        }
        self.fleet.advance(stamp.at_ms);
    }

    /// Give `ball` a place, or the same answer as before. Refusals are answers and no events.
    ///
    /// # Errors
    /// [`EngineError::Invalid`], [`EngineError::Conflict`] or [`EngineError::TooManyBalls`].
    pub fn allocate(
        &mut self,
        ball: Arc<Ball>,
        stamp: Stamp,
        out: &mut Vec<Event>,
    ) -> Result<Allocation, EngineError> {
        ball.check()?;
        self.expire(stamp, out);
        if let Some(lease) = self.fleet.leases().of_ball(ball.key()) {
            if *lease.decision.ball != *ball {
                let Ball { tenant, ball_id, .. } = &*ball;
                return Err(EngineError::Conflict { tenant: tenant.clone(), ball_id: ball_id.clone() });
            }
            return Ok(Allocation {
                decision: lease.decision.clone(),
                lease_id: Some(lease.lease_id),
                is_repeat: true,
            });
        }
        let (balls, balls_max) = (self.fleet.leases().len(), self.fleet.config().balls_max);
        if balls >= balls_max {
            return Err(EngineError::TooManyBalls { balls, balls_max });
        }
        let draw = draw_of(self.fleet.config().seed, self.fleet.seq() + 1);
        let decision = Arc::new(decide(&self.fleet, ball, draw, &mut self.ranking));
        let lease_id = matches!(decision.verdict, Verdict::Placed { .. })
            .then(|| self.append(stamp, EventKind::Decided { decision: decision.clone() }, out));
        Ok(Allocation { decision, lease_id, is_repeat: false })
    }

    /// Undo a decision that the ledger refused.
    pub fn revert(&mut self, lease_id: u64, stamp: Stamp, out: &mut Vec<Event>) {
        self.append(stamp, EventKind::Reverted { lease_id }, out);
    }

    /// What would happen to `ball`, without placing it.
    ///
    /// # Errors
    /// [`EngineError::Invalid`].
    pub fn explain(
        &mut self,
        ball: Arc<Ball>,
        stamp: Stamp,
        out: &mut Vec<Event>,
    ) -> Result<Explanation, EngineError> {
        ball.check()?;
        self.expire(stamp, out);
        let draw = draw_of(self.fleet.config().seed, self.fleet.seq() + 1);
        Ok(explain(&self.fleet, ball, draw))
    }

    /// Register a box, or give a registered one another specification; returns whether anything
    /// changed. A box may have grown by its own word since it registered, and the same specification
    /// again leaves it where it is; but one that drains or is down comes back by it.
    ///
    /// # Errors
    /// [`EngineError::Invalid`] or [`EngineError::TooManyBoxes`].
    pub fn register(
        &mut self,
        spec: BoxSpec,
        stamp: Stamp,
        out: &mut Vec<Event>,
    ) -> Result<bool, EngineError> {
        spec.check()?;
        self.expire(stamp, out);
        let known = self.fleet.get_box(&spec.box_id);
        let boxes_max = self.fleet.config().boxes_max;
        if known.is_none() && self.fleet.boxes().len() >= boxes_max {
            return Err(EngineError::TooManyBoxes { boxes_max });
        }
        let is_change = known.is_none_or(|state| *state.spec != spec || state.comes_back_by(&spec));
        if is_change {
            self.append(stamp, EventKind::Registered { spec: Box::new(spec) }, out);
        }
        Ok(is_change)
    }

    /// Let a box finish what it has and give it nothing new.
    ///
    /// # Errors
    /// [`EngineError::UnknownBox`].
    pub fn drain(&mut self, box_id: &str, stamp: Stamp, out: &mut Vec<Event>) -> Result<(), EngineError> {
        self.expire(stamp, out);
        let state = self.fleet.get_box(box_id);
        let box_id = state.ok_or_else(|| EngineError::UnknownBox(box_id.into()))?.box_id().clone();
        self.append(stamp, EventKind::Drained { box_id }, out);
        Ok(())
    }

    /// Take a box's report; nonsense in it is set aside and named.
    ///
    /// # Errors
    /// [`EngineError::UnknownBox`].
    pub fn report(
        &mut self,
        mut report: BoxReport,
        stamp: Stamp,
        out: &mut Vec<Event>,
    ) -> Result<Reported, EngineError> {
        self.expire(stamp, out);
        let Some(state) = self.fleet.get_box(&report.box_id) else {
            return Err(EngineError::UnknownBox(report.box_id.to_string()));
        };
        let issues = report.sanitise(&state.spec);
        // A report can't have seen the future.
        report.sampled_at_ms = report.sampled_at_ms.min(self.fleet.at_ms());
        let is_news = self.fleet.is_news(&report);
        if is_news {
            self.append(stamp, EventKind::Reported { report: Box::new(report) }, out);
        }
        Ok(Reported { is_news, issues })
    }

    /// Renew a live lease; returns its new end, in engine milliseconds.
    ///
    /// # Errors
    /// [`EngineError::UnknownLease`], [`EngineError::NotOwner`] or [`EngineError::Ended`].
    pub fn heartbeat(
        &mut self,
        lease_id: u64,
        owner: u128,
        stamp: Stamp,
        out: &mut Vec<Event>,
    ) -> Result<u64, EngineError> {
        self.expire(stamp, out);
        let lease = self.owned(lease_id, owner)?;
        if lease.state != LeaseState::Live {
            return Err(ended(lease));
        }
        let ball = lease.decision.ball.clone();
        let expires_at_ms = self.fleet.at_ms() + lease_ms(&self.fleet, &ball);
        self.append(stamp, EventKind::Renewed { lease_id, expires_at_ms }, out);
        Ok(expires_at_ms)
    }

    /// End a lease with an outcome. The same outcome again changes nothing.
    ///
    /// # Errors
    /// [`EngineError::UnknownLease`], [`EngineError::NotOwner`] or [`EngineError::Ended`].
    pub fn complete(
        &mut self,
        lease_id: u64,
        owner: u128,
        outcome: Outcome,
        stamp: Stamp,
        out: &mut Vec<Event>,
    ) -> Result<(), EngineError> {
        self.expire(stamp, out);
        let lease = self.owned(lease_id, owner)?;
        match lease.state {
            LeaseState::Live => {}
            LeaseState::Completed { outcome: before } if before == outcome => return Ok(()),
            _ => return Err(ended(lease)),
        }
        self.append(stamp, EventKind::Completed { lease_id, outcome }, out);
        Ok(())
    }

    /// Give a place back unused. Doing it again changes nothing.
    ///
    /// # Errors
    /// [`EngineError::UnknownLease`], [`EngineError::NotOwner`] or [`EngineError::Ended`].
    pub fn release(
        &mut self,
        lease_id: u64,
        owner: u128,
        stamp: Stamp,
        out: &mut Vec<Event>,
    ) -> Result<(), EngineError> {
        self.expire(stamp, out);
        let lease = self.owned(lease_id, owner)?;
        match lease.state {
            LeaseState::Live => {}
            LeaseState::Released => return Ok(()),
            _ => return Err(ended(lease)),
        }
        self.append(stamp, EventKind::Released { lease_id }, out);
        Ok(())
    }

    fn owned(&self, lease_id: u64, owner: u128) -> Result<&Lease, EngineError> {
        let lease = self.fleet.leases().get(lease_id);
        let lease = lease.ok_or(EngineError::UnknownLease(lease_id))?;
        if lease.key != owner {
            return Err(EngineError::NotOwner(lease_id));
        }
        Ok(lease)
    }

    /// Put a configuration in force under the next version.
    ///
    /// # Errors
    /// [`EngineError::Invalid`].
    pub fn configure(
        &mut self,
        mut config: FleetConfig,
        stamp: Stamp,
        out: &mut Vec<Event>,
    ) -> Result<(), EngineError> {
        config.check()?;
        self.expire(stamp, out);
        config.version = self.fleet.config().version + 1;
        self.append(stamp, EventKind::Configured { config: Box::new(config) }, out);
        Ok(())
    }

    /// Make an artifact's model the active one, or none.
    pub fn activate(
        &mut self,
        artifact: Option<(Arc<str>, Arc<ForecastModel>)>,
        stamp: Stamp,
        out: &mut Vec<Event>,
    ) {
        self.expire(stamp, out);
        let (artifact_id, model) = artifact.unzip();
        self.fleet.set_model(model);
        self.append(stamp, EventKind::Activated { artifact_id }, out);
    }

    /// Make a placement policy the active one, or none.
    pub fn activate_policy(
        &mut self,
        policy: Option<(Arc<str>, Arc<PlacementPolicy>)>,
        stamp: Stamp,
        out: &mut Vec<Event>,
    ) {
        self.expire(stamp, out);
        let (policy_id, policy) = policy.unzip();
        self.fleet.set_policy(policy);
        self.append(stamp, EventKind::PolicyActivated { policy_id }, out);
    }
}

fn ended(lease: &Lease) -> EngineError {
    let state = match lease.state {
        LeaseState::Live => "live",
        LeaseState::Completed { .. } => "completed",
        LeaseState::Released => "released",
        LeaseState::Expired => "expired",
    };
    EngineError::Ended { lease_id: lease.lease_id, state }
}
