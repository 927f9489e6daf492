//! What each strategy promises of its own: shares, propensities, pacing, cost, balance, speeds.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_models::chance::draw_of;
use berth_models::config::{Balance, FleetConfig};
use berth_models::decide::decide_by;
use berth_models::decision::{Refusal, Route};
use berth_models::domain::{Ball, BoxReport, BoxSpec, Capacity, Class, Outcome, Usage};
use berth_models::strategy::{Ranking, StrategyName};
use common::{Driver, ball, config, constant_model, report, spec};
use proptest::prelude::*;

const WEIGHTED: [StrategyName; 3] =
    [StrategyName::WeightedRandom, StrategyName::SmoothRoundRobin, StrategyName::Rendezvous];
const RANDOM: [StrategyName; 5] = [
    StrategyName::Random,
    StrategyName::WeightedRandom,
    StrategyName::TopN,
    StrategyName::PowerOfTwo,
    StrategyName::PowerOfD,
];

/// A driver over boxes of these weights, roomy and named in order.
fn weighted(config: FleetConfig, weights: &[f64]) -> Driver {
    let mut driver = Driver::new(config);
    for (index, weight) in weights.iter().enumerate() {
        let mut spec = spec(&format!("box-{index}"), 100_000, 1_000_000);
        spec.weight = *weight;
        driver.register(spec);
    }
    driver
}

/// Boxes of `count` balls in the order in which they were placed; no ball leaves.
fn places(driver: &mut Driver, count: usize) -> Vec<usize> {
    let mut place = |number| {
        let (box_id, _) = driver.place(ball(format!("ball-{number}"), Class::Normal, 1)).unwrap();
        box_id.strip_prefix("box-").unwrap().parse().unwrap()
    };
    (0..count).map(&mut place).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Shares come to weights, weight 0 gets nothing, and nobody waits much longer than its share says.
    #[test]
    fn shares_come_to_weights_without_early_starvation(weights in proptest::collection::vec(0_u8..6, 2..6)) {
        let weights: Vec<f64> = weights.into_iter().map(f64::from).collect();
        let sum: f64 = weights.iter().sum();
        prop_assume!(sum > 0.0);
        for strategy in WEIGHTED {
            let placed = places(&mut weighted(config(strategy), &weights), 1_000);
            for (index, weight) in weights.iter().enumerate() {
                let count = placed.iter().filter(|place| **place == index).count() as f64;
                let (exact, share) = (1_000.0 * weight / sum, weight / sum);
                let slack = match strategy {
                    StrategyName::WeightedRandom => 5.0 * (1_000.0 * share * (1.0 - share)).sqrt(),
                    StrategyName::Rendezvous => 5.0 * (1_000.0 * share * (1.0 - share)).sqrt(),
                    _ => 2.0,
                };
                prop_assert!((count - exact).abs() <= slack, "{} {}: {} for {}", strategy, index, count, exact);
                prop_assert!(*weight > 0.0 || count == 0.0);
                if *weight > 0.0 && strategy == StrategyName::SmoothRoundRobin {
                    let first = placed.iter().position(|place| *place == index).unwrap() as f64;
                    prop_assert!(first <= sum / weight + weights.len() as f64, "{} waits {}", index, first);
                }
            }
        }
    }

    /// Whoever draws says with what probability, and is right.
    #[test]
    fn frequencies_are_the_logged_propensities(
        weights in proptest::collection::vec(1_u8..5, 1..8),
        before in 0_usize..30,
        seed in any::<u64>(),
    ) {
        const DRAWS: u64 = 4_000;
        let weights: Vec<f64> = weights.into_iter().map(f64::from).collect();
        let mut driver = weighted(FleetConfig { top_n: 3, ..config(StrategyName::WeightedRandom) }, &weights);
        places(&mut driver, before);
        let fleet = driver.engine.fleet();
        let next = ball("next", Class::Normal, 3);
        let mut ranking = Ranking::default();
        for strategy in RANDOM {
            let mut seen: BTreeMap<String, (u64, f64)> = BTreeMap::new();
            for number in 0..DRAWS {
                let draw = draw_of(seed, number);
                let decision = decide_by(fleet, next.clone(), draw, strategy, Route::Primary, &mut ranking);
                let entry = seen.entry(decision.box_id().unwrap().to_string()).or_default();
                prop_assert!(entry.0 == 0 || entry.1 == decision.propensity);
                *entry = (entry.0 + 1, decision.propensity);
            }
            let sum: f64 = seen.values().map(|(_, propensity)| propensity).sum();
            prop_assert!((sum - 1.0).abs() < 1e-9, "{}: the propensities sum to {}", strategy, sum);
            for (box_id, (count, p)) in &seen {
                let (share, error) = (*count as f64 / DRAWS as f64, (p * (1.0 - p) / DRAWS as f64).sqrt());
                prop_assert!((share - p).abs() <= 5.0 * error + 1e-9, "{} {}: {} for {}", strategy, box_id, share, p);
            }
        }
    }

    /// Counts never differ by more than the mode of balance allows while balls only come.
    #[test]
    fn modes_of_balance_hold_for_every_strategy(boxes in 1_usize..8, balls in 1_usize..40) {
        for strategy in StrategyName::ALL.into_iter().filter(|name| *name != StrategyName::NextAccept) {
            for balance in [Balance::NonEmpty, Balance::Strong] {
                let mut driver = weighted(FleetConfig { balance, ..config(strategy) }, &vec![1.0; boxes]);
                driver.engine.activate(Some(("m".into(), constant_model(0.1))), driver.stamp(), &mut driver.events);
                let mut counts = vec![0_usize; boxes];
                places(&mut driver, balls).into_iter().for_each(|place| counts[place] += 1);
                let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
                prop_assert!(*least > 0 || balls < boxes, "{} {:?}: {:?}", strategy, balance, counts);
                prop_assert!(balance == Balance::NonEmpty || most - least <= 1, "{}: {:?}", strategy, counts);
            }
        }
    }
}

