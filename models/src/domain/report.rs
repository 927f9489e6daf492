//! What a box says of itself, and how nonsense in it is treated.
//!
//! The policy, field by field: a value that is missing, not finite, negative or more than
//! [`ABSURD_RATIO`] times the capacity makes its dimension *unknown*; an unknown dimension never
//! counts as empty (see `fleet::background`). The rest of the report still counts.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ball::DURATION_MS_MAX;
use super::{BoxSpec, DIMENSIONS, Dimension, Stage};

/// Use above this many times the capacity is a unit error, not load.
pub const ABSURD_RATIO: f64 = 10.0;
/// Most live lease ids one report may list.
pub const LIVE_LEASES_MAX: usize = 100_000;

/// Measured use in public units; `None`: not measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Usage {
    /// Cores in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_cores: Option<f64>,
    /// Bytes of memory in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<f64>,
    /// Bits per second in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth_bps: Option<f64>,
    /// Slots in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots: Option<f64>,
}

impl Usage {
    /// The values in the order of [`Dimension::ALL`].
    #[must_use]
    pub fn to_array(self) -> [Option<f64>; DIMENSIONS] {
        [self.cpu_cores, self.memory_bytes, self.bandwidth_bps, self.slots]
    }

    /// From values in the order of [`Dimension::ALL`].
    #[must_use]
    pub fn from_array(values: [Option<f64>; DIMENSIONS]) -> Self {
        let [cpu_cores, memory_bytes, bandwidth_bps, slots] = values;
        Self { cpu_cores, memory_bytes, bandwidth_bps, slots }
    }
}

/// A box's report of its own state over a window that ended at `sampled_at_ms`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoxReport {
    /// Whose report it is.
    pub box_id: Arc<str>,
    /// When the window ended, in engine milliseconds.
    pub sampled_at_ms: u64,
    /// Length of the window the use was averaged over, in milliseconds.
    #[serde(default)]
    pub window_ms: u64,
    /// Mean use over the window, everything the box did included.
    #[serde(default)]
    pub usage: Usage,
    /// Highest lease id the box had accepted at `sampled_at_ms`: everything up to it is in `usage`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_accepted_lease_id: Option<u64>,
    /// The lease ids live on the box at `sampled_at_ms`; more exact than the line above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_lease_ids: Option<Vec<u64>>,
    /// The stage the box is in by its own word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// Share of the window's work that failed, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_rate: Option<f64>,
    /// Work waiting on the box.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_length: Option<f64>,
    /// 99th percentile of the window's latencies, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms_p99: Option<f64>,
    /// Mean duration of its tasks, in milliseconds: what its performance is measured by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avg_task_duration_ms: Option<f64>,
    /// Share of the last seven days' work that failed, 0 to 1: what its stability is measured by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_rate_7d: Option<f64>,
    /// When it accepts the next ball, in engine milliseconds; `next_accept` keeps to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_accept_at_ms: Option<u64>,
}

/// A field of a report that was set aside, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FieldIssue {
    /// Name of the field.
    pub field: &'static str,
    /// `not_finite`, `negative` or `absurd`.
    pub reason: &'static str,
}

impl BoxReport {
    /// A report with nothing measured.
    #[must_use]
    pub fn new(box_id: &str, sampled_at_ms: u64) -> Self {
        Self {
            box_id: box_id.into(),
            sampled_at_ms,
            window_ms: 0,
            usage: Usage::default(),
            last_accepted_lease_id: None,
            live_lease_ids: None,
            stage: None,
            error_rate: None,
            queue_length: None,
            latency_ms_p99: None,
            avg_task_duration_ms: None,
            failure_rate_7d: None,
            next_accept_at_ms: None,
        }
    }

    /// Set nonsense aside: those fields become `None`; returns what was set aside and why.
    pub fn sanitise(&mut self, spec: &BoxSpec) -> Vec<FieldIssue> {
        let mut issues = Vec::new();
        let mut usage = self.usage.to_array();
        for dimension in Dimension::ALL {
            let most = spec.capacity.0[dimension as usize]
                .map_or(f64::MAX, |base| ABSURD_RATIO * dimension.to_public(base));
            let slot = &mut usage[dimension as usize];
            set_aside(dimension.name(), slot, most, &mut issues);
        }
        self.usage = Usage::from_array(usage);
        set_aside("error_rate", &mut self.error_rate, 1.0, &mut issues);
        set_aside("queue_length", &mut self.queue_length, 1e12, &mut issues);
        set_aside("latency_ms_p99", &mut self.latency_ms_p99, 1e12, &mut issues);
        if self.avg_task_duration_ms == Some(0.0) {
            // Nothing takes no time at all: it was not measured.
            self.avg_task_duration_ms = None;
            issues.push(FieldIssue { field: "avg_task_duration_ms", reason: "absurd" });
        }
        set_aside("avg_task_duration_ms", &mut self.avg_task_duration_ms, 1e12, &mut issues);
        set_aside("failure_rate_7d", &mut self.failure_rate_7d, 1.0, &mut issues);
        if self.next_accept_at_ms.is_some_and(|at| at > self.sampled_at_ms.saturating_add(DURATION_MS_MAX)) {
            self.next_accept_at_ms = None;
            issues.push(FieldIssue { field: "next_accept_at_ms", reason: "absurd" });
        }
        if let Some(ids) = &mut self.live_lease_ids {
            if ids.len() > LIVE_LEASES_MAX {
                self.live_lease_ids = None;
                issues.push(FieldIssue { field: "live_lease_ids", reason: "absurd" });
            } else {
                ids.sort_unstable();
            }
        }
        issues
    }
}

fn set_aside(field: &'static str, slot: &mut Option<f64>, most: f64, issues: &mut Vec<FieldIssue>) {
    let Some(value) = *slot else { return };
    let reason = if !value.is_finite() {
        "not_finite"
    } else if value < 0.0 {
        "negative"
    } else if value > most {
        "absurd"
    } else {
        return;
    };
    *slot = None;
    issues.push(FieldIssue { field, reason });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Capacity;

    #[test]
    fn nonsense_becomes_unknown_and_is_named() {
        let spec = BoxSpec::new("a", Capacity([Some(4_000_000), Some(100), None, Some(10)]));
        let mut report = BoxReport::new("a", 1);
        report.usage = Usage::from_array([Some(f64::NAN), Some(-1.0), Some(f64::INFINITY), Some(101.0)]);
        report.error_rate = Some(1.5);
        let reasons: Vec<_> = report.sanitise(&spec).iter().map(|i| i.reason).collect();
        assert_eq!(reasons, ["not_finite", "negative", "not_finite", "absurd", "absurd"]);
        assert_eq!(report.usage, Usage::default());
        assert_eq!(report.error_rate, None);
    }
}
