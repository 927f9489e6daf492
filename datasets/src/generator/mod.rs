//! Seeded fleet traffic: boxes with background load, balls, and a historical placement of them.
//!
//! The generated tables have what real logs rarely have together: requests, the chosen box, and the box's
//! load with the placed part apart. The same configuration gives the same tables, bit for bit.

mod arrivals;
mod background;
mod placement;
pub(crate) mod random;

use std::collections::BTreeMap;

use crate::DatasetError;
use crate::placed::{PlacedUse, placed_use};
use crate::rows::{BoxRow, FleetData, MetricRow};
use background::Background;
use random::Random;

pub(crate) const DAY_MS: i64 = 86_400_000;
/// Monday 2026-03-02, 00:00 UTC.
const START_MS: i64 = 1_772_409_600_000;
const MAX_BOXES: u32 = 10_000;
const MAX_DAYS: u32 = 366;
/// Balls are held in memory, about 350 bytes each.
const MAX_BALLS: f64 = 20e6;
const GIB: f64 = 1_073_741_824.0;

/// What traffic to generate. Shares are of cores, averaged over boxes and time.
#[derive(Debug, Clone, PartialEq)]
pub struct GeneratorConfig {
    /// The seed of everything.
    pub seed: u64,
    /// The first moment, UTC epoch ms.
    pub start_ms: i64,
    /// Days, 1 to 366.
    pub days: u32,
    /// Boxes, 1 to 10,000.
    pub boxes: u32,
    /// Time between two samples of a box, 1 s to 1 h.
    pub step_ms: i64,
    /// Mean share of the steady background, without jobs and bursts.
    pub background_share: f64,
    /// How far the steady background swings around its mean over a day, relative to it.
    pub daily_amplitude: f64,
    /// Standard deviation of the slow noise.
    pub noise: f64,
    /// Mean height of a box's hourly job; other jobs are somewhat lower.
    pub job_share: f64,
    /// Level shifts of a box a day; one lasts half a day.
    pub level_shifts_per_day: f64,
    /// Unannounced bursts of a box a day; one lasts five minutes.
    pub bursts_per_day: f64,
    /// Mean arrivals a second, per box of the fleet.
    pub balls_per_second_per_box: f64,
    /// Mean share that placed balls fill.
    pub placed_share: f64,
    /// Rushes of arrivals a day; one lasts 3 to 12 minutes.
    pub rushes_per_day: f64,
    /// Tenants; the n-th sends 1/n of what the first sends.
    pub tenants: u32,
}

impl Default for GeneratorConfig {
    /// Seven days of 20 boxes and about 790,000 balls: mean utilisation 0.6, daily peaks about 0.9.
    fn default() -> Self {
        Self {
            seed: 1,
            start_ms: START_MS,
            days: 7,
            boxes: 20,
            step_ms: 60_000,
            background_share: 0.28,
            daily_amplitude: 0.55,
            noise: 0.02,
            job_share: 0.32,
            level_shifts_per_day: 0.3,
            bursts_per_day: 1.5,
            balls_per_second_per_box: 0.065,
            placed_share: 0.23,
            rushes_per_day: 3.0,
            tenants: 12,
        }
    }
}

impl GeneratorConfig {
    /// The end of the last day, UTC epoch ms.
    #[must_use]
    pub fn end_ms(&self) -> i64 {
        self.start_ms + i64::from(self.days) * DAY_MS
    }

    /// Samples of one box.
    fn samples(&self) -> usize {
        ((self.end_ms() - self.start_ms) / self.step_ms) as usize
    }

    fn check(&self) -> Result<(), DatasetError> {
        let refuse = |name: &str, value: f64, low: f64, high: f64| {
            let message = format!("{name} is {value}; allowed: {low} to {high}");
            if (low..=high).contains(&value) { Ok(()) } else { Err(DatasetError::Usage(message)) }
        };
        refuse("days", f64::from(self.days), 1.0, f64::from(MAX_DAYS))?;
        refuse("boxes", f64::from(self.boxes), 1.0, f64::from(MAX_BOXES))?;
        refuse("step_ms", self.step_ms as f64, 1_000.0, 3_600_000.0)?;
        refuse("background_share", self.background_share, 0.0, 1.0)?;
        refuse("daily_amplitude", self.daily_amplitude, 0.0, 1.0)?;
        refuse("noise", self.noise, 0.0, 1.0)?;
        refuse("job_share", self.job_share, 0.0, 1.0)?;
        refuse("level_shifts_per_day", self.level_shifts_per_day, 0.0, 100.0)?;
        refuse("bursts_per_day", self.bursts_per_day, 0.0, 1_000.0)?;
        refuse("balls_per_second_per_box", self.balls_per_second_per_box, 1e-4, 1e3)?;
        refuse("placed_share", self.placed_share, 0.0, 1.0)?;
        refuse("rushes_per_day", self.rushes_per_day, 0.0, 100.0)?;
        refuse("tenants", f64::from(self.tenants), 1.0, 10_000.0)?;
        let seconds = f64::from(self.days) * DAY_MS as f64 / 1000.0;
        let balls = self.balls_per_second_per_box * f64::from(self.boxes) * seconds;
        refuse("the number of balls (boxes × days × rate)", balls, 1.0, MAX_BALLS)
    }
}

