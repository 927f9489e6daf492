//! How others got new boxes, weights, ejection and missing metrics wrong, as tests.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;

use berth_models::decision::Refusal;
use berth_models::domain::{BoxReport, Class, Stage, Usage};
use berth_models::simulation::{
    Arrival, Background, Conditions, Discipline, Scenario, SimulatedBox, simulate,
};
use berth_models::strategy::StrategyName;
use common::{Driver, ball, config, constant_model, report, spec};

const BALANCING: [StrategyName; 4] = [
    StrategyName::WeightedRandom,
    StrategyName::SmoothRoundRobin,
    StrategyName::LeastLoaded,
    StrategyName::PowerOfTwo,
];

/// Place `count` balls that leave again at once after `hold` others; returns the count by box.
fn spread(driver: &mut Driver, count: usize, hold: usize, tag: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let mut live = std::collections::VecDeque::new();
    for number in 0..count {
        let ball = ball(format!("{tag}-{number}"), Class::Normal, 1);
        let (box_id, lease_id) = driver.place(ball.clone()).unwrap();
        *counts.entry(box_id).or_default() += 1;
        live.push_back((ball, lease_id));
        if live.len() > hold {
            let (ball, lease_id) = live.pop_front().unwrap();
            driver.complete(&ball, lease_id, true);
        }
    }
    live.into_iter().for_each(|(ball, lease_id)| driver.complete(&ball, lease_id, true));
    counts
}

#[test]
fn a_new_box_gets_some_but_never_a_flood_and_grows() {
    for strategy in BALANCING {
        let mut driver = Driver::new(config(strategy));
        (0..4).for_each(|i| driver.register(spec(&format!("old-{i}"), 100, 1_000)));
        spread(&mut driver, 400, 50, "before");
        let mut new = spec("new", 100, 1_000);
        new.stage = Stage::Warming;
        driver.register(new);
        let mut shares = Vec::new();
        for (phase, wait_ms) in [("warming", 1_000), ("observing", 180_000), ("mature", 200_000)] {
            driver.pass(wait_ms);
            let counts = spread(&mut driver, 2_000, 200, phase);
            shares.push(*counts.get("new").unwrap_or(&0) as f64 / 2_000.0);
        }
        assert!(shares[0] > 0.0 && shares[0] < 0.1, "{strategy}: warming {shares:?}");
        assert!(shares[0] < shares[1] && shares[1] < 0.15, "{strategy}: observing {shares:?}");
        assert!((shares[2] - 0.2).abs() < 0.06, "{strategy}: mature {shares:?}");
    }
}

#[test]
fn adding_a_box_never_raises_another_warming_boxs_share() {
    let share_of_first = |boxes_warming: usize| {
        let mut driver = Driver::new(config(StrategyName::LeastLoaded));
        (0..3).for_each(|i| driver.register(spec(&format!("old-{i}"), 100, 1_000)));
        for i in 0..boxes_warming {
            let mut new = spec(&format!("warm-{i}"), 100, 1_000);
            new.stage = Stage::Warming;
            driver.register(new);
        }
        spread(&mut driver, 3_000, 300, "ball").get("warm-0").copied().unwrap_or(0)
    };
    assert!(share_of_first(2) <= share_of_first(1));
}

#[test]
fn all_boxes_new_share_alike_and_no_box_is_a_clear_answer() {
    let mut driver = Driver::new(config(StrategyName::LeastLoaded));
    assert_eq!(driver.place(ball("nobody", Class::Normal, 1)), None);
    for i in 0..3 {
        let mut new = spec(&format!("new-{i}"), 100, 1_000);
        new.stage = Stage::Warming;
        driver.register(new);
    }
    let counts = spread(&mut driver, 300, 30, "ball");
    assert!(counts.values().all(|count| (90..=110).contains(count)), "{counts:?}");
}

