//! `hoba_forecast`: HOBA that looks ahead: the worst load within the ball's expected stay, with what
//! others put on the link forecast and our own uploads counted until they are expected to end.

use super::{Ranking, Scored, View};

/// Rank by the worst corrected load ahead ÷ weight; ties to the fewer balls.
pub fn rank(view: &View, ranking: &mut Ranking) {
    let demand = view.expected_demand();
    let (survival, horizons) = view.stay();
    view.each(ranking, |ranking, position, state| {
        let correction = state.load_with(&demand) - state.load_corrected(&demand);
        let load = state.load_ahead(&demand, &survival, horizons) - correction;
        let tie = state.live_count() as f64 * state.inverse_weight();
        ranking.offer(Scored { score: load * state.inverse_weight(), tie, position });
    });
}
