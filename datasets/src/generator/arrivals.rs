//! Arrivals: balls as an inhomogeneous Poisson process with a daily pattern and bursts.

use super::background::{day_profile, is_weekend};
use super::random::Random;
use super::{DAY_MS, GeneratorConfig};
use crate::rows::BallRow;

/// A kind of ball: its share, how long it works (seconds at speed 1) and how much it needs.
struct Kind {
    name: &'static str,
    share: f64,
    cores_median: f64,
    draw_work: fn(&mut Random) -> f64,
}

const KINDS: [Kind; 3] = [
    Kind {
        name: "request",
        share: 0.45,
        cores_median: 0.2,
        draw_work: |random| random.log_normal(8.0, 0.8).clamp(1.0, 120.0),
    },
    Kind {
        name: "task",
        share: 0.40,
        cores_median: 0.5,
        draw_work: |random| random.log_normal(90.0, 0.7).clamp(5.0, MAX_WORK_S),
    },
    Kind {
        name: "batch",
        share: 0.15,
        cores_median: 1.0,
        draw_work: |random| random.pareto(180.0, 1.6, MAX_WORK_S),
    },
];
const MAX_WORK_S: f64 = 1_200.0;
const CLASSES: [(&str, f64); 3] = [("critical", 0.10), ("normal", 0.70), ("low", 0.20)];
const REGIONS: [(&str, f64); 3] = [("north", 0.5), ("south", 0.3), ("west", 0.2)];
const GIB: f64 = 1_073_741_824.0;
/// Draws by which the mean of cores × seconds a ball is estimated.
const CALIBRATION_DRAWS: usize = 20_000;

/// A fleet-wide rush.
struct Rush {
    from_ms: f64,
    until_ms: f64,
    factor: f64,
}

/// All balls, by arrival. `fleet_cores` scales demands, so that the placed load is the share asked for.
pub(super) fn all_balls(config: &GeneratorConfig, fleet_cores: f64) -> Vec<BallRow> {
    let mut random = Random::new(config.seed, 1);
    let rate = config.balls_per_second_per_box * f64::from(config.boxes);
    let scale = demand_scale(config, fleet_cores, rate);
    let rushes = draw_rushes(config);
    let tenants: Vec<f64> = (1..=config.tenants).map(|rank| 1.0 / f64::from(rank)).collect();
    let normal = mean_pattern();
    // The highest rate possible; candidates are thinned down to the rate of their time.
    let highest = rate * pattern_limit() / normal;
    let mut balls =
        Vec::with_capacity((rate * (config.end_ms() - config.start_ms) as f64 / 1000.0 * 1.1) as usize);
    let mut at_ms = config.start_ms as f64;
    loop {
        at_ms += random.exponential(1000.0 / highest);
        if at_ms >= config.end_ms() as f64 {
            return balls;
        }
        let pattern = weekly_pattern(at_ms as i64) * rush_factor(&rushes, at_ms);
        if random.unit() * pattern_limit() < pattern {
            let number = balls.len() + 1;
            balls.push(one_ball(&mut random, number, at_ms as i64, scale, &tenants));
        }
    }
}

fn one_ball(random: &mut Random, number: usize, at_ms: i64, scale: f64, tenants: &[f64]) -> BallRow {
    let kind = &KINDS[random.weighted(&KINDS.map(|kind| kind.share)).unwrap_or(0)];
    let class = CLASSES[random.weighted(&CLASSES.map(|class| class.1)).unwrap_or(1)].0;
    let region = REGIONS[random.weighted(&REGIONS.map(|region| region.1)).unwrap_or(0)].0;
    let tenant = random.weighted(tenants).unwrap_or(0);
    let cores = draw_cores(random, kind) * scale;
    let work = (kind.draw_work)(random);
    let expected_ms = work * 1000.0 * random.log_normal(1.0, 0.25);
    BallRow {
        at_ms,
        ball_id: format!("ball-{number:08}"),
        tenant: format!("tenant-{:02}", tenant + 1),
        class: class.to_owned(),
        kind: kind.name.to_owned(),
        region: region.to_owned(),
        demand_cpu_cores: rounded(cores, 1e3),
        demand_memory_bytes: (cores * GIB * random.log_normal(1.5, 0.4)).round(),
        demand_bandwidth_bps: (cores * 8e6 * random.log_normal(1.0, 0.6)).round(),
        demand_slots: 1.0,
        work: Some(rounded(work, 1e3)),
        expected_residence_ms: Some(expected_ms.round() as i64),
    }
}

fn draw_cores(random: &mut Random, kind: &Kind) -> f64 {
    random.log_normal(kind.cores_median, 0.5).clamp(0.05, 8.0)
}

fn rounded(value: f64, parts: f64) -> f64 {
    ((value * parts).round() / parts).max(1.0 / parts)
}

/// The factor on demands with which balls fill `placed_share` of the fleet's cores.
fn demand_scale(config: &GeneratorConfig, fleet_cores: f64, rate: f64) -> f64 {
    // Own stream and constant seed: the same catalogue of balls whatever the traffic.
    let mut random = Random::new(0, 2);
    let mut sum = 0.0;
    for _ in 0..CALIBRATION_DRAWS {
        let kind = &KINDS[random.weighted(&KINDS.map(|kind| kind.share)).unwrap_or(0)];
        sum += draw_cores(&mut random, kind) * (kind.draw_work)(&mut random);
    }
    config.placed_share * fleet_cores / (rate * sum / CALIBRATION_DRAWS as f64)
}

/// Arrivals relative to the daily peak.
fn weekly_pattern(at_ms: i64) -> f64 {
    let week = if is_weekend(at_ms) { 0.8 } else { 1.0 };
    week * (0.45 + 0.55 * day_profile(at_ms))
}

fn pattern_limit() -> f64 {
    RUSH_FACTOR_MOST
}

const RUSH_FACTOR_MOST: f64 = 1.8;

/// The mean of the pattern over a week, minute by minute.
fn mean_pattern() -> f64 {
    let minutes = 7 * 24 * 60;
    (0..minutes).map(|minute| weekly_pattern(minute * 60_000)).sum::<f64>() / minutes as f64
}

fn draw_rushes(config: &GeneratorConfig) -> Vec<Rush> {
    let mut random = Random::new(config.seed, 3);
    let mut rushes = Vec::new();
    if config.rushes_per_day <= 0.0 {
        return rushes;
    }
    let mut from_ms = config.start_ms as f64;
    loop {
        from_ms += random.exponential(DAY_MS as f64 / config.rushes_per_day);
        if from_ms >= config.end_ms() as f64 {
            return rushes;
        }
        let until_ms = from_ms + random.between(3.0, 12.0) * 60_000.0;
        rushes.push(Rush { from_ms, until_ms, factor: random.between(1.3, RUSH_FACTOR_MOST) });
    }
}

fn rush_factor(rushes: &[Rush], at_ms: f64) -> f64 {
    let running = rushes.iter().filter(|rush| rush.from_ms <= at_ms && at_ms < rush.until_ms);
    running.map(|rush| rush.factor).fold(1.0, f64::max)
}
