//! A small explicit generator (xoshiro256++ seeded by SplitMix64), so that a seed means the same bytes on
//! every machine and with every version of every library.

/// Pseudo-random numbers of one named stream.
pub(crate) struct Random {
    state: [u64; 4],
}

impl Random {
    /// The stream `stream` of `seed`; streams don't disturb each other when one draws more.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut mixer = seed ^ stream.wrapping_mul(0xD1B5_4A32_D192_ED03);
        Self { state: std::array::from_fn(|_| split_mix(&mut mixer)) }
    }

    fn next(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        // The shift above uses b before it is mixed, as the reference does.
        result
    }

    /// In [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// In [low, high).
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// One of `count` numbers from 0; `count` is at least 1.
    pub fn below(&mut self, count: usize) -> usize {
        ((self.unit() * count as f64) as usize).min(count.saturating_sub(1))
    }

    /// Standard normal.
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.unit()));
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }

    /// Exponential with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.unit())
    }

    /// Log-normal with this median and spread of the logarithm.
    pub fn log_normal(&mut self, median: f64, spread: f64) -> f64 {
        median * libm::exp(spread * self.normal())
    }

    /// Pareto from `least` with this shape, cut at `most`.
    pub fn pareto(&mut self, least: f64, shape: f64, most: f64) -> f64 {
        (least / libm::pow(1.0 - self.unit(), 1.0 / shape)).min(most)
    }

    /// An index, drawn in proportion to `weights`; `None` when they sum to nothing.
    pub fn weighted(&mut self, weights: &[f64]) -> Option<usize> {
        let sum: f64 = weights.iter().sum();
        let mut left = self.unit() * sum;
        let mut last = None;
        for (index, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
            last = Some(index);
            left -= weight;
            if left < 0.0 {
                break;
            }
        }
        last
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_published_sequences() {
        // xoshiro256++ from the state 1, 2, 3, 4, and SplitMix64 from 1234567, as their authors' C gives them.
        let mut random = Random { state: [1, 2, 3, 4] };
        let drawn: Vec<u64> = (0..4).map(|_| random.next()).collect();
        assert_eq!(drawn, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
        let mut state = 1_234_567;
        assert_eq!(split_mix(&mut state), 6_457_827_717_110_365_317);
        assert_eq!(split_mix(&mut state), 3_203_168_211_198_807_973);
    }

    #[test]
    fn moments_are_those_asked_for() {
        let mut random = Random::new(7, 0);
        let count = 100_000;
        let mean = |draw: &mut dyn FnMut() -> f64| (0..count).map(|_| draw()).sum::<f64>() / f64::from(count);
        assert!((mean(&mut || random.unit()) - 0.5).abs() < 0.005);
        assert!(mean(&mut || random.normal()).abs() < 0.015);
        assert!((mean(&mut || random.normal().powi(2)) - 1.0).abs() < 0.02);
        assert!((mean(&mut || random.exponential(3.0)) - 3.0).abs() < 0.05);
        let picks = (0..count).filter(|_| random.weighted(&[1.0, 0.0, 3.0]) == Some(2)).count();
        assert!((picks as f64 / f64::from(count) - 0.75).abs() < 0.01);
        assert_eq!(random.weighted(&[0.0, 0.0]), None);
    }
}
