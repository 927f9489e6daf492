//! What an operator sets: the configuration, the kill switch, the active artifact.

use std::sync::Arc;

use berth_models::config::FleetConfig;
use berth_models::event::EventKind;
use berth_models::forecast::ForecastModel;

use super::{Denied, Sequencer, Turn};
use crate::ledger::Ticket;

impl Sequencer {
    /// The configuration in force.
    pub fn config(&self) -> FleetConfig {
        self.look(|fleet| fleet.config().clone())
    }

    /// Record the configuration of the first start, seed included.
    pub fn set_first_config(&self, config: FleetConfig) -> Ticket {
        let mut turn = Turn::begin(self);
        let seq = turn.append(EventKind::Configured { config: Box::new(config) });
        turn.follow_candidate();
        turn.seal(seq)
    }

    /// Change the configuration: `change` gets the one in force and returns the one to be. The
    /// version goes up by one; nothing happens when nothing changed. The seed stays.
    ///
    /// # Errors
    /// See [`Denied`].
    pub fn configure(
        &self,
        change: impl FnOnce(&FleetConfig) -> Result<FleetConfig, Denied>,
    ) -> Result<(FleetConfig, Ticket), Denied> {
        let mut turn = self.turn()?;
        let current = turn.fleet().config().clone();
        let mut config = change(&current)?;
        config.seed = current.seed;
        config.version = current.version;
        config.check()?;
        if config != current {
            config.version += 1;
            turn.append(EventKind::Configured { config: Box::new(config.clone()) });
            turn.follow_candidate();
            tracing::info!(version = config.version, rules_only = config.rules_only, "configuration changed");
        }
        let seq = turn.fleet().seq();
        Ok((config, turn.seal(seq)))
    }

    /// Make `model` under the id `artifact_id` the active one, or none.
    ///
    /// # Errors
    /// See [`Denied`].
    pub fn activate(&self, active: Option<(Arc<str>, Arc<ForecastModel>)>) -> Result<Ticket, Denied> {
        let mut turn = self.turn()?;
        let (artifact_id, model) = active.unzip();
        if turn.fleet().artifact_id() != artifact_id.as_ref() {
            turn.append(EventKind::Activated { artifact_id });
        }
        let inner = &mut *turn.inner;
        inner.fleet.set_model(model.clone());
        if let Some(feed) = &mut inner.feed {
            feed.send_model(model);
        }
        let seq = turn.fleet().seq();
        Ok(turn.seal(seq))
    }
}

impl Turn<'_> {
    /// Start, stop or change the evaluation of a candidate after the configuration did.
    fn follow_candidate(&mut self) {
        let inner = &mut *self.inner;
        let candidate = inner.fleet.config().candidate;
        if inner.feed.as_ref().map(crate::shadow::Feed::candidate) != candidate {
            let shadow = &self.sequencer.shadow;
            inner.feed = None;
            inner.feed = candidate.and_then(|candidate| shadow.start(&inner.fleet, candidate));
        }
    }
}
