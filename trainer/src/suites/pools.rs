//! Suite `pools`: who owns which box while schedulers and boxes come and go. Moves are counted next to
//! the fewest that the change itself asks for; plain rendezvous, ketama and maglev are baselines here
//! and nowhere else.

use berth_models::pools::owners;
use serde_json::json;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::measured::{Bar, Measured, Row};

const BOXES: usize = 1_000;
const SCHEDULERS: [usize; 3] = [4, 8, 16];
/// Fleets of other names, each measured at every number of schedulers.
const FLEETS: usize = 5;
/// Points of a member on ketama's circle.
const POINTS: u64 = 160;
/// Places in maglev's table: the prime of its paper.
const TABLE: usize = 65_537;

type Assign = fn(&[&str], &[&str]) -> anyhow::Result<Vec<usize>>;

/// Run the suite.
///
/// # Errors
/// When an assignment fails, which is a defect.
pub fn run() -> anyhow::Result<Measured> {
    let ways: [(&'static str, Assign); 4] = [
        ("pools", |schedulers, boxes| owners(schedulers, boxes).map_err(anyhow::Error::msg)),
        ("rendezvous", |schedulers, boxes| Ok(rendezvous(schedulers, boxes))),
        ("ketama", |schedulers, boxes| Ok(ketama(schedulers, boxes))),
        ("maglev", |schedulers, boxes| Ok(maglev(schedulers, boxes))),
    ];
    let strategies =
        ways.into_iter().map(|(name, assign)| measure(name, assign)).collect::<Result<Vec<_>, _>>()?;
    let uneven = strategies[0].metrics["size_over_ceiling_max"].as_f64().unwrap_or(f64::NAN);
    Ok(Measured {
        suite: "pools",
        about: "1,000 boxes owned by 4, 8 and 16 schedulers, one of which joins or leaves; and one box leaves",
        score: "moved boxes per change of schedulers ÷ the fewest the change asks for",
        traces: FLEETS * SCHEDULERS.len(),
        strategies,
        bars: vec![Bar::at_most("size_over_ceiling_max", uneven, 0.0)],
    })
}

fn measure(name: &'static str, assign: Assign) -> anyhow::Result<Row> {
    let (mut ratios, mut by_box) = (Vec::new(), Vec::new());
    let (mut over, mut under) = (0, 0);
    for fleet in 0..FLEETS {
        for count in SCHEDULERS {
            let boxes: Vec<String> = (0..BOXES).map(|index| format!("box-{fleet}-{index:04}")).collect();
            let names: Vec<String> = (0..=count).map(|index| format!("scheduler-{fleet}-{index}")).collect();
            let boxes: Vec<&str> = boxes.iter().map(String::as_str).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let (small, large) = (assign(&names[..count], &boxes)?, assign(&names, &boxes)?);
            // Joining and leaving are the same two views, read forwards and backwards.
            let least = BOXES as f64 / (count + 1) as f64;
            ratios.push(moved(&small, &large) / least);
            let fewer = assign(&names[..count], &boxes[1..])?;
            by_box.push(moved(&small[1..], &fewer));
            let mut sizes = vec![0_usize; count];
            small.iter().for_each(|owner| sizes[*owner] += 1);
            let (ceiling, floor) = (BOXES.div_ceil(count), BOXES / count);
            over = over.max(sizes.iter().map(|size| size.saturating_sub(ceiling)).max().unwrap_or(0));
            under = under.max(sizes.iter().map(|size| floor.saturating_sub(*size)).max().unwrap_or(0));
        }
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    Ok(Row {
        strategy_id: name,
        score: mean(&ratios),
        metrics: json!({
            "moved_ratio_max": ratios.iter().copied().fold(0.0, f64::max),
            "moved_others_when_a_box_leaves_mean": mean(&by_box),
            "size_over_ceiling_max": over,
            "size_under_floor_max": under,
        }),
    })
}

fn moved(before: &[usize], after: &[usize]) -> f64 {
    before.iter().zip(after).filter(|(before, after)| before != after).count() as f64
}

fn hash(text: &str, seed: u64) -> u64 {
    xxh3_64_with_seed(text.as_bytes(), seed)
}

fn rendezvous(schedulers: &[&str], boxes: &[&str]) -> Vec<usize> {
    let best = |id: &&str| (0..schedulers.len()).max_by_key(|s| hash(id, hash(schedulers[*s], 0)));
    boxes.iter().map(|id| best(id).unwrap_or(0)).collect()
}

/// A circle with [`POINTS`] points a scheduler; the next point clockwise owns.
fn ketama(schedulers: &[&str], boxes: &[&str]) -> Vec<usize> {
    let points = |s: usize| (0..POINTS).map(move |point| (hash(schedulers[s], point + 1), s));
    let mut circle: Vec<(u64, usize)> = (0..schedulers.len()).flat_map(points).collect();
    circle.sort_unstable();
    let owner = |id: &&str| circle[circle.partition_point(|point| point.0 < hash(id, 0)) % circle.len()].1;
    boxes.iter().map(owner).collect()
}

/// Maglev's table (Eisenbud et al., NSDI 2016): schedulers take turns at their next preferred place.
fn maglev(schedulers: &[&str], boxes: &[&str]) -> Vec<usize> {
    let table_size = TABLE as u64;
    let steps: Vec<(u64, u64)> =
        schedulers.iter().map(|id| (hash(id, 1) % table_size, hash(id, 2) % (table_size - 1) + 1)).collect();
    let mut next = vec![0_u64; schedulers.len()];
    let mut table = vec![usize::MAX; TABLE];
    for turn in 0..TABLE {
        let s = turn % schedulers.len();
        let (offset, skip) = steps[s];
        // The table is a prime long, so every scheduler's preferences visit every place.
        let place = loop {
            let place = ((offset + next[s] * skip) % table_size) as usize;
            next[s] += 1;
            if table[place] == usize::MAX {
                break place;
            }
        };
        table[place] = s;
    }
    boxes.iter().map(|id| table[(hash(id, 0) % table_size) as usize]).collect()
}
