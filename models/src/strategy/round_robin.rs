//! `round_robin`: every box in turn, each alike; `smooth_round_robin` goes by weight.

use super::{Ranking, Scored, View};

/// Rank by how long ago a box got its last ball; longest first, then in the order of ids.
pub fn rank(view: &View, ranking: &mut Ranking) {
    view.each(ranking, |ranking, position, state| {
        ranking.offer(Scored { score: state.last_lease_id() as f64, tie: 0.0, position });
    });
}
