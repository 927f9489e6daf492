//! What boxes and their operators say: register, drain, report.

use berth_models::domain::{BoxReport, BoxSpec, Stage};
use berth_models::engine::Reported;

use super::{Denied, Sequencer};
use crate::ledger::Ticket;
use crate::telemetry::Counted;

/// What became of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registered {
    /// The box is new.
    Created,
    /// Its specification changed, or it was draining.
    Updated,
    /// It had this very specification.
    Unchanged,
}

impl Sequencer {
    /// Register a box, or change its specification.
    ///
    /// # Errors
    /// See [`Denied`].
    pub fn register(&self, spec: BoxSpec) -> Result<(Registered, Ticket), Denied> {
        self.turn(|engine, stamp, out| {
            let was_known = engine.fleet().get_box(&spec.box_id).is_some();
            let registered = match engine.register(spec, stamp, out)? {
                _ if !was_known => Registered::Created,
                true => Registered::Updated,
                false => Registered::Unchanged,
            };
            Ok((registered, engine.fleet().seq()))
        })
    }

    /// Drain a box: it keeps what it has and takes nothing new.
    ///
    /// # Errors
    /// See [`Denied`].
    pub fn drain(&self, box_id: &str) -> Result<Ticket, Denied> {
        let drained = self.turn(|engine, stamp, out| {
            let state = engine.fleet().get_box(box_id);
            if state.is_none_or(|state| state.stage() < Stage::Draining) {
                engine.drain(box_id, stamp, out)?;
            }
            Ok(((), engine.fleet().seq()))
        })?;
        Ok(drained.1)
    }

    /// Take a box's report. `sampled_at_ms` is engine time; a stamp in the future counts as now.
    ///
    /// # Errors
    /// See [`Denied`]; a report that is not newer than the last one is no error.
    pub fn report(&self, report: BoxReport) -> Result<(Reported, Ticket), Denied> {
        self.turn(|engine, stamp, out| {
            let is_future = report.sampled_at_ms > stamp.at_ms;
            let reported = engine.report(report, stamp, out);
            self.telemetry.count(match &reported {
                Ok(reported) if reported.is_news => Counted::ReportsAccepted,
                Ok(_) => Counted::ReportsNotNewer,
                Err(_) => Counted::ReportsUnknownBox,
            });
            let reported = reported?;
            if reported.is_news {
                self.telemetry.count_set_aside(&reported.issues);
            }
            if is_future {
                self.telemetry.count(Counted::ReportsFutureStamp);
            }
            Ok((reported, engine.fleet().seq()))
        })
    }
}
