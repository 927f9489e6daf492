//! The environment policies are trained in: first-in-first-out boxes, one decision an arrival.
//!
//! STATE: per box, work left, service of this ball, their sum, work left above the least, speed, balls
//! held, idleness; per decision, the ball's work and the pool's mean and least work left, earliest end and
//! idle speed ([`berth_models::policy::features`], the server's own code).
//! ACTION: the box, the one with the least score.
//! REWARD: −(time in the system), the suite's own score, as the ratio of an episode's total to the
//! reference's on the same arrivals.
//! REFERENCE: the best rule (least work left or earliest completion) on the same arrivals.
//!
//! The simulation kernel reaches the same totals through the engine, decision by decision (see the tests);
//! this one keeps a queue and nothing else, and is about ten times as fast.

use std::collections::VecDeque;

use berth_models::policy::features::{BOX_FEATURES, POOL_FEATURES, Pool};
use berth_models::policy::{BoxInput, Scale, Scorer};
use berth_models::strategy::StrategyName;

use super::traffic::Trace;

/// Who chooses the box.
#[derive(Debug, Clone, Copy)]
pub enum Chooser<'a> {
    /// The box whose queue ends first; ties to the faster.
    LeastWorkLeft,
    /// The box on which this ball ends first; ties to the faster.
    EarliestCompletion,
    /// A scorer.
    Scorer(&'a Scorer, &'a Scale),
}

/// The rules a policy is measured against.
pub const RULES: [(StrategyName, Chooser<'static>); 2] = [
    (StrategyName::LeastWorkLeft, Chooser::LeastWorkLeft),
    (StrategyName::EarliestCompletion, Chooser::EarliestCompletion),
];

/// Hears of a decision: the pool and the ball's work, and the boxes.
type Observe<'a> = dyn FnMut((&Pool, f64), &[BoxInput]) + 'a;

/// Boxes between two arrivals. Reused between episodes.
#[derive(Debug, Clone)]
pub struct Environment {
    speeds: Vec<f64>,
    free_at_ms: Vec<u64>,
    ends_ms: Vec<VecDeque<u64>>,
    inputs: Vec<BoxInput>,
}

impl Environment {
    /// Idle boxes of these speeds.
    #[must_use]
    pub fn new(speeds: &[f64]) -> Self {
        let idle = BoxInput { work_left_ms: 0.0, service_ms: 0.0, speed: 0.0, live: 0 };
        Self {
            speeds: speeds.to_vec(),
            free_at_ms: vec![0; speeds.len()],
            ends_ms: vec![VecDeque::new(); speeds.len()],
            inputs: vec![idle; speeds.len()],
        }
    }

    /// Play `trace` from idle boxes; the total time in the system, in milliseconds.
    pub fn play(&mut self, trace: &Trace, chooser: Chooser<'_>) -> u64 {
        self.play_observed(trace, chooser, &mut |_, _| {})
    }

    /// As [`Self::play`], with the first `rule_first` balls by least work left, as a server that does not
    /// know the load yet.
    pub fn play_after(&mut self, trace: &Trace, rule_first: usize, chooser: Chooser<'_>) -> u64 {
        let mut left = rule_first;
        self.run(trace, &mut |environment, pool, work_ms| {
            let is_rule = left > 0;
            left = left.saturating_sub(1);
            environment.choose(pool, work_ms, if is_rule { Chooser::LeastWorkLeft } else { chooser })
        })
    }

    /// As [`Self::play`], calling `observe` with every decision's pool (and the ball's work) and boxes.
    pub fn play_observed(&mut self, trace: &Trace, chooser: Chooser<'_>, observe: &mut Observe<'_>) -> u64 {
        self.run(trace, &mut |environment, pool, work_ms| {
            observe((pool, work_ms), &environment.inputs);
            environment.choose(pool, work_ms, chooser)
        })
    }

    fn run(&mut self, trace: &Trace, choose: &mut dyn FnMut(&Self, &Pool, f64) -> usize) -> u64 {
        self.free_at_ms.fill(0);
        self.ends_ms.iter_mut().for_each(VecDeque::clear);
        let mut total_ms = 0;
        for &(at_ms, work_ms) in &trace.arrivals {
            let pool = self.look(at_ms, work_ms);
            let chosen = choose(self, &pool, work_ms);
            let end_ms = self.free_at_ms[chosen].max(at_ms) + (work_ms / self.speeds[chosen]) as u64;
            self.free_at_ms[chosen] = end_ms;
            self.ends_ms[chosen].push_back(end_ms);
            total_ms += end_ms - at_ms;
        }
        total_ms
    }

    fn look(&mut self, at_ms: u64, work_ms: f64) -> Pool {
        let mut pool = Pool::default();
        for (index, input) in self.inputs.iter_mut().enumerate() {
            let ends = &mut self.ends_ms[index];
            while ends.front().is_some_and(|end_ms| *end_ms <= at_ms) {
                ends.pop_front();
            }
            *input = BoxInput {
                work_left_ms: self.free_at_ms[index].saturating_sub(at_ms) as f64,
                service_ms: (work_ms / self.speeds[index]).trunc(),
                speed: self.speeds[index],
                live: ends.len(),
            };
            pool.add(input);
        }
        pool
    }

    fn choose(&self, pool: &Pool, work_ms: f64, chooser: Chooser<'_>) -> usize {
        match chooser {
            Chooser::LeastWorkLeft => self.least(|input| input.work_left_ms),
            Chooser::EarliestCompletion => self.least(|input| input.work_left_ms + input.service_ms),
            Chooser::Scorer(scorer, scale) => {
                let begun = scorer.begin(&pool.features(scale, work_ms));
                self.least(|input| f64::from(scorer.score(&begun, &pool.box_features(scale, input))))
            }
        }
    }

    /// The box with the least score; ties to the faster.
    fn least(&self, score: impl Fn(&BoxInput) -> f64) -> usize {
        let mut best = (f64::INFINITY, 0.0, 0);
        for (index, input) in self.inputs.iter().enumerate() {
            let score = score(input);
            if score < best.0 || (score == best.0 && input.speed > best.1) {
                best = (score, input.speed, index);
            }
        }
        best.2
    }
}

/// All features of one box as one row, pool first.
#[must_use]
pub fn row(pool: &[f32; POOL_FEATURES], one: &[f32; BOX_FEATURES]) -> [f32; POOL_FEATURES + BOX_FEATURES] {
    let mut row = [0.0; POOL_FEATURES + BOX_FEATURES];
    row[..POOL_FEATURES].copy_from_slice(pool);
    row[POOL_FEATURES..].copy_from_slice(one);
    row
}
