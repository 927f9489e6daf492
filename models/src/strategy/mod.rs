//! Strategies: one file each. A strategy sees the fleet through a [`View`], which already knows
//! which boxes may take the ball, and ranks them; lower scores are better, ties go by box id.

mod critical_rule;
mod earliest_completion;
mod learned;
mod least_loaded;
mod least_work_left;
mod power_of_two;
mod predicted_load;
mod random;
mod ranking;
mod round_robin;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use ranking::{Ranking, Scored, View};

/// The strategies by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum StrategyName {
    /// Weighted uniform choice.
    Random,
    /// Every box in turn, as often as its weight says.
    RoundRobin,
    /// The least load now, this ball added.
    LeastLoaded,
    /// The less loaded of two weighted random boxes.
    PowerOfTwo,
    /// The least work left in time; ties to the faster box.
    LeastWorkLeft,
    /// The same with ties to the slower box, for comparison with published figures.
    LeastWorkLeftSlowTie,
    /// The earliest end of this very ball; ties to the faster box.
    EarliestCompletion,
    /// The least of the worst loads within the ball's stay, forecasts included.
    PredictedLoad,
    /// The deterministic rule of critical balls: least load now, no model.
    CriticalRule,
    /// The trained placement policy.
    Learned,
}

impl StrategyName {
    /// All strategies, in the order of every array over them.
    pub const ALL: [Self; 10] = [
        Self::Random,
        Self::RoundRobin,
        Self::LeastLoaded,
        Self::PowerOfTwo,
        Self::LeastWorkLeft,
        Self::LeastWorkLeftSlowTie,
        Self::EarliestCompletion,
        Self::PredictedLoad,
        Self::CriticalRule,
        Self::Learned,
    ];

    /// The name used in configuration, JSON and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.versioned().split('.').next().unwrap_or_default()
    }

    /// Name and version: the `strategy_id` of decisions without a model. A change in what a
    /// strategy chooses changes its version.
    #[must_use]
    pub fn versioned(self) -> &'static str {
        [
            "random.v1",
            "round_robin.v1",
            "least_loaded.v1",
            "power_of_two.v1",
            "least_work_left.v1",
            "least_work_left_slow_tie.v1",
            "earliest_completion.v1",
            "predicted_load.v1",
            "critical_rule.v1",
            "learned.v1",
        ][self as usize]
    }

    /// What it looks at, for comparisons: information is what makes strategies comparable.
    #[must_use]
    pub fn sees(self) -> &'static str {
        match self {
            Self::Random | Self::RoundRobin => "weights",
            Self::LeastLoaded | Self::PowerOfTwo | Self::CriticalRule => "load now",
            Self::LeastWorkLeft | Self::LeastWorkLeftSlowTie | Self::EarliestCompletion | Self::Learned => {
                "work sizes and speeds"
            }
            Self::PredictedLoad => "load now and forecasts",
        }
    }

    /// Whether it is nothing without a forecast model.
    #[must_use]
    pub fn needs_model(self) -> bool {
        self == Self::PredictedLoad
    }

    /// Whether it is nothing without a placement policy.
    #[must_use]
    pub fn needs_policy(self) -> bool {
        self == Self::Learned
    }

    /// Rank the boxes of `view` into `ranking`.
    pub fn rank(self, view: &View, ranking: &mut Ranking) {
        match self {
            Self::Random => random::rank(view, ranking),
            Self::RoundRobin => round_robin::rank(view, ranking),
            Self::LeastLoaded => least_loaded::rank(view, ranking),
            Self::PowerOfTwo => power_of_two::rank(view, ranking),
            Self::LeastWorkLeft => least_work_left::rank(view, ranking, least_work_left::Tie::Faster),
            Self::LeastWorkLeftSlowTie => {
                least_work_left::rank(view, ranking, least_work_left::Tie::Slower);
            }
            Self::EarliestCompletion => earliest_completion::rank(view, ranking),
            Self::PredictedLoad => predicted_load::rank(view, ranking),
            Self::CriticalRule => critical_rule::rank(view, ranking),
            Self::Learned => learned::rank(view, ranking),
        }
    }
}

impl fmt::Display for StrategyName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl std::str::FromStr for StrategyName {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|name| name.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|name| name.name()).collect();
            format!("no strategy is called {text:?}; there are: {}", names.join(", "))
        })
    }
}
