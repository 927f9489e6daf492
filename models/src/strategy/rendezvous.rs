//! `rendezvous`: the same box for the same ball, as often as its weight says, within a bound.
//!
//! Weighted rendezvous hashing (Thaler and Ravishankar 1998; weights after Schindelhauer and
//! Schomaker 2005): the box with the largest −weight ÷ ln(u) wins, which is the one with the least
//! −ln(u) ÷ weight. The hash is of two levels: the ball's key, then the box with the key as seed,
//! so consecutive ids don't cluster and no clock is in it. No stateless hash can spread better than
//! chance (√(1,000 × 0.99) ≈ 31.5 for 100,000 balls on 100 boxes), so a bound lies on top
//! (Mirrokni, Thorup, Zadimoghaddam 2018): a box that holds more than its share times
//! [`crate::config::FleetConfig::hash_bound`] is passed over, and the ball's lease says where it went.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{Ranking, Scored, View};
use crate::chance::unit;

/// The score of a box for a ball's key; the least wins. Infinite for a box without weight.
#[must_use]
pub fn score(ball_key: u128, box_id: &str, inverse_weight: f64) -> f64 {
    let ball = xxh3_64_with_seed(&ball_key.to_le_bytes(), 0);
    perturbed(ball, box_id, inverse_weight)
}

fn perturbed(ball: u64, box_id: &str, inverse_weight: f64) -> f64 {
    let uniform = unit(xxh3_64_with_seed(box_id.as_bytes(), ball), 0);
    // 1 − u is in (0, 1]: the logarithm is finite.
    -libm::log(1.0 - uniform) * inverse_weight
}

/// Most balls a box of `weight` may hold when `balls` are on boxes of `weights` in all.
#[must_use]
pub fn most(balls: usize, weight: f64, weights: f64, bound: f64) -> usize {
    libm::ceil(balls as f64 * weight / weights * bound) as usize
}

/// Rank the boxes below their bound by their score for this ball.
pub fn rank(view: &View, ranking: &mut Ranking) {
    let (mut balls, mut weights) = (1_usize, 0.0);
    view.each(ranking, |ranking, position, state| {
        balls += state.live_count();
        weights += state.weight();
        ranking.eligible.push(position);
    });
    let ball = xxh3_64_with_seed(&view.ball().key().to_le_bytes(), 0);
    let bound = view.config().hash_bound;
    for index in 0..ranking.eligible.len() {
        let position = ranking.eligible[index];
        let state = view.at(position);
        if state.live_count() < most(balls, state.weight(), weights, bound) {
            let score = perturbed(ball, state.box_id(), state.inverse_weight());
            ranking.offer(Scored { score, tie: 0.0, position });
        }
    }
}
