//! The simulation kernel: arrivals and boxes in, the engine's own events out.
//!
//! The engine is the server's; only time, the boxes' service and their reports are simulated. Runs
//! are functions of the scenario: the same scenario gives the same events, bit for bit.

mod service;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

pub use service::Discipline;
use service::Service;

use crate::config::FleetConfig;
use crate::domain::{Ball, BoxReport, BoxSpec, DIMENSIONS, Dimension, Outcome, Usage};
use crate::engine::{Engine, Stamp};
use crate::event::Event;
use crate::fleet::Fleet;
use crate::forecast::ForecastModel;
use crate::policy::PlacementPolicy;

/// A ball on its way.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrival {
    /// When it comes, in engine milliseconds.
    pub at_ms: u64,
    /// What its sender says of it.
    pub ball: Arc<Ball>,
    /// The truth: service it needs at speed 1 (or stay, for [`Discipline::Stay`]), in milliseconds.
    pub service_ms: f64,
}

/// Load that others put on a box, from `at_ms` until the next entry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Background {
    /// Since when, in engine milliseconds.
    pub at_ms: u64,
    /// Use by dimension, in public units; `None`: the box has no such meter.
    pub usage: [Option<f64>; DIMENSIONS],
}

/// A box as it really is.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedBox {
    /// What it registers.
    pub spec: BoxSpec,
    /// How it serves.
    pub discipline: Discipline,
    /// Load by others, sorted by time; empty: none.
    pub background: Vec<Background>,
}

/// Everything a run depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// The fleet's configuration, seed and strategy included.
    pub config: FleetConfig,
    /// The boxes.
    pub boxes: Vec<SimulatedBox>,
    /// The balls, sorted by time.
    pub arrivals: Vec<Arrival>,
    /// Time between two reports of a box, in milliseconds; `None`: boxes never report.
    pub report_every_ms: Option<u64>,
    /// Decisions count in the result from this time on, in engine milliseconds.
    pub measured_from_ms: u64,
}

/// What came of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Simulated {
    /// Time in the system by arrival, in milliseconds; `None`: refused.
    pub time_in_system_ms: Vec<Option<u64>>,
    /// Sum of the times in the system, in milliseconds.
    pub total_ms: u64,
    /// Arrivals that no box could take, by class.
    pub refused: [u64; 3],
    /// Mean over report moments of the standard deviation of true load over boxes.
    pub imbalance: f64,
    /// Share of (box, report moment) pairs with a true load above 1.
    pub overload_share: f64,
    /// Highest true load of any box at any report moment.
    pub load_max: f64,
    /// Events the engine made.
    pub events: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    // In the order in which moments of the same time happen.
    Finish { position: usize, epoch: u64 },
    Report { position: usize },
    Arrive { index: usize },
}

/// Run `scenario` with the forecast `model`, calling `observe` with every event.
pub fn simulate(
    scenario: &Scenario,
    model: Option<(Arc<str>, Arc<ForecastModel>)>,
    observe: &mut dyn FnMut(&Event),
) -> Simulated {
    Run::new(scenario, model, None).go(observe)
}

/// Run `scenario` with a placement policy, calling `observe` with every event.
pub fn simulate_policy(
    scenario: &Scenario,
    policy: (Arc<str>, Arc<PlacementPolicy>),
    observe: &mut dyn FnMut(&Event),
) -> Simulated {
    Run::new(scenario, None, Some(policy)).go(observe)
}

struct Run<'a> {
    scenario: &'a Scenario,
    engine: Engine,
    services: Vec<Service>,
    background: Vec<usize>,
    queue: BinaryHeap<Reverse<(u64, Moment)>>,
    at_ms: u64,
    end_ms: u64,
    leases: Vec<Option<u64>>,
    loads: Vec<f64>,
    moments: u64,
    overloads: u64,
    events: Vec<Event>,
    result: Simulated,
}

