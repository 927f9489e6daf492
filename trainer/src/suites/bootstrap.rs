//! Bootstrap intervals of means over traces, from a fixed seed.

use berth_models::chance::unit;

/// Resamples of an interval.
const RESAMPLES: u64 = 2_000;

/// A mean with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Mean of `values` with its 95 % percentile-bootstrap interval (Efron 1979).
#[must_use]
pub fn interval(values: &[f64]) -> Interval {
    let sum = |pick: &dyn Fn(usize) -> usize| {
        (0..values.len()).map(|index| values[pick(index)]).sum::<f64>() / values.len() as f64
    };
    bootstrap(values.len(), sum)
}

/// Σ `numerators` ÷ Σ `denominators` over traces, with its interval.
#[must_use]
pub fn interval_of_ratio(numerators: &[f64], denominators: &[f64]) -> Interval {
    let ratio = |pick: &dyn Fn(usize) -> usize| {
        let sum = |values: &[f64]| (0..values.len()).map(|index| values[pick(index)]).sum::<f64>();
        sum(numerators) / sum(denominators)
    };
    bootstrap(numerators.len().min(denominators.len()), ratio)
}

fn bootstrap(count: usize, statistic: impl Fn(&dyn Fn(usize) -> usize) -> f64) -> Interval {
    let mean = statistic(&|index| index);
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|resample| statistic(&|index| (unit(resample, index as u64 + 1) * count as f64) as usize))
        .collect();
    means.sort_by(f64::total_cmp);
    let at = |share: f64| means[(share * (RESAMPLES - 1) as f64) as usize];
    Interval { mean, low: at(0.025), high: at(0.975) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_holds_the_mean_and_narrows_with_more_values() {
        let wave = |count: usize| (0..count).map(|i| (i * 37 % 100) as f64).collect::<Vec<_>>();
        let (few, many) = (interval(&wave(20)), interval(&wave(2_000)));
        assert!(few.low < few.mean && few.mean < few.high);
        assert!(many.high - many.low < few.high - few.low);
        let ratio = interval_of_ratio(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0]);
        assert_eq!(ratio, Interval { mean: 0.5, low: 0.5, high: 0.5 });
        assert_eq!(interval(&[3.0; 10]), Interval { mean: 3.0, low: 3.0, high: 3.0 });
    }
}
