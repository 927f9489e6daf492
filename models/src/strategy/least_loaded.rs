//! `least_loaded`: the least load now with this ball added, divided by weight.

use super::{Ranking, Scored, View};
use crate::fleet::BoxState;

/// Rank by load ÷ weight; ties to the larger weight.
pub fn rank(view: &View, ranking: &mut Ranking) {
    // Out of the loop: this is the hottest one there is.
    let demand = &view.ball().demand;
    view.each(ranking, |ranking, position, state| {
        let score = state.load_with(demand) * state.inverse_weight();
        ranking.offer(Scored { score, tie: -state.weight(), position });
    });
}

/// The box's load with the ball added ÷ weight, for every strategy that samples by it.
#[inline(always)]
pub fn scored(view: &View, position: u32, state: &BoxState) -> Scored {
    let score = state.load_with(&view.ball().demand) * state.inverse_weight();
    Scored { score, tie: -state.weight(), position }
}
