//! How a simulated box serves what it holds.

use std::collections::BTreeSet;

use super::Arrival;
use crate::domain::Amounts;

/// The order in which a box serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discipline {
    /// One at a time, in the order of arrival; service is ⌊work ÷ speed⌋ whole milliseconds.
    Fifo,
    /// All at once, each with an equal share of the speed.
    ProcessorSharing,
    /// Every ball stays as long as it stays, whoever else is there (sessions, seats).
    Stay,
}

/// Service in progress on one box.
pub(super) struct Service {
    discipline: Discipline,
    /// Arrival index of every ball held, by the order in which they end.
    held: BTreeSet<(u64, usize)>,
    free_at_ms: u64,
    /// Processor sharing: work given to each ball since the start, in millionths of a millisecond.
    given: u64,
    given_at_ms: u64,
    /// Goes up with every change, so that overtaken moments are known.
    epoch: u64,
}

/// Fixed-point scale of processor sharing: exact sums, no drift.
const SCALE: f64 = 1e6;

impl Service {
    pub fn new(discipline: Discipline) -> Self {
        Self { discipline, held: BTreeSet::new(), free_at_ms: 0, given: 0, given_at_ms: 0, epoch: 0 }
    }

    pub fn start(&mut self, index: usize, service_ms: f64, speed: f64, at_ms: u64) {
        self.epoch += 1;
        let key = match self.discipline {
            Discipline::Fifo => {
                self.free_at_ms = self.free_at_ms.max(at_ms) + (service_ms / speed) as u64;
                self.free_at_ms
            }
            Discipline::Stay => at_ms + service_ms as u64,
            Discipline::ProcessorSharing => {
                self.give(speed, at_ms);
                self.given + (service_ms * SCALE) as u64
            }
        };
        self.held.insert((key, index));
    }

    /// Processor sharing: hand out the work done since the last change.
    fn give(&mut self, speed: f64, at_ms: u64) {
        if !self.held.is_empty() {
            let each = (at_ms - self.given_at_ms) as f64 * speed / self.held.len() as f64;
            self.given += (each * SCALE) as u64;
        }
        self.given_at_ms = at_ms;
    }

    /// When the first ball ends, if nothing changes before: (time, epoch).
    pub fn next_finish(&self, speed: f64, at_ms: u64) -> Option<(u64, u64)> {
        let (key, _) = *self.held.first()?;
        let finish_ms = match self.discipline {
            Discipline::Fifo | Discipline::Stay => key,
            Discipline::ProcessorSharing => {
                let left = key.saturating_sub(self.given) as f64 / SCALE;
                self.given_at_ms + libm::ceil(left * self.held.len() as f64 / speed) as u64
            }
        };
        Some((finish_ms.max(at_ms), self.epoch))
    }

    /// End the first ball; `None` when the moment was overtaken by a change.
    pub fn finish(&mut self, epoch: u64, speed: f64, at_ms: u64) -> Option<usize> {
        if epoch != self.epoch {
            return None;
        }
        self.epoch += 1;
        if self.discipline == Discipline::ProcessorSharing {
            self.give(speed, at_ms);
        }
        let (_, index) = self.held.pop_first()?;
        Some(index)
    }

    pub fn held(&self, arrivals: &[Arrival]) -> Amounts {
        let mut sum = Amounts::ZERO;
        self.held.iter().for_each(|(_, index)| sum.add(&arrivals[*index].ball.demand));
        sum
    }
}
