//! Recovery: the fleet as the fold of a ledger's newest snapshot and the events after it.
//!
//! The same function makes the snapshots, so every snapshot proves again that the log folds.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_models::artifact::ArtifactError;
use berth_models::event::EventKind;
use berth_models::fleet::{Fleet, LeaseState};
use berth_models::forecast::ForecastModel;
use berth_models::policy::PlacementPolicy;
use berth_models::policy::bundle::PolicyError;

use crate::artifact::{Artifact, Policy};
use crate::clock::LogEnd;
use crate::ledger::{Ledger, LedgerError};

/// Events read at a time.
const EVENTS_A_READ: usize = 4_096;

/// Why a log does not give a fleet.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// The ledger can't be read.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The snapshot is of another form.
    #[error(
        "snapshot {seq} is not readable ({reason}); it was written by another build: start that one, or a new --store"
    )]
    Snapshot {
        /// Its seq.
        seq: u64,
        /// What the parser says.
        reason: String,
    },
    /// Events are missing.
    #[error("the event log has a gap: event {after} is followed by {found}; restore a copy of the store")]
    Gap {
        /// The last event before it.
        after: u64,
        /// The first one after it.
        found: u64,
    },
    /// Reserved amounts and leases don't agree.
    #[error("the recount finds {0}; restore a copy of the store")]
    Recount(String),
    /// An artifact kept in the ledger is refused.
    #[error("artifact {artifact_id} kept in the ledger is refused: {source}; start with --artifact")]
    Artifact {
        /// Its id.
        artifact_id: String,
        /// Why.
        source: ArtifactError,
    },
    /// A policy kept in the ledger is refused.
    #[error(
        "policy {policy_id} kept in the ledger is refused: {source}; restore a copy of the store, or start the build that wrote it"
    )]
    Policy {
        /// Its id.
        policy_id: String,
        /// Why.
        source: PolicyError,
    },
}

/// What recovery found.
pub struct Recovered {
    /// The fleet.
    pub fleet: Fleet,
    /// Where the log ended; `None`: there is none, or only a snapshot.
    pub end: Option<LogEnd>,
    /// Seq of the snapshot it began with; 0: none.
    pub snapshot_seq: u64,
    /// Events folded after it.
    pub events: u64,
    /// Placements the ledger had refused that were not yet undone; they were never acknowledged.
    pub refused: Vec<u64>,
}

/// Fold a ledger up to and including event `until` (0: to its end).
///
/// # Errors
/// See [`RecoveryError`].
pub fn recover(ledger: &dyn Ledger, until: u64) -> Result<Recovered, RecoveryError> {
    let mut models = Models { ledger, known: BTreeMap::new(), policies: BTreeMap::new() };
    let mut recovered =
        Recovered { fleet: Fleet::default(), end: None, snapshot_seq: 0, events: 0, refused: Vec::new() };
    if let Some((seq, body)) = ledger.newest_snapshot()? {
        let (fleet, wall_ms) = read_snapshot(&body)
            .map_err(|error| RecoveryError::Snapshot { seq, reason: error.to_string() })?;
        recovered.fleet = fleet;
        recovered.end = Some(LogEnd { at_ms: recovered.fleet.at_ms(), wall_ms });
        recovered.snapshot_seq = seq;
        let model = models.active(&recovered.fleet)?;
        recovered.fleet.set_model(model);
        let policy = models.active_policy(&recovered.fleet)?;
        recovered.fleet.set_policy(policy);
    }
    fold(&mut recovered, &mut models, until)?;
    let fleet = &recovered.fleet;
    recovered.refused.retain(|lease_id| {
        fleet.leases().get(*lease_id).is_some_and(|lease| lease.state == LeaseState::Live)
    });
    fleet.recount().map_err(RecoveryError::Recount)?;
    Ok(recovered)
}

