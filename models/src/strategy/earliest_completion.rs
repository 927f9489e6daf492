//! `earliest_completion`: the box on which this very ball ends first.

use super::{Ranking, Scored, View};

/// Rank by milliseconds of work left plus this ball's own service there, divided by weight.
pub fn rank(view: &View, ranking: &mut Ranking) {
    let (at_ms, work_ms) = (view.at_ms(), view.work_ms());
    view.each(ranking, |ranking, position, state| {
        let end_ms = state.work_left_ms(at_ms) + state.service_ms(work_ms);
        let score = end_ms as f64 * state.inverse_weight();
        ranking.offer(Scored { score, tie: -state.spec.speed, position });
    });
}
