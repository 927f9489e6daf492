//! `next_accept`: the box that has been ready longest; a box that is not yet ready gets nothing.
//!
//! Every placement sets the time from which the box accepts the next ball, and a box may report one
//! of its own. The next time counts from the last *due* time, not from when the ball happened to
//! come, so the cadence does not drift with the jitter of arrivals.

use super::{Ranking, Scored, View};
use crate::decision::Refusal;

/// Rank ready boxes by the time since which they accept; ties to the larger weight.
pub fn rank(view: &View, ranking: &mut Ranking) {
    let at_ms = view.at_ms();
    view.each(ranking, |ranking, position, state| {
        let next_ms = state.next_accept_at_ms();
        if next_ms > at_ms {
            ranking.refuse(Refusal::Pacing);
        } else {
            ranking.offer(Scored { score: next_ms as f64, tie: -state.weight(), position });
        }
    });
}
