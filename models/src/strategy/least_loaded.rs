//! `least_loaded`: the least load now with this ball added, divided by weight.

use super::{Ranking, Scored, View};

/// Rank by load ÷ weight; ties to the larger weight.
pub fn rank(view: &View, ranking: &mut Ranking) {
    let demand = &view.ball().demand;
    view.each(ranking, |ranking, position, state| {
        let score = state.load_with(demand) * state.inverse_weight();
        ranking.offer(Scored { score, tie: -state.weight(), position });
    });
}