impl<'a> Run<'a> {
    fn new(
        scenario: &'a Scenario,
        model: Option<(Arc<str>, Arc<ForecastModel>)>,
        policy: Option<(Arc<str>, Arc<PlacementPolicy>)>,
    ) -> Self {
        let boxes = scenario.boxes.len();
        let mut run = Self {
            scenario,
            engine: Engine::new(Fleet::new(scenario.config.clone())),
            services: scenario.boxes.iter().map(|b| Service::new(b.discipline)).collect(),
            background: vec![0; boxes],
            queue: BinaryHeap::new(),
            at_ms: 0,
            end_ms: scenario.arrivals.last().map_or(0, |arrival| arrival.at_ms),
            leases: vec![None; scenario.arrivals.len()],
            loads: vec![0.0; boxes],
            moments: 0,
            overloads: 0,
            events: Vec::new(),
            result: Simulated {
                time_in_system_ms: vec![None; scenario.arrivals.len()],
                ..Simulated::default()
            },
        };
        run.start(model, policy);
        run
    }

    fn go(mut self, observe: &mut dyn FnMut(&Event)) -> Simulated {
        while let Some(Reverse((at_ms, moment))) = self.queue.pop() {
            self.at_ms = at_ms;
            match moment {
                Moment::Arrive { index } => self.arrive(index),
                Moment::Finish { position, epoch } => self.finish(position, epoch),
                Moment::Report { position } => self.report(position),
            }
            self.result.events += self.events.len() as u64;
            self.events.drain(..).for_each(|event| observe(&event));
        }
        self.summarise()
    }

    fn stamp(&self) -> Stamp {
        Stamp { at_ms: self.at_ms, wall_ms: self.at_ms }
    }

    /// Configure, activate and register, as a server's first requests do.
    fn start(
        &mut self,
        model: Option<(Arc<str>, Arc<ForecastModel>)>,
        policy: Option<(Arc<str>, Arc<PlacementPolicy>)>,
    ) {
        let first_ms = self.scenario.arrivals.first().map_or(0, |arrival| arrival.at_ms);
        // Reports begin a day before, so that histories are full when the first ball comes.
        self.at_ms = self
            .scenario
            .boxes
            .iter()
            .filter_map(|b| b.background.first())
            .map(|background| background.at_ms)
            .fold(first_ms, u64::min);
        let stamp = self.stamp();
        if model.is_some() {
            self.engine.activate(model, stamp, &mut self.events);
        }
        if policy.is_some() {
            self.engine.activate_policy(policy, stamp, &mut self.events);
        }
        for (position, simulated) in self.scenario.boxes.iter().enumerate() {
            // The scenario's author checks its specifications; a refused box takes no balls.
            let _ = self.engine.register(simulated.spec.clone(), stamp, &mut self.events);
            if self.scenario.report_every_ms.is_some() {
                self.queue.push(Reverse((self.at_ms, Moment::Report { position })));
            }
        }
        if !self.scenario.arrivals.is_empty() {
            self.queue.push(Reverse((first_ms, Moment::Arrive { index: 0 })));
        }
    }

    fn arrive(&mut self, index: usize) {
        let arrival = &self.scenario.arrivals[index];
        if let Some(next) = self.scenario.arrivals.get(index + 1) {
            let at_ms = next.at_ms.max(self.at_ms);
            self.queue.push(Reverse((at_ms, Moment::Arrive { index: index + 1 })));
        }
        let stamp = self.stamp();
        let answer = self.engine.allocate(arrival.ball.clone(), stamp, &mut self.events);
        let placed = answer.ok().and_then(|a| Some((a.lease_id?, a.decision.box_id()?.clone())));
        let Some((lease_id, box_id)) = placed else {
            self.result.refused[arrival.ball.class as usize] += 1;
            return;
        };
        self.leases[index] = Some(lease_id);
        let found = self.scenario.boxes.iter().position(|b| b.spec.box_id == box_id);
        let Some(position) = found else { return };
        let speed = self.scenario.boxes[position].spec.speed;
        self.services[position].start(index, arrival.service_ms, speed, self.at_ms);
        self.expect_finish(position);
    }