#[test]
fn weight_zero_gets_nothing_and_huge_weights_do_not_overflow() {
    for strategy in BALANCING {
        let mut driver = Driver::new(config(strategy));
        for (i, weight) in [0.0, 1_000.0, 1_000.0, 10.0].into_iter().enumerate() {
            let mut spec = spec(&format!("box-{i}"), 100, 1_000);
            spec.weight = weight;
            driver.register(spec);
        }
        let counts = spread(&mut driver, 2_000, 100, "ball");
        assert_eq!(counts.get("box-0"), None, "{strategy}");
        let light = *counts.get("box-3").unwrap_or(&0) as f64 / 2_000.0;
        assert!(light < 0.05, "{strategy}: {counts:?}");
    }
    let mut driver = Driver::new(config(StrategyName::WeightedRandom));
    let mut only = spec("box", 1, 1);
    only.weight = 0.0;
    driver.register(only);
    let decision = driver.engine.explain(ball("x", Class::Normal, 1), driver.stamp(), &mut driver.events);
    assert_eq!(decision.unwrap().causes, BTreeMap::from([(Refusal::WeightZero, 1)]));
}

#[test]
fn ejection_is_capped_and_never_takes_the_last_box() {
    let eject_all = |boxes: usize| {
        let mut driver = Driver::new(config(StrategyName::SmoothRoundRobin));
        (0..boxes).for_each(|i| driver.register(spec(&format!("box-{i}"), 100, 1_000)));
        for number in 0..boxes * 12 {
            let ball = ball(format!("ball-{number}"), Class::Normal, 1);
            let (_, lease_id) = driver.place(ball.clone()).unwrap();
            driver.complete(&ball, lease_id, false);
        }
        driver.engine.fleet().boxes().iter().filter(|b| b.gate() == Some(Refusal::Ejected)).count()
    };
    assert_eq!(eject_all(1), 0);
    assert_eq!(eject_all(2), 0);
    assert_eq!(eject_all(3), 1);
    assert_eq!(eject_all(10), 3);
}

#[test]
fn a_box_that_fails_fast_attracts_nothing() {
    for strategy in [StrategyName::LeastLoaded, StrategyName::PowerOfTwo] {
        let mut driver = Driver::new(config(strategy));
        (0..4).for_each(|i| driver.register(spec(&format!("box-{i}"), 100, 1_000)));
        let mut live = std::collections::VecDeque::new();
        let mut sunk = 0;
        for number in 0..2_000 {
            driver.pass(10);
            let ball = ball(format!("ball-{number}"), Class::Normal, 1);
            let (box_id, lease_id) = driver.place(ball.clone()).unwrap();
            if box_id == "box-2" {
                // Its work is gone in no time, so it always looks empty.
                sunk += 1;
                driver.complete(&ball, lease_id, false);
            } else {
                live.push_back((ball, lease_id));
            }
            if live.len() > 100 {
                let (ball, lease_id) = live.pop_front().unwrap();
                driver.complete(&ball, lease_id, true);
            }
        }
        assert!(sunk < 100, "{strategy}: the failing box got {sunk} of 2,000");
    }
}

#[test]
fn nonsense_missing_and_stale_never_look_best() {
    type Spoil = fn(&mut Usage);
    let nonsense: [(&str, Spoil); 5] = [
        ("NaN", |u| u.cpu_cores = Some(f64::NAN)),
        ("infinite", |u| u.cpu_cores = Some(f64::INFINITY)),
        ("negative", |u| u.cpu_cores = Some(-3.0)),
        ("absurd", |u| u.cpu_cores = Some(1e9)),
        ("missing", |u| u.cpu_cores = None),
    ];
    for (name, spoil) in nonsense {
        let mut driver = Driver::new(config(StrategyName::LeastLoaded));
        (0..3).for_each(|i| driver.register(spec(&format!("box-{i}"), 10, 1_000)));
        driver.pass(1_000);
        driver.report(report("box-1", driver.at_ms, 4.0, 0));
        driver.report(report("box-2", driver.at_ms, 6.0, 0));
        let mut spoiled = report("box-0", driver.at_ms, 0.0, 0);
        spoil(&mut spoiled.usage);
        driver.report(spoiled);
        driver.pass(1_000);
        let (box_id, _) = driver.place(ball(name, Class::Normal, 1)).unwrap();
        assert_eq!(box_id, "box-1", "{name} looked better than a known load");
    }
}