/// The algorithm of nginx's upstream module, as published: the reference for smoothness.
fn nginx(weights: &[f64], picks: usize) -> Vec<usize> {
    let sum: f64 = weights.iter().sum();
    let mut current = vec![0.0; weights.len()];
    let mut pick = || {
        current.iter_mut().zip(weights).for_each(|(current, weight)| *current += weight);
        let best = (0..current.len()).rev().max_by(|a, b| current[*a].total_cmp(&current[*b])).unwrap();
        current[best] -= sum;
        best
    };
    (0..picks).map(|_| pick()).collect()
}

/// Largest distance of any box's running count from its exact share.
fn unevenness(places: &[usize], weights: &[f64]) -> f64 {
    let sum: f64 = weights.iter().sum();
    let mut counts = vec![0.0; weights.len()];
    let mut worst = 0.0_f64;
    for (number, place) in places.iter().enumerate() {
        counts[*place] += 1.0;
        for (count, weight) in counts.iter().zip(weights) {
            worst = worst.max((count - (number + 1) as f64 * weight / sum).abs());
        }
    }
    worst
}

#[test]
fn smooth_round_robin_is_as_smooth_as_nginx_and_spreads_the_light_boxes_turns() {
    for weights in
        [&[5.0, 1.0, 1.0][..], &[100.0, 10.0], &[4.0, 3.0, 2.0, 1.0], &[50.0, 1.0, 1.0, 1.0], &[50.0; 20]]
    {
        let period = weights.iter().sum::<f64>() as usize;
        let ours = places(&mut weighted(config(StrategyName::SmoothRoundRobin), weights), 3 * period);
        let theirs = nginx(weights, 3 * period);
        let counts = |places: &[usize]| -> Vec<usize> {
            (0..weights.len()).map(|index| places.iter().filter(|p| **p == index).count()).collect()
        };
        assert_eq!(counts(&ours), counts(&theirs), "{weights:?}");
        let (ours, theirs) = (unevenness(&ours, weights), unevenness(&theirs, weights));
        assert!(ours < 1.5, "{weights:?}: {ours}, nginx {theirs}");
    }
    // A weight of 10 beside 100 gets its first turn within its first period.
    let first = places(&mut weighted(config(StrategyName::SmoothRoundRobin), &[100.0, 10.0]), 12);
    assert!(first.contains(&1));
}

