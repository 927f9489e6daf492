//! `random`: any box that may take the ball, each alike. The baseline that knows nothing.

use super::{Ranking, Scored, View};
use crate::chance::pick;

/// Choose with probability 1 ÷ number of boxes that may take the ball.
pub fn rank(view: &View, ranking: &mut Ranking) {
    view.each(ranking, |ranking, position, _| ranking.eligible.push(position));
    let count = ranking.eligible.len();
    if count > 0 {
        let position = ranking.eligible[pick(view.draw(), 0, count)];
        ranking.offer(Scored { score: 0.0, tie: 0.0, position });
        ranking.set_propensity(1.0 / count as f64);
    }
}
