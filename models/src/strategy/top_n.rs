//! `top_n`: one of the N least loaded boxes at random, so that schedulers with the same old picture
//! don't all choose the same box (the seed's rule for uploads before HOBA).

use super::{Ranking, View, least_loaded};
use crate::chance::pick;

/// Choose each of the [`crate::config::FleetConfig::top_n`] best by load ÷ weight alike.
pub fn rank(view: &View, ranking: &mut Ranking) {
    view.each(ranking, |ranking, position, state| {
        let scored = least_loaded::scored(view, position, state);
        ranking.scored.push(scored);
    });
    let count = ranking.scored.len();
    let top = view.config().top_n.min(count);
    if top == 0 {
        return;
    }
    if top < count {
        ranking.scored.select_nth_unstable_by(top - 1, super::Scored::order);
    }
    // Which of the best has which index must not depend on the selection's inner order.
    ranking.scored[..top].sort_unstable_by(super::Scored::order);
    let chosen = ranking.scored[pick(view.draw(), 0, top)];
    ranking.offer(chosen);
    ranking.set_propensity(1.0 / top as f64);
}
