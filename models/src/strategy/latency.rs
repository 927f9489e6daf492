//! The estimate of a box's latency that `peak_ewma` and `hot_cold` choose by.

use super::{Ranking, Scored, View};
use crate::fleet::BoxState;

/// Latencies of a fleet at one moment.
pub struct Latencies {
    at_ms: u64,
    half_life_ms: u64,
    median_ms: f64,
}

impl Latencies {
    /// The lower median over the measured boxes that may take the ball; 1 ms when none has been
    /// measured. `ranking` lends its scratch.
    pub fn of(view: &View, ranking: &mut Ranking) -> Self {
        let able = view.boxes().iter().filter(|state| view.admit(state).is_ok());
        let measured = able.filter_map(|state| state.latency().peak_ms());
        ranking.scored.extend(measured.map(|score| Scored { score, tie: 0.0, position: 0 }));
        let middle = ranking.scored.len().saturating_sub(1) / 2;
        let median_ms = if ranking.scored.is_empty() {
            1.0
        } else {
            ranking.scored.select_nth_unstable_by(middle, Scored::order).1.score
        };
        ranking.scored.clear();
        Self { at_ms: view.at_ms(), half_life_ms: view.config().latency_half_life_ms, median_ms }
    }

    /// Milliseconds expected of a box, its recent failures counted as slowness.
    pub fn of_box(&self, state: &BoxState) -> f64 {
        let ms = state.latency().read_ms(self.at_ms, self.median_ms, self.half_life_ms);
        // Latencies below a millisecond are measured as 0; no box is infinitely fast.
        ms.max(0.5) * (1.0 + state.failure_load())
    }
}
