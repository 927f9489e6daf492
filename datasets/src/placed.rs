//! The placed part of load: balls joined with their outcomes.

use std::collections::BTreeMap;
use std::path::Path;

use polars::prelude::*;

use crate::DatasetError;
use crate::rows::{BallRow, OutcomeRow};
use crate::tables::{balls_frame, outcomes_frame, read_floats, read_whole};

/// What placed balls use on one box over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PlacedUse {
    /// Starts and ends by time: what is added to cores, memory, bandwidth and slots, and to the live balls.
    changes: Vec<(i64, [f64; 4], i64)>,
    next: usize,
    sum: [f64; 4],
    live: i64,
}

impl PlacedUse {
    /// The use at a moment: balls that have started and not ended. Moments must not go back.
    pub fn at(&mut self, at_ms: i64) -> [f64; 4] {
        while let Some((_, change, live)) = self.changes.get(self.next).filter(|change| change.0 <= at_ms) {
            for (sum, change) in self.sum.iter_mut().zip(change) {
                *sum += change;
            }
            self.live += live;
            self.next += 1;
            if self.live == 0 {
                // An empty box uses nothing: rounding must not pile up.
                self.sum = [0.0; 4];
            }
        }
        self.sum.map(|sum| sum.max(0.0))
    }
}

/// Join balls with their outcomes: what each box has in use by placed balls.
pub(crate) fn placed_use(
    balls: &[BallRow],
    outcomes: &[OutcomeRow],
) -> Result<BTreeMap<String, PlacedUse>, DatasetError> {
    let join = || -> PolarsResult<BTreeMap<String, PlacedUse>> {
        placed_use_of(&balls_frame(balls)?, &outcomes_frame(outcomes)?)
    };
    join().map_err(DatasetError::table(Path::new("balls joined with outcomes")))
}

/// As [`placed_use`], of frames.
pub(crate) fn placed_use_of(
    balls: &DataFrame,
    outcomes: &DataFrame,
) -> PolarsResult<BTreeMap<String, PlacedUse>> {
    const DEMANDS: [&str; 4] =
        ["demand_cpu_cores", "demand_memory_bytes", "demand_bandwidth_bps", "demand_slots"];
    let columns: Vec<Expr> = ["ball_id"].iter().chain(&DEMANDS).map(|name| col(*name)).collect();
    let joined = outcomes
        .clone()
        .lazy()
        .filter(col("box_id").neq(lit("")))
        .join(
            balls.clone().lazy().select(columns),
            [col("ball_id")],
            [col("ball_id")],
            JoinArgs::new(JoinType::Inner),
        )
        .sort(["started_at_ms", "ball_id"], SortMultipleOptions::default())
        .collect()?;
    let demands = DEMANDS.iter().map(|name| read_floats(&joined, name)).collect::<PolarsResult<Vec<_>>>()?;
    let started = read_whole(&joined, "started_at_ms")?;
    let finished = read_whole(&joined, "finished_at_ms")?;
    let mut boxes: BTreeMap<String, PlacedUse> = BTreeMap::new();
    for (row, box_id) in joined.column("box_id")?.str()?.iter().enumerate() {
        let (Some(box_id), Some(start)) = (box_id, started[row]) else {
            continue;
        };
        if !boxes.contains_key(box_id) {
            boxes.insert(box_id.to_owned(), PlacedUse::default());
        }
        let Some(placed) = boxes.get_mut(box_id) else {
            continue;
        };
        let demand: [f64; 4] = std::array::from_fn(|at| demands[at][row].unwrap_or(0.0));
        placed.changes.push((start, demand, 1));
        if let Some(end) = finished[row] {
            placed.changes.push((end.max(start), demand.map(|value| -value), -1));
        }
    }
    for placed in boxes.values_mut() {
        placed.changes.sort_by_key(|change| change.0);
    }
    Ok(boxes)
}
