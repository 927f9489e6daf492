//! Strategies: one file each. A strategy sees the fleet through a [`View`], which already knows
//! which boxes may take the ball, and ranks them; lower scores are better, ties go by box id.

mod critical_rule;
mod earliest_completion;
mod hoba;
mod hoba_forecast;
mod hot_cold;
mod join_shortest_queue;
mod latency;
mod learned;
mod least_loaded;
mod least_work_left;
mod next_accept;
mod peak_ewma;
mod power_of_d;
mod predicted_load;
mod random;
mod ranking;
pub mod rendezvous;
mod round_robin;
mod smooth_round_robin;
mod top_n;
mod weighted_random;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use ranking::{Ranking, Scored, View};

/// The strategies by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum StrategyName {
    /// Any box, each alike.
    Random,
    /// A box at random, as often as its weight says.
    WeightedRandom,
    /// Every box in turn, each alike.
    RoundRobin,
    /// Every box in turn, as often as its weight says, the turns of light boxes spread out.
    SmoothRoundRobin,
    /// The least load now, this ball added.
    LeastLoaded,
    /// One of the N least loaded boxes at random.
    TopN,
    /// The less loaded of two random boxes.
    PowerOfTwo,
    /// The least loaded of d random boxes.
    PowerOfD,
    /// The fewest balls for its weight.
    JoinShortestQueue,
    /// Recent latency times balls in flight.
    PeakEwma,
    /// Prequal's rule: the least latency among the boxes that are not hot.
    HotCold,
    /// Always the same box for the same ball, within a bound on its share.
    Rendezvous,
    /// The box that has been ready longest, each at its own cadence.
    NextAccept,
    /// The least work left in time; ties to the faster box.
    LeastWorkLeft,
    /// The same with ties to the slower box, for comparison with published figures.
    LeastWorkLeftSlowTie,
    /// The earliest end of this very ball; ties to the faster box.
    EarliestCompletion,
    /// The least of the worst loads within the ball's stay, forecasts included.
    PredictedLoad,
    /// The least utilised link, counted with the speeds expected of users.
    Hoba,
    /// The same over the ball's stay, forecasts included.
    HobaForecast,
    /// The deterministic rule of critical balls: least load now, no model.
    CriticalRule,
    /// The trained placement policy.
    Learned,
}

impl StrategyName {
    /// All strategies, in the order of every array over them.
    pub const ALL: [Self; 21] = [
        Self::Random,
        Self::WeightedRandom,
        Self::RoundRobin,
        Self::SmoothRoundRobin,
        Self::LeastLoaded,
        Self::TopN,
        Self::PowerOfTwo,
        Self::PowerOfD,
        Self::JoinShortestQueue,
        Self::PeakEwma,
        Self::HotCold,
        Self::Rendezvous,
        Self::NextAccept,
        Self::LeastWorkLeft,
        Self::LeastWorkLeftSlowTie,
        Self::EarliestCompletion,
        Self::PredictedLoad,
        Self::Hoba,
        Self::HobaForecast,
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
            "random.v2",
            "weighted_random.v1",
            "round_robin.v2",
            "smooth_round_robin.v1",
            "least_loaded.v1",
            "top_n.v1",
            "power_of_two.v2",
            "power_of_d.v1",
            "join_shortest_queue.v1",
            "peak_ewma.v1",
            "hot_cold.v1",
            "rendezvous.v1",
            "next_accept.v1",
            "least_work_left.v1",
            "least_work_left_slow_tie.v1",
            "earliest_completion.v1",
            "predicted_load.v1",
            "hoba.v1",
            "hoba_forecast.v1",
            "critical_rule.v1",
            "learned.v1",
        ][self as usize]
    }

    /// What it looks at, for comparisons: information is what makes strategies comparable.
    #[must_use]
    pub fn sees(self) -> &'static str {
        match self {
            Self::Random | Self::RoundRobin => "nothing",
            Self::WeightedRandom | Self::SmoothRoundRobin => "weights",
            Self::LeastLoaded | Self::TopN | Self::PowerOfTwo | Self::PowerOfD | Self::CriticalRule => {
                "load now"
            }
            Self::JoinShortestQueue => "counts",
            Self::PeakEwma | Self::HotCold => "counts and latencies",
            Self::Rendezvous => "weights and counts",
            Self::NextAccept => "times of acceptance",
            Self::LeastWorkLeft | Self::LeastWorkLeftSlowTie | Self::EarliestCompletion | Self::Learned => {
                "work sizes and speeds"
            }
            Self::PredictedLoad => "load now and forecasts",
            Self::Hoba => "load now and user speeds",
            Self::HobaForecast => "load now, user speeds and forecasts",
        }
    }

    /// Whether it is nothing without a forecast model.
    #[must_use]
    pub fn needs_model(self) -> bool {
        matches!(self, Self::PredictedLoad | Self::HobaForecast)
    }

    /// Whether it reserves the bandwidth that a ball's user is expected to reach.
    #[must_use]
    pub fn expects_speed(self) -> bool {
        matches!(self, Self::Hoba | Self::HobaForecast)
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
            Self::WeightedRandom => weighted_random::rank(view, ranking),
            Self::RoundRobin => round_robin::rank(view, ranking),
            Self::SmoothRoundRobin => smooth_round_robin::rank(view, ranking),
            Self::LeastLoaded => least_loaded::rank(view, ranking),
            Self::TopN => top_n::rank(view, ranking),
            Self::PowerOfTwo => power_of_d::rank(view, ranking, 2),
            Self::PowerOfD => power_of_d::rank(view, ranking, view.config().choices),
            Self::JoinShortestQueue => join_shortest_queue::rank(view, ranking),
            Self::PeakEwma => peak_ewma::rank(view, ranking),
            Self::HotCold => hot_cold::rank(view, ranking),
            Self::Rendezvous => rendezvous::rank(view, ranking),
            Self::NextAccept => next_accept::rank(view, ranking),
            Self::LeastWorkLeft => least_work_left::rank(view, ranking, least_work_left::Tie::Faster),
            Self::LeastWorkLeftSlowTie => least_work_left::rank(view, ranking, least_work_left::Tie::Slower),
            Self::EarliestCompletion => earliest_completion::rank(view, ranking),
            Self::PredictedLoad => predicted_load::rank(view, ranking),
            Self::Hoba => hoba::rank(view, ranking),
            Self::HobaForecast => hoba_forecast::rank(view, ranking),
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
