//! The historical placement: weighted random by free capacity, seeing only what is in use now.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::GeneratorConfig;
use super::background::Background;
use super::random::Random;
use crate::rows::{BallRow, BoxRow, OutcomeRow};

/// The part of a box's capacity that the placement fills.
const FILL_LIMIT: f64 = 0.95;
/// Failures of balls on a box that isn't overloaded, and on one that is.
const FAILURE_RATES: [f64; 2] = [0.002, 0.03];

/// What a box has in use by placed balls: cores, memory, bandwidth, slots.
type Use = [f64; 4];

/// Place every ball; returns one outcome a ball, by arrival.
pub(super) fn place(
    config: &GeneratorConfig,
    boxes: &[BoxRow],
    backgrounds: &[Background],
    balls: &[BallRow],
    progress: &mut dyn FnMut(u64, u64),
) -> Vec<OutcomeRow> {
    let mut random = Random::new(config.seed, 4);
    let capacity: Vec<Use> = boxes.iter().map(capacity_of).collect();
    let mut placed = vec![[0.0; 4]; boxes.len()];
    let mut running: BinaryHeap<Reverse<(i64, usize, usize)>> = BinaryHeap::new();
    let mut weights = vec![0.0; boxes.len()];
    let mut outcomes = Vec::with_capacity(balls.len());
    for (number, ball) in balls.iter().enumerate() {
        if number % 65_536 == 0 {
            progress(number as u64, balls.len() as u64);
        }
        while let Some(Reverse((_, at, owner))) =
            running.peek().copied().filter(|Reverse((end, ..))| *end <= ball.at_ms)
        {
            running.pop();
            add(&mut placed[owner], &demand_of(&balls[at]), -1.0);
        }
        let sample = ((ball.at_ms - config.start_ms) / config.step_ms) as usize;
        let demand = demand_of(ball);
        for (index, weight) in weights.iter_mut().enumerate() {
            let used = total(&capacity[index], &backgrounds[index], sample, &placed[index]);
            *weight = free_share(&capacity[index], &used, &demand) * capacity[index][0];
        }
        let Some(chosen) = random.weighted(&weights) else {
            outcomes.push(refused(ball));
            continue;
        };
        let used = total(&capacity[chosen], &backgrounds[chosen], sample, &placed[chosen]);
        let is_overloaded = used[0] > FILL_LIMIT * capacity[chosen][0];
        let outcome = run(&mut random, ball, &boxes[chosen], is_overloaded);
        add(&mut placed[chosen], &demand, 1.0);
        if let Some(finished_at_ms) = outcome.finished_at_ms {
            running.push(Reverse((finished_at_ms, number, chosen)));
        }
        outcomes.push(outcome);
    }
    progress(balls.len() as u64, balls.len() as u64);
    outcomes
}

fn run(random: &mut Random, ball: &BallRow, owner: &BoxRow, is_overloaded: bool) -> OutcomeRow {
    let seconds = ball.work.unwrap_or(1.0) / owner.speed.unwrap_or(1.0) * random.log_normal(1.0, 0.1);
    let succeeded = random.unit() >= FAILURE_RATES[usize::from(is_overloaded)];
    OutcomeRow {
        ball_id: ball.ball_id.clone(),
        box_id: owner.box_id.clone(),
        started_at_ms: ball.at_ms,
        finished_at_ms: Some(ball.at_ms + ((seconds * 1000.0).round() as i64).max(1)),
        succeeded,
    }
}

fn refused(ball: &BallRow) -> OutcomeRow {
    OutcomeRow {
        ball_id: ball.ball_id.clone(),
        box_id: String::new(),
        started_at_ms: ball.at_ms,
        finished_at_ms: Some(ball.at_ms),
        succeeded: false,
    }
}

fn capacity_of(row: &BoxRow) -> Use {
    [row.capacity_cpu_cores, row.capacity_memory_bytes, row.capacity_bandwidth_bps, row.capacity_slots]
        .map(|capacity| capacity.unwrap_or(0.0))
}

fn demand_of(ball: &BallRow) -> Use {
    [ball.demand_cpu_cores, ball.demand_memory_bytes, ball.demand_bandwidth_bps, ball.demand_slots]
}

fn add(sum: &mut Use, part: &Use, sign: f64) {
    for (sum, part) in sum.iter_mut().zip(part) {
        *sum = (*sum + sign * part).max(0.0);
    }
}

fn total(capacity: &Use, background: &Background, sample: usize, placed: &Use) -> Use {
    let shares = [background.cpu[sample], background.memory[sample], background.bandwidth[sample], 0.0];
    std::array::from_fn(|dimension| shares[dimension] * capacity[dimension] + placed[dimension])
}

/// The share of its cores that a box has free; 0 when the ball doesn't fit in some dimension.
fn free_share(capacity: &Use, used: &Use, demand: &Use) -> f64 {
    let fits = (0..4).all(|at| used[at] + demand[at] <= FILL_LIMIT * capacity[at]);
    if fits { (1.0 - used[0] / capacity[0]).max(0.0) } else { 0.0 }
}