#[test]
fn a_stale_report_loses_its_shine_then_its_place_and_comes_back() {
    let mut driver = Driver::new(config(StrategyName::LeastLoaded));
    (0..2).for_each(|i| driver.register(spec(&format!("box-{i}"), 10, 1_000)));
    driver.report(report("box-0", driver.at_ms, 0.0, 0));
    for second in 0..300 {
        driver.pass(1_000);
        let at_ms = driver.at_ms;
        driver.report(report("box-1", at_ms, 5.0, driver.engine.fleet().seq()));
        let ball = ball(format!("ball-{second}"), Class::Normal, 1);
        let (box_id, lease_id) = driver.place(ball.clone()).unwrap();
        driver.complete(&ball, lease_id, true);
        match second {
            0..29 => assert_eq!(box_id, "box-0", "fresh at {second}"),
            // As loaded as the worst that reports: it may tie, it may not win by an old zero.
            32..170 => assert!(driver.engine.fleet().get_box("box-0").unwrap().load() >= 0.5),
            185.. => assert_eq!(box_id, "box-1", "silent at {second}"),
            _ => {}
        }
    }
    driver.report(report("box-0", driver.at_ms, 0.0, driver.engine.fleet().seq()));
    assert_eq!(driver.place(ball("back", Class::Normal, 1)).unwrap().0, "box-0");
}

#[test]
fn when_all_reports_stop_the_fleet_panics_and_still_places_but_not_on_the_dead() {
    let mut driver = Driver::new(config(StrategyName::LeastLoaded));
    (0..3).for_each(|i| driver.register(spec(&format!("box-{i}"), 10, 1_000)));
    (0..3).for_each(|i| driver.report(report(&format!("box-{i}"), driver.at_ms, 1.0, 0)));
    let mut down = BoxReport::new("box-0", driver.at_ms + 1);
    down.stage = Some(Stage::Down);
    driver.pass(10);
    driver.report(down);
    driver.pass(400_000);
    assert!(driver.engine.fleet().is_panicking());
    let counts = spread(&mut driver, 20, 5, "ball");
    assert_eq!(counts.keys().map(String::as_str).collect::<Vec<_>>(), ["box-1", "box-2"]);
}

#[test]
fn a_ball_counts_once_whether_or_not_a_report_has_seen_it() {
    let mut driver = Driver::new(config(StrategyName::LeastLoaded));
    driver.register(spec("box", 10, 1_000));
    driver.report(report("box", driver.at_ms, 2.0, 0));
    let load = |driver: &Driver| driver.engine.fleet().get_box("box").unwrap().load();
    let ball = ball("ball", Class::Normal, 30);
    let (_, lease_id) = driver.place(ball.clone()).unwrap();
    assert!((load(&driver) - 0.5).abs() < 1e-9, "2 of others and 3 of ours: {}", load(&driver));
    driver.pass(1_000);
    driver.report(report("box", driver.at_ms, 5.0, lease_id));
    assert!((load(&driver) - 0.5).abs() < 1e-9, "seen by the report: {}", load(&driver));
    driver.pass(1_000);
    let sampled_at_ms = driver.at_ms;
    driver.pass(500);
    driver.complete(&ball, lease_id, true);
    assert!((load(&driver) - 0.2).abs() < 1e-9, "gone: {}", load(&driver));
    driver.report(report("box", sampled_at_ms, 5.0, lease_id));
    assert!((load(&driver) - 0.2).abs() < 1e-9, "a report from before it left: {}", load(&driver));
}

