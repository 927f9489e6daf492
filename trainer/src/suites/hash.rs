//! Suite `hash`: 100,000 sequential ids on 100 boxes. How evenly do hashes spread them, how many move
//! when a box joins or leaves, and how many boxes does a ball try before it finds room?
//!
//! The bounded row is placed by the strategy itself in a fleet. Who moves is asked of the placements
//! there are (the placement index): the balls of a box that left, and on a join the balls that like
//! the new box better than theirs, as far as its bound allows.

use std::sync::Arc;

use anyhow::Context;
use berth_models::config::FleetConfig;
use berth_models::domain::ball::ball_key;
use berth_models::domain::{Ball, BoxSpec, Capacity};
use berth_models::engine::{Engine, Stamp};
use berth_models::fleet::Fleet;
use berth_models::strategy::StrategyName;
use berth_models::strategy::rendezvous::{most, score};
use serde_json::json;

use super::measured::{Bar, Measured, Row};

const BALLS: usize = 100_000;
const BOXES: usize = 100;
/// The bound under test, as a multiple of a box's share.
const BOUND: f64 = 1.01;

/// Run the suite.
///
/// # Errors
/// When the fleet refuses a ball, which is a defect.
pub fn run() -> anyhow::Result<Measured> {
    // One box more than there are: the one that joins.
    let ids: Vec<String> = (0..=BOXES).map(|index| format!("box-{index:03}")).collect();
    let modulo = |boxes: usize| -> Vec<usize> { (0..BALLS).map(|id| id % boxes).collect() };
    let (plain, _) = anew(&ids[..BOXES], f64::INFINITY);
    let (bounded, probes) = by_strategy(&ids[..BOXES])?;
    let rows = vec![
        row("modulo", &modulo(BOXES), &modulo(BOXES + 1), &modulo(BOXES - 1), 1.0),
        row(
            "rendezvous, plain",
            &plain,
            &anew(&ids, f64::INFINITY).0,
            &anew(&ids[..BOXES - 1], f64::INFINITY).0,
            1.0,
        ),
        row("rendezvous, bounded", &bounded, &joined(&bounded, &ids), &left(&bounded, &ids), probes),
        row(
            "bounded, placed anew",
            &bounded,
            &anew(&ids, BOUND).0,
            &anew(&ids[..BOXES - 1], BOUND).0,
            probes,
        ),
    ];
    let value = |name: &str| rows[2].metrics[name].as_f64().unwrap_or(f64::NAN);
    let bars = vec![
        Bar::at_most("sd", rows[2].score, 13.0),
        Bar::at_most("deviation_p99", value("deviation_p99"), 0.032),
        Bar::at_most("moved_on_join_ratio", value("moved_on_join_ratio"), 1.5),
        Bar::at_most("moved_on_leave_ratio", value("moved_on_leave_ratio"), 1.5),
        Bar::at_most("probes_mean", value("probes_mean"), 3.0),
    ];
    Ok(Measured {
        suite: "hash",
        about: "100,000 sequential ids on 100 boxes; chance alone gives a standard deviation of 31.5",
        score: "standard deviation of the balls a box",
        traces: 1,
        strategies: rows,
        bars,
    })
}

fn key(id: usize) -> u128 {
    ball_key("default", &id.to_string())
}

fn counts(places: &[usize], boxes: usize) -> Vec<usize> {
    let mut counts = vec![0; boxes];
    places.iter().for_each(|place| counts[*place] += 1);
    counts
}

/// Boxes of a ball with their scores, best first.
fn ranked(id: usize, boxes: &[String]) -> Vec<(f64, usize)> {
    let key = key(id);
    let scored = boxes.iter().enumerate().map(|(index, box_id)| (score(key, box_id, 1.0), index));
    let mut scored: Vec<(f64, usize)> = scored.collect();
    scored.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    scored
}

/// The first box in a ball's order that has room, and how many it takes to find it.
fn first_with_room(
    id: usize,
    boxes: &[String],
    counts: &[usize],
    balls: usize,
    bound: f64,
) -> (usize, usize) {
    let room =
        |index: usize| bound.is_infinite() || counts[index] < most(balls, 1.0, boxes.len() as f64, bound);
    let ranked = ranked(id, boxes);
    let probe = ranked.iter().position(|(_, index)| room(*index)).unwrap_or(0);
    (ranked[probe].1, probe + 1)
}