    fn expect_finish(&mut self, position: usize) {
        let speed = self.scenario.boxes[position].spec.speed;
        if let Some((at_ms, epoch)) = self.services[position].next_finish(speed, self.at_ms) {
            self.queue.push(Reverse((at_ms, Moment::Finish { position, epoch })));
        }
    }

    fn finish(&mut self, position: usize, epoch: u64) {
        let speed = self.scenario.boxes[position].spec.speed;
        let Some(index) = self.services[position].finish(epoch, speed, self.at_ms) else {
            return;
        };
        let arrival = &self.scenario.arrivals[index];
        let stayed_ms = self.at_ms - arrival.at_ms;
        self.result.time_in_system_ms[index] = Some(stayed_ms);
        self.result.total_ms += stayed_ms;
        if let Some(lease_id) = self.leases[index].take() {
            let outcome = Outcome { succeeded: true, latency_ms: Some(stayed_ms) };
            let stamp = self.stamp();
            // A lease that has expired meanwhile is the scenario's finding, not an error here.
            let owner = arrival.ball.key();
            let _ = self.engine.complete(lease_id, owner, outcome, stamp, &mut self.events);
        }
        self.expect_finish(position);
    }

    fn report(&mut self, position: usize) {
        let Some(every_ms) = self.scenario.report_every_ms else {
            return;
        };
        let simulated = &self.scenario.boxes[position];
        let cursor = &mut self.background[position];
        while simulated.background.get(*cursor + 1).is_some_and(|next| next.at_ms <= self.at_ms) {
            *cursor += 1;
        }
        let background = simulated.background.get(*cursor).map_or([None; DIMENSIONS], |b| b.usage);
        let held = self.services[position].held(&self.scenario.arrivals);
        let mut usage = [None; DIMENSIONS];
        let mut load = 0.0_f64;
        for dimension in Dimension::ALL {
            let d = dimension as usize;
            let Some(capacity) = simulated.spec.capacity.0[d] else {
                continue;
            };
            let used = background[d].unwrap_or(0.0) + dimension.to_public(held.0[d]);
            usage[d] = Some(used);
            load = load.max(used / dimension.to_public(capacity.max(1)));
        }
        let mut report = BoxReport::new(&simulated.spec.box_id, self.at_ms);
        report.usage = Usage::from_array(usage);
        report.last_accepted_lease_id = Some(self.engine.fleet().seq());
        let stamp = self.stamp();
        // Every simulated box is registered, so the report is taken.
        let _ = self.engine.report(report, stamp, &mut self.events);
        self.loads[position] = load;
        if position + 1 == self.scenario.boxes.len() && self.at_ms >= self.scenario.measured_from_ms {
            self.measure();
        }
        if self.at_ms + every_ms <= self.end_ms {
            self.queue.push(Reverse((self.at_ms + every_ms, Moment::Report { position })));
        }
    }

    fn measure(&mut self) {
        let count = self.loads.len() as f64;
        let mean = self.loads.iter().sum::<f64>() / count;
        let variance = self.loads.iter().map(|l| (l - mean) * (l - mean)).sum::<f64>() / count;
        self.moments += 1;
        self.result.imbalance += libm::sqrt(variance);
        self.overloads += self.loads.iter().filter(|load| **load > 1.0).count() as u64;
        let highest = self.loads.iter().copied().fold(0.0, f64::max);
        self.result.load_max = self.result.load_max.max(highest);
    }

    fn summarise(mut self) -> Simulated {
        if self.moments > 0 {
            let moments = self.moments as f64;
            self.result.imbalance /= moments;
            self.result.overload_share = self.overloads as f64 / (moments * self.loads.len() as f64);
        }
        self.result
    }
}