#[test]
fn a_box_that_was_away_is_not_flooded_when_it_comes_back() {
    for strategy in [StrategyName::RoundRobin, StrategyName::SmoothRoundRobin] {
        let mut driver = weighted(config(strategy), &[1.0; 3]);
        let stamp = driver.stamp();
        driver.engine.drain("box-1", stamp, &mut driver.events).unwrap();
        places(&mut driver, 300);
        driver.pass(2_000);
        driver.register(spec("box-1", 100_000, 1_000_000));
        let mut back = |number| driver.place(ball(format!("back-{number}"), Class::Normal, 1)).unwrap().0;
        let its = (0..30).map(&mut back).filter(|box_id| box_id == "box-1").count();
        assert!((9..=11).contains(&its), "{strategy}: {its} of 30");
    }
}

/// Seed 000, §4.3: 0.7 × 1/1.35 × 0.95 = 0.4926; by price alone the slow box would get 0.7.
#[test]
fn the_cheap_slow_box_gets_its_weight_by_price_performance_and_stability() {
    let mut driver = Driver::new(config(StrategyName::SmoothRoundRobin));
    let says = |driver: &mut Driver, box_id: &str, duration_ms, failure_rate| {
        let mut report = report(box_id, driver.at_ms, 0.0, driver.engine.fleet().seq());
        report.avg_task_duration_ms = duration_ms;
        report.failure_rate_7d = failure_rate;
        driver.report(report);
    };
    for (box_id, price_weight) in [("singapore", 1.0), ("silent", 1.0), ("tokyo", 0.7)] {
        driver.register(BoxSpec { price_weight, ..spec(box_id, 100, 10_000) });
    }
    says(&mut driver, "singapore", Some(100.0), Some(0.0));
    says(&mut driver, "tokyo", Some(135.0), Some(0.05));
    driver.pass(2_000);
    let weight = |box_id: &str| driver.engine.fleet().get_box(box_id).unwrap().weight();
    assert!((weight("tokyo") - 0.7 / 1.35 * 0.95).abs() < 1e-12, "{}", weight("tokyo"));
    assert_eq!(weight("singapore"), 1.0);
    // Who reports nothing counts as the slowest and least stable that is known, never as better.
    assert!((weight("silent") - 0.95 / 1.35).abs() < 1e-12, "{}", weight("silent"));
    // Silence later on changes nothing, and nonsense is no measurement.
    says(&mut driver, "tokyo", Some(0.0), Some(f64::NAN));
    driver.pass(2_000);
    let tokyo = driver.engine.fleet().get_box("tokyo").unwrap().weight();
    assert!((tokyo - 0.7 / 1.35 * 0.95).abs() < 1e-12);
}

/// Seed 000, §4.2: balls come with jitter, each box is due every 60 s, and is held to 59.8 to 60.2 s.
#[test]
fn a_cadence_of_sixty_seconds_holds_under_jitter() {
    let mut driver = weighted(config(StrategyName::NextAccept), &[1.0; 5]);
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    let (mut intervals, mut paced) = (Vec::new(), 0);
    for number in 0..40_000_u64 {
        // A ball wants a place every 20 to 180 ms.
        driver.pass(20 + draw_of(5, number) % 161);
        let placed = driver.place(ball(format!("ball-{number}"), Class::Normal, 0));
        let Some((box_id, _)) = placed else {
            paced += 1;
            continue;
        };
        if let Some(before) = last.insert(box_id, driver.at_ms) {
            intervals.push(driver.at_ms - before);
        }
    }
    let (least, most) = (intervals.iter().min().unwrap(), intervals.iter().max().unwrap());
    assert!(*least >= 59_800 && *most <= 60_200, "{least} to {most} ms");
    let mean = intervals.iter().sum::<u64>() as f64 / intervals.len() as f64;
    assert!((mean - 60_000.0).abs() < 5.0, "no drift: {mean}");
    assert!(intervals.len() > 300 && paced > 30_000);
}

#[test]
fn a_box_may_say_itself_when_it_accepts_the_next_ball() {
    let mut driver = weighted(config(StrategyName::NextAccept), &[1.0; 1]);
    driver.pass(1_000);
    let mut says = report("box-0", driver.at_ms, 0.0, 0);
    says.next_accept_at_ms = Some(driver.at_ms + 5_000);
    driver.report(says);
    assert_eq!(driver.place(ball("early", Class::Normal, 0)), None);
    let stamp = driver.stamp();
    let explained = driver.engine.explain(ball("early", Class::Normal, 0), stamp, &mut driver.events);
    assert_eq!(explained.unwrap().decision.refused, BTreeMap::from([(Refusal::Pacing, 1)]));
    driver.pass(5_000);
    assert!(driver.place(ball("due", Class::Normal, 0)).is_some());
}

