//! How a simulated box serves what it holds.

use std::collections::BTreeSet;

use super::Arrival;
use super::link::Link;
use crate::domain::{Amounts, DIMENSIONS, Dimension};

/// The order in which a box serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discipline {
    /// One at a time, in the order of arrival; service is ⌊work ÷ speed⌋ whole milliseconds, at the
    /// speed the box has when the ball comes.
    Fifo,
    /// All at once, each with an equal share of the speed.
    ProcessorSharing,
    /// Every ball stays as long as it stays, whoever else is there (sessions, seats).
    Stay,
    /// All at once at full speed while the box's use is within its capacity; above it everything
    /// slows down alike, in proportion to the load. Background counts.
    Contended,
    /// Uploads over the box's link (its `bandwidth_bps`): each gets its own speed or the max-min
    /// fair share of the link, whichever is less. `service_ms` is the time at its own speed.
    Bandwidth,
}

/// What a box is like at a moment, besides what it holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Surroundings {
    /// Relative speed now.
    pub speed: f64,
    /// Largest share of the capacity in use over the dimensions, background and balls.
    pub load: f64,
    /// What the link has for uploads, in bits a second.
    pub link_bps: f64,
}

/// Service in progress on one box.
#[derive(Clone)]
pub(super) enum Service {
    Clocked(Clocked),
    Link(Link),
}

impl Service {
    pub fn new(discipline: Discipline) -> Self {
        if discipline == Discipline::Bandwidth {
            Self::Link(Link::default())
        } else {
            Self::Clocked(Clocked::new(discipline))
        }
    }

    /// Take a ball in. [`Self::settle`] has been called for `at_ms`, and is called again after.
    pub fn start(&mut self, index: usize, arrival: &Arrival, speed: f64, at_ms: u64) {
        match self {
            Self::Clocked(clocked) => clocked.start(index, arrival.service_ms, speed, at_ms),
            Self::Link(link) => {
                let speed_bps = arrival.demand.0[Dimension::BandwidthBps as usize] as f64;
                link.start(index, speed_bps, arrival.service_ms);
            }
        }
    }

    /// Hand out the service done since the last call at the pace that held since.
    pub fn settle(&mut self, at_ms: u64) {
        match self {
            Self::Clocked(clocked) => clocked.settle(at_ms),
            Self::Link(link) => link.settle(at_ms),
        }
    }

    /// Set the pace that holds from now on.
    pub fn pace(&mut self, surroundings: Surroundings) {
        match self {
            Self::Clocked(clocked) => clocked.set_pace(surroundings),
            Self::Link(link) => link.share(surroundings.link_bps),
        }
    }

    /// When the first ball ends, if nothing changes before.
    pub fn next_finish_ms(&self, at_ms: u64) -> Option<u64> {
        match self {
            Self::Clocked(clocked) => clocked.next_finish_ms(at_ms),
            Self::Link(link) => link.next_finish_ms(at_ms),
        }
    }

    /// End the ball that [`Self::next_finish_ms`] spoke of.
    pub fn finish(&mut self) -> Option<usize> {
        match self {
            Self::Clocked(clocked) => clocked.ends.pop_first().map(|(_, index)| index),
            Self::Link(link) => link.finish(),
        }
    }

    /// Take a ball out before its end; whether it was there.
    pub fn remove(&mut self, index: usize) -> bool {
        match self {
            Self::Clocked(clocked) => {
                let found = clocked.ends.iter().find(|(_, held)| *held == index).copied();
                found.is_some_and(|key| clocked.ends.remove(&key))
            }
            Self::Link(link) => link.remove(index),
        }
    }

    /// Everything held, in the order of arrival.
    pub fn held(&self) -> Vec<usize> {
        let mut indices: Vec<usize> = match self {
            Self::Clocked(clocked) => clocked.ends.iter().map(|(_, index)| *index).collect(),
            Self::Link(link) => link.indices().collect(),
        };
        indices.sort_unstable();
        indices
    }

    pub fn count(&self) -> usize {
        match self {
            Self::Clocked(clocked) => clocked.ends.len(),
            Self::Link(link) => link.count(),
        }
    }

    /// Use by the balls as a meter on the box shows it; `demand` is the sum of what they want.
    pub fn metered(&self, demand: &Amounts) -> [f64; DIMENSIONS] {
        let mut used = Dimension::ALL.map(|d| d.to_public(demand.0[d as usize]));
        if let Self::Link(link) = self {
            used[Dimension::BandwidthBps as usize] = link.used_bps();
        }
        used
    }
}

/// Service that one clock tells: a ball ends when the clock comes to its mark.
#[derive(Clone)]
pub(super) struct Clocked {
    discipline: Discipline,
    /// Mark and arrival index of every ball held.
    ends: BTreeSet<(u64, usize)>,
    free_at_ms: u64,
    /// Sharing: service given to each ball since the start, in millionths of a millisecond.
    given: u64,
    given_at_ms: u64,
    /// Sharing: service a ball gets in a millisecond.
    pace: f64,
}

/// Fixed-point scale of shared service: exact sums, no drift.
const SCALE: f64 = 1e6;

impl Clocked {
    fn new(discipline: Discipline) -> Self {
        Self { discipline, ends: BTreeSet::new(), free_at_ms: 0, given: 0, given_at_ms: 0, pace: 0.0 }
    }

    fn is_shared(&self) -> bool {
        matches!(self.discipline, Discipline::ProcessorSharing | Discipline::Contended)
    }

    fn start(&mut self, index: usize, service_ms: f64, speed: f64, at_ms: u64) {
        let mark = match self.discipline {
            Discipline::Fifo => {
                self.free_at_ms = self.free_at_ms.max(at_ms) + (service_ms / speed) as u64;
                self.free_at_ms
            }
            Discipline::Stay => at_ms + service_ms as u64,
            _ => self.given + (service_ms * SCALE) as u64,
        };
        self.ends.insert((mark, index));
    }

    fn settle(&mut self, at_ms: u64) {
        if self.is_shared() {
            self.given += ((at_ms - self.given_at_ms) as f64 * self.pace * SCALE) as u64;
            self.given_at_ms = at_ms;
        }
    }

    fn set_pace(&mut self, surroundings: Surroundings) {
        let Surroundings { speed, load, .. } = surroundings;
        self.pace = match self.discipline {
            _ if self.ends.is_empty() => 0.0,
            Discipline::ProcessorSharing => speed / self.ends.len() as f64,
            _ => speed / load.max(1.0),
        };
    }

    fn next_finish_ms(&self, at_ms: u64) -> Option<u64> {
        let (mark, _) = *self.ends.first()?;
        let finish_ms = if self.is_shared() {
            let left = mark.saturating_sub(self.given) as f64 / SCALE;
            self.given_at_ms + libm::ceil(left / self.pace) as u64
        } else {
            mark
        };
        Some(finish_ms.max(at_ms))
    }
}
