//! Laws of every strategy, over arbitrary fleets and arbitrary histories.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_models::config::FleetConfig;
use berth_models::decision::Refusal;
use berth_models::domain::{BoxReport, Class, Stage, Usage};
use berth_models::event::Event;
use berth_models::fleet::Fleet;
use berth_models::strategy::StrategyName;
use common::{Driver, ball, config, constant_model, report, spec};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Allocate { class: u8, tenths: u64, residence_s: Option<u64> },
    Complete { nth: usize, succeeded: bool },
    Report { nth: usize, cores: f64 },
    Nonsense { nth: usize, which: u8 },
    Stage { nth: usize, stage: u8 },
    Drain { nth: usize },
    Pass { ms: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_u8..3, 1_u64..30, proptest::option::of(1_u64..900))
            .prop_map(|(class, tenths, residence_s)| Step::Allocate { class, tenths, residence_s }),
        3 => (any::<usize>(), any::<bool>())
            .prop_map(|(nth, succeeded)| Step::Complete { nth, succeeded }),
        2 => (any::<usize>(), 0.0..9.0_f64).prop_map(|(nth, cores)| Step::Report { nth, cores }),
        1 => (any::<usize>(), 0_u8..4).prop_map(|(nth, which)| Step::Nonsense { nth, which }),
        1 => (any::<usize>(), 0_u8..5).prop_map(|(nth, stage)| Step::Stage { nth, stage }),
        1 => any::<usize>().prop_map(|nth| Step::Drain { nth }),
        2 => (1_u64..90_000).prop_map(|ms| Step::Pass { ms }),
    ]
}

#[derive(Debug, Clone)]
struct World {
    cores: Vec<u64>,
    weights: Vec<u8>,
    strategy: StrategyName,
    steps: Vec<Step>,
}

fn world() -> impl Strategy<Value = World> {
    (
        proptest::collection::vec(1_u64..8, 1..7),
        proptest::collection::vec(0_u8..4, 7),
        0..StrategyName::ALL.len(),
        proptest::collection::vec(step(), 1..120),
    )
        .prop_map(|(cores, weights, strategy, steps)| World {
            cores,
            weights,
            strategy: StrategyName::ALL[strategy],
            steps,
        })
}

fn box_id(index: usize) -> String {
    format!("box-{index}")
}

/// Run a world with its boxes registered in `order`; `check` sees the driver before every
/// placement is made and the box and class of each placement.
fn run(
    world: &World,
    order: &[usize],
    mut check: impl FnMut(&Fleet, &str, Class, &common::Driver),
) -> Driver {
    let mut driver = Driver::new(config(world.strategy));
    driver.engine.activate(Some(("test".into(), constant_model(0.5))), driver.stamp(), &mut driver.events);
    for &index in order {
        let mut spec = spec(&box_id(index), world.cores[index], 12);
        spec.weight = f64::from(world.weights[index]);
        driver.register(spec);
    }
    let mut live = Vec::new();
    for (number, step) in world.steps.iter().enumerate() {
        let nth_box = |nth: usize| box_id(nth % world.cores.len());
        match step.clone() {
            Step::Allocate { class, tenths, residence_s } => {
                let mut ball = (*ball(format!("ball-{number}"), Class::ALL[class as usize], tenths)).clone();
                ball.expected_residence_ms = residence_s.map(|s| s * 1_000);
                let before = driver.engine.fleet().clone();
                if let Some((box_id, lease_id)) = driver.place(Arc::new(ball.clone())) {
                    check(&before, &box_id, ball.class, &driver);
                    live.push((ball, lease_id));
                }
            }
            Step::Complete { nth, succeeded } if !live.is_empty() => {
                let (ball, lease_id) = live.remove(nth % live.len());
                let stamp = driver.stamp();
                let outcome = berth_models::domain::Outcome { succeeded, latency_ms: None };
                // It may have expired meanwhile; that is an answer, too.
                let _ = driver.engine.complete(lease_id, ball.key(), outcome, stamp, &mut driver.events);
            }
            Step::Complete { .. } => {}
            Step::Report { nth, cores } => {
                let last = driver.engine.fleet().seq();
                driver.report(report(&nth_box(nth), driver.at_ms, cores, last));
            }
            Step::Nonsense { nth, which } => {
                let mut report = BoxReport::new(&nth_box(nth), driver.at_ms);
                let value = [f64::NAN, f64::NEG_INFINITY, -1.0, 1e18][which as usize];
                report.usage = Usage { cpu_cores: Some(value), slots: Some(value), ..Usage::default() };
                driver.report(report);
            }
            Step::Stage { nth, stage } => {
                let mut report = BoxReport::new(&nth_box(nth), driver.at_ms);
                report.stage = Some(
                    [Stage::Warming, Stage::Observing, Stage::Mature, Stage::Draining, Stage::Down]
                        [stage as usize],
                );
                driver.report(report);
            }
            Step::Drain { nth } => {
                let stamp = driver.stamp();
                driver.engine.drain(&nth_box(nth), stamp, &mut driver.events).unwrap();
            }
            Step::Pass { ms } => driver.pass(ms),
        }
    }
    driver
}

