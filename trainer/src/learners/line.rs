//! What the linear learners share: rows made fit for them, quantiles by split conformal prediction, and export.
//!
//! A least-squares library predicts a mean and takes no missing value: one NaN in training makes every prediction
//! NaN, without a word. So features are standardised first, missing ones set to their mean and constant ones left
//! out. Quantiles are the line plus constants: the quantiles of its errors on the late rows when fitted on the
//! early ones (Lei et al., "Distribution-free predictive inference for regression", 2018), before it is fitted on all.

use anyhow::Context;
use berth_models::forecast::linear::{Linear, Scaling};
use berth_models::forecast::{FEATURE_COUNT, QUANTILES};

use super::{Fitted, TrainingSet, probe_inputs};

/// Rows as a linear library takes them.
pub struct Matrix {
    /// Row-major, `width` finite values a row.
    pub values: Vec<f64>,
    /// Number of features.
    pub width: usize,
}

impl Matrix {
    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len() / self.width
    }
}

/// A solved line with its own library's predictions for some rows.
pub struct Solved {
    /// One a feature of the matrix.
    pub weights: Vec<f64>,
    /// Added to every prediction.
    pub intercept: f64,
    /// The library's predictions for the rows asked for.
    pub predicted: Vec<f64>,
}

/// Fit a line to rows and targets, and predict other rows.
pub type Solve<'a> = &'a dyn Fn(&Matrix, &[f64], &Matrix) -> anyhow::Result<Solved>;

/// Fit quantiles by `solve`.
pub fn fit(rows: &TrainingSet, solve: Solve) -> anyhow::Result<Fitted> {
    let scaling = Scaling::of(&rows.values, FEATURE_COUNT);
    let active: Vec<usize> =
        (0..FEATURE_COUNT).filter(|&feature| scaling.inverse_deviations[feature] > 0.0).collect();
    anyhow::ensure!(!active.is_empty(), "no feature ever changes in {} rows", rows.len());
    let matrix = |wanted: &dyn Fn(usize) -> bool| -> Matrix {
        let rows = (0..rows.len()).filter(|index| wanted(*index)).map(|index| rows.row(index));
        standardised(rows, &scaling, &active)
    };
    let targets = |wanted: &dyn Fn(usize) -> bool| -> Vec<f64> {
        let indices = (0..rows.len()).filter(|index| wanted(*index));
        indices.map(|index| f64::from(rows.targets[index])).collect()
    };
    let (early, late) = (|index: usize| !rows.is_late[index], |index: usize| rows.is_late[index]);
    let judged =
        solve(&matrix(&early), &targets(&early), &matrix(&late)).context("fitting the early rows")?;
    let mut errors: Vec<f64> =
        targets(&late).iter().zip(&judged.predicted).map(|(truth, line)| truth - line).collect();
    errors.sort_by(f64::total_cmp);

    let inputs = probe_inputs(rows);
    let probe_rows = standardised(inputs.iter().map(Vec::as_slice), &scaling, &active);
    let solved = solve(&matrix(&|_| true), &targets(&|_| true), &probe_rows).context("fitting all rows")?;
    let shifts = QUANTILES.map(|quantile| conformal(&errors, quantile));
    let mut weights = vec![0.0; FEATURE_COUNT];
    for (feature, weight) in active.iter().zip(&solved.weights) {
        weights[*feature] = *weight;
    }
    let base = shifts.iter().map(|shift| solved.intercept + shift).collect();
    let predictor = Linear::new(scaling, weights, base).context("the fitted line")?.into();
    let outputs = |line: &f64| shifts.iter().map(|shift| (line + shift) as f32).collect::<Vec<f32>>();
    let probes = inputs.into_iter().zip(solved.predicted.iter().map(outputs)).collect();
    Ok(Fitted { predictor, probes })
}

/// The error that a share `quantile` of future ones won't exceed: element ⌈(n + 1) × quantile⌉ of the sorted ones.
fn conformal(sorted: &[f64], quantile: f64) -> f64 {
    let rank = ((sorted.len() + 1) as f64 * quantile).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(0.0)
}

fn standardised<'a>(rows: impl Iterator<Item = &'a [f32]>, scaling: &Scaling, active: &[usize]) -> Matrix {
    let values = rows.flat_map(|row| active.iter().map(|&feature| scaling.apply(feature, row[feature])));
    Matrix { values: values.collect(), width: active.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conformal_quantiles_count_the_one_to_come() {
        let errors: Vec<f64> = (1..=99).map(f64::from).collect();
        assert_eq!(QUANTILES.map(|quantile| conformal(&errors, quantile)), [50.0, 90.0, 99.0]);
        assert_eq!(conformal(&errors[..10], 0.99), 10.0, "of few errors the largest");
        assert_eq!(conformal(&[], 0.9), 0.0);
    }
}