/// Every ball placed in the order of ids on empty boxes; with the mean number of probes.
fn anew(boxes: &[String], bound: f64) -> (Vec<usize>, f64) {
    let mut counts = vec![0; boxes.len()];
    let mut probes = 0;
    let places = (0..BALLS).map(|id| {
        let (place, probed) = first_with_room(id, boxes, &counts, id + 1, bound);
        counts[place] += 1;
        probes += probed;
        place
    });
    (places.collect(), probes as f64 / BALLS as f64)
}

/// The same by the strategy in a fleet.
fn by_strategy(boxes: &[String]) -> anyhow::Result<(Vec<usize>, f64)> {
    let config =
        FleetConfig { primary: StrategyName::Rendezvous, hash_bound: BOUND, ..FleetConfig::default() };
    let mut engine = Engine::new(Fleet::new(config));
    let (stamp, mut events) = (Stamp { at_ms: 1, wall_ms: 1 }, Vec::new());
    for box_id in boxes {
        let spec = BoxSpec::new(box_id, Capacity([None, None, None, Some(BALLS as u64)]));
        engine.register(spec, stamp, &mut events)?;
    }
    let mut counts = vec![0; boxes.len()];
    let (mut places, mut probes) = (Vec::with_capacity(BALLS), 0);
    for id in 0..BALLS {
        let answer = engine.allocate(Arc::new(Ball::new(id.to_string())), stamp, &mut events)?;
        events.clear();
        let box_id = answer.decision.box_id().context("a ball was refused")?.clone();
        let place = boxes.binary_search_by(|known| known.as_str().cmp(&box_id));
        let place = place.ok().context("an unknown box was chosen")?;
        let (expected, probed) = first_with_room(id, boxes, &counts, id + 1, BOUND);
        anyhow::ensure!(place == expected, "ball {id} is on box {place}, by its order on {expected}");
        counts[place] += 1;
        probes += probed;
        places.push(place);
    }
    Ok((places, probes as f64 / BALLS as f64))
}

/// After the last of `boxes` joined: balls that like it better move, until it has its share.
fn joined(places: &[usize], boxes: &[String]) -> Vec<usize> {
    let (new, share) = (boxes.len() - 1, BALLS / boxes.len());
    let mut has = 0;
    let wants =
        |id: usize, place: usize| score(key(id), &boxes[new], 1.0) < score(key(id), &boxes[place], 1.0);
    let mut after = places.to_vec();
    for (id, place) in after.iter_mut().enumerate() {
        if has <= share && wants(id, *place) {
            *place = new;
            has += 1;
        }
    }
    after
}

/// After the last of the first [`BOXES`] left: its balls go where there is room.
fn left(places: &[usize], boxes: &[String]) -> Vec<usize> {
    let (gone, rest) = (BOXES - 1, &boxes[..BOXES - 1]);
    let mut counts = counts(places, BOXES);
    let mut after = places.to_vec();
    for (id, place) in after.iter_mut().enumerate().filter(|(_, place)| **place == gone) {
        *place = first_with_room(id, rest, &counts[..gone], BALLS, BOUND).0;
        counts[*place] += 1;
    }
    after
}

fn row(name: &'static str, places: &[usize], join: &[usize], leave: &[usize], probes: f64) -> Row {
    let moved = |after: &[usize]| places.iter().zip(after).filter(|(a, b)| a != b).count() as f64;
    let (sd, deviation_p99) = spread(places, BOXES);
    let gone = counts(places, BOXES)[BOXES - 1] as f64;
    Row {
        strategy_id: name,
        score: sd,
        metrics: json!({
            "deviation_p99": deviation_p99,
            "sd_after_join": spread(join, BOXES + 1).0,
            "sd_after_leave": spread(leave, BOXES - 1).0,
            "moved_on_join": moved(join),
            "moved_on_join_ratio": moved(join) / (BALLS as f64 / (BOXES + 1) as f64),
            "moved_on_leave": moved(leave),
            "moved_on_leave_ratio": moved(leave) / gone,
            "probes_mean": probes,
        }),
    }
}

/// Standard deviation of the counts, and the 99th percentile of their relative deviation.
fn spread(places: &[usize], boxes: usize) -> (f64, f64) {
    let mean = BALLS as f64 / boxes as f64;
    let mut off: Vec<f64> =
        counts(places, boxes).iter().map(|count| (*count as f64 - mean).abs() / mean).collect();
    off.sort_by(f64::total_cmp);
    let variance = off.iter().map(|off| off * off).sum::<f64>() / boxes as f64;
    (variance.sqrt() * mean, off[(boxes * 99).div_ceil(100) - 1])
}
