//! `smooth_round_robin`: every box in turn, as often as its weight says, with the turns of a light
//! box spread among those of a heavy one.
//!
//! Stride scheduling (Waldspurger 1995) with phases: next is the box with the least
//! (picks + phase) ÷ weight, the phase a number in [0, 1) of its id. A light box waits less than its
//! period for its first turn, and light boxes of equal weight come one by one among the turns of a
//! heavy one. Unlike nginx's counters, which every pick changes for every box, it changes one.

use super::{Ranking, Scored, View};

/// Rank by the virtual time of the next turn; earliest first, ties to the heavier box.
pub fn rank(view: &View, ranking: &mut Ranking) {
    let turn = view.turn();
    view.each(ranking, |ranking, position, state| {
        ranking.offer(Scored { score: state.next_turn(turn), tie: -state.weight(), position });
    });
}
