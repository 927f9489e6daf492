//! A run in progress: the queue of what happens next, the boxes as they are, one engine a scheduler.

mod boxes;
mod reports;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::result::Simulated;
use super::service::{Service, Surroundings};
use super::{Artifact, Discipline, PolicyArtifact, Scenario};
use crate::chance::{draw_of, unit};
use crate::domain::{Amounts, BoxReport, DIMENSIONS, Dimension, Outcome, Stage};
use crate::engine::{Engine, Stamp};
use crate::event::Event;
use crate::fleet::Fleet;
use crate::forecast::Foresight;

/// Streams of chance besides the engines' own.
const HOME_STREAM: u64 = 0x686f_6d65;
const REPORT_STREAM: u64 = 0x7265_706f;
/// A ball sent to a box that is down learns of it after this long, in milliseconds.
const FAIL_MS: u64 = 10;

/// In the order in which steps of the same time happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Finish { position: usize, epoch: u64 },
    GiveUp { index: usize },
    Change { number: usize },
    Shift { position: usize },
    Warm { position: usize },
    Report { position: usize },
    Deliver { number: u64 },
    Measure,
    Scale,
    Start { position: usize },
    Arrive { index: usize },
}

/// A box as it is.
#[derive(Clone)]
struct Place {
    service: Service,
    demand: Amounts,
    background: usize,
    speed: f64,
    stolen: f64,
    warmth: f64,
    is_up: bool,
    is_draining: bool,
    up_since_ms: u64,
    epoch: u64,
}

/// One scheduler.
#[derive(Clone)]
struct Scheduler {
    engine: Engine,
    /// Position of a box in the scenario by its handle in the engine.
    positions: Vec<usize>,
}

/// A simulation that can be stopped, copied and gone on with.
#[derive(Clone)]
pub struct Simulation<'a> {
    scenario: &'a Scenario,
    schedulers: Vec<Scheduler>,
    places: Vec<Place>,
    queue: BinaryHeap<Reverse<(u64, Step)>>,
    at_ms: u64,
    /// Before the first ball everything is history.
    first_ms: u64,
    end_ms: u64,
    /// By arrival: lease, scheduler and box, while it is on one.
    leases: Vec<Option<(u64, u32, u32)>>,
    /// Reports under way, by number: to which scheduler.
    reports: BTreeMap<u64, (usize, BoxReport)>,
    reports_sent: u64,
    ordered: usize,
    overloads: u64,
    looked_at: u64,
    events: Vec<Event>,
    result: Simulated,
}

impl<'a> Simulation<'a> {
    /// A simulation at its beginning.
    #[must_use]
    pub fn new(scenario: &'a Scenario, model: Option<Artifact>) -> Self {
        let first_ms = scenario.arrivals.first().map_or(0, |arrival| arrival.at_ms);
        // Reports begin with the backgrounds, so that histories are full when the first ball comes.
        let backgrounds = scenario.boxes.iter().filter_map(|b| b.background.first());
        let at_ms = backgrounds.map(|background| background.at_ms).fold(first_ms, u64::min);
        let scheduler =
            || Scheduler { engine: Engine::new(Fleet::new(scenario.config.clone())), positions: Vec::new() };
        let place = |simulated: &super::SimulatedBox| Place {
            service: Service::new(simulated.discipline),
            demand: Amounts::ZERO,
            background: 0,
            speed: simulated.spec.speed,
            stolen: 0.0,
            warmth: 1.0,
            is_up: false,
            is_draining: false,
            up_since_ms: at_ms,
            epoch: 0,
        };
        let mut run = Self {
            scenario,
            schedulers: (0..scenario.conditions.schedulers.max(1)).map(|_| scheduler()).collect(),
            places: scenario.boxes.iter().map(place).collect(),
            queue: BinaryHeap::new(),
            at_ms,
            first_ms,
            end_ms: scenario.arrivals.last().map_or(0, |arrival| arrival.at_ms),
            leases: vec![None; scenario.arrivals.len()],
            reports: BTreeMap::new(),
            reports_sent: 0,
            ordered: 0,
            overloads: 0,
            looked_at: 0,
            events: Vec::new(),
            result: Simulated::default(),
        };
        run.result.time_in_system_ms = vec![None; scenario.arrivals.len()];
        run.start(model, first_ms);
        run
    }