/// Generate the four tables. `progress(done, total)` is called now and then with balls placed.
///
/// Use above capacity means overload: a job started on a box that balls had filled.
///
/// # Errors
/// A configuration outside its limits.
pub fn generate(
    config: &GeneratorConfig,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<FleetData, DatasetError> {
    config.check()?;
    let boxes = draw_boxes(config);
    let backgrounds: Vec<Background> =
        (0..u64::from(config.boxes)).map(|index| background::of_box(config, index)).collect();
    let fleet_cores = boxes.iter().filter_map(|row| row.capacity_cpu_cores).sum();
    let balls = arrivals::all_balls(config, fleet_cores);
    let outcomes = placement::place(config, &boxes, &backgrounds, &balls, progress);
    let placed = placed_use(&balls, &outcomes)?;
    let metrics = sample_metrics(config, &boxes, &backgrounds, placed);
    Ok(FleetData { boxes, metrics, balls, outcomes })
}

fn draw_boxes(config: &GeneratorConfig) -> Vec<BoxRow> {
    let mut random = Random::new(config.seed, 5);
    let width = (config.boxes - 1).to_string().len().max(2);
    let one = |index: u32| {
        let cores = [8.0, 16.0, 16.0, 24.0, 32.0][random.below(5)];
        let speed = [0.8, 1.0, 1.0, 1.2][random.below(4)];
        BoxRow {
            box_id: format!("box-{index:0width$}"),
            capacity_cpu_cores: Some(cores),
            capacity_memory_bytes: Some(cores * 4.0 * GIB),
            capacity_bandwidth_bps: Some(if cores > 16.0 { 2.5e9 } else { 1e9 }),
            capacity_slots: Some(cores * 8.0),
            speed: Some(speed),
            price_per_hour: Some((cores * 0.045 * speed * random.between(0.85, 1.15) * 1e4).round() / 1e4),
        }
    };
    (0..config.boxes).map(one).collect()
}

fn sample_metrics(
    config: &GeneratorConfig,
    boxes: &[BoxRow],
    backgrounds: &[Background],
    mut placed: BTreeMap<String, PlacedUse>,
) -> Vec<MetricRow> {
    let mut random = Random::new(config.seed, 6);
    let mut metrics = Vec::with_capacity(boxes.len() * config.samples());
    for (row, background) in boxes.iter().zip(backgrounds) {
        let mut placed = placed.remove(&row.box_id).unwrap_or_default();
        let capacity = [row.capacity_cpu_cores, row.capacity_memory_bytes, row.capacity_bandwidth_bps]
            .map(|capacity| capacity.unwrap_or(0.0));
        for sample in 0..config.samples() {
            let at_ms = config.start_ms + sample as i64 * config.step_ms;
            let [cores, memory, bandwidth, slots] = placed.at(at_ms);
            let used = background.cpu[sample] * capacity[0] + cores;
            let load = used / capacity[0];
            metrics.push(MetricRow {
                at_ms,
                box_id: row.box_id.clone(),
                cpu_cores: Some(used),
                memory_bytes: Some(background.memory[sample] * capacity[1] + memory),
                bandwidth_bps: Some(background.bandwidth[sample] * capacity[2] + bandwidth),
                slots: Some(slots),
                value: None,
                placed_cpu_cores: Some(cores),
                placed_memory_bytes: Some(memory),
                placed_bandwidth_bps: Some(bandwidth),
                placed_slots: Some(slots),
                latency_ms_p99: Some(latency_ms(load) * random.log_normal(1.0, 0.15)),
                error_rate: Some((0.002 + 0.03 * (load - 0.95).max(0.0) * 10.0).min(0.2)),
                queue_length: Some((40.0 * (load - 0.9).max(0.0)).round()),
                cpu_steal_share: None,
            });
        }
    }
    metrics
}

/// The tail of a single queue's latency around 25 ms of service; it levels off where callers give up.
fn latency_ms(load: f64) -> f64 {
    25.0 / (1.0 - load.min(0.985))
}

#[cfg(test)]
mod tests;
