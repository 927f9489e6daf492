use super::*;
use crate::domain::{Capacity, Class};
use crate::strategy::StrategyName;
use xxhash_rust::xxh3::Xxh3;

const CORES: usize = 0;

fn boxes(count: usize, cores: u64, discipline: Discipline) -> Vec<SimulatedBox> {
    (0..count)
        .map(|index| SimulatedBox {
            spec: BoxSpec::new(
                &format!("box-{index:02}"),
                Capacity([Some(cores * 1_000_000), None, None, None]),
            ),
            discipline,
            background: Vec::new(),
        })
        .collect()
}

fn ball(index: usize, tenths: u64) -> Ball {
    let mut ball = Ball::new(format!("ball-{index}"));
    ball.demand = Amounts([tenths * 100_000, 0, 0, 0]);
    ball
}

fn scenario(boxes: Vec<SimulatedBox>, arrivals: Vec<Arrival>) -> Scenario {
    let config =
        FleetConfig { primary: StrategyName::LeastLoaded, critical_headroom: 0.0, ..FleetConfig::default() };
    Scenario {
        config,
        boxes,
        arrivals,
        report_every_ms: Some(10_000),
        measured_from_ms: 0,
        conditions: Conditions::default(),
    }
}

/// Some of everything that can go wrong, at three schedulers.
fn troubled(seed: u64) -> Scenario {
    let arrivals =
        (0..4_000).map(|i| Arrival::new(i as u64 * 25, ball(i, 5), 4_000.0 + (i % 7) as f64 * 900.0));
    let mut scenario = scenario(boxes(8, 16, Discipline::Contended), arrivals.collect());
    scenario.config.seed = seed;
    scenario.config.primary = StrategyName::PowerOfTwo;
    scenario.conditions = Conditions {
        schedulers: 3,
        report_delay_ms: 500,
        report_jitter_ms: 2_000,
        report_loss: 0.2,
        patience_ms: Some(20_000),
        cold_ms: 5_000,
        cold_speed: 0.3,
        box_price_per_hour: 2.0,
        changes: vec![
            (10_000, 1, Change::Crash),
            (15_000, 2, Change::Speed(0.2)),
            (20_000, 3, Change::Steal(0.7)),
            (40_000, 1, Change::Restart),
        ],
        scaling: Some(Scaling {
            every_ms: 5_000,
            load_high: 0.5,
            load_low: 0.1,
            looks_ahead: false,
            start_ms: 10_000,
            boxes_min: 6,
        }),
        ..Conditions::default()
    };
    scenario
}

fn log_hash(scenario: &Scenario) -> (u64, Simulated) {
    let mut hash = Xxh3::new();
    let run = simulate(scenario, None, &mut |event| {
        hash.update(serde_json::to_string(event).unwrap().as_bytes());
    });
    (hash.digest(), run)
}

#[test]
fn the_same_seed_gives_the_same_log_and_another_gives_another() {
    let (hash, run) = log_hash(&troubled(1));
    assert_eq!(log_hash(&troubled(1)), (hash, run.clone()));
    assert_ne!(log_hash(&troubled(2)).0, hash);
    assert!(run.failed[Class::Normal as usize] > 0, "the crash must cost something");
    let ended = run.time_in_system_ms.iter().flatten().count() as u64;
    let errors: u64 = run.errors().iter().sum();
    assert_eq!(run.arrived.iter().sum::<u64>(), ended + errors, "every ball ends one way");
    assert!((run.price - run.box_ms as f64 / 1_800_000.0).abs() < 1e-9);
    assert!(run.box_ms > 6 * 99_000 && run.box_ms < 8 * 130_000, "{}", run.box_ms);
}

#[test]
fn a_stopped_copied_and_resumed_run_is_the_same_run() {
    let scenario = troubled(5);
    let whole = simulate(&scenario, None, &mut |_| {});
    let mut first = Simulation::new(&scenario, None);
    first.run_until(33_333, &mut |_| {});
    let mut second = first.clone();
    second.run_until(u64::MAX, &mut |_| {});
    assert_eq!(second.finish(), whole);
}

#[test]
fn contended_boxes_slow_down_in_proportion_and_by_background() {
    let mut arrivals = vec![Arrival::new(0, ball(0, 10), 10_000.0)];
    let mut boxes = boxes(1, 2, Discipline::Contended);
    boxes[0].background = vec![
        Background { at_ms: 0, usage: [Some(0.5), None, None, None] },
        // From here on 3 of 2 cores are wanted: the second half takes 1.5 times as long.
        Background { at_ms: 5_000, usage: [Some(2.0), None, None, None] },
    ];
    arrivals.push(Arrival::new(60_000, ball(1, 1), 1_000.0));
    let run = simulate(&scenario(boxes, arrivals), None, &mut |_| {});
    assert_eq!(run.time_in_system_ms[0], Some(12_500));
    assert_eq!(run.refused[Class::Normal as usize], 1, "two cores are taken when the second comes");
}

