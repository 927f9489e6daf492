//! `peak_ewma`: recent latency times balls in flight (Finagle's least cost).
//!
//! A rise of a box's latency counts at once, a fall by and by; a box that nobody has measured, or not
//! for long, counts with the median of the measured ones: neither starved nor flooded. A failure that
//! came fast is no low latency.

use super::{Ranking, Scored, View};

/// Rank by latency × (live balls + 1) ÷ weight; ties to the faster box.
pub fn rank(view: &View, ranking: &mut Ranking) {
    let latencies = super::latency::Latencies::of(view, ranking);
    view.each(ranking, |ranking, position, state| {
        let in_flight = (state.live_count() + 1) as f64;
        let score = latencies.of_box(state) * in_flight * state.inverse_weight();
        ranking.offer(Scored { score, tie: -state.spec.speed, position });
    });
}
