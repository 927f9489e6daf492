//! Recorded fleets as scenarios: the balls of a table, replayed on its boxes with their background.

use anyhow::{Context, bail};
use berth_datasets::{BallRow, BoxRow, FleetData};
use berth_models::config::FleetConfig;
use berth_models::domain::{Amounts, Ball, BoxSpec, Capacity, Class, DIMENSIONS};
use berth_models::simulation::{Arrival, Background, Conditions, Discipline, Scenario, SimulatedBox};

use crate::demo::fleet::EmulatedFleet;

/// History that boxes report before the first ball, in milliseconds: a day and a bit.
const HISTORY_MS: i64 = 25 * 3_600_000;

/// Balls of `data` from `from_ms` up to `to_ms` on its boxes; a ball stays as long as its work.
///
/// # Errors
/// A row whose values the domain refuses, named.
pub fn scenario(
    data: &FleetData,
    from_ms: i64,
    to_ms: i64,
    report_every_ms: u64,
) -> anyhow::Result<Scenario> {
    let emulated = EmulatedFleet::new(data);
    let boxes = emulated
        .boxes
        .iter()
        .map(|emulated| {
            let keep = |at_ms: i64| at_ms >= from_ms - HISTORY_MS && at_ms < to_ms;
            let background = emulated
                .background
                .iter()
                .filter(|(at_ms, _)| keep(*at_ms))
                .map(|(at_ms, usage)| Background { at_ms: *at_ms as u64, usage: usage.map(Some) })
                .collect();
            let spec = box_spec(&emulated.row)?;
            Ok(SimulatedBox { spec, discipline: Discipline::Stay, background })
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let arrivals = data
        .balls
        .iter()
        .filter(|ball| ball.at_ms >= from_ms && ball.at_ms < to_ms)
        .map(arrival)
        .collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Scenario {
        config: FleetConfig { lease_ms_default: 24 * 3_600_000, ..FleetConfig::default() },
        boxes,
        arrivals,
        report_every_ms: Some(report_every_ms),
        measured_from_ms: from_ms as u64,
        conditions: Conditions::default(),
    })
}

/// A box of the table as it registers itself.
///
/// # Errors
/// A value that the domain refuses.
pub fn box_spec(row: &BoxRow) -> anyhow::Result<BoxSpec> {
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
pub fn ball(row: &BallRow) -> anyhow::Result<Ball> {
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
