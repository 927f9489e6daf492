//! Cost as weight: price × performance × stability, so that a cheap slow box isn't chosen.
//!
//! Price is the operator's word; performance is the fleet's median task duration ÷ the box's own;
//! stability is the share of the last seven days' work that did not fail. A box that does not report
//! one of the two while others do counts with the worst that is reported: silence never looks best.

use serde::{Deserialize, Serialize};

use super::BoxState;
use crate::domain::BoxReport;

/// Least and largest factor of performance: what lies beyond is a unit error.
const PERFORMANCE_RANGE: (f64, f64) = (0.05, 20.0);
/// Least factor of stability: measurements alone never switch a box off.
const STABILITY_MIN: f64 = 0.01;

/// What a box has reported of its cost; the last word of each stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Cost {
    duration_ms: Option<f64>,
    failure_rate: Option<f64>,
}

impl Cost {
    pub fn update(&mut self, report: &BoxReport) {
        self.duration_ms = report.avg_task_duration_ms.or(self.duration_ms);
        self.failure_rate = report.failure_rate_7d.or(self.failure_rate);
    }
}

/// What the fleet's boxes are measured against.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct CostScale {
    duration_ms_median: Option<f64>,
    duration_ms_max: f64,
    failure_rate_max: f64,
}

impl CostScale {
    pub fn of(boxes: &[BoxState]) -> Self {
        let mut durations: Vec<f64> = boxes.iter().filter_map(|b| b.rest.cost.duration_ms).collect();
        durations.sort_unstable_by(f64::total_cmp);
        let rates = boxes.iter().filter_map(|b| b.rest.cost.failure_rate);
        Self {
            // The lower of two: a real box's duration, and in a pair the faster one's.
            duration_ms_median: durations.get(durations.len().saturating_sub(1) / 2).copied(),
            duration_ms_max: durations.last().copied().unwrap_or_default(),
            failure_rate_max: rates.fold(0.0, f64::max),
        }
    }

    /// Performance × stability of a box; 1 in a fleet that reports neither.
    pub fn factor(&self, cost: &Cost) -> f64 {
        let performance = self.duration_ms_median.map_or(1.0, |median_ms| {
            let own_ms = cost.duration_ms.unwrap_or(self.duration_ms_max);
            (median_ms / own_ms).clamp(PERFORMANCE_RANGE.0, PERFORMANCE_RANGE.1)
        });
        let failure_rate = cost.failure_rate.unwrap_or(self.failure_rate_max);
        performance * (1.0 - failure_rate).max(STABILITY_MIN)
    }
}
