//! Pools: which scheduler owns which box, computed by every scheduler alike from the same view of
//! the membership, without a coordinator.
//!
//! Rendezvous hashing bounded on both sides: every pair of box and scheduler has a score, and pairs
//! are granted from the best on while the scheduler has room. ⌊n/m⌋ places each, and one more for
//! the first n mod m that fill theirs, are exactly n places: so every pool has ⌊n/m⌋ or ⌈n/m⌉ boxes.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Most pairs of box and scheduler of one assignment: 16 bytes each while it is computed.
pub const PAIRS_MAX: usize = 1 << 24;

/// The owner of every box, as an index into `schedulers`; empty without schedulers.
///
/// A pure function of the two sets: the order in which the ids are given changes no box's owner.
///
/// # Errors
/// More than [`PAIRS_MAX`] pairs.
pub fn owners(schedulers: &[&str], boxes: &[&str]) -> Result<Vec<usize>, String> {
    if schedulers.is_empty() {
        return Ok(Vec::new());
    }
    if schedulers.len().saturating_mul(boxes.len()) > PAIRS_MAX {
        let (n, m) = (boxes.len(), schedulers.len());
        return Err(format!("{n} boxes × {m} schedulers are above {PAIRS_MAX} pairs: use fewer schedulers"));
    }
    let mut pairs: Vec<(u64, u32, u32)> = Vec::with_capacity(schedulers.len() * boxes.len());
    for (scheduler, id) in schedulers.iter().enumerate() {
        let seed = xxh3_64_with_seed(id.as_bytes(), 0);
        for (position, box_id) in boxes.iter().enumerate() {
            pairs.push((xxh3_64_with_seed(box_id.as_bytes(), seed), scheduler as u32, position as u32));
        }
    }
    // Best first; a tie of 64 bits goes by the ids, so that the order of the lists stays out of it.
    pairs.sort_unstable_by(|a, b| {
        let ids = |pair: &(u64, u32, u32)| (schedulers[pair.1 as usize], boxes[pair.2 as usize]);
        b.0.cmp(&a.0).then_with(|| ids(a).cmp(&ids(b)))
    });
    Ok(grant(&pairs, schedulers.len(), boxes.len()))
}

fn grant(pairs: &[(u64, u32, u32)], schedulers: usize, boxes: usize) -> Vec<usize> {
    let least = boxes / schedulers;
    let mut larger_left = boxes % schedulers;
    let mut sizes = vec![0; schedulers];
    let mut owners = vec![usize::MAX; boxes];
    for (_, scheduler, position) in pairs {
        let (scheduler, position) = (*scheduler as usize, *position as usize);
        let size = sizes[scheduler];
        if owners[position] < usize::MAX || size > least || (size == least && larger_left == 0) {
            continue;
        }
        larger_left -= usize::from(size == least);
        sizes[scheduler] += 1;
        owners[position] = scheduler;
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sizes_are_bounded_and_the_order_of_the_lists_changes_nothing(
            schedulers in 1_usize..9, boxes in 0_usize..120, turn in 0_usize..120,
        ) {
            let schedulers: Vec<String> = (0..schedulers).map(|i| format!("scheduler-{i}")).collect();
            let boxes: Vec<String> = (0..boxes).map(|i| format!("box-{i}")).collect();
            let mut schedulers: Vec<&str> = schedulers.iter().map(String::as_str).collect();
            let mut boxes: Vec<&str> = boxes.iter().map(String::as_str).collect();
            let named = |schedulers: &[&str], boxes: &[&str]| {
                let owners = owners(schedulers, boxes).unwrap();
                let mut named: Vec<(String, String)> = boxes.iter().zip(owners)
                    .map(|(id, owner)| (id.to_string(), schedulers[owner].to_owned())).collect();
                named.sort();
                named
            };
            let first = named(&schedulers, &boxes);
            for scheduler in &schedulers {
                let size = first.iter().filter(|(_, owner)| owner == scheduler).count();
                let (n, m) = (boxes.len(), schedulers.len());
                prop_assert!((n / m..=n.div_ceil(m)).contains(&size), "{} of {}", size, n);
            }
            let (m, n) = (schedulers.len(), boxes.len().max(1));
            schedulers.rotate_left(turn % m);
            boxes.reverse();
            if !boxes.is_empty() {
                boxes.rotate_left(turn % n);
            }
            prop_assert_eq!(first, named(&schedulers, &boxes));
        }
    }

    #[test]
    fn nobody_owns_nothing_and_too_many_pairs_are_refused() {
        assert_eq!(owners(&[], &["a"]), Ok(Vec::new()));
        let many = vec!["a"; PAIRS_MAX / 2 + 1];
        assert!(owners(&["x", "y"], &many).is_err());
    }
}