    /// Configure, activate and register, as a server's first requests do.
    fn start(&mut self, model: Option<Artifact>, first_ms: u64) {
        let stamp = self.stamp();
        for scheduler in &mut self.schedulers {
            if model.is_some() {
                scheduler.engine.activate(model.clone(), stamp, &mut self.events);
            }
        }
        let conditions = &self.scenario.conditions;
        let scaling = conditions.scaling;
        let running = scaling.map_or(self.places.len(), |scaling| scaling.boxes_min.min(self.places.len()));
        self.ordered = running;
        (0..running).for_each(|position| self.bring_up(position, self.scenario.boxes[position].spec.stage));
        for (number, (at_ms, ..)) in conditions.changes.iter().enumerate() {
            self.push(*at_ms, Step::Change { number });
        }
        if let Some(scaling) = scaling {
            self.push(first_ms, Step::Scale);
            debug_assert!(scaling.every_ms > 0, "a look every moment never ends");
        }
        if conditions.measure_every_ms.is_some() || self.scenario.report_every_ms.is_some() {
            self.push(self.scenario.measured_from_ms.max(self.at_ms), Step::Measure);
        }
        if !self.scenario.arrivals.is_empty() {
            self.push(first_ms, Step::Arrive { index: 0 });
        }
    }

    /// Go on with another scenario of the same boxes, conditions and times: another strategy, or
    /// other words of the same balls.
    pub fn resume(&mut self, scenario: &'a Scenario) {
        self.scenario = scenario;
        let stamp = self.stamp();
        for scheduler in &mut self.schedulers {
            // The engine counts the version up; a configuration that is refused leaves the old one,
            // and the suites' tests check theirs.
            let _ = scheduler.engine.configure(scenario.config.clone(), stamp, &mut self.events);
        }
    }

    /// Hand in what stands in for the model's forecasts from the next reports on.
    pub fn set_foresight(&mut self, foresight: Option<&Foresight>) {
        for scheduler in &mut self.schedulers {
            scheduler.engine.set_foresight(foresight.cloned());
        }
    }

    /// Make a placement policy the active one of every scheduler.
    pub fn activate_policy(&mut self, policy: &PolicyArtifact) {
        let stamp = self.stamp();
        for scheduler in &mut self.schedulers {
            scheduler.engine.activate_policy(Some(policy.clone()), stamp, &mut self.events);
        }
    }

    /// Take the model away from the next reports on.
    pub fn forget_model(&mut self) {
        let stamp = self.stamp();
        for scheduler in &mut self.schedulers {
            scheduler.engine.activate(None, stamp, &mut self.events);
        }
    }

    /// Positions of the boxes that a scheduler knows, in the order of their registration.
    #[must_use]
    pub fn registered(&self, scheduler: usize) -> &[usize] {
        &self.schedulers[scheduler].positions
    }

    /// Run everything that happens before `until_ms`.
    pub fn run_until(&mut self, until_ms: u64, observe: &mut dyn FnMut(&Event)) {
        while let Some(Reverse((at_ms, step))) = self.queue.peek().copied() {
            if at_ms >= until_ms {
                break;
            }
            self.queue.pop();
            self.at_ms = at_ms;
            self.take(step);
            self.result.events += self.events.len() as u64;
            self.events.drain(..).for_each(|event| observe(&event));
        }
    }

