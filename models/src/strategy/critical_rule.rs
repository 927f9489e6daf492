//! `critical_rule`: where critical balls go, always.
//!
//! It reads the load now and nothing that a model has touched, uses no chance, and may use the
//! headroom that other classes can't reserve.

use super::{Ranking, View, least_loaded};

/// Rank as `least_loaded` does; the view admits critical balls to the reserved headroom.
pub fn rank(view: &View, ranking: &mut Ranking) {
    least_loaded::rank(view, ranking);
}
