//! `learned`: the trained placement policy over a short list of boxes.
//!
//! One scan folds the pool and keeps the [`SHORT_LIST`] boxes with the least work left and as many that
//! would end the ball first; only those are scored. A score that is no number spoils the ranking, and the
//! caller decides by the rule.

use super::{Ranking, Scored, View, least_work_left};
use crate::fleet::BoxState;
use crate::policy::features::Pool;
use crate::policy::{BoxInput, SHORT_LIST};

/// The boxes with the least keys so far, unordered.
struct Shortest {
    entries: [(f64, u32); SHORT_LIST],
    count: usize,
    /// Index of the largest key.
    worst: usize,
}

impl Shortest {
    fn new() -> Self {
        Self { entries: [(f64::INFINITY, u32::MAX); SHORT_LIST], count: 0, worst: 0 }
    }

    #[inline]
    fn offer(&mut self, key: f64, position: u32) {
        if self.count < SHORT_LIST {
            self.entries[self.count] = (key, position);
            self.count += 1;
        } else if key < self.entries[self.worst].0 {
            self.entries[self.worst] = (key, position);
        } else {
            return;
        }
        let worst = |best: usize, index: usize| {
            if self.entries[index].0 > self.entries[best].0 { index } else { best }
        };
        self.worst = (1..self.count).fold(0, worst);
    }

    fn positions(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries[..self.count].iter().map(|entry| entry.1)
    }
}

/// Rank by the policy's score; by least work left where no policy is active, which `decide_by` prevents.
pub fn rank(view: &View, ranking: &mut Ranking) {
    let Some(policy) = view.policy() else {
        return least_work_left::rank(view, ranking, least_work_left::Tie::Faster);
    };
    let (at_ms, work_ms) = (view.at_ms(), view.work_ms());
    let input = |state: &BoxState| BoxInput {
        work_left_ms: state.work_left_ms(at_ms) as f64 * state.inverse_weight(),
        service_ms: state.service_ms(work_ms) as f64 * state.inverse_weight(),
        speed: state.spec.speed,
        live: state.live_count(),
    };
    let (mut pool, mut least, mut first) = (Pool::default(), Shortest::new(), Shortest::new());
    view.each(ranking, |_, position, state| {
        let one = input(state);
        pool.add(&one);
        // Equal keys: the faster box, as the rule has it.
        let tie = 1e-9 * one.speed.min(1e3);
        least.offer(one.work_left_ms - tie, position);
        first.offer(one.work_left_ms + one.service_ms - tie, position);
    });
    let begun = policy.scorer.begin(&pool.features(&policy.scale, work_ms));
    let mut listed = [u32::MAX; 2 * SHORT_LIST];
    let mut count = 0;
    for position in least.positions().chain(first.positions()) {
        if !listed[..count].contains(&position) {
            listed[count] = position;
            count += 1;
        }
    }
    for &position in &listed[..count] {
        let state = view.at(position);
        let score = policy.scorer.score(&begun, &pool.box_features(&policy.scale, &input(state)));
        if !score.is_finite() {
            ranking.spoil();
        }
        ranking.offer(Scored { score: f64::from(score), tie: -state.spec.speed, position });
    }
}
