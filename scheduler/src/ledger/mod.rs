//! The ledger: where events become durable, with the index of placements in the same transaction.
//!
//! A ledger takes batches of events in order. It may refuse a placement (another live one exists for
//! the same ball): the event stays in the log, marked, and the sequencer answers it with `Reverted`.
//! Every backend passes one conformance suite (`tests/ledgers.rs`).

pub mod journal;
mod memory;
mod sqlite;

use berth_models::domain::Ball;
use berth_models::event::{Event, EventKind};
use serde::{Deserialize, Serialize};

pub use journal::{CommitError, Journal, Ticket};
pub use memory::{EVENTS_KEPT, MemoryLedger};
pub use sqlite::SqliteLedger;

/// Most placements one range answers.
pub const RANGE_MAX: usize = 10_000;

/// What an acknowledgement promises.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// It survives the end of the process (`kill -9` included), not of the machine.
    Process,
    /// It survives a loss of power: every commit is synced to disk.
    #[default]
    Disk,
}

impl Durability {
    /// The name used in options, JSON and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Disk => "disk",
        }
    }
}

/// Why a ledger can't be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LedgerError {
    /// Reading or writing failed.
    #[error("the ledger failed while {doing}: {reason}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the system says.
        reason: String,
    },
    /// Another scheduler holds it.
    #[error("{path} is held by another scheduler; stop it, or give this one a --store of its own")]
    InUse {
        /// The ledger's file.
        path: String,
    },
    /// It is a file of another program.
    #[error("{path} is not a store of Berth and is left as it is; give another --store")]
    Foreign {
        /// The file.
        path: String,
    },
    /// It holds something this build can't read.
    #[error("the ledger is damaged: {0}; restore a copy, or start with a new --store")]
    Damaged(String),
}

/// A placement the ledger refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The decision's seq.
    pub seq: u64,
    /// Why.
    pub reason: String,
}

/// An event as the log has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Logged {
    /// The event.
    pub event: Event,
    /// Whether it is a placement that was refused.
    pub is_refused: bool,
}

/// How a placement stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlacementState {
    /// The ball is on its box.
    Live,
    /// The work ended.
    Completed,
    /// The owner gave the place back.
    Released,
    /// Nobody renewed the lease.
    Expired,
    /// The ledger had refused it.
    Reverted,
}

impl PlacementState {
    /// All states, in the order of their numbers in the ledger.
    pub const ALL: [Self; 5] = [Self::Live, Self::Completed, Self::Released, Self::Expired, Self::Reverted];
}

/// One row of the placement index. Times are engine milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Whose ball.
    pub tenant: String,
    /// The ball.
    pub ball_id: String,
    /// The lease, which is the decision's seq.
    pub lease_id: u64,
    /// Where it went.
    pub box_id: String,
    /// What decided.
    pub strategy_id: String,
    /// How it stands.
    pub state: PlacementState,
    /// When it was decided.
    pub decided_at_ms: u64,
    /// When it ended, if it has.
    pub ended_at_ms: Option<u64>,
}

/// A range of placements; every bound is optional, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlacementQuery {
    /// Only this tenant's.
    pub tenant: Option<String>,
    /// First ball id, inclusive.
    pub from: Option<String>,
    /// Last ball id, inclusive.
    pub to: Option<String>,
    /// Only on this box.
    pub box_id: Option<String>,
    /// Most rows, up to [`RANGE_MAX`].
    pub limit: usize,
}

impl PlacementQuery {
    /// The one ball's placements.
    #[must_use]
    pub fn of_ball(tenant: &str, ball_id: &str) -> Self {
        Self {
            tenant: Some(tenant.to_owned()),
            from: Some(ball_id.to_owned()),
            to: Some(ball_id.to_owned()),
            box_id: None,
            limit: 1,
        }
    }
}

/// A place for events; see the module's text.
pub trait Ledger: Send {
    /// Commit events, in order and all together; returns the placements that were refused.
    ///
    /// # Errors
    /// Nothing of the batch may be taken as committed.
    fn commit(&mut self, events: &[Event]) -> Result<Vec<Refused>, LedgerError>;

    /// Up to `limit` events after `seq`, in order.
    ///
    /// # Errors
    /// The log can't be read.
    fn events_after(&self, seq: u64, limit: usize) -> Result<Vec<Logged>, LedgerError>;

    /// Placements of a range, newest first.
    ///
    /// # Errors
    /// The index can't be read.
    fn placements(&self, query: &PlacementQuery) -> Result<Vec<Placement>, LedgerError>;

    /// Write one part of the snapshot at `seq`; it counts only after [`Self::finish_snapshot`].
    ///
    /// # Errors
    /// It could not be written.
    fn save_snapshot_part(&mut self, seq: u64, part: u32, body: &[u8]) -> Result<(), LedgerError>;

    /// Make the snapshot of `parts` parts at `seq` count, and drop all but the newest two; returns
    /// the older of these, up to which events are needed no longer.
    ///
    /// # Errors
    /// It could not be written.
    fn finish_snapshot(&mut self, seq: u64, parts: u32) -> Result<u64, LedgerError>;

    /// The newest snapshot: its seq and body.
    ///
    /// # Errors
    /// It can't be read.
    fn newest_snapshot(&self) -> Result<Option<(u64, Vec<u8>)>, LedgerError>;

    /// Delete up to `limit` events and ended placements that are older than both `seq` and `at_ms`;
    /// returns how many.
    ///
    /// # Errors
    /// They could not be deleted.
    fn truncate(&mut self, seq: u64, at_ms: u64, limit: usize) -> Result<usize, LedgerError>;

    /// Keep an artifact's files, so that recovery needs no other place.
    ///
    /// # Errors
    /// They could not be written.
    fn save_artifact(&mut self, artifact_id: &str, files: &ArtifactFiles) -> Result<(), LedgerError>;

    /// The files of an artifact; empty when it is not kept.
    ///
    /// # Errors
    /// They can't be read.
    fn artifact(&self, artifact_id: &str) -> Result<ArtifactFiles, LedgerError>;
}

/// An artifact's files by name.
pub type ArtifactFiles = std::collections::BTreeMap<String, Vec<u8>>;

/// What an event does to the placement index.
enum Change<'a> {
    None,
    Place { ball: &'a Ball, box_id: &'a str, strategy_id: &'a str },
    End { lease_id: u64, state: PlacementState },
}

fn change(event: &Event) -> Change<'_> {
    match &event.kind {
        EventKind::Decided { decision } => match decision.box_id() {
            Some(box_id) => {
                Change::Place { ball: &decision.ball, box_id, strategy_id: &decision.strategy_id }
            }
            None => Change::None,
        },
        EventKind::Reverted { lease_id } => {
            Change::End { lease_id: *lease_id, state: PlacementState::Reverted }
        }
        EventKind::Completed { lease_id, .. } => {
            Change::End { lease_id: *lease_id, state: PlacementState::Completed }
        }
        EventKind::Released { lease_id } => {
            Change::End { lease_id: *lease_id, state: PlacementState::Released }
        }
        EventKind::Expired { lease_id } => {
            Change::End { lease_id: *lease_id, state: PlacementState::Expired }
        }
        _ => Change::None,
    }
}