#[test]
fn latencies_move_balls_away_and_back() {
    for strategy in [StrategyName::PeakEwma, StrategyName::HotCold] {
        let mut driver = weighted(config(strategy), &[1.0; 4]);
        let mut counts = [0_usize; 4];
        let mut live = std::collections::VecDeque::new();
        for number in 0..30_000 {
            driver.pass(10);
            let ball = ball(format!("ball-{number}"), Class::Normal, 1);
            let (box_id, lease_id) = driver.place(ball.clone()).unwrap();
            let place: usize = box_id.strip_prefix("box-").unwrap().parse().unwrap();
            counts[place] += 1;
            live.push_back((ball, lease_id, if place == 2 { 500 } else { 10 }));
            if live.len() > 8 {
                let (ball, lease_id, latency_ms) = live.pop_front().unwrap();
                let (stamp, outcome) =
                    (driver.stamp(), Outcome { succeeded: true, latency_ms: Some(latency_ms) });
                driver.engine.complete(lease_id, ball.key(), outcome, stamp, &mut driver.events).unwrap();
            }
        }
        assert!(counts[2] < 1_500, "{strategy}: the slow box got {counts:?}");
        // It was looked at again after its latency had faded.
        assert!(counts[2] > 2, "{strategy}: the slow box is never tried again: {counts:?}");
    }
}

/// An upload of `user`; its bandwidth is not stated.
fn upload(id: &str, user: &str) -> Ball {
    Ball { user: Some(user.to_owned()), size_bytes: Some(125_000_000), ..Ball::new(id) }
}

/// Two uploaders with a link of 10 Gbit/s.
fn uploaders() -> Driver {
    let mut driver = Driver::new(config(StrategyName::Hoba));
    for index in 0..2 {
        driver.register(BoxSpec::new(
            &format!("box-{index}"),
            Capacity([None, None, Some(10_000_000_000), None]),
        ));
    }
    driver
}

#[test]
fn hoba_counts_an_upload_at_once_with_the_speed_of_its_user() {
    let mut driver = uploaders();
    // 1 Gbit in 1 s: a fast user; in 10 s: a slow one.
    for (user, stay_ms) in [("fast", 1_000), ("slow", 10_000)] {
        let ball = upload(&format!("past-{user}"), user);
        let (_, lease_id) = driver.place(Arc::new(ball.clone())).unwrap();
        driver.pass(stay_ms);
        driver.complete(&ball, lease_id, true);
    }
    let (first, _) = driver.place(Arc::new(upload("a", "fast"))).unwrap();
    let (second, _) = driver.place(Arc::new(upload("b", "slow"))).unwrap();
    assert_ne!(first, second);
    let link = |driver: &Driver, id: &str| driver.engine.fleet().get_box(id).unwrap().committed().0[2];
    assert_eq!((link(&driver, &first), link(&driver, &second)), (1_000_000_000, 100_000_000));
    // Eight more slow ones go to the other box until it carries as much as the fast one.
    for number in 0..8 {
        assert_eq!(driver.place(Arc::new(upload(&format!("c{number}"), "slow"))).unwrap().0, second);
    }
    driver.engine.fleet().recount().unwrap();
}

#[test]
fn reports_correct_hoba_in_both_directions() {
    let mut driver = uploaders();
    let with_speed = |id: &str, bps: f64| Arc::new(Ball { speed_bps: Some(bps), ..upload(id, "x") });
    let (first, _) = driver.place(with_speed("a", 4e9)).unwrap();
    let (second, _) = driver.place(with_speed("b", 3e9)).unwrap();
    assert_ne!(first, second);
    let says = |driver: &mut Driver, box_id: &str, bps: f64| {
        driver.pass(1_000);
        let mut report = BoxReport::new(box_id, driver.at_ms);
        report.usage = Usage { bandwidth_bps: Some(bps), ..Usage::default() };
        report.last_accepted_lease_id = Some(driver.engine.fleet().seq());
        driver.report(report);
    };
    // The first upload turns out far slower than expected: its box is the emptier one.
    says(&mut driver, &first, 1e9);
    assert_eq!(driver.place(with_speed("c", 1e8)).unwrap().0, first);
    // Something that nobody placed fills the link: the box is avoided.
    says(&mut driver, &first, 9e9);
    assert_eq!(driver.place(with_speed("d", 1e8)).unwrap().0, second);
}
