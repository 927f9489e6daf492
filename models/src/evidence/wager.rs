//! A bet against a hypothesis: the wealth it has won is the evidence, at any moment.
//!
//! Under the hypothesis the wealth is a nonnegative supermartingale of mean 1, so by Ville's
//! inequality it ever reaches 1/α with probability at most α, however often one looks (Waudby-Smith
//! and Ramdas, "Estimating means of bounded random variables by betting", JRSS B 2024). How much is
//! staked is free as long as it is fixed before the outcome. Here the stake aims at what is still
//! missing within the samples still planned (Voráček and Orabona, "STaR-Bets", 2025): close to the
//! planned number the bound is nearly as narrow as that of a test that may be read only once.

/// Largest share of the wealth that one outcome may cost.
const LOSS_SHARE_MAX: f64 = 0.5;
/// The stake aims at least this far, in nats: close to the goal it would otherwise cease.
const AIM_LEAST: f64 = 0.1;
/// A variance below this is rounding.
const VARIANCE_LEAST: f64 = 1e-9;

/// A bet that a mean is above 0, against the hypothesis that it is at most 0.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Wager {
    log_wealth: f64,
    goal: f64,
    seen: u64,
    planned: u64,
    is_won: bool,
}

impl Wager {
    /// A bet that wrongly wins with probability at most `alpha`, in (0, 1), staked for `planned`
    /// outcomes. It stays valid for fewer and for more; then the plan is doubled.
    #[must_use]
    pub fn new(alpha: f64, planned: u64) -> Self {
        Self { log_wealth: 0.0, goal: -libm::log(alpha), seen: 0, planned: planned.max(1), is_won: false }
    }

    /// What would be staked on the next outcome, by its variance, before any limit.
    #[must_use]
    pub fn wish(&self, variance: f64) -> f64 {
        let left = self.planned.saturating_sub(self.seen).max(1) as f64;
        let missing = (self.goal - self.log_wealth).max(AIM_LEAST);
        libm::sqrt(2.0 * missing / (left * variance.max(VARIANCE_LEAST)))
    }

    /// The stake allowed for outcomes that are never below `-depth`.
    #[must_use]
    pub fn limit(depth: f64) -> f64 {
        LOSS_SHARE_MAX / depth.max(VARIANCE_LEAST)
    }

    /// Bet on one outcome. `depth` (outcomes are never below `-depth`) and `variance` must be known
    /// before it. An outcome that is no number costs the most it may: it never is evidence.
    pub fn observe(&mut self, outcome: f64, depth: f64, variance: f64) {
        let stake = self.wish(variance).min(Self::limit(depth));
        let won = if outcome.is_nan() { -LOSS_SHARE_MAX } else { (stake * outcome).max(-LOSS_SHARE_MAX) };
        self.log_wealth += libm::log1p(won);
        self.is_won |= self.log_wealth >= self.goal;
        self.seen += 1;
        if self.seen == self.planned {
            self.planned = self.planned.saturating_mul(2);
        }
    }

    /// Whether the hypothesis has been refuted, now or before.
    #[must_use]
    pub fn is_won(&self) -> bool {
        self.is_won
    }

    /// Outcomes seen.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// The evidence: the wealth, in nats. Below 0 there is none.
    #[must_use]
    pub fn log_wealth(&self) -> f64 {
        self.log_wealth
    }
}
