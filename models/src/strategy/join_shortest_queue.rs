//! `join_shortest_queue`: the fewest balls, this one included, for its weight.
//!
//! It counts balls and knows nothing of their size: (count + 1) ÷ weight, ties to the faster box.

use super::{Ranking, Scored, View};

/// Rank by (live balls + 1) ÷ weight.
pub fn rank(view: &View, ranking: &mut Ranking) {
    view.each(ranking, |ranking, position, state| {
        let score = (state.live_count() + 1) as f64 * state.inverse_weight();
        ranking.offer(Scored { score, tie: -state.spec.speed, position });
    });
}