fn fold(recovered: &mut Recovered, models: &mut Models, until: u64) -> Result<(), RecoveryError> {
    let until = if until == 0 { u64::MAX } else { until };
    loop {
        let after = recovered.fleet.seq();
        let logged = models.ledger.events_after(after, EVENTS_A_READ)?;
        if logged.is_empty() {
            return Ok(());
        }
        for logged in logged {
            let (event, after) = (logged.event, recovered.fleet.seq());
            if event.seq > until {
                return Ok(());
            }
            if event.seq != after + 1 {
                return Err(RecoveryError::Gap { after, found: event.seq });
            }
            recovered.fleet.apply(&event);
            recovered.end = Some(LogEnd { at_ms: event.at_ms, wall_ms: event.wall_ms });
            recovered.events += 1;
            if logged.is_refused {
                recovered.refused.push(event.seq);
            }
            if matches!(event.kind, EventKind::Activated { .. }) {
                let model = models.active(&recovered.fleet)?;
                recovered.fleet.set_model(model);
            }
            if matches!(event.kind, EventKind::PolicyActivated { .. }) {
                let policy = models.active_policy(&recovered.fleet)?;
                recovered.fleet.set_policy(policy);
            }
        }
    }
}

/// A snapshot's body: the fleet and the wall time of its last event, as MessagePack with named
/// fields (a fleet holds NaN, which JSON has not).
///
/// # Errors
/// A value MessagePack has no form for.
pub fn write_snapshot(fleet: &Fleet, wall_ms: u64) -> Result<Vec<u8>, rmp_serde::encode::Error> {
    rmp_serde::to_vec_named(&(fleet, wall_ms))
}

fn read_snapshot(body: &[u8]) -> Result<(Fleet, u64), rmp_serde::decode::Error> {
    let (mut fleet, wall_ms): (Fleet, u64) = rmp_serde::from_slice(body)?;
    fleet.reindex();
    Ok((fleet, wall_ms))
}

/// The models and policies that the ledger keeps.
struct Models<'a> {
    ledger: &'a dyn Ledger,
    known: BTreeMap<Arc<str>, Option<Arc<ForecastModel>>>,
    policies: BTreeMap<Arc<str>, Option<Arc<PlacementPolicy>>>,
}

impl Models<'_> {
    /// The model the fleet says is active; without its files the rule decides, visibly.
    fn active(&mut self, fleet: &Fleet) -> Result<Option<Arc<ForecastModel>>, RecoveryError> {
        let Some(artifact_id) = fleet.artifact_id() else { return Ok(None) };
        if let Some(model) = self.known.get(artifact_id) {
            return Ok(model.clone());
        }
        let files = self.ledger.artifact(artifact_id)?;
        let model = if files.is_empty() {
            tracing::warn!(%artifact_id, "the active artifact is not kept in the ledger: the rule decides until one is activated");
            None
        } else {
            let artifact = Artifact::verify(files)
                .map_err(|source| RecoveryError::Artifact { artifact_id: artifact_id.to_string(), source })?;
            Some(artifact.model)
        };
        self.known.insert(artifact_id.clone(), model.clone());
        Ok(model)
    }

    /// The same for the placement policy.
    fn active_policy(&mut self, fleet: &Fleet) -> Result<Option<Arc<PlacementPolicy>>, RecoveryError> {
        let Some(policy_id) = fleet.policy_id() else { return Ok(None) };
        if let Some(policy) = self.policies.get(policy_id) {
            return Ok(policy.clone());
        }
        let files = self.ledger.artifact(policy_id)?;
        let policy = if files.is_empty() {
            tracing::warn!(%policy_id, "the active policy is not kept in the ledger: the rule decides until one is activated");
            None
        } else {
            let policy = Policy::verify(files)
                .map_err(|source| RecoveryError::Policy { policy_id: policy_id.to_string(), source })?;
            Some(policy.policy)
        };
        self.policies.insert(policy_id.clone(), policy.clone());
        Ok(policy)
    }
}
