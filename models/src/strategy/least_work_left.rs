//! `least_work_left`: the box whose queue of accepted work ends first.
//!
//! Work is known from the balls' own statement of it; the fleet's account of it is exact for
//! first-in-first-out and processor-sharing boxes when the statements are.

use super::{Ranking, Scored, View};

/// Which box gets a ball when two have the same work left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tie {
    /// The faster one: worth 4 to 5 % on the published sets.
    Faster,
    /// The slower one, as rules that take the first of equals over boxes sorted by speed do.
    Slower,
}

/// Rank by milliseconds of work left, divided by weight.
pub fn rank(view: &View, ranking: &mut Ranking, tie: Tie) {
    let at_ms = view.at_ms();
    view.each(ranking, |ranking, position, state| {
        let score = state.work_left_ms(at_ms) as f64 * state.inverse_weight();
        let tie = if tie == Tie::Faster { -state.spec.speed } else { state.spec.speed };
        ranking.offer(Scored { score, tie, position });
    });
}
