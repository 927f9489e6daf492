//! The environment against the simulation kernel: the same decisions, to the millisecond.

use std::sync::Arc;

use berth_models::chance::unit;
use berth_models::decision::Route;
use berth_models::domain::Class;
use berth_models::event::EventKind;
use berth_models::policy::scorer::PARAMETERS;
use berth_models::policy::{PlacementPolicy, Regime, Scorer};
use berth_models::simulation::{Scenario, simulate, simulate_policy};
use berth_models::strategy::StrategyName;

use super::environment::{Chooser, Environment};
use super::kernel;
use super::normalisation::{self, Normalisation};
use super::traffic::{Family, Purpose, Trace};

fn scenario(family: Family, trace: &Trace, primary: StrategyName) -> Scenario {
    kernel::scenario(&family.speeds(), trace, primary)
}

/// A policy of arbitrary weights that decides everywhere but in the first balls.
fn policy(family: Family, load_to: f64) -> PlacementPolicy {
    let Normalisation { mut shape, mean, inverse_spread } = normalisation::measure(family, 3).unwrap();
    let scale = shape.scale(0.6);
    // Nothing is drift, and the load is whatever it is.
    shape.log_work_spread = 1e9;
    let parameters = (0..PARAMETERS).map(|index| (unit(5, index as u64 + 1) - 0.5) as f32).collect();
    let rule = StrategyName::LeastWorkLeft;
    let regime =
        Regime { load_from: 0.0, load_to, rule, ratio: 0.5, ratio_low: 0.4, ratio_high: 0.6, traces: 1 };
    let scorer = Scorer::new(parameters, mean, inverse_spread).unwrap();
    PlacementPolicy { scorer, scale, regimes: vec![regime], trained_on: shape, rule }
}

#[test]
fn rules_reach_the_totals_of_the_kernel() {
    for family in [Family::Iclr19, Family::Park] {
        let trace = family.trace(Purpose::Training, 7, 1, 0.9, 1_500);
        let mut environment = Environment::new(&family.speeds());
        for (name, chooser) in super::environment::RULES {
            let kernel = simulate(&scenario(family, &trace, name), None, &mut |_| {});
            assert_eq!(environment.play(&trace, chooser), kernel.total_ms, "{family:?} {name}");
        }
    }
}

#[test]
fn a_policy_decides_in_the_kernel_as_in_the_environment() {
    for family in [Family::Iclr19, Family::Park] {
        let policy = policy(family, 1e12);
        let trace = family.trace(Purpose::Training, 7, 2, 0.9, 1_000);
        let mut seen = Vec::new();
        let mut environment = Environment::new(&family.speeds());
        let scenario = scenario(family, &trace, StrategyName::Learned);
        let kernel = simulate_policy(&scenario, ("test".into(), Arc::new(policy.clone())), &mut |event| {
            if let EventKind::Decided { decision } = &event.kind {
                seen.push(decision.route);
            }
        });
        let first = seen.iter().position(|route| *route == Route::Primary).unwrap();
        assert!((1..100).contains(&first), "{first}");
        assert!(seen[first..].iter().all(|route| *route == Route::Primary));
        let scorer = Chooser::Scorer(&policy.scorer, &policy.scale);
        assert_eq!(environment.play_after(&trace, first, scorer), kernel.total_ms, "{family:?}");
    }
}

#[test]
fn outside_its_regimes_and_with_other_sizes_the_rule_decides() {
    let family = Family::Park;
    let trace = family.trace(Purpose::Training, 7, 3, 0.9, 1_000);
    let total = |policy: PlacementPolicy, route: Route| {
        let scenario = scenario(family, &trace, StrategyName::Learned);
        let mut count = 0;
        let run = simulate_policy(&scenario, ("test".into(), Arc::new(policy)), &mut |event| {
            if let EventKind::Decided { decision } = &event.kind {
                count += usize::from(decision.route == route);
            }
        });
        (run.total_ms, count)
    };
    let rule = Environment::new(&family.speeds()).play(&trace, Chooser::LeastWorkLeft);
    assert_eq!(total(policy(family, 0.01), Route::OutsideRegime), (rule, 1_000));
    let mut drifted = policy(family, 1e12);
    drifted.trained_on.log_work_spread = 0.01;
    drifted.trained_on.log_work_mean += 1.0;
    let (ms, count) = total(drifted, Route::InputDrift);
    assert!(ms == rule && count > 900, "{ms} {rule} {count}");
}

#[test]
fn a_poisoned_policy_is_seen_and_the_rule_decides() {
    let family = Family::Park;
    let trace = family.trace(Purpose::Training, 7, 4, 0.9, 500);
    let mut poisoned = policy(family, 1e12);
    // Finite weights, so that it loads; sums of them are not.
    let (mean, spread) = (*poisoned.scorer.mean(), *poisoned.scorer.inverse_spread());
    poisoned.scorer = Scorer::new(vec![f32::MAX; PARAMETERS], mean, spread).unwrap();
    let mut routes = Vec::new();
    let mut scenario = scenario(family, &trace, StrategyName::Learned);
    let run = |scenario: &Scenario, routes: &mut Vec<Route>| {
        simulate_policy(scenario, ("test".into(), Arc::new(poisoned.clone())), &mut |event| {
            if let EventKind::Decided { decision } = &event.kind {
                routes.push(decision.route);
            }
        })
    };
    let total_ms = run(&scenario, &mut routes).total_ms;
    let rule = Environment::new(&family.speeds()).play(&trace, Chooser::LeastWorkLeft);
    assert_eq!(total_ms, rule);
    assert!(routes.iter().filter(|route| **route == Route::NotFinite).count() > 400);
    for arrival in &mut scenario.arrivals {
        Arc::make_mut(&mut arrival.ball).class = Class::Critical;
    }
    routes.clear();
    run(&scenario, &mut routes);
    assert!(routes.len() == 500 && routes.iter().all(|route| *route == Route::Critical));
}
