//! `hot_cold`: Prequal's hot-cold lexicographic rule (Wydrowski et al., NSDI 2024).
//!
//! A box with more balls in flight for its weight than a quantile of the fleet is hot. The cold box
//! with the least latency is chosen; when all are hot, the one with the fewest in flight. Prequal
//! probes the latency at the present number in flight; outcomes tell of the past only, so the number
//! in flight scales what they told.

use super::{Ranking, Scored, View};

/// Above every latency: a hot box comes after every cold one.
const HOT: f64 = 1e15;

/// Rank cold boxes by latency × (live balls + 1) ÷ weight, then hot ones by live balls ÷ weight.
pub fn rank(view: &View, ranking: &mut Ranking) {
    let latencies = super::latency::Latencies::of(view, ranking);
    view.each(ranking, |ranking, position, state| {
        let in_flight = state.live_count() as f64 * state.inverse_weight();
        ranking.scored.push(Scored { score: in_flight, tie: 0.0, position });
    });
    let count = ranking.scored.len();
    if count == 0 {
        return;
    }
    let nth = ((view.config().hot_quantile * count as f64) as usize).min(count - 1);
    let (_, at_quantile, _) = ranking.scored.select_nth_unstable_by(nth, Scored::order);
    let threshold = at_quantile.score;
    for index in 0..count {
        let Scored { score: in_flight, position, .. } = ranking.scored[index];
        let state = view.at(position);
        let score = if in_flight > threshold {
            HOT + in_flight
        } else {
            latencies.of_box(state) * (in_flight + state.inverse_weight())
        };
        ranking.offer(Scored { score, tie: in_flight, position });
    }
}
