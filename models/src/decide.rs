//! The decision: which way a ball goes, which boxes may take it, and which of them does.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use crate::chance::stable_share;
use crate::decision::{Candidate, Decision, Refusal, Route, Verdict};
use crate::domain::{Ball, Class};
use crate::fleet::Fleet;
use crate::strategy::{Ranking, StrategyName, View};

/// Which way `ball` goes, and the strategy at the end of it.
///
/// Critical balls are looked at first, so that nothing about models can touch them.
#[must_use]
pub fn route(fleet: &Fleet, ball: &Ball) -> (Route, StrategyName) {
    let config = fleet.config();
    if ball.class == Class::Critical {
        return (Route::Critical, StrategyName::CriticalRule);
    }
    if config.rules_only {
        return (Route::RulesOnly, config.rule);
    }
    if config.holdout_share > 0.0 && stable_share(ball.key(), config.seed) < config.holdout_share {
        return (Route::Holdout, config.rule);
    }
    if config.primary.needs_model() {
        if !fleet.has_forecasts() {
            return (Route::NoModel, config.rule);
        }
        if fleet.has_lost_skill() {
            return (Route::SkillLost, config.rule);
        }
    }
    if config.primary.needs_policy() {
        let Some(policy) = fleet.policy() else {
            return (Route::NoPolicy, config.rule);
        };
        if let Err(fallback) = policy.admit(fleet.traffic(), fleet.speed_sum()) {
            return fallback;
        }
    }
    (Route::Primary, config.primary)
}

/// Decide where `ball` goes at the fleet's present time, with `draw` for chance.
///
/// The fleet is not changed: the caller applies the decision as an event. `ranking` is scratch.
#[must_use]
pub fn decide(fleet: &Fleet, ball: Arc<Ball>, draw: u64, ranking: &mut Ranking) -> Decision {
    let (route, strategy) = route(fleet, &ball);
    decide_by(fleet, ball, draw, strategy, route, ranking)
}

/// Decide by a named strategy, as a candidate in shadow or a simulation does. Without a policy to learn
/// from, `learned` is no strategy: the rule decides, and the decision says so.
#[must_use]
pub fn decide_by(
    fleet: &Fleet,
    ball: Arc<Ball>,
    draw: u64,
    mut strategy: StrategyName,
    mut route: Route,
    ranking: &mut Ranking,
) -> Decision {
    if strategy.needs_policy() && fleet.policy().is_none() {
        (route, strategy) = (Route::NoPolicy, fleet.config().rule);
    }
    let view = View::new(fleet, &ball, draw);
    ranking.clear();
    strategy.rank(&view, ranking);
    if ranking.is_spoilt() {
        route = Route::NotFinite;
        strategy = fleet.policy().map_or(fleet.config().rule, |policy| policy.rule);
        ranking.clear();
        strategy.rank(&view, ranking);
    }
    let boxes = fleet.boxes();
    let candidates: Vec<Candidate> = ranking
        .candidates()
        .iter()
        .map(|entry| Candidate {
            box_id: boxes[entry.position as usize].box_id().clone(),
            score: entry.score,
        })
        .collect();
    let verdict = match candidates.first() {
        None => Verdict::Refused,
        Some(best) => Verdict::Placed {
            box_id: best.box_id.clone(),
            lease_expires_at_ms: fleet.at_ms() + lease_ms(fleet, &ball),
        },
    };
    Decision {
        verdict,
        strategy_id: fleet.strategy_id(strategy).clone(),
        route,
        panic: view.is_panicking(),
        propensity: if candidates.is_empty() { 0.0 } else { ranking.propensity() },
        draw,
        reserved: strategy.expects_speed().then(|| view.expected_demand()).filter(|d| *d != ball.demand),
        config_version: fleet.config().version,
        candidates,
        refused: ranking.refused(),
        ball,
    }
}

/// Length of the lease a ball gets, in milliseconds: its wish within the configured most.
#[must_use]
pub fn lease_ms(fleet: &Fleet, ball: &Ball) -> u64 {
    let config = fleet.config();
    ball.lease_ms.unwrap_or(config.lease_ms_default).min(config.lease_ms_max)
}

/// One box in an explanation.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BoxExplanation {
    /// The box.
    pub box_id: Arc<str>,
    /// Load with the ball added, in shares of the capacity.
    pub load: f64,
    /// The worst load expected within the ball's stay, with the ball added.
    pub load_ahead: f64,
    /// Effective weight.
    pub weight: f64,
    /// Why it would not take the ball; `None`: it would.
    pub refusal: Option<Refusal>,
}

/// What would happen to a ball, and why, for every box.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Explanation {
    /// The decision that would be taken.
    pub decision: Decision,
    /// Every box, sorted by id.
    pub boxes: Vec<BoxExplanation>,
    /// Number of boxes by refusal.
    pub causes: BTreeMap<Refusal, u32>,
}

/// Explain a ball without placing it: every box with its load or the reason it is refused.
#[must_use]
pub fn explain(fleet: &Fleet, ball: Arc<Ball>, draw: u64) -> Explanation {
    let decision = decide(fleet, ball, draw, &mut Ranking::default());
    let view = View::new(fleet, &decision.ball, draw);
    let boxes: Vec<BoxExplanation> = fleet
        .boxes()
        .iter()
        .map(|state| BoxExplanation {
            box_id: state.box_id().clone(),
            load: state.load_with(&decision.ball.demand),
            load_ahead: view.load_ahead(state),
            weight: state.weight(),
            refusal: view.admit(state).err(),
        })
        .collect();
    let mut causes = BTreeMap::new();
    for refusal in boxes.iter().filter_map(|explained| explained.refusal) {
        *causes.entry(refusal).or_insert(0) += 1;
    }
    Explanation { decision, boxes, causes }
}
