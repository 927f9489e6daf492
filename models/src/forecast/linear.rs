//! A linear forecast: standardised features times weights, and one constant a quantile.
//!
//! What a boosted ensemble needs thousands of rows for, a line finds in hundreds. Missing values (NaN) count as the
//! training mean, and no feature counts for more than [`Z_MAX`] standard deviations, so an odd one can't run away.

use super::ensemble::EnsembleError;

/// Standard deviations beyond which a feature counts as this many.
pub const Z_MAX: f64 = 8.0;
/// Most features and outputs.
const COUNT_MAX: usize = 4_096;
const MAGIC: &[u8; 8] = b"BERTHLIN";
const WORD_BYTES: usize = 8;

/// See the module's text.
#[derive(Debug, Clone, PartialEq)]
pub struct Linear {
    scaling: Scaling,
    /// One a feature.
    weights: Vec<f64>,
    /// One an output, ascending.
    base: Vec<f64>,
}

/// Where a feature's training values lay and how far they spread.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scaling {
    /// Mean of each feature's values that were there; 0 when none was.
    pub means: Vec<f64>,
    /// 1 ÷ standard deviation; 0 for a feature that never changed or never was there.
    pub inverse_deviations: Vec<f64>,
}

impl Scaling {
    /// The scaling of `rows`, row-major with `width` values a row.
    #[must_use]
    pub fn of(rows: &[f32], width: usize) -> Self {
        let mut scaling = Self { means: vec![0.0; width], inverse_deviations: vec![0.0; width] };
        for feature in 0..width {
            let values = || rows.iter().skip(feature).step_by(width).filter(|value| value.is_finite());
            let count = values().count() as f64;
            if count < 2.0 {
                continue;
            }
            let mean = values().map(|value| f64::from(*value)).sum::<f64>() / count;
            let square = |value: &f32| (f64::from(*value) - mean) * (f64::from(*value) - mean);
            let deviation = libm::sqrt(values().map(square).sum::<f64>() / count);
            scaling.means[feature] = mean;
            if deviation > 1e-9 * (1.0 + mean.abs()) {
                scaling.inverse_deviations[feature] = 1.0 / deviation;
            }
        }
        scaling
    }

    /// One feature in standard deviations from its mean; a missing one is 0.
    #[must_use]
    pub fn apply(&self, feature: usize, value: f32) -> f64 {
        let z = (f64::from(value) - self.means[feature]) * self.inverse_deviations[feature];
        if z.is_nan() { 0.0 } else { z.clamp(-Z_MAX, Z_MAX) }
    }
}

impl Linear {
    /// A linear forecast.
    ///
    /// # Errors
    /// Counts that don't fit each other, or a number that is not finite.
    pub fn new(scaling: Scaling, weights: Vec<f64>, base: Vec<f64>) -> Result<Self, EnsembleError> {
        let linear = Self { scaling, weights, base };
        linear.validate()?;
        Ok(linear)
    }

    /// Number of features of a row.
    #[must_use]
    pub fn features(&self) -> usize {
        self.weights.len()
    }

