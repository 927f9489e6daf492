//! From tables to something that can be replayed: whatever a log lacks is filled in, and said.

use std::collections::BTreeMap;

use berth_datasets::generator::{GeneratorConfig, generate};
use berth_datasets::{BallRow, FleetData};

/// Length of the replayed stretch, in milliseconds.
pub const REPLAY_MS: i64 = 2 * 3_600_000;
const DAY_MS: i64 = 24 * 3_600_000;
/// What is kept of a log: the day that is replayed from, and the one that boxes backfill.
const KEPT_MS: i64 = 2 * DAY_MS + 2 * 3_600_000;
/// A box without a stated capacity gets its highest use times this.
const CAPACITY_MARGIN: f64 = 1.1;
/// Share of the fleet's cores that made-up balls fill.
const PLACED_SHARE: f64 = 0.2;

/// Keep the last two days, and fill in capacities and balls that the log has not; returns what was
/// done, for people to read.
///
/// # Errors
/// When there is no box with samples.
pub fn fill(data: &mut FleetData) -> anyhow::Result<Vec<String>> {
    let mut notes = Vec::new();
    let moved = align(data);
    if moved > 0 {
        notes.push(format!(
            "{moved} boxes were logged on other days: they are moved by whole days, so that all end on the same one."
        ));
    }
    let end_ms = end_ms(data);
    data.metrics.retain(|metric| metric.at_ms > end_ms - KEPT_MS);
    data.balls.retain(|ball| ball.at_ms > end_ms - KEPT_MS);
    let samples_of = |data: &FleetData, box_id: &str| {
        data.metrics.iter().any(|metric| metric.box_id == box_id && has_measure(metric))
    };
    let boxes = std::mem::take(&mut data.boxes);
    let (kept, dropped): (Vec<_>, Vec<_>) = boxes.into_iter().partition(|row| samples_of(data, &row.box_id));
    data.boxes = kept;
    anyhow::ensure!(!data.boxes.is_empty(), "no box has samples in the last day of these logs");
    if !dropped.is_empty() {
        notes.push(format!("{} boxes have no samples in the last day and are left out.", dropped.len()));
    }
    // A source's single measure is taken for cores: the scheduler only sees it relative to capacity.
    for metric in &mut data.metrics {
        if metric.cpu_cores.is_none() {
            metric.cpu_cores = metric.value.take();
        }
    }
    let mut without = 0;
    for row in &mut data.boxes {
        let capacities = [
            row.capacity_cpu_cores,
            row.capacity_memory_bytes,
            row.capacity_bandwidth_bps,
            row.capacity_slots,
        ];
        if capacities.iter().all(Option::is_none) {
            let used = data.metrics.iter().filter(|m| m.box_id == row.box_id).filter_map(|m| m.cpu_cores);
            row.capacity_cpu_cores = Some((used.fold(0.0, f64::max) * CAPACITY_MARGIN).max(1e-3));
            without += 1;
        }
    }
    if without > 0 {
        notes.push(format!(
            "{without} boxes state no capacity: their highest use × {CAPACITY_MARGIN} is taken for it."
        ));
    }
    if data.balls.is_empty() {
        make_balls(data)?;
        notes.push(format!(
            "The log has no balls: {} were made up, with demands that fill about {:.0} % of the fleet.",
            data.balls.len(),
            PLACED_SHARE * 100.0
        ));
    }
    Ok(notes)
}

fn end_ms(data: &FleetData) -> i64 {
    data.metrics.iter().map(|metric| metric.at_ms).max().unwrap_or_default()
}

/// Move boxes that were logged on other days by whole days, so that their hours of the day stay what
/// they are; returns how many were moved. Logs with balls are of one fleet and stay as they are.
fn align(data: &mut FleetData) -> usize {
    if !data.balls.is_empty() {
        return 0;
    }
    let mut ends: BTreeMap<String, i64> = BTreeMap::new();
    for metric in &data.metrics {
        let end_ms = ends.entry(metric.box_id.clone()).or_insert(metric.at_ms);
        *end_ms = metric.at_ms.max(*end_ms);
    }
    let last_ms = end_ms(data);
    let shift_ms = |box_id: &str| ends.get(box_id).map_or(0, |end_ms| (last_ms - end_ms) / DAY_MS * DAY_MS);
    let moved = ends.keys().filter(|box_id| shift_ms(box_id) > 0).count();
    for metric in &mut data.metrics {
        metric.at_ms += shift_ms(&metric.box_id);
    }
    moved
}

fn has_measure(metric: &berth_datasets::MetricRow) -> bool {
    metric
        .cpu_cores
        .or(metric.value)
        .or(metric.memory_bytes)
        .or(metric.bandwidth_bps)
        .or(metric.slots)
        .is_some()
}

/// Balls of the generator over the log's last day, their cores scaled to this fleet.
fn make_balls(data: &mut FleetData) -> anyhow::Result<()> {
    let end_ms = end_ms(data);
    let boxes = data.boxes.len() as u32;
    let config = GeneratorConfig {
        days: 1,
        start_ms: end_ms - DAY_MS,
        boxes,
        placed_share: PLACED_SHARE,
        ..GeneratorConfig::default()
    };
    let made = generate(&config, &mut |_, _| {})?;
    let cores = |rows: &[berth_datasets::BoxRow]| {
        rows.iter().filter_map(|row| row.capacity_cpu_cores).sum::<f64>().max(1e-9)
    };
    let scale = cores(&data.boxes) / cores(&made.boxes);
    data.balls = made
        .balls
        .into_iter()
        .map(|ball| BallRow {
            demand_cpu_cores: ball.demand_cpu_cores * scale,
            demand_memory_bytes: 0.0,
            demand_bandwidth_bps: 0.0,
            demand_slots: 0.0,
            ..ball
        })
        .collect();
    Ok(())
}

/// The stretch of the last day with the highest mean load: where placement matters.
#[must_use]
pub fn busiest(data: &FleetData) -> (i64, i64) {
    let end_ms = end_ms(data);
    let capacity = |box_id: &str| {
        data.boxes.iter().find(|row| row.box_id == box_id).and_then(|row| row.capacity_cpu_cores)
    };
    let slots = (DAY_MS / REPLAY_MS) as usize;
    let mut sums = vec![(0.0, 0.0); slots];
    for metric in &data.metrics {
        let back_ms = end_ms - metric.at_ms;
        let (Some(used), Some(capacity)) = (metric.cpu_cores, capacity(&metric.box_id)) else { continue };
        if let Some(sum) = sums.get_mut((back_ms / REPLAY_MS) as usize) {
            sum.0 += used / capacity;
            sum.1 += 1.0;
        }
    }
    let mean = |(sum, count): (f64, f64)| if count > 0.0 { sum / count } else { 0.0 };
    let best = (0..slots).max_by(|a, b| mean(sums[*a]).total_cmp(&mean(sums[*b]))).unwrap_or(0);
    let to_ms = end_ms - best as i64 * REPLAY_MS;
    (to_ms - REPLAY_MS, to_ms)
}
