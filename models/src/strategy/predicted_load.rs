//! `predicted_load`: the box whose worst load within the ball's stay is least.
//!
//! `load(box, h) = background(box, h) + committed(box, h) + this ball`: the background is forecast,
//! what we placed ourselves is summed over live balls by the probability that they are still
//! there, and never forecast. The score is the worst of now and the horizons inside the ball's
//! expected stay, so a short ball looks at now and a long one as far as five minutes ahead.

use super::{Ranking, Scored, View};

/// Rank by the worst load ahead ÷ weight; ties to the larger weight.
pub fn rank(view: &View, ranking: &mut Ranking) {
    let demand = &view.ball().demand;
    let (survival, horizons) = view.stay();
    view.each(ranking, |ranking, position, state| {
        let load = state.load_ahead(demand, &survival, horizons);
        let score = load * state.inverse_weight();
        ranking.offer(Scored { score, tie: -state.weight(), position });
    });
}