    /// The result, once everything has been run.
    #[must_use]
    pub fn finish(mut self) -> Simulated {
        let boxes = self.places.iter().filter(|place| place.is_up);
        self.result.box_ms += boxes.map(|place| self.at_ms - place.up_since_ms).sum::<u64>();
        let hours = self.result.box_ms as f64 / 3_600_000.0;
        self.result.price = hours * self.scenario.conditions.box_price_per_hour;
        if !self.result.moments.is_empty() {
            self.result.imbalance /= self.result.moments.len() as f64;
            self.result.overload_share = self.overloads as f64 / self.looked_at.max(1) as f64;
        }
        self.result
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Arrive { index } => self.arrive(index),
            Step::Finish { position, epoch } => self.finish_first(position, epoch),
            Step::GiveUp { index } => self.give_up(index),
            Step::Change { number } => self.change(number),
            Step::Shift { position } => self.shift(position),
            Step::Warm { position } => {
                self.settle(position);
                self.places[position].warmth = 1.0;
                self.expect_finish(position);
            }
            Step::Report { position } => self.report(position),
            Step::Deliver { number } => {
                if let Some((scheduler, report)) = self.reports.remove(&number) {
                    self.deliver(scheduler, report);
                }
            }
            Step::Measure => self.measure(),
            Step::Scale => self.scale(),
            Step::Start { position } => self.bring_up(position, Stage::Warming),
        }
    }

    fn push(&mut self, at_ms: u64, step: Step) {
        self.queue.push(Reverse((at_ms, step)));
    }

    fn stamp(&self) -> Stamp {
        Stamp { at_ms: self.at_ms, wall_ms: self.at_ms }
    }

    fn owns(&self, scheduler: usize, position: usize) -> bool {
        !self.scenario.conditions.pooled || position % self.schedulers.len() == scheduler
    }

    fn speed(&self, position: usize) -> f64 {
        let place = &self.places[position];
        place.speed * place.warmth * (1.0 - place.stolen)
    }

    /// Use by others now, in public units.
    fn background(&self, position: usize) -> [f64; DIMENSIONS] {
        let simulated = &self.scenario.boxes[position];
        let now = simulated.background.get(self.places[position].background);
        let mut usage = now.map_or([0.0; DIMENSIONS], |b| b.usage.map(|used| used.unwrap_or(0.0)));
        if let Some(cores) = simulated.spec.capacity.0[Dimension::CpuCores as usize] {
            let stolen = self.places[position].stolen;
            usage[Dimension::CpuCores as usize] += stolen * Dimension::CpuCores.to_public(cores);
        }
        usage
    }

    /// Largest of use ÷ capacity, by what is wanted.
    fn load(&self, position: usize) -> f64 {
        let background = self.background(position);
        let place = &self.places[position];
        let capacity = &self.scenario.boxes[position].spec.capacity;
        let load = |dimension: Dimension| {
            let d = dimension as usize;
            let wanted = background[d] + dimension.to_public(place.demand.0[d]);
            capacity.0[d].map(|capacity| wanted / dimension.to_public(capacity.max(1)))
        };
        Dimension::ALL.into_iter().filter_map(load).fold(0.0, f64::max)
    }

    /// Largest of use ÷ capacity, by what meters show.
    fn utilisation(&self, position: usize) -> f64 {
        match &self.places[position].service {
            Service::Clocked(_) => self.load(position),
            Service::Link(link) => {
                let d = Dimension::BandwidthBps as usize;
                let capacity = self.scenario.boxes[position].spec.capacity.0[d].unwrap_or(1).max(1);
                (self.background(position)[d] + link.used_bps()) / capacity as f64
            }
        }
    }

    /// Hand out the service done so far, before anything about a box changes.
    fn settle(&mut self, position: usize) {
        self.places[position].service.settle(self.at_ms);
    }

    /// Set a box's pace after something about it changed, and expect its next end.
    fn expect_finish(&mut self, position: usize) {
        let discipline = self.scenario.boxes[position].discipline;
        let contends = discipline == Discipline::Contended;
        let mut surroundings = Surroundings { speed: self.speed(position), load: 0.0, link_bps: 0.0 };
        if contends {
            surroundings.load = self.load(position);
        }
        if discipline == Discipline::Bandwidth {
            let d = Dimension::BandwidthBps as usize;
            let capacity = self.scenario.boxes[position].spec.capacity.0[d].unwrap_or(0) as f64;
            surroundings.link_bps = capacity * self.places[position].warmth - self.background(position)[d];
        }
        let at_ms = self.at_ms;
        let place = &mut self.places[position];
        place.service.pace(surroundings);
        place.epoch += 1;
        let epoch = place.epoch;
        if let Some(finish_ms) = place.service.next_finish_ms(at_ms) {
            self.push(finish_ms, Step::Finish { position, epoch });
        }
    }

    fn arrive(&mut self, index: usize) {
        let scenario = self.scenario;
        let arrival = &scenario.arrivals[index];
        if let Some(next) = scenario.arrivals.get(index + 1) {
            self.push(next.at_ms.max(self.at_ms), Step::Arrive { index: index + 1 });
        }
        let class = arrival.ball.class as usize;
        self.result.arrived[class] += 1;
        let count = self.schedulers.len();
        let home = if count == 1 {
            0
        } else {
            (unit(draw_of(scenario.config.seed ^ HOME_STREAM, index as u64), 0) * count as f64) as usize
        };
        let stamp = self.stamp();
        let Scheduler { engine, positions } = &mut self.schedulers[home];
        let answer = engine.allocate(arrival.ball.clone(), stamp, &mut self.events);
        let lease_id = answer.ok().and_then(|allocation| allocation.lease_id);
        let Some(lease) = lease_id.and_then(|lease_id| engine.fleet().leases().get(lease_id)) else {
            self.result.refused[class] += 1;
            return;
        };
        let position = positions[lease.box_handle as usize];
        self.leases[index] = Some((lease.lease_id, home as u32, position as u32));
        if !self.places[position].is_up {
            self.push(self.at_ms + FAIL_MS, Step::GiveUp { index });
            return;
        }
        let speed = self.speed(position);
        self.settle(position);
        let place = &mut self.places[position];
        place.service.start(index, arrival, speed, stamp.at_ms);
        place.demand.add(&arrival.demand);
        self.expect_finish(position);
        if let Some(patience_ms) = scenario.conditions.patience_ms {
            self.push(self.at_ms + patience_ms, Step::GiveUp { index });
        }
    }

    fn finish_first(&mut self, position: usize, epoch: u64) {
        if epoch != self.places[position].epoch {
            return;
        }
        self.settle(position);
        let Some(index) = self.places[position].service.finish() else {
            return;
        };
        let arrival = &self.scenario.arrivals[index];
        self.places[position].demand.subtract(&arrival.demand);
        let stayed_ms = self.at_ms - arrival.at_ms;
        self.result.time_in_system_ms[index] = Some(stayed_ms);
        self.result.total_ms += stayed_ms;
        self.complete(index, true);
        self.expect_finish(position);
    }

    /// Tell the scheduler how a ball's stay ended.
    fn complete(&mut self, index: usize, succeeded: bool) {
        let Some((lease_id, scheduler, _)) = self.leases[index].take() else {
            return;
        };
        let arrival = &self.scenario.arrivals[index];
        let outcome = Outcome { succeeded, latency_ms: Some(self.at_ms - arrival.at_ms) };
        let stamp = self.stamp();
        let engine = &mut self.schedulers[scheduler as usize].engine;
        // A lease that has expired meanwhile is the scenario's finding, not an error here.
        let _ = engine.complete(lease_id, arrival.ball.key(), outcome, stamp, &mut self.events);
    }

    /// A ball's sender gives up, or learns that its box is down.
    fn give_up(&mut self, index: usize) {
        let Some((_, _, position)) = self.leases[index] else {
            return;
        };
        let position = position as usize;
        let arrival = &self.scenario.arrivals[index];
        let class = arrival.ball.class as usize;
        self.settle(position);
        if self.places[position].service.remove(index) {
            self.places[position].demand.subtract(&arrival.demand);
            self.result.timed_out[class] += 1;
        } else {
            self.result.failed[class] += 1;
        }
        self.complete(index, false);
        self.expect_finish(position);
    }
}