    /// Number of outputs.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.base.len()
    }

    /// Weights by feature, in standard deviations.
    #[must_use]
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// Evaluate one row into `out`; one of another length gives NaN everywhere, as an ensemble does.
    pub fn predict_into(&self, row: &[f32], out: &mut [f32]) {
        if row.len() != self.weights.len() || out.len() != self.base.len() {
            out.fill(f32::NAN);
            return;
        }
        let products = row
            .iter()
            .zip(&self.weights)
            .enumerate()
            .map(|(feature, (value, weight))| weight * self.scaling.apply(feature, *value));
        let sum: f64 = products.sum();
        for (out, base) in out.iter_mut().zip(&self.base) {
            *out = (sum + base) as f32;
        }
    }

    fn validate(&self) -> Result<(), EnsembleError> {
        let count = |what, value: usize, max| {
            if value == 0 || value > max { Err(EnsembleError::Count { what, value, max }) } else { Ok(()) }
        };
        count("number of features", self.weights.len(), COUNT_MAX)?;
        count("number of outputs", self.base.len(), 64)?;
        for column in [&self.scaling.means, &self.scaling.inverse_deviations] {
            if column.len() != self.weights.len() {
                let (value, max) = (column.len(), self.weights.len());
                return Err(EnsembleError::Count { what: "values of the scaling", value, max });
            }
        }
        let all = self.scaling.means.iter().chain(&self.scaling.inverse_deviations);
        for (index, value) in all.chain(&self.weights).chain(&self.base).enumerate() {
            if !value.is_finite() {
                let value = value.to_string();
                return Err(EnsembleError::NotFinite { what: "linear value", index, value });
            }
        }
        Ok(())
    }

    /// As little-endian bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for count in [self.weights.len(), self.base.len()] {
            bytes.extend((count as u64).to_le_bytes());
        }
        let Scaling { means, inverse_deviations } = &self.scaling;
        for value in means.iter().chain(inverse_deviations).chain(&self.weights).chain(&self.base) {
            bytes.extend(value.to_le_bytes());
        }
        bytes
    }

    /// Read what [`Self::to_bytes`] wrote.
    ///
    /// # Errors
    /// See [`EnsembleError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, EnsembleError> {
        let size = |what, want| EnsembleError::Size { what, have: bytes.len(), want };
        let rest = bytes.strip_prefix(MAGIC).ok_or(EnsembleError::Magic)?;
        let (words, left) = rest.as_chunks::<WORD_BYTES>();
        let [features, outputs, values @ ..] = words else {
            return Err(size("the head of a linear forecast", MAGIC.len() + 2 * WORD_BYTES));
        };
        let count =
            |word: &[u8; WORD_BYTES]| usize::try_from(u64::from_le_bytes(*word)).unwrap_or(usize::MAX);
        let (features, outputs) = (count(features), count(outputs));
        let want = features.checked_mul(3).and_then(|count| count.checked_add(outputs));
        if want != Some(values.len()) || !left.is_empty() {
            let words = want.unwrap_or(usize::MAX).saturating_add(2);
            return Err(size(
                "a linear forecast",
                words.saturating_mul(WORD_BYTES).saturating_add(MAGIC.len()),
            ));
        }
        let values: Vec<f64> = values.iter().map(|word| f64::from_le_bytes(*word)).collect();
        let (means, rest) = values.split_at(features);
        let (inverse_deviations, rest) = rest.split_at(features);
        let (weights, base) = rest.split_at(features);
        let scaling = Scaling { means: means.to_vec(), inverse_deviations: inverse_deviations.to_vec() };
        Self::new(scaling, weights.to_vec(), base.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linear() -> Linear {
        let rows = [1.0, 10.0, f32::NAN, 3.0, 10.0, f32::NAN];
        Linear::new(Scaling::of(&rows, 3), vec![2.0, 5.0, 7.0], vec![0.5, 1.0]).unwrap()
    }

    #[test]
    fn what_is_missing_constant_or_absurd_does_not_run_away() {
        let predict = |row: [f32; 3]| {
            let mut out = [0.0; 2];
            linear().predict_into(&row, &mut out);
            out
        };
        assert_eq!(predict([2.0, 10.0, 1.0]), [0.5, 1.0], "at the mean only the constant counts");
        assert_eq!(
            predict([3.0, 99.0, 5.0]),
            [2.5, 3.0],
            "a constant feature and an absent one count nothing"
        );
        assert_eq!(predict([f32::NAN, 10.0, 1.0]), [0.5, 1.0]);
        assert_eq!(predict([1e30, 10.0, 1.0]), [16.5, 17.0], "eight deviations and no more");
        let mut out = [0.0; 2];
        linear().predict_into(&[1.0], &mut out);
        assert!(out.iter().all(|value| value.is_nan()));
    }

    #[test]
    fn bytes_come_back_and_damaged_ones_are_refused() {
        let bytes = linear().to_bytes();
        assert_eq!(Linear::from_bytes(&bytes).unwrap(), linear());
        for cut in 0..bytes.len() {
            assert!(Linear::from_bytes(&bytes[..cut]).is_err(), "{cut}");
        }
        let mut odd = bytes.clone();
        let last = odd.len() - 8;
        odd[last..].copy_from_slice(&f64::NAN.to_le_bytes());
        assert!(matches!(Linear::from_bytes(&odd), Err(EnsembleError::NotFinite { .. })));
        odd[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(matches!(Linear::from_bytes(&odd), Err(EnsembleError::Size { .. })));
    }
}
