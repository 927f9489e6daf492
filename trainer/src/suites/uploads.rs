//! `uploads`: heavy-tailed uploads to uploaders on shared links, several schedulers, reports every K
//! seconds. The base trace is pooled: every scheduler has a part of the uploaders to itself.

use berth_models::config::FleetConfig;
use berth_models::domain::{Amounts, Ball, BoxSpec, Capacity, Dimension};
use berth_models::simulation::{Arrival, Background, Conditions, Discipline, Scenario, SimulatedBox};
use berth_models::strategy::StrategyName;
use serde::Deserialize;

use super::draws::Draws;
use super::outlook::History;
use super::world::{self, WorldConfig};
use super::{Case, Contender, Kind, Outlook, Outlooks, Seeds, Suite, hash_text};

const FILE: &str = include_str!("../../scenarios/uploads.json");
/// The part of the window in which the links fill up; it is not measured.
const FILL_MS: u64 = 90_000;
/// History that strategies without forecasts are given.
const SHORT_HISTORY_MS: u64 = 180_000;
/// Strategies of the seed texts, which go by reports alone. The least loaded by report is left out: all
/// uploads of a report interval on one uploader are no rival, and take hours to simulate.
const SEED_RULES: [StrategyName; 5] = [
    StrategyName::Random,
    StrategyName::RoundRobin,
    StrategyName::PowerOfTwo,
    StrategyName::PowerOfD,
    StrategyName::TopN,
];
/// The field's strategies that know what they have placed themselves.
const FIELD_RULES: [StrategyName; 5] = [
    StrategyName::LeastLoaded,
    StrategyName::PowerOfTwo,
    StrategyName::JoinShortestQueue,
    StrategyName::PeakEwma,
    StrategyName::HotCold,
];

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    about: String,
    first_seed: u32,
    traces: usize,
    traces_full: usize,
    history: History,
    window_from_h: f64,
    window_h: f64,
    step_ms: u64,
    cases: Vec<Setting>,
    cases_full: Vec<Setting>,
    links_bps: Vec<f64>,
    link_used_by_others: f64,
    placed_share: f64,
    users_per_uploader: usize,
    user_bps_median: f64,
    user_spread: f64,
    user_bps_max: f64,
    session_spread: f64,
    known_session_share: f64,
    known_user_share: f64,
    size_bytes_least: f64,
    size_shape: f64,
    size_bytes_max: f64,
    report_delay_ms: u64,
    report_jitter_ms: u64,
    report_loss: f64,
    measure_every_ms: u64,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Setting {
    uploaders: u32,
    schedulers: usize,
    report_every_ms: u64,
}

/// The suite.
///
/// # Errors
/// When the forecast can't be trained.
pub fn suite(seeds: &Seeds, full: bool) -> anyhow::Result<Suite> {
    let settings: Settings = serde_json::from_str(FILE)?;
    let traces = if full { settings.traces_full } else { settings.traces };
    let mut chosen = settings.cases.clone();
    if full {
        chosen.extend(&settings.cases_full);
    }
    let case = |setting: Setting| {
        let (made, seeds) = (settings.clone(), seeds.clone());
        let name = format!(
            "{} uploaders, {} schedulers, reports every {} s",
            setting.uploaders,
            setting.schedulers,
            setting.report_every_ms / 1_000
        );
        let make = move |index| trace(&made, setting, seeds.seed(made.first_seed, index));
        Case { name, traces, make: Box::new(make) }
    };
    Ok(Suite {
        name: "uploads",
        about: settings.about.clone(),
        scenario_hash: hash_text(FILE),
        score_name: "spread of link utilisation: mean over time of the standard deviation over uploaders",
        score: |_, simulated| simulated.imbalance,
        cases: chosen.into_iter().map(case).collect(),
        contenders: contenders(),
        outlooks: Outlooks::train(&settings.history)?,
    })
}

/// Everybody places on every uploader, and has seen little of the past.
fn shared(scenario: &mut Scenario) {
    scenario.conditions.pooled = false;
    let first_ms = scenario.arrivals.first().map_or(0, |arrival| arrival.at_ms);
    for simulated in &mut scenario.boxes {
        simulated.background.retain(|background| background.at_ms + SHORT_HISTORY_MS >= first_ms);
    }
}

/// One scheduler that knows every speed as it is and every change within a second.
fn clairvoyant(scenario: &mut Scenario) {
    shared(scenario);
    scenario.conditions = Conditions {
        schedulers: 1,
        pooled: false,
        measure_every_ms: scenario.conditions.measure_every_ms,
        ..Conditions::default()
    };
    scenario.report_every_ms = Some(1_000);
    for arrival in &mut scenario.arrivals {
        std::sync::Arc::make_mut(&mut arrival.ball).demand = arrival.demand;
    }
}

/// Senders state no demand but what they know of the session's speed: the strategy learns its users' speeds.
fn learnt(scenario: &mut Scenario) {
    for arrival in &mut scenario.arrivals {
        std::sync::Arc::make_mut(&mut arrival.ball).demand = Amounts::ZERO;
    }
}

