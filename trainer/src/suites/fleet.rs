//! One's own logs as a suite: the balls of the tables, replayed hour by hour on their boxes with the
//! load of others that the tables hold.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use berth_datasets::{BallRow, BoxRow, FleetData, read_folder};
use berth_models::config::FleetConfig;
use berth_models::domain::{Amounts, Ball, BoxSpec, Capacity, Class, DIMENSIONS};
use berth_models::simulation::{Arrival, Background, Conditions, Discipline, Scenario, SimulatedBox};

use super::{Case, Outlooks, Suite, hash_text, peak, summary};
use crate::cli::Usage;
use crate::demo::fleet::EmulatedFleet;
use crate::demo::prepare;

/// History that boxes report before the first ball, in milliseconds: a day and a bit.
const HISTORY_MS: i64 = 25 * 3_600_000;
/// Length of a trace.
const TRACE_MS: i64 = 3_600_000;
/// Hours of the last day that are replayed: the ones with most balls, and all of them.
const HOURS: usize = 6;
const HOURS_FULL: usize = 24;
/// Time between two looks at the loads.
const MEASURE_EVERY_MS: u64 = 15_000;

/// The busiest hours of the logs' last day as traces.
///
/// # Errors
/// Folders that hold no tables, or rows that the domain refuses, named.
pub fn suite(folders: &[PathBuf], report_every_ms: u64, full: bool) -> anyhow::Result<Suite> {
    let mut data = FleetData::default();
    for folder in folders {
        if !folder.is_dir() {
            let message =
                format!("{} is no folder; give one that `berth-trainer ingest` made", folder.display());
            return Err(Usage(message).into());
        }
        let read = read_folder(folder, None)?;
        data.boxes.extend(read.boxes);
        data.metrics.extend(read.metrics);
        data.balls.extend(read.balls);
    }
    let notes = prepare::fill(&mut data)?;
    notes.iter().for_each(|note| eprintln!("note: {note}"));
    let hours = busiest_hours(&data, if full { HOURS_FULL } else { HOURS });
    ensure!(!hours.is_empty(), "no hour of the last day has both balls and samples");
    let names = folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ");
    let (count, data) = (hours.len(), Arc::new(data));
    let make = move |index: usize| scenario(&data, hours[index], hours[index] + TRACE_MS, report_every_ms);
    let mut contenders = peak::contenders();
    contenders.retain(|contender| {
        contender.outlook == super::Outlook::None || contender.kind == super::Kind::Bound
    });
    Ok(Suite {
        name: "data",
        about: format!("{count} hours of the last day of {names}; {}", notes.join(" ")),
        scenario_hash: hash_text(&names),
        score_name: "p99 over balls of a request's latency in ms, 25 ms ÷ (1 − load)",
        score: |_, simulated| summary::latency_ms_p99(&simulated.seen),
        cases: vec![Case { name: "hours".to_owned(), traces: count, make: Box::new(make) }],
        contenders,
        outlooks: Outlooks::default(),
    })
}

/// Beginnings of the hours of the last day with most balls, by time.
fn busiest_hours(data: &FleetData, most: usize) -> Vec<i64> {
    let end_ms = data.metrics.iter().map(|metric| metric.at_ms).max().unwrap_or_default();
    let mut counts: Vec<(usize, i64)> = (1..=HOURS_FULL as i64)
        .map(|back| {
            let from_ms = end_ms - back * TRACE_MS;
            let within = |ball: &&BallRow| ball.at_ms >= from_ms && ball.at_ms < from_ms + TRACE_MS;
            (data.balls.iter().filter(within).count(), from_ms)
        })
        .filter(|(count, _)| *count > 0)
        .collect();
    counts.sort_by(|a, b| b.cmp(a));
    counts.truncate(most);
    let mut hours: Vec<i64> = counts.into_iter().map(|(_, from_ms)| from_ms).collect();
    hours.sort_unstable();
    hours
}

/// Balls of `data` from `from_ms` up to `to_ms` on its boxes; what is overloaded slows down.
fn scenario(data: &FleetData, from_ms: i64, to_ms: i64, report_every_ms: u64) -> anyhow::Result<Scenario> {
    let emulated = EmulatedFleet::new(data);
    let boxes = emulated
        .boxes
        .iter()
        .map(|emulated| {
            let keep = |at_ms: i64| at_ms >= from_ms - HISTORY_MS && at_ms < to_ms + 300_000;
            let background = emulated
                .background
                .iter()
                .filter(|(at_ms, _)| keep(*at_ms))
                .map(|(at_ms, usage)| Background { at_ms: *at_ms as u64, usage: usage.map(Some) })
                .collect();
            let spec = box_spec(&emulated.row)?;
            Ok(SimulatedBox { spec, discipline: Discipline::Contended, background })
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let arrivals = data
        .balls
        .iter()
        .filter(|ball| ball.at_ms >= from_ms && ball.at_ms < to_ms)
        .map(arrival)
        .collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Scenario {
        config: FleetConfig {
            lease_ms_default: 24 * 3_600_000,
            report_stale_ms: 3 * report_every_ms,
            ..FleetConfig::default()
        },
        boxes,
        arrivals,
        report_every_ms: Some(report_every_ms),
        measured_from_ms: from_ms as u64,
        conditions: Conditions {
            history_report_every_ms: (report_every_ms < 60_000).then_some(60_000),
            measure_every_ms: Some(MEASURE_EVERY_MS),
            ..Conditions::default()
        },
    })
}

/// A box of the table as it registers itself.
///
/// # Errors
/// A value that the domain refuses.
fn box_spec(row: &BoxRow) -> anyhow::Result<BoxSpec> {
    let capacity =
        [row.capacity_cpu_cores, row.capacity_memory_bytes, row.capacity_bandwidth_bps, row.capacity_slots];
    let capacity = Capacity::from_public(capacity);
    let spec = BoxSpec::new(&row.box_id, capacity.with_context(|| format!("box {}", row.box_id))?);
    spec.check().with_context(|| format!("box {}", row.box_id))?;
    Ok(spec)
}

fn arrival(row: &BallRow) -> anyhow::Result<Arrival> {
    let ball = ball(row).with_context(|| format!("ball {}", row.ball_id))?;
    let stay_ms = row.work.map_or(row.expected_residence_ms.unwrap_or(60_000) as f64, |s| s * 1e3);
    Ok(Arrival::new(row.at_ms as u64, ball, stay_ms))
}

/// A ball of the table as its sender describes it.
///
/// # Errors
/// A value that the domain refuses.
fn ball(row: &BallRow) -> anyhow::Result<Ball> {
    let demand: [f64; DIMENSIONS] =
        [row.demand_cpu_cores, row.demand_memory_bytes, row.demand_bandwidth_bps, row.demand_slots];
    let mut ball = Ball::new(row.ball_id.clone());
    if !row.tenant.is_empty() {
        ball.tenant.clone_from(&row.tenant);
    }
    ball.class = match row.class.as_str() {
        "critical" => Class::Critical,
        "normal" | "" => Class::Normal,
        "low" => Class::Low,
        other => bail!("class {other:?} is none of critical, normal, low"),
    };
    ball.demand = Amounts::from_public(demand)?;
    ball.expected_residence_ms = row.expected_residence_ms.map(|ms| ms.max(1) as u64);
    ball.check()?;
    Ok(ball)
}
