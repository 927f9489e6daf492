//! `power_of_d`: the least loaded of d different boxes drawn at random (Mitzenmacher 2001);
//! `power_of_two` is its best known case.

use super::{Ranking, View, least_loaded};
use crate::chance::pick;

/// Draw `choices` of the boxes that may take the ball, every set alike, and take the best of them by
/// load ÷ weight.
pub fn rank(view: &View, ranking: &mut Ranking, choices: usize) {
    view.each(ranking, |ranking, position, state| {
        let scored = least_loaded::scored(view, position, state);
        ranking.scored.push(scored);
    });
    let count = ranking.scored.len();
    let drawn = choices.min(count);
    for index in 0..drawn {
        // Fisher and Yates, as far as it is needed.
        let other = index + pick(view.draw(), index as u64, count - index);
        ranking.scored.swap(index, other);
        ranking.offer(ranking.scored[index]);
    }
    let Some(chosen) = ranking.candidates().first().copied() else {
        return;
    };
    let worse = ranking.scored.iter().filter(|other| chosen.order(other).is_lt()).count();
    ranking.set_propensity(chosen_share(worse, count, drawn));
}

/// Share of the sets of `drawn` out of `count` boxes in which a box with `worse` worse ones is the
/// best: C(worse, drawn − 1) ÷ C(count, drawn).
fn chosen_share(worse: usize, count: usize, drawn: usize) -> f64 {
    let others = (0..drawn - 1)
        .map(|index| worse.saturating_sub(index) as f64 / (count - 1 - index) as f64)
        .product::<f64>();
    others * drawn as f64 / count as f64
}

#[cfg(test)]
mod tests {
    use super::chosen_share;

    #[test]
    fn the_shares_of_all_boxes_sum_to_one() {
        for (count, drawn) in [(1, 1), (5, 1), (5, 2), (7, 3), (4, 4)] {
            let sum: f64 = (0..count).map(|worse| chosen_share(worse, count, drawn)).sum();
            assert!((sum - 1.0).abs() < 1e-12, "{drawn} of {count}: {sum}");
        }
    }
}
