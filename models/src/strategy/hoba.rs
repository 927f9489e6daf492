//! `hoba`: the least utilised link of the scheduler's own pool, counted with expected user speeds.
//!
//! At the assignment the box is charged with the speed that this user is expected to reach: the
//! current session's, else the user's recent mean, else the median of the fleet. So the picture is
//! right the moment a ball is placed, and reports only correct it: use that no ball explains is
//! added, and use that fell short of what was expected is taken off.

use super::{Ranking, Scored, View};

/// Rank by the corrected load with the expected speed added ÷ weight; ties to the fewer balls.
pub fn rank(view: &View, ranking: &mut Ranking) {
    let demand = view.expected_demand();
    view.each(ranking, |ranking, position, state| {
        let score = state.load_corrected(&demand) * state.inverse_weight();
        let tie = state.live_count() as f64 * state.inverse_weight();
        ranking.offer(Scored { score, tie, position });
    });
}