fn in_order(world: &World) -> Vec<usize> {
    (0..world.cores.len()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Reserved amounts never pass the capacity, nor the capacity less headroom unless critical.
    #[test]
    fn never_over_capacity(world in world()) {
        run(&world, &in_order(&world), |_, box_id, class, driver| {
            let state = driver.engine.fleet().get_box(box_id).unwrap();
            let share = if class == Class::Critical { 1.0 } else { 0.9 };
            for d in [0, 3] {
                let limit = state.spec.capacity.0[d].unwrap() as f64;
                let kept = (limit * (1.0 - share)).floor();
                assert!(state.committed().0[d] as f64 <= limit - kept, "{box_id} in {d}");
            }
        });
    }

    /// A box that is down, draining, without weight, ejected or silent is never chosen (panic aside).
    #[test]
    fn never_an_ineligible_box(world in world()) {
        run(&world, &in_order(&world), |before, box_id, _, _| {
            let gate = before.get_box(box_id).unwrap().gate();
            let in_panic = matches!(gate, Some(Refusal::Stale | Refusal::Ejected)) && before.is_panicking();
            assert!(gate.is_none() || in_panic, "{box_id} was {gate:?}");
        });
    }

    /// The order in which boxes registered changes no decision.
    #[test]
    fn permutation_of_boxes_changes_nothing(world in world(), rotation in 0_usize..7) {
        let mut order = in_order(&world);
        let rotation = rotation % order.len();
        order.rotate_left(rotation);
        order.reverse();
        let decided = |driver: &Driver| placements(&driver.events);
        let (one, other) = (run(&world, &in_order(&world), |_, _, _, _| {}), run(&world, &order, |_, _, _, _| {}));
        prop_assert_eq!(decided(&one), decided(&other));
    }

    /// The same history under the same seed gives the same decisions.
    #[test]
    fn decisions_repeat(world in world()) {
        let (one, other) = (run(&world, &in_order(&world), |_, _, _, _| {}), run(&world, &in_order(&world), |_, _, _, _| {}));
        prop_assert_eq!(one.events, other.events);
    }

    /// The log is the truth: its JSON, applied to an empty fleet, gives the same fleet and the same
    /// decisions again; and the reserved amounts are the sum over live leases.
    #[test]
    fn the_log_replays_to_the_same_fleet(world in world()) {
        let driver = run(&world, &in_order(&world), |_, _, _, _| {});
        driver.engine.fleet().recount().unwrap();
        let mut replayed = Fleet::new(config(world.strategy));
        replayed.set_model(Some(constant_model(0.5)));
        for event in &driver.events {
            let text = serde_json::to_string(event).unwrap();
            let read: Event = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&read, event);
            replayed.apply(&read);
        }
        replayed.recount().unwrap();
        // The live engine may have let more time pass after the last event.
        replayed.advance(driver.at_ms);
        prop_assert_eq!(fingerprint(&replayed), fingerprint(driver.engine.fleet()));
    }

    /// Critical decisions are the same with a good, an absent and a poisoned model.
    #[test]
    fn no_model_touches_a_critical_ball(world in world()) {
        let critical_only = World {
            steps: world.steps.iter().cloned().map(|step| match step {
                Step::Allocate { tenths, residence_s, .. } => Step::Allocate { class: 0, tenths, residence_s },
                other => other,
            }).collect(),
            strategy: StrategyName::PredictedLoad,
            ..world
        };
        let decide = |model: Option<f32>| {
            let mut driver = Driver::new(FleetConfig { ..config(StrategyName::PredictedLoad) });
            let artifact = model.map(|change| ("m".into(), constant_model(change)));
            driver.engine.activate(artifact, driver.stamp(), &mut driver.events);
            placements(&replay_steps(&critical_only, driver).events)
        };
        let absent = decide(None);
        prop_assert_eq!(&absent, &decide(Some(0.1)));
        prop_assert_eq!(&absent, &decide(Some(-1e30)));
    }
}

fn replay_steps(world: &World, mut driver: Driver) -> Driver {
    for index in in_order(world) {
        driver.register(spec(&box_id(index), world.cores[index], 12));
    }
    for (number, step) in world.steps.iter().enumerate() {
        match step.clone() {
            Step::Allocate { class, tenths, .. } => {
                driver.place(ball(format!("ball-{number}"), Class::ALL[class as usize], tenths));
            }
            Step::Report { nth, cores } => {
                let last = driver.engine.fleet().seq();
                driver.report(report(&box_id(nth % world.cores.len()), driver.at_ms, cores, last));
            }
            Step::Pass { ms } => driver.pass(ms),
            _ => {}
        }
    }
    driver
}

fn placements(events: &[Event]) -> BTreeMap<String, Option<String>> {
    events
        .iter()
        .filter_map(|event| match &event.kind {
            berth_models::event::EventKind::Decided { decision } => {
                Some((decision.ball.ball_id.clone(), decision.box_id().map(ToString::to_string)))
            }
            _ => None,
        })
        .collect()
}

/// Everything a decision could depend on, as text.
fn fingerprint(fleet: &Fleet) -> String {
    let boxes: Vec<String> = fleet
        .boxes()
        .iter()
        .map(|state| {
            format!(
                "{} {:?} {:?} {} {} {:?} {:?} {:?} {:?} {}",
                state.box_id(),
                state.gate(),
                state.committed(),
                state.load().to_bits(),
                state.weight().to_bits(),
                state.background_future(),
                state.next_turn(0.0),
                state.live_lease_ids().collect::<Vec<_>>(),
                state.latency(),
                state.next_accept_at_ms()
            )
        })
        .collect();
    format!("{} {} {:?} {:?}", fleet.seq(), fleet.at_ms(), fleet.counters(), boxes)
}
