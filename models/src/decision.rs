//! A decision: what was chosen, by which strategy, why, and what was refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::domain::{Amounts, Ball};

/// Most candidates a strategy ranks: the chosen box and two others. Each one more costs a decision at
/// 100 boxes about 5 % of its time; an explanation lists every box.
pub const CANDIDATES_MAX: usize = 3;

/// Which way a ball went to its strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Route {
    /// The configured primary strategy.
    Primary,
    /// Critical class: the deterministic rule, whatever any model says.
    Critical,
    /// The stable-hash control arm stays on rules.
    Holdout,
    /// The kill switch is on.
    RulesOnly,
    /// The primary needs a forecast model and none is active.
    NoModel,
    /// The forecasts have lost their skill against the naives: the reactive rule decides.
    SkillLost,
    /// The primary needs a placement policy and none is active.
    NoPolicy,
    /// The policy was not ahead of the rule at the present load, or the load is not known yet.
    OutsideRegime,
    /// The sizes of balls differ from those the policy was trained on.
    InputDrift,
    /// The policy gave a score that is no number.
    NotFinite,
}

impl Route {
    /// All routes, in the order of every array over routes.
    pub const ALL: [Self; 10] = [
        Self::Primary,
        Self::Critical,
        Self::Holdout,
        Self::RulesOnly,
        Self::NoModel,
        Self::SkillLost,
        Self::NoPolicy,
        Self::OutsideRegime,
        Self::InputDrift,
        Self::NotFinite,
    ];

    /// The name used in JSON, logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        [
            "primary",
            "critical",
            "holdout",
            "rules_only",
            "no_model",
            "skill_lost",
            "no_policy",
            "outside_regime",
            "input_drift",
            "not_finite",
        ][self as usize]
    }
}

/// Why a box was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Refusal {
    /// The box is down.
    Down,
    /// The box is draining.
    Draining,
    /// Its weight is 0.
    WeightZero,
    /// It reported before and has been silent too long.
    Stale,
    /// It was ejected for failures in a row.
    Ejected,
    /// It has not the role the ball asks for.
    Role,
    /// The ball's group lives on another box.
    Group,
    /// Not enough cores.
    CpuCores,
    /// Not enough memory.
    MemoryBytes,
    /// Not enough bandwidth.
    BandwidthBps,
    /// Not enough slots.
    Slots,
    /// There is room, but it is kept for critical balls.
    Headroom,
    /// It holds more balls than the mode of balance allows while others hold fewer.
    Balance,
    /// It does not accept the next ball yet.
    Pacing,
}

impl Refusal {
    /// All reasons, in the order of every array over them.
    pub const ALL: [Self; 14] = [
        Self::Down,
        Self::Draining,
        Self::WeightZero,
        Self::Stale,
        Self::Ejected,
        Self::Role,
        Self::Group,
        Self::CpuCores,
        Self::MemoryBytes,
        Self::BandwidthBps,
        Self::Slots,
        Self::Headroom,
        Self::Balance,
        Self::Pacing,
    ];

    /// The name used in JSON, logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        [
            "down",
            "draining",
            "weight_zero",
            "stale",
            "ejected",
            "role",
            "group",
            "cpu_cores",
            "memory_bytes",
            "bandwidth_bps",
            "slots",
            "headroom",
            "balance",
            "pacing",
        ][self as usize]
    }
}

/// A ranked box with its score; lower is better.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Candidate {
    /// The box.
    pub box_id: Arc<str>,
    /// The strategy's own measure: load ÷ weight, milliseconds of work, or a draw.
    #[serde(deserialize_with = "score")]
    pub score: f64,
}

/// JSON has no infinity and writes it as null; a score that is no number was the worst of all.
fn score<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Verdict {
    /// The ball has a place.
    Placed {
        /// The box.
        box_id: Arc<str>,
        /// When the lease ends without a heartbeat, in engine milliseconds.
        lease_expires_at_ms: u64,
    },
    /// No box can take it.
    Refused,
}

/// One decision, complete enough to be explained and taken again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Decision {
    /// The ball as it came.
    pub ball: Arc<Ball>,
    /// What was decided.
    pub verdict: Verdict,
    /// The strategy and its version that decided, with the artifact's id where it used one.
    pub strategy_id: Arc<str>,
    /// Which way the ball went to that strategy.
    pub route: Route,
    /// Whether staleness and ejection were disregarded because too few boxes remained.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub panic: bool,
    /// Probability with which the strategy chooses this box for this ball in this state.
    pub propensity: f64,
    /// The chance that was used.
    pub draw: u64,
    /// What is reserved for the ball, where the strategy expects other than it states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::domain::amounts::AmountsJson>))]
    pub reserved: Option<Amounts>,
    /// Version of the configuration that was in force.
    pub config_version: u64,
    /// The best boxes in order, at most [`CANDIDATES_MAX`].
    pub candidates: Vec<Candidate>,
    /// How many boxes were refused, by reason; empty when none was.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<Refusal, u32>,
}

impl Decision {
    /// What the ball takes from its box while it is there.
    #[must_use]
    pub fn demand(&self) -> &Amounts {
        self.reserved.as_ref().unwrap_or(&self.ball.demand)
    }

    /// The chosen box, when there is one.
    #[must_use]
    pub fn box_id(&self) -> Option<&Arc<str>> {
        match &self.verdict {
            Verdict::Placed { box_id, .. } => Some(box_id),
            Verdict::Refused => None,
        }
    }
}
