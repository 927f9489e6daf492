//! What is seen of boxes: by their schedulers through reports, and by the result itself.

use super::super::result::{Moment, Seen};
use super::{REPORT_STREAM, Simulation, Step};
use crate::chance::{draw_of, unit};
use crate::domain::{BoxReport, Usage};

impl Simulation<'_> {
    pub(super) fn report(&mut self, position: usize) {
        if !self.places[position].is_up {
            return;
        }
        let simulated = &self.scenario.boxes[position];
        let background = self.background(position);
        let place = &self.places[position];
        let metered = place.service.metered(&place.demand);
        let mut report = BoxReport::new(&simulated.spec.box_id, self.at_ms);
        report.usage = Usage::from_array(std::array::from_fn(|d| {
            simulated.spec.capacity.0[d].map(|_| background[d] + metered[d])
        }));
        report.queue_length = Some(place.service.count() as f64);
        for scheduler in 0..self.schedulers.len() {
            if self.owns(scheduler, position) {
                self.send(scheduler, report.clone());
            }
        }
        self.expect_report(position);
    }

    pub(super) fn expect_report(&mut self, position: usize) {
        let Some(every_ms) = self.scenario.report_every_ms else {
            return;
        };
        let is_history = self.at_ms < self.first_ms;
        let seldom_ms = self.scenario.conditions.history_report_every_ms.filter(|_| is_history);
        let mut next_ms = self.at_ms + seldom_ms.unwrap_or(every_ms);
        if seldom_ms.is_some() {
            next_ms = next_ms.min(self.first_ms.max(self.at_ms + 1));
        }
        if next_ms <= self.end_ms {
            self.push(next_ms, Step::Report { position });
        }
    }

    /// Send a report to a scheduler: at once, late, or never.
    pub(super) fn send(&mut self, scheduler: usize, mut report: BoxReport) {
        let conditions = &self.scenario.conditions;
        report.last_accepted_lease_id = Some(self.schedulers[scheduler].engine.fleet().seq());
        self.reports_sent += 1;
        let draw = draw_of(self.scenario.config.seed ^ REPORT_STREAM, self.reports_sent);
        if conditions.report_loss > 0.0 && unit(draw, 0) < conditions.report_loss {
            return;
        }
        let jitter_ms = (conditions.report_jitter_ms as f64 * unit(draw, 1)) as u64;
        let late_ms = conditions.report_delay_ms + jitter_ms;
        if late_ms == 0 {
            return self.deliver(scheduler, report);
        }
        let number = self.reports_sent;
        self.reports.insert(number, (scheduler, report));
        self.push(self.at_ms + late_ms, Step::Deliver { number });
    }

    pub(super) fn deliver(&mut self, scheduler: usize, report: BoxReport) {
        let stamp = self.stamp();
        // Every simulated box is registered, so the report is taken.
        let _ = self.schedulers[scheduler].engine.report(report, stamp, &mut self.events);
    }

    pub(super) fn measure(&mut self) {
        let every_ms = self.scenario.conditions.measure_every_ms.or(self.scenario.report_every_ms);
        let up: Vec<usize> = (0..self.places.len()).filter(|at| self.places[*at].is_up).collect();
        let count = up.len().max(1) as f64;
        let utilisation: Vec<f64> = up.iter().map(|at| self.utilisation(*at)).collect();
        let mean = utilisation.iter().sum::<f64>() / count;
        let variance = utilisation.iter().map(|u| (u - mean) * (u - mean)).sum::<f64>() / count;
        self.result.imbalance += libm::sqrt(variance);
        let mut moment = Moment { at_ms: self.at_ms, load_mean: mean, load_max: 0.0 };
        for position in up {
            let load = self.load(position);
            let balls = self.places[position].service.count() as u32;
            self.result.seen.push(Seen { load, balls });
            self.overloads += u64::from(load > 1.0);
            self.looked_at += 1;
            moment.load_max = moment.load_max.max(load);
        }
        self.result.load_max = self.result.load_max.max(moment.load_max);
        self.result.moments.push(moment);
        if let Some(every_ms) = every_ms.filter(|every_ms| self.at_ms + every_ms <= self.end_ms) {
            self.push(self.at_ms + every_ms, Step::Measure);
        }
    }
}