fn contenders() -> Vec<Contender> {
    let mut contenders = Vec::new();
    // Without virtual load: what the seed texts compare with. Their ratios are against the best of them.
    let by_reports = |strategy| Contender::new(strategy, Kind::Rule).without_virtual_load().shaped(shared);
    contenders.extend(SEED_RULES.map(by_reports));
    for strategy in FIELD_RULES {
        contenders.push(Contender::new(strategy, Kind::Ablation).shaped(shared).named("virtual load"));
    }
    let pooled = |contender: Contender| contender.named("own pool");
    contenders.push(pooled(Contender::new(StrategyName::LeastLoaded, Kind::Candidate)));
    contenders.push(pooled(Contender::new(StrategyName::Hoba, Kind::Candidate)).shaped(learnt));
    for strategy in StrategyName::ALL.into_iter().filter(|name| name.needs_model()) {
        for (kind, outlook) in [
            (Kind::Candidate, Outlook::Model),
            (Kind::Ablation, Outlook::Persistence),
            (Kind::Ablation, Outlook::Perfect),
        ] {
            let contender = pooled(Contender::new(strategy, kind)).with_outlook(outlook);
            contenders.push(if strategy.expects_speed() { contender.shaped(learnt) } else { contender });
        }
    }
    let bound = Contender::new(StrategyName::PredictedLoad, Kind::Bound).with_outlook(Outlook::Perfect);
    contenders.push(bound.named("one scheduler, true speeds, reports every second").shaped(clairvoyant));
    contenders
}

fn trace(settings: &Settings, setting: Setting, seed: u32) -> anyhow::Result<Scenario> {
    let window = world::window(settings.window_from_h, settings.window_h);
    let config =
        WorldConfig { seed: u64::from(seed), days: 2, boxes: setting.uploaders, step_ms: settings.step_ms };
    let d = Dimension::BandwidthBps as usize;
    let mut boxes = Vec::new();
    for (index, generated) in world::generate_world(&config)?.into_iter().enumerate() {
        let link_bps = settings.links_bps[index % settings.links_bps.len()];
        let background = world::cut(&generated.load, window).map(|(at_ms, load)| {
            let mut usage = [None; 4];
            usage[d] = Some(load * settings.link_used_by_others * link_bps);
            Background { at_ms, usage }
        });
        boxes.push(SimulatedBox {
            spec: BoxSpec::new(&generated.box_id, Capacity::from_public([None, None, Some(link_bps), None])?),
            discipline: Discipline::Bandwidth,
            background: background.collect(),
        });
    }
    let links_bps: f64 = boxes.iter().filter_map(|b| b.spec.capacity.0[d]).map(|base| base as f64).sum();
    Ok(Scenario {
        config: FleetConfig {
            seed: u64::from(seed),
            report_stale_ms: 3 * setting.report_every_ms,
            lease_ms_default: 24 * 3_600_000,
            idempotency_keep_ms: 1_000,
            critical_headroom: 0.0,
            ..FleetConfig::default()
        },
        arrivals: arrivals(settings, setting, seed, window, links_bps)?,
        boxes,
        report_every_ms: Some(setting.report_every_ms),
        measured_from_ms: window.0 + FILL_MS,
        conditions: Conditions {
            schedulers: setting.schedulers,
            pooled: true,
            history_report_every_ms: (setting.report_every_ms < 60_000).then_some(60_000),
            report_delay_ms: settings.report_delay_ms,
            report_jitter_ms: settings.report_jitter_ms,
            report_loss: settings.report_loss,
            measure_every_ms: Some(settings.measure_every_ms),
            ..Conditions::default()
        },
    })
}

fn arrivals(
    settings: &Settings,
    setting: Setting,
    seed: u32,
    window: (u64, u64),
    links_bps: f64,
) -> anyhow::Result<Vec<Arrival>> {
    let mut draws = Draws::new(u64::from(seed), 3);
    let users = setting.uploaders as usize * settings.users_per_uploader;
    let speeds: Vec<f64> =
        (0..users).map(|_| draws.log_normal(settings.user_bps_median, settings.user_spread)).collect();
    let size_bits = |draws: &mut Draws| {
        8.0 * draws.pareto(settings.size_bytes_least, settings.size_shape, settings.size_bytes_max)
    };
    let mut sample = Draws::new(0, 4);
    let bits_mean = (0..100_000).map(|_| size_bits(&mut sample)).sum::<f64>() / 1e5;
    let gap_ms = 1e3 * bits_mean / (settings.placed_share * links_bps);
    let mut at_ms = window.0 as f64;
    let mut arrivals = Vec::new();
    loop {
        at_ms += draws.exponential(gap_ms);
        if at_ms >= window.1 as f64 {
            return Ok(arrivals);
        }
        let user = ((draws.unit() * users as f64) as usize).min(users - 1);
        let session_bps = speeds[user] * draws.log_normal(1.0, settings.session_spread);
        let true_bps = session_bps.clamp(1e5, settings.user_bps_max);
        // What is known of the speed: this session's, else the user's recent mean, else the median.
        let draw = draws.unit();
        let known_bps = if draw < settings.known_session_share {
            true_bps
        } else if draw < settings.known_session_share + settings.known_user_share {
            speeds[user].clamp(1e5, settings.user_bps_max)
        } else {
            settings.user_bps_median
        };
        let bits = size_bits(&mut draws);
        let mut ball = Ball::new(format!("u{}", arrivals.len()));
        ball.user = Some(format!("user-{user}"));
        ball.size_bytes = Some((bits / 8.0) as u64);
        ball.speed_bps = (draw < settings.known_session_share).then_some(true_bps);
        ball.demand = bandwidth(known_bps);
        ball.expected_residence_ms = Some((1e3 * bits / known_bps).clamp(1.0, 8.64e7) as u64);
        ball.check()?;
        let mut arrival = Arrival::new(at_ms as u64, ball, 1e3 * bits / true_bps);
        arrival.demand = bandwidth(true_bps);
        arrivals.push(arrival);
    }
}

fn bandwidth(bps: f64) -> Amounts {
    let mut amounts = Amounts::ZERO;
    amounts.0[Dimension::BandwidthBps as usize] = bps as u64;
    amounts
}
