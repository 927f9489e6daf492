//! The decision: which way a ball goes, which boxes may take it, and which of them does.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use crate::chance::{draw_of, stable_share};
use crate::config::FleetConfig;
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
    let mut decision = decide_by(fleet, ball, draw, strategy, route, ranking);
    if fleet.config().candidate.is_some() && route == Route::Primary {
        explore(&mut decision, fleet.config());
    }
    decision
}

/// Number of the best candidates that are as good as the best, to within `tolerance`, a share.
///
/// Each of them is chosen with one over this; every other box with 0. So the logged candidates and the
/// configuration give the whole distribution again.
#[must_use]
pub fn explored(candidates: &[Candidate], tolerance: f64) -> usize {
    let best = candidates.first().map_or(f64::NAN, |candidate| candidate.score);
    // A best score of 0 or infinity, or one that is no number, has no share.
    let limit = best + best.abs() * tolerance;
    let close = candidates.iter().take_while(|candidate| candidate.score <= limit && limit.is_finite());
    close.count().max(1).min(candidates.len())
}

/// Draw evenly among the boxes that are as good as the best; the draw is the ball's and the
/// configuration's, so that a retry is no second draw. A strategy that draws by itself is left alone.
fn explore(decision: &mut Decision, config: &FleetConfig) {
    if config.exploration_tolerance <= 0.0 || decision.propensity < 1.0 {
        return;
    }
    let close = explored(&decision.candidates, config.exploration_tolerance);
    let Verdict::Placed { box_id, .. } = &mut decision.verdict else { return };
    let share = stable_share(decision.ball.key(), draw_of(config.seed, config.version));
    *box_id = decision.candidates[((share * close as f64) as usize).min(close - 1)].box_id.clone();
    decision.propensity = 1.0 / close as f64;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn ranked(scores: &[f64]) -> Vec<Candidate> {
        let candidate = |(index, score): (usize, &f64)| Candidate {
            box_id: format!("box-{index}").into(),
            score: *score,
        };
        scores.iter().enumerate().map(candidate).collect()
    }

    #[test]
    fn only_boxes_within_the_tolerance_are_explored() {
        assert_eq!(explored(&ranked(&[0.5, 0.52, 0.6]), 0.1), 2);
        assert_eq!(explored(&ranked(&[0.5, 0.5, 0.6]), 0.0), 2);
        assert_eq!(explored(&ranked(&[0.0, 0.1]), 1.0), 1);
        assert_eq!(explored(&ranked(&[f64::INFINITY, f64::INFINITY]), 1.0), 1);
        assert_eq!(explored(&ranked(&[f64::NAN, 0.1]), 1.0), 1);
        assert_eq!(explored(&[], 1.0), 0);
    }

    #[test]
    fn the_choice_is_even_stable_and_logged() {
        let config = FleetConfig { exploration_tolerance: 0.1, ..FleetConfig::default() };
        let mut chosen = [0_u32; 3];
        for index in 0..3_000 {
            let ball = Ball::new(index.to_string());
            let choose = || {
                let candidates = ranked(&[0.5, 0.51, 0.9]);
                let mut decision = Decision {
                    verdict: Verdict::Placed { box_id: candidates[0].box_id.clone(), lease_expires_at_ms: 1 },
                    ball: Arc::new(ball.clone()),
                    strategy_id: "s".into(),
                    route: Route::Primary,
                    panic: false,
                    propensity: 1.0,
                    draw: 0,
                    reserved: None,
                    config_version: 1,
                    candidates,
                    refused: BTreeMap::new(),
                };
                explore(&mut decision, &config);
                decision
            };
            let decision = choose();
            assert_eq!(decision, choose());
            assert!((decision.propensity - 0.5).abs() < 1e-12);
            let place = decision.candidates.iter().position(|c| Some(&c.box_id) == decision.box_id());
            chosen[place.unwrap()] += 1;
        }
        assert!(chosen[2] == 0 && chosen[0].abs_diff(1_500) < 150, "{chosen:?}");
    }
}
