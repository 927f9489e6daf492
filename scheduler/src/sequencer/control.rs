//! What an operator sets: the configuration, the kill switch, the active artifact.

use std::sync::Arc;

use berth_models::config::FleetConfig;
use berth_models::forecast::ForecastModel;
use berth_models::policy::PlacementPolicy;

use super::{Denied, Inner, Sequencer};
use crate::ledger::Ticket;

impl Sequencer {
    /// The configuration in force.
    pub fn config(&self) -> FleetConfig {
        self.look(|fleet| fleet.config().clone())
    }

    /// Change the configuration: `change` gets the one in force and returns the one to be. The
    /// version goes up by one; nothing happens when nothing changed.
    ///
    /// # Errors
    /// See [`Denied`].
    pub fn configure(
        &self,
        change: impl FnOnce(&FleetConfig) -> Result<FleetConfig, Denied>,
    ) -> Result<(FleetConfig, Ticket), Denied> {
        let configured = self.turn(|engine, stamp, out| {
            let current = engine.fleet().config();
            let config = FleetConfig { version: current.version, ..change(current)? };
            if config != *current {
                engine.configure(config, stamp, out)?;
            }
            Ok((engine.fleet().config().clone(), engine.fleet().seq()))
        })?;
        self.follow_candidate();
        Ok(configured)
    }

    /// Make `model` under the id `artifact_id` the active one, or none.
    ///
    /// # Errors
    /// See [`Denied`].
    pub fn activate(&self, artifact: Option<(Arc<str>, Arc<ForecastModel>)>) -> Result<Ticket, Denied> {
        let activated = self.turn(|engine, stamp, out| {
            let (fleet, artifact_id) = (engine.fleet(), artifact.as_ref().map(|(id, _)| id));
            if fleet.artifact_id() != artifact_id || fleet.model().is_some() != artifact_id.is_some() {
                engine.activate(artifact, stamp, out);
            }
            Ok(((), engine.fleet().seq()))
        })?;
        Ok(activated.1)
    }

    /// Make `policy` under its id the active one, or none.
    ///
    /// # Errors
    /// See [`Denied`].
    pub fn activate_policy(
        &self,
        policy: Option<(Arc<str>, Arc<PlacementPolicy>)>,
    ) -> Result<Ticket, Denied> {
        let activated = self.turn(|engine, stamp, out| {
            let (fleet, policy_id) = (engine.fleet(), policy.as_ref().map(|(id, _)| id));
            // Equal weights may come with other regimes.
            if fleet.policy_id() != policy_id || fleet.policy() != policy.as_ref().map(|(_, policy)| policy) {
                engine.activate_policy(policy, stamp, out);
            }
            Ok(((), engine.fleet().seq()))
        })?;
        Ok(activated.1)
    }

    /// Start, stop or change the evaluation of a candidate after the configuration did.
    fn follow_candidate(&self) {
        let mut guard = self.lock();
        let Inner { engine, feed, .. } = &mut *guard;
        let candidate = engine.fleet().config().candidate;
        if feed.as_ref().map(crate::shadow::Feed::candidate) != candidate {
            *feed = None;
            *feed = candidate.and_then(|candidate| self.shadow.start(engine.fleet(), candidate));
        }
    }
}