#[test]
fn impatient_senders_leave_and_their_work_with_them() {
    let arrivals = (0..4).map(|i| Arrival::new(i as u64, ball(i, 1), 10_000.0)).collect();
    let mut scenario = scenario(boxes(1, 100, Discipline::ProcessorSharing), arrivals);
    scenario.conditions.patience_ms = Some(20_000);
    let run = simulate(&scenario, None, &mut |_| {});
    // Four share one processor: after 20 s each has had 5 s; the first leaves, then the others.
    assert_eq!(run.timed_out[Class::Normal as usize], 4);
    assert_eq!(run.total_ms, 0);
}

#[test]
fn a_stolen_processor_shows_in_reports_and_a_slow_box_does_not() {
    for (change, shows) in [(Change::Steal(0.5), true), (Change::Speed(0.5), false)] {
        let arrivals = vec![Arrival::new(0, ball(0, 1), 30_000.0), Arrival::new(90_000, ball(1, 1), 1.0)];
        let mut scenario = scenario(boxes(1, 2, Discipline::Contended), arrivals);
        scenario.conditions.changes = vec![(5_000, 0, change)];
        let mut most = 0.0_f64;
        let run = simulate(&scenario, None, &mut |event| {
            if let crate::event::EventKind::Reported { report } = &event.kind {
                most = most.max(report.usage.to_array()[CORES].unwrap_or(0.0));
            }
        });
        assert_eq!(run.time_in_system_ms[0], Some(55_000), "25 s at half the speed");
        assert_eq!(most > 1.0, shows, "{most}");
    }
}

#[test]
fn uploads_share_a_link_and_pools_share_nothing() {
    let mut upload = Ball::new("u");
    upload.demand = Amounts([0, 0, 600_000_000, 0]);
    let arrivals = (0..4).map(|i| {
        let mut ball = upload.clone();
        ball.ball_id = format!("u{i}");
        Arrival::new(i, ball, 8_000.0)
    });
    let arrivals: Vec<Arrival> = arrivals.collect();
    let link = |index: usize| SimulatedBox {
        spec: BoxSpec::new(&format!("link-{index}"), Capacity([None, None, Some(10_000_000_000), None])),
        discipline: Discipline::Bandwidth,
        background: Vec::new(),
    };
    let mut scenario = scenario((0..2).map(link).collect(), arrivals);
    scenario.conditions = Conditions { schedulers: 2, pooled: true, ..Conditions::default() };
    let run = simulate(&scenario, None, &mut |_| {});
    assert!(run.time_in_system_ms.iter().all(|time| *time == Some(8_000)), "the link is wide enough");
    let positions = [0, 1].map(|scheduler| Simulation::new(&scenario, None).registered(scheduler).to_vec());
    assert_eq!(positions, [vec![0], vec![1]]);
}

#[test]
fn foresight_takes_the_forecasts_place() {
    let mut boxes = boxes(2, 10, Discipline::Stay);
    // box-00 looks better now, and is about to be full.
    for (simulated, usage) in boxes.iter_mut().zip([1.0, 2.0]) {
        simulated.background = vec![Background { at_ms: 0, usage: [Some(usage), None, None, None] }];
    }
    let mut long = ball(0, 1);
    long.expected_residence_ms = Some(120_000);
    let mut scenario = scenario(boxes, vec![Arrival::new(10_000, long, 1_000.0)]);
    scenario.config.primary = StrategyName::PredictedLoad;
    let chosen = |foresight: Option<crate::forecast::Foresight>| {
        let mut simulation = Simulation::new(&scenario, None);
        simulation.set_foresight(foresight.as_ref());
        let mut chosen = String::new();
        simulation.run_until(u64::MAX, &mut |event| {
            if let crate::event::EventKind::Decided { decision } = &event.kind {
                chosen = decision.box_id().map(|id| id.to_string()).unwrap_or_default();
            }
        });
        chosen
    };
    assert_eq!(chosen(Some(Arc::new(|_, _, _, now| now))), "box-00");
    assert_eq!(chosen(Some(Arc::new(|id, _, _, now| if id == "box-00" { 0.9 } else { now }))), "box-01");
}