#[test]
fn a_poisoned_policy_with_all_other_traffic_never_costs_a_critical_ball_its_place() {
    // 10 boxes of 10 cores; other classes want 2 × the fleet; critical balls want half of the
    // reserved tenth. The model says the same absurd thing about every box.
    let mut arrivals: Vec<Arrival> = Vec::new();
    for index in 0..72_000_u64 {
        let (at_ms, is_critical) = (10_000 + index * 50, index % 10 == 0);
        let (class, tenths) = if is_critical { (Class::Critical, 1) } else { (Class::Normal, 5) };
        let service_ms = if is_critical { 10_000.0 } else { 22_000.0 };
        arrivals.push(Arrival::new(at_ms, (*ball(format!("b{index}"), class, tenths)).clone(), service_ms));
    }
    let background = |at_ms: u64| Background { at_ms, usage: [Some(0.0), None, None, Some(0.0)] };
    let scenario = Scenario {
        config: config(StrategyName::PredictedLoad),
        boxes: (0..10)
            .map(|i| SimulatedBox {
                spec: spec(&format!("box-{i}"), 10, 1_000),
                discipline: Discipline::Stay,
                background: vec![background(0)],
            })
            .collect(),
        arrivals,
        report_every_ms: Some(10_000),
        measured_from_ms: 0,
        conditions: Conditions::default(),
    };
    for change in [-1e30_f32, 1e30] {
        let run = simulate(&scenario, Some(("bad".into(), constant_model(change))), &mut |_| {});
        assert_eq!(run.refused[Class::Critical as usize], 0);
        assert!(run.refused[Class::Normal as usize] > 1_000, "the test must overload the rest");
    }
}

#[test]
fn a_log_that_holds_an_endless_time_can_still_be_applied() {
    // Such a configuration is refused today; logs written before hold it.
    let mut endless = config(StrategyName::LeastLoaded);
    endless.idempotency_keep_ms = u64::MAX;
    endless.warming_ms = u64::MAX;
    endless.report_delay_ms = u64::MAX;
    let mut driver = Driver::new(endless);
    let mut new = spec("box", 10, 100);
    new.stage = Stage::Warming;
    driver.register(new);
    let ball = ball("ball", Class::Normal, 1);
    let (_, lease_id) = driver.place(ball.clone()).unwrap();
    driver.report(report("box", driver.at_ms, 1.0, 0));
    driver.complete(&ball, lease_id, true);
    driver.pass(3_600_000);
    assert_eq!(driver.engine.fleet().leases().len(), 1, "kept for ever");
}

#[test]
fn remembering_balls_for_less_long_takes_effect_at_once() {
    let mut driver = Driver::new(config(StrategyName::LeastLoaded));
    driver.register(spec("box", 10, 100));
    let ball = ball("ball", Class::Normal, 1);
    let (_, lease_id) = driver.place(ball.clone()).unwrap();
    driver.complete(&ball, lease_id, true);
    driver.pass(2_000);
    assert_eq!(driver.engine.fleet().leases().len(), 1);
    let mut shorter = driver.engine.fleet().config().clone();
    shorter.idempotency_keep_ms = 1_000;
    let stamp = driver.stamp();
    driver.engine.configure(shorter, stamp, &mut driver.events).unwrap();
    driver.pass(1);
    assert_eq!(driver.engine.fleet().leases().len(), 0);
}

#[test]
fn a_drained_box_comes_back_by_registering_again_and_nothing_else_is_reset_by_it() {
    let mut driver = Driver::new(config(StrategyName::LeastLoaded));
    let mut new = spec("box", 10, 100);
    new.stage = Stage::Warming;
    driver.register(new.clone());
    let mut grown = BoxReport::new("box", driver.at_ms + 1);
    grown.stage = Some(Stage::Mature);
    driver.pass(10);
    driver.report(grown);
    let stage = |driver: &Driver| driver.engine.fleet().get_box("box").unwrap().stage();
    driver.register(new.clone());
    assert_eq!(stage(&driver), Stage::Mature, "its own word stands");
    let stamp = driver.stamp();
    driver.engine.drain("box", stamp, &mut driver.events).unwrap();
    assert_eq!(driver.place(ball("a", Class::Normal, 1)), None);
    driver.register(new);
    assert_eq!(stage(&driver), Stage::Warming, "its caches are cold again");
    assert!(driver.place(ball("b", Class::Normal, 1)).is_some());
}
