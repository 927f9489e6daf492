//! `weighted_random`: a box at random, as often as its weight says.

use super::{Ranking, Scored, View};
use crate::chance::unit;

/// Choose with probability weight ÷ sum of weights over the boxes that may take the ball.
pub fn rank(view: &View, ranking: &mut Ranking) {
    let mut sum = 0.0;
    view.each(ranking, |ranking, position, state| {
        sum += state.weight();
        ranking.eligible.push(position);
    });
    // In panic a box of no weight may be all there is; the last one stands for rounding errors.
    let mut left = unit(view.draw(), 0) * sum;
    let Some(&last) = ranking.eligible.last() else {
        return;
    };
    let chosen = ranking.eligible.iter().copied().find(|position| {
        left -= view.at(*position).weight();
        left < 0.0
    });
    let position = chosen.unwrap_or(last);
    ranking.offer(Scored { score: 0.0, tie: 0.0, position });
    ranking.set_propensity(view.at(position).weight() / sum);
}
