//! Emulated boxes: the truth that the scheduler only hears reports of.
//!
//! A box's load is its recorded background plus the balls it holds; above 1 everything on it slows
//! down in proportion, so a ball's stay is its work stretched by the load it meets.

use std::collections::BTreeMap;

use berth_datasets::{BoxRow, FleetData};

/// Dimensions in the order of the core's.
pub const DIMENSIONS: usize = 4;

/// A ball on an emulated box.
struct Held {
    position: usize,
    demand: [f64; DIMENSIONS],
    work_ms: f64,
    left_ms: f64,
    lost_ms: f64,
}

/// A ball that has ended.
pub struct Ended {
    /// The ball.
    pub index: usize,
    /// Stay ÷ work: 1 when no overload slowed it.
    pub stretch: f64,
}

/// One emulated box.
pub struct EmulatedBox {
    /// Its row of the table.
    pub row: BoxRow,
    /// Recorded background: time in epoch milliseconds and use in public units, sorted by time.
    pub background: Vec<(i64, [f64; DIMENSIONS])>,
    held: [f64; DIMENSIONS],
}

impl EmulatedBox {
    /// Capacity by dimension in public units; `None`: not limited.
    #[must_use]
    pub fn capacity(&self) -> [Option<f64>; DIMENSIONS] {
        let row = &self.row;
        [row.capacity_cpu_cores, row.capacity_memory_bytes, row.capacity_bandwidth_bps, row.capacity_slots]
    }

    /// Background at `at_ms` by dimension, between samples by straight lines.
    #[must_use]
    pub fn background_at(&self, at_ms: i64) -> [f64; DIMENSIONS] {
        let after = self.background.partition_point(|(sampled_at_ms, _)| *sampled_at_ms <= at_ms);
        let Some((left_ms, left)) = after.checked_sub(1).and_then(|i| self.background.get(i)) else {
            return self.background.first().map_or([0.0; DIMENSIONS], |(_, use_)| *use_);
        };
        let Some((right_ms, right)) = self.background.get(after) else { return *left };
        let share = (at_ms - left_ms) as f64 / (right_ms - left_ms) as f64;
        std::array::from_fn(|d| left[d] + (right[d] - left[d]) * share)
    }

    /// Use by dimension at `at_ms`, background and balls.
    #[must_use]
    pub fn usage_at(&self, at_ms: i64) -> [f64; DIMENSIONS] {
        let background = self.background_at(at_ms);
        std::array::from_fn(|d| background[d] + self.held[d])
    }

    /// Load at `at_ms`: the largest of use ÷ capacity.
    #[must_use]
    pub fn load_at(&self, at_ms: i64) -> f64 {
        let usage = self.usage_at(at_ms);
        let ratios = self.capacity().into_iter().zip(usage);
        ratios.filter_map(|(capacity, used)| Some(used / capacity?)).fold(0.0, f64::max)
    }
}

/// All emulated boxes and the balls on them.
pub struct EmulatedFleet {
    /// The boxes, in the table's order.
    pub boxes: Vec<EmulatedBox>,
    balls: BTreeMap<usize, Held>,
}

impl EmulatedFleet {
    /// Boxes with their recorded background: use less what a scheduler had placed.
    #[must_use]
    pub fn new(data: &FleetData) -> Self {
        let mut boxes: BTreeMap<&str, EmulatedBox> = data
            .boxes
            .iter()
            .map(|row| {
                let emulated =
                    EmulatedBox { row: row.clone(), background: Vec::new(), held: [0.0; DIMENSIONS] };
                (row.box_id.as_str(), emulated)
            })
            .collect();
        for metric in &data.metrics {
            let Some(emulated) = boxes.get_mut(metric.box_id.as_str()) else { continue };
            let rest = |used: Option<f64>, placed: Option<f64>| {
                (used.unwrap_or(0.0) - placed.unwrap_or(0.0)).max(0.0)
            };
            let background = [
                rest(metric.cpu_cores, metric.placed_cpu_cores),
                rest(metric.memory_bytes, metric.placed_memory_bytes),
                rest(metric.bandwidth_bps, metric.placed_bandwidth_bps),
                rest(metric.slots, metric.placed_slots),
            ];
            emulated.background.push((metric.at_ms, background));
        }
        Self { boxes: boxes.into_values().collect(), balls: BTreeMap::new() }
    }

    /// Position of a box by id.
    #[must_use]
    pub fn position(&self, box_id: &str) -> Option<usize> {
        self.boxes.binary_search_by(|b| b.row.box_id.as_str().cmp(box_id)).ok()
    }

    /// Put ball `index` on a box.
    pub fn place(&mut self, index: usize, position: usize, demand: [f64; DIMENSIONS], work_ms: f64) {
        for (held, demand) in self.boxes[position].held.iter_mut().zip(demand) {
            *held += demand;
        }
        self.balls.insert(index, Held { position, demand, work_ms, left_ms: work_ms, lost_ms: 0.0 });
    }

    /// Let `step_ms` pass until `at_ms`; returns the balls that have ended.
    pub fn advance(&mut self, at_ms: i64, step_ms: f64) -> Vec<Ended> {
        let pace: Vec<f64> = self.boxes.iter().map(|b| step_ms / b.load_at(at_ms).max(1.0)).collect();
        let mut ended = Vec::new();
        for (index, ball) in &mut self.balls {
            let done_ms = pace[ball.position];
            ball.left_ms -= done_ms;
            ball.lost_ms += step_ms - done_ms;
            if ball.left_ms <= 0.0 {
                ended.push(Ended { index: *index, stretch: 1.0 + ball.lost_ms / ball.work_ms });
            }
        }
        for Ended { index, .. } in &ended {
            if let Some(ball) = self.balls.remove(index) {
                let held = &mut self.boxes[ball.position].held;
                held.iter_mut().zip(ball.demand).for_each(|(held, demand)| *held -= demand);
            }
        }
        ended
    }

    /// Load of every box at `at_ms`.
    #[must_use]
    pub fn loads_at(&self, at_ms: i64) -> Vec<f64> {
        self.boxes.iter().map(|b| b.load_at(at_ms)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet() -> EmulatedFleet {
        let mut data = FleetData::default();
        data.boxes.push(BoxRow { box_id: "a".into(), capacity_cpu_cores: Some(10.0), ..BoxRow::default() });
        for (at_ms, cpu_cores) in [(0, 4.0), (60_000, 8.0)] {
            data.metrics.push(berth_datasets::MetricRow {
                at_ms,
                box_id: "a".into(),
                cpu_cores: Some(cpu_cores),
                ..Default::default()
            });
        }
        EmulatedFleet::new(&data)
    }

    #[test]
    fn background_is_a_line_between_samples() {
        let fleet = fleet();
        assert!((fleet.boxes[0].load_at(30_000) - 0.6).abs() < 1e-12);
        assert!((fleet.boxes[0].load_at(90_000) - 0.8).abs() < 1e-12);
    }

    #[test]
    fn overload_stretches_a_stay() {
        let mut fleet = fleet();
        fleet.place(0, 0, [12.0, 0.0, 0.0, 0.0], 10_000.0);
        let mut steps = 1;
        let ended = loop {
            let ended = fleet.advance(60_000, 1_000.0);
            if !ended.is_empty() {
                break ended;
            }
            steps += 1;
        };
        assert_eq!(steps, 20, "twice the load, twice the time");
        assert!((ended[0].stretch - 2.0).abs() < 1e-12);
        assert!((fleet.boxes[0].load_at(60_000) - 0.8).abs() < 1e-12, "the ball is gone");
    }
}
