//! What boxes and their operators say: register, drain, report.

use std::sync::Arc;

use berth_models::domain::{BoxReport, BoxSpec, FieldIssue, Stage};
use berth_models::event::EventKind;

use super::{Denied, Sequencer};
use crate::ledger::Ticket;
use crate::telemetry::Counted;

/// What became of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registered {
    /// The box is new.
    Created,
    /// Its specification changed.
    Updated,
    /// It had this very specification.
    Unchanged,
}

/// What became of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    /// Whether it was news: later than the box's last one.
    pub is_accepted: bool,
    /// Fields that were set aside as nonsense.
    pub set_aside: Vec<FieldIssue>,
}

impl Sequencer {
    /// Register a box, or change its specification.
    ///
    /// # Errors
    /// See [`Denied`].
    pub fn register(&self, spec: BoxSpec) -> Result<(Registered, Ticket), Denied> {
        spec.check()?;
        let mut turn = self.turn()?;
        let known = turn.fleet().get_box(&spec.box_id).map(|state| *state.spec == spec);
        let boxes_max = turn.fleet().config().boxes_max;
        let registered = match known {
            Some(true) => Registered::Unchanged,
            Some(false) => Registered::Updated,
            None if turn.fleet().boxes().len() >= boxes_max => {
                return Err(Denied::Limit { field: "boxes_max", limit: boxes_max });
            }
            None => Registered::Created,
        };
        if registered != Registered::Unchanged {
            turn.append(EventKind::Registered { spec: Box::new(spec) });
        }
        let seq = turn.fleet().seq();
        Ok((registered, turn.seal(seq)))
    }

    /// Drain a box: it keeps what it has and takes nothing new.
    ///
    /// # Errors
    /// See [`Denied`].
    pub fn drain(&self, box_id: &str) -> Result<Ticket, Denied> {
        let mut turn = self.turn()?;
        let state = turn.fleet().get_box(box_id);
        let state = state.ok_or_else(|| Denied::UnknownBox(box_id.to_owned()))?;
        let box_id: Arc<str> = state.box_id().clone();
        if state.stage() < Stage::Draining {
            turn.append(EventKind::Drained { box_id });
        }
        let seq = turn.fleet().seq();
        Ok(turn.seal(seq))
    }

    /// Take a box's report. `sampled_at_ms` is engine time; a stamp in the future counts as now.
    ///
    /// # Errors
    /// See [`Denied`]; a report that is not newer than the last one is no error.
    pub fn report(&self, mut report: BoxReport) -> Result<(Reported, Ticket), Denied> {
        let mut turn = self.turn()?;
        let Some(state) = turn.fleet().get_box(&report.box_id) else {
            self.telemetry.count(Counted::ReportsUnknownBox);
            return Err(Denied::UnknownBox(report.box_id.to_string()));
        };
        let set_aside = report.sanitise(&state.spec);
        if report.sampled_at_ms > turn.at_ms {
            report.sampled_at_ms = turn.at_ms;
            self.telemetry.count(Counted::ReportsFutureStamp);
        }
        let is_accepted = turn.fleet().is_news(&report);
        if is_accepted {
            self.telemetry.count_set_aside(&set_aside);
            self.telemetry.count(Counted::ReportsAccepted);
            turn.append(EventKind::Reported { report: Box::new(report) });
        } else {
            self.telemetry.count(Counted::ReportsNotNewer);
        }
        let seq = turn.fleet().seq();
        Ok((Reported { is_accepted, set_aside }, turn.seal(seq)))
    }
}
