use super::*;
use crate::rows::BallRow;

/// Two days of five boxes.
fn small(seed: u64) -> GeneratorConfig {
    GeneratorConfig { seed, days: 2, boxes: 5, ..GeneratorConfig::default() }
}

fn made(config: &GeneratorConfig) -> FleetData {
    generate(config, &mut |_, _| {}).unwrap()
}

#[test]
fn a_seed_decides_everything() {
    let first = made(&small(3));
    assert_eq!(first, made(&small(3)));
    let other = made(&small(4));
    assert_ne!(first.metrics, other.metrics);
    assert_ne!(first.balls, other.balls);
}

#[test]
fn use_is_background_plus_the_balls_that_are_there() {
    let config = small(1);
    let data = made(&config);
    let balls: BTreeMap<&str, &BallRow> =
        data.balls.iter().map(|ball| (ball.ball_id.as_str(), ball)).collect();
    for (index, row) in data.boxes.iter().enumerate() {
        let background = background::of_box(&config, index as u64);
        let metrics: Vec<&MetricRow> =
            data.metrics.iter().filter(|metric| metric.box_id == row.box_id).collect();
        for (sample, metric) in metrics.iter().enumerate().step_by(97) {
            // Recounted from the outcomes, ball by ball.
            let running = data.outcomes.iter().filter(|outcome| {
                outcome.box_id == row.box_id
                    && outcome.started_at_ms <= metric.at_ms
                    && outcome.finished_at_ms.is_none_or(|end| metric.at_ms < end)
            });
            let demands: Vec<f64> =
                running.map(|outcome| balls[outcome.ball_id.as_str()].demand_cpu_cores).collect();
            let placed: f64 = demands.iter().sum();
            assert!((metric.placed_cpu_cores.unwrap() - placed).abs() < 1e-9);
            assert_eq!(metric.placed_slots, Some(demands.len() as f64));
            let total = background.cpu[sample] * row.capacity_cpu_cores.unwrap() + placed;
            assert!((metric.cpu_cores.unwrap() - total).abs() < 1e-9);
        }
    }
}

/// The level that a box exceeds for half an hour a day, averaged over boxes and days.
fn mean_daily_peak(data: &FleetData, capacity: &BTreeMap<&str, f64>) -> f64 {
    let mut days: BTreeMap<(&str, i64), Vec<f64>> = BTreeMap::new();
    for row in &data.metrics {
        let share = row.cpu_cores.unwrap() / capacity[row.box_id.as_str()];
        days.entry((&row.box_id, row.at_ms.div_euclid(DAY_MS))).or_default().push(share);
    }
    let count = days.len() as f64;
    let peak = |mut day: Vec<f64>| {
        day.sort_unstable_by(f64::total_cmp);
        day[day.len() - 30]
    };
    days.into_values().map(peak).sum::<f64>() / count
}

#[test]
fn the_fleet_is_as_busy_as_the_defaults_say() {
    let config = GeneratorConfig::default();
    let data = made(&config);
    let capacity: BTreeMap<&str, f64> =
        data.boxes.iter().map(|row| (row.box_id.as_str(), row.capacity_cpu_cores.unwrap())).collect();
    let share_of = |row: &MetricRow| row.cpu_cores.unwrap() / capacity[row.box_id.as_str()];
    let all: Vec<f64> = data.metrics.iter().map(share_of).collect();
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    assert!((0.55..0.65).contains(&mean), "mean utilisation {mean}");
    let peak = mean_daily_peak(&data, &capacity);
    assert!((0.85..0.98).contains(&peak), "mean daily peak of a box {peak}");
    let rate = data.balls.len() as f64 / (7.0 * 86_400.0);
    assert!((1.2..1.4).contains(&rate), "balls a second {rate}");
    let share = |class: &str| {
        data.balls.iter().filter(|ball| ball.class == class).count() as f64 / data.balls.len() as f64
    };
    assert!((share("critical") - 0.1).abs() < 0.005 && (share("low") - 0.2).abs() < 0.005);
    let refused = data.outcomes.iter().filter(|outcome| outcome.box_id.is_empty()).count();
    assert!(refused * 1000 < data.balls.len(), "{refused} refused");
    assert!(data.balls.windows(2).all(|pair| pair[0].at_ms <= pair[1].at_ms));
}

#[test]
fn jobs_make_the_next_five_minutes_predictable() {
    // What the same minute did in the hours before tells more of a jump than the present load does.
    let config = small(2);
    let (mut by_hour, mut by_now) = (0.0, 0.0);
    for index in 0..u64::from(config.boxes) {
        let cpu = background::of_box(&config, index).cpu;
        for at in 125..cpu.len() - 5 {
            let truth = cpu[at + 5] - cpu[at];
            let hour_ago = (cpu[at + 5 - 60] - cpu[at - 60] + cpu[at + 5 - 120] - cpu[at - 120]) / 2.0;
            by_hour += (truth - hour_ago).abs();
            by_now += truth.abs();
        }
    }
    assert!(by_hour < 0.8 * by_now, "by hours before {by_hour}, by now {by_now}");
}

#[test]
fn settings_outside_their_limits_are_named() {
    let fails = |config: GeneratorConfig| generate(&config, &mut |_, _| {}).unwrap_err().to_string();
    assert!(fails(GeneratorConfig { days: 0, ..small(1) }).contains("days is 0; allowed: 1 to 366"));
    assert!(fails(GeneratorConfig { noise: f64::NAN, ..small(1) }).contains("noise"));
    assert!(fails(GeneratorConfig { boxes: 10_000, days: 366, ..small(1) }).contains("number of balls"));
}
