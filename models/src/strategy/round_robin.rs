//! `round_robin`: every box in turn, as often as its weight says.
//!
//! Stride scheduling (Waldspurger 1995): each placement moves its box forward by 1 ÷ weight, and
//! the box that is furthest behind is next. Equal weights give plain round robin in the order of
//! ids; a new box starts level with the one furthest behind, so it is not flooded.

use super::{Ranking, Scored, View};

/// Rank by virtual time; lowest first.
pub fn rank(view: &View, ranking: &mut Ranking) {
    view.each(ranking, |ranking, position, state| {
        ranking.offer(Scored { score: state.pass(), tie: 0.0, position });
    });
}
