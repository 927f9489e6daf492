//! Generated boxes with load of others: daily patterns, jobs at fixed minutes, noise, shifts, bursts.

use std::sync::Arc;

use anyhow::Context;
use berth_datasets::generator::{GeneratorConfig, generate};
use berth_models::domain::{BoxSpec, Capacity};
use berth_models::simulation::{Background, Discipline, SimulatedBox};

/// Monday 2026-03-02, 00:00 UTC: where the generator's time begins.
pub const START_MS: u64 = 1_772_409_600_000;
/// One hour.
pub const HOUR_MS: f64 = 3_600_000.0;
/// History before the window, so that features reach back a day.
const HISTORY_MS: u64 = 25 * 3_600_000;

/// What to generate.
#[derive(Debug, Clone, Copy)]
pub struct WorldConfig {
    /// Seed of everything.
    pub seed: u64,
    /// Days from a Monday on.
    pub days: u32,
    /// Boxes.
    pub boxes: u32,
    /// Time between two values.
    pub step_ms: u64,
}

/// One generated box.
pub struct GeneratedBox {
    /// Its id.
    pub box_id: Arc<str>,
    /// Its cores.
    pub cores: f64,
    /// Load of others, in shares of its cores, by time in epoch milliseconds.
    pub load: Vec<(u64, f64)>,
}

/// Generate boxes with their background; of the generator's balls none are used.
///
/// # Errors
/// A configuration that the generator refuses.
pub fn generate_world(config: &WorldConfig) -> anyhow::Result<Vec<GeneratedBox>> {
    let settings = GeneratorConfig {
        seed: config.seed,
        days: config.days,
        boxes: config.boxes,
        step_ms: config.step_ms as i64,
        balls_per_second_per_box: 1e-4,
        placed_share: 0.0,
        ..GeneratorConfig::default()
    };
    let data = generate(&settings, &mut |_, _| {})?;
    let mut boxes: Vec<GeneratedBox> = data
        .boxes
        .iter()
        .map(|row| GeneratedBox {
            box_id: row.box_id.as_str().into(),
            cores: row.capacity_cpu_cores.unwrap_or(1.0),
            load: Vec::new(),
        })
        .collect();
    for metric in &data.metrics {
        let found = boxes.binary_search_by(|b| (*b.box_id).cmp(&metric.box_id));
        let own = &mut boxes[found.ok().context("a sample of no box")?];
        let background = metric.cpu_cores.unwrap_or(0.0) - metric.placed_cpu_cores.unwrap_or(0.0);
        own.load.push((metric.at_ms as u64, background.max(0.0) / own.cores));
    }
    Ok(boxes)
}

/// Boxes of cores under contention, with the background of the second day around a window.
///
/// # Errors
/// A configuration that the generator refuses.
pub fn contended_boxes(config: &WorldConfig, window: (u64, u64)) -> anyhow::Result<Vec<SimulatedBox>> {
    let boxes = generate_world(config)?.into_iter().map(|generated| {
        let capacity = Capacity::from_public([Some(generated.cores), None, None, None]);
        let spec = BoxSpec::new(&generated.box_id, capacity?);
        let background = cut(&generated.load, window).map(|(at_ms, load)| Background {
            at_ms,
            usage: [Some(load * generated.cores), None, None, None],
        });
        Ok(SimulatedBox { spec, discipline: Discipline::Contended, background: background.collect() })
    });
    boxes.collect()
}

/// The part of a series that a window with its history needs; a day ahead is known to nobody.
pub fn cut(load: &[(u64, f64)], window: (u64, u64)) -> impl Iterator<Item = (u64, f64)> + '_ {
    // Five minutes more, so that a perfect forecast can look past the window's end.
    let (from_ms, to_ms) = (window.0 - HISTORY_MS, window.1 + 300_000);
    load.iter().copied().filter(move |(at_ms, _)| *at_ms >= from_ms && *at_ms < to_ms)
}

/// A window on the second generated day (a Tuesday).
#[must_use]
pub fn window(from_h: f64, length_h: f64) -> (u64, u64) {
    let from_ms = START_MS + ((24.0 + from_h) * HOUR_MS) as u64;
    (from_ms, from_ms + (length_h * HOUR_MS) as u64)
}
