//! Chance as an argument: one 64-bit draw a decision, and the numbers taken from it.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The draw of decision `seq` under the fleet's `seed`.
#[must_use]
pub fn draw_of(seed: u64, seq: u64) -> u64 {
    xxh3_64_with_seed(&seq.to_le_bytes(), seed)
}

/// The `index`-th number in [0, 1) of a draw.
#[must_use]
pub fn unit(draw: u64, index: u64) -> f64 {
    let bits = if index == 0 { draw } else { xxh3_64_with_seed(&draw.to_le_bytes(), index) };
    // 53 bits fill the mantissa exactly.
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// The `index`-th number of a draw as one of 0..`count`, each alike; `count` is at least 1.
#[must_use]
pub fn pick(draw: u64, index: u64, count: usize) -> usize {
    ((unit(draw, index) * count as f64) as usize).min(count - 1)
}

/// A stable number in [0, 1) of a ball's key under `seed`, the same for every decision about it.
#[must_use]
pub fn stable_share(ball_key: u128, seed: u64) -> f64 {
    unit(xxh3_64_with_seed(&ball_key.to_le_bytes(), seed), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_uniform_and_differ_by_seed_and_seq() {
        let mean = (0..10_000).map(|seq| unit(draw_of(7, seq), 0)).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        assert_ne!(draw_of(7, 1), draw_of(8, 1));
        assert_ne!(draw_of(7, 1), draw_of(7, 2));
        assert_ne!(unit(draw_of(7, 1), 0), unit(draw_of(7, 1), 1));
    }
}
