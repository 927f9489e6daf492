//! What happens to boxes: they come up, change, crash, are started and drained.

use super::super::Change;
use super::super::scaling::Wish;
use super::{Scheduler, Simulation, Step};
use crate::domain::{Amounts, Stage};

impl Simulation<'_> {
    /// Register a box with its schedulers and let it serve.
    pub(super) fn bring_up(&mut self, position: usize, stage: Stage) {
        let conditions = &self.scenario.conditions;
        let mut spec = self.scenario.boxes[position].spec.clone();
        spec.stage = stage;
        let stamp = self.stamp();
        for scheduler in 0..self.schedulers.len() {
            if !self.owns(scheduler, position) {
                continue;
            }
            let Scheduler { engine, positions } = &mut self.schedulers[scheduler];
            let boxes = engine.fleet().boxes().len();
            // The scenario's author checks its specifications; a refused box takes no balls.
            let _ = engine.register(spec.clone(), stamp, &mut self.events);
            if engine.fleet().boxes().len() > boxes {
                positions.push(position);
            }
        }
        let place = &mut self.places[position];
        (place.is_up, place.is_draining, place.up_since_ms) = (true, false, self.at_ms);
        if stage != Stage::Mature && conditions.cold_ms > 0 {
            place.warmth = conditions.cold_speed;
            self.push(self.at_ms + conditions.cold_ms, Step::Warm { position });
        }
        if self.scenario.report_every_ms.is_some() {
            self.push(self.at_ms, Step::Report { position });
        }
        self.push(self.at_ms, Step::Shift { position });
    }

    pub(super) fn change(&mut self, number: usize) {
        let (_, position, change) = self.scenario.conditions.changes[number];
        self.settle(position);
        match change {
            Change::Speed(factor) => {
                self.places[position].speed = self.scenario.boxes[position].spec.speed * factor;
            }
            Change::Steal(share) => self.places[position].stolen = share.clamp(0.0, 0.99),
            Change::Crash => self.crash(position),
            Change::Restart => {
                if !self.places[position].is_up {
                    self.bring_up(position, Stage::Warming);
                }
            }
        }
        self.expect_finish(position);
    }

    pub(super) fn crash(&mut self, position: usize) {
        for index in self.places[position].service.held() {
            self.places[position].service.remove(index);
            self.result.failed[self.scenario.arrivals[index].ball.class as usize] += 1;
            self.complete(index, false);
        }
        self.go_down(position);
    }

    pub(super) fn go_down(&mut self, position: usize) {
        let place = &mut self.places[position];
        if place.is_up {
            self.result.box_ms += self.at_ms - place.up_since_ms;
        }
        (place.is_up, place.demand) = (false, Amounts::ZERO);
    }

    /// The background has moved on.
    pub(super) fn shift(&mut self, position: usize) {
        self.settle(position);
        let background = &self.scenario.boxes[position].background;
        let cursor = &mut self.places[position].background;
        while background.get(*cursor + 1).is_some_and(|next| next.at_ms <= self.at_ms) {
            *cursor += 1;
        }
        let next = background.get(*cursor + 1).map(|next| next.at_ms);
        if let Some(next_ms) = next.filter(|next_ms| *next_ms <= self.end_ms) {
            self.push(next_ms, Step::Shift { position });
        }
        self.expect_finish(position);
    }

    pub(super) fn scale(&mut self) {
        let Some(scaling) = self.scenario.conditions.scaling else {
            return;
        };
        self.remove_drained();
        match scaling.wish(self.schedulers[0].engine.fleet()) {
            Wish::Start if self.ordered < self.places.len() => {
                let position = self.ordered;
                self.ordered += 1;
                // It is paid for from the order on.
                self.result.box_ms += scaling.start_ms;
                self.push(self.at_ms + scaling.start_ms, Step::Start { position });
            }
            Wish::Drain if self.ordered > scaling.boxes_min && self.places[self.ordered - 1].is_up => {
                self.ordered -= 1;
                self.drain(self.ordered);
            }
            _ => {}
        }
        if self.at_ms + scaling.every_ms <= self.end_ms {
            self.push(self.at_ms + scaling.every_ms, Step::Scale);
        }
    }

    pub(super) fn drain(&mut self, position: usize) {
        self.places[position].is_draining = true;
        let box_id = &self.scenario.boxes[position].spec.box_id;
        let stamp = self.stamp();
        for scheduler in &mut self.schedulers {
            // A scheduler that doesn't own the box has nothing to drain.
            let _ = scheduler.engine.drain(box_id, stamp, &mut self.events);
        }
    }

    pub(super) fn remove_drained(&mut self) {
        for position in 0..self.places.len() {
            let place = &self.places[position];
            if place.is_up && place.is_draining && place.service.count() == 0 {
                self.go_down(position);
            }
        }
    }
}
