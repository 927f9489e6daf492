//! `power_of_two`: the less loaded of two different boxes drawn at random (Mitzenmacher 2001).

use super::{Ranking, Scored, View};
use crate::chance::unit;

/// Draw two of the boxes that may take the ball, every pair alike, and rank them by load ÷ weight.
pub fn rank(view: &View, ranking: &mut Ranking) {
    view.each(ranking, |ranking, position, _| ranking.eligible.push(position));
    let count = ranking.eligible.len();
    if count == 0 {
        return;
    }
    let first = pick(view, 0, count);
    // The second is drawn from the others, by skipping over the first.
    let second = if count > 1 { (first + 1 + pick(view, 1, count - 1)) % count } else { first };
    let best = [first, second].map(|index| scored(view, ranking.eligible[index]));
    ranking.offer(best[0]);
    if second != first {
        ranking.offer(best[1]);
    }
    let chosen = ranking.candidates()[0];
    let worse = ranking
        .eligible
        .iter()
        .filter(|position| {
            let other = scored(view, **position);
            (other.score, other.tie, other.position) > (chosen.score, chosen.tie, chosen.position)
        })
        .count();
    // It is chosen by every pair of it and a worse one.
    let pairs = count * count.saturating_sub(1) / 2;
    ranking.set_propensity(if pairs == 0 { 1.0 } else { worse as f64 / pairs as f64 });
}

fn pick(view: &View, index: u64, count: usize) -> usize {
    ((unit(view.draw(), index) * count as f64) as usize).min(count - 1)
}

fn scored(view: &View, position: u32) -> Scored {
    let state = view.at(position);
    let score = state.load_with(&view.ball().demand) * state.inverse_weight();
    Scored { score, tie: -state.weight(), position }
}
