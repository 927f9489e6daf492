//! Events: the only way a fleet's state advances.
//!
//! The event log is the only truth: fleet, leases and idempotency are folds of it. A placed
//! decision's `seq` is its lease id and, since it strictly grows, its fencing token.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::config::FleetConfig;
use crate::decision::Decision;
use crate::domain::{BoxReport, BoxSpec, Outcome};

/// One event, in the order of `seq`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Position in the log, from 1, without gaps.
    pub seq: u64,
    /// Engine time, in milliseconds; never goes backwards.
    pub at_ms: u64,
    /// Wall-clock time, in UTC epoch milliseconds; for people, never for deciding.
    pub wall_ms: u64,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EventKind {
    /// The configuration was set.
    Configured {
        /// The whole of it.
        config: Box<FleetConfig>,
    },
    /// A box registered, or registered again with another specification.
    Registered {
        /// The specification.
        spec: Box<BoxSpec>,
    },
    /// An operator drains a box: it takes nothing new.
    Drained {
        /// The box.
        box_id: Arc<str>,
    },
    /// A box reported; nonsense is already set aside.
    Reported {
        /// The report.
        report: Box<BoxReport>,
    },
    /// A ball was placed; this event's seq is the lease id. Refusals are answers, not events.
    Decided {
        /// The decision.
        decision: Arc<Decision>,
    },
    /// The ledger refused decision `lease_id`; its reservation is undone.
    Reverted {
        /// The decision's seq.
        lease_id: u64,
    },
    /// The holder renewed its lease.
    Renewed {
        /// The lease.
        lease_id: u64,
        /// Its new end, in engine milliseconds.
        expires_at_ms: u64,
    },
    /// The work ended.
    Completed {
        /// The lease.
        lease_id: u64,
        /// How.
        outcome: Outcome,
    },
    /// The owner gave the place back unused.
    Released {
        /// The lease.
        lease_id: u64,
    },
    /// The lease ended without a heartbeat.
    Expired {
        /// The lease.
        lease_id: u64,
    },
    /// A forecast artifact became the active one; `None`: none is active.
    Activated {
        /// Its id.
        artifact_id: Option<Arc<str>>,
    },
    /// A placement policy became the active one; `None`: none is active.
    PolicyActivated {
        /// Its id.
        policy_id: Option<Arc<str>>,
    },
}
