//! Ridge regression by `smartcore`: the cold start, when rows are few and features many.

use anyhow::anyhow;
use smartcore::linalg::basic::arrays::Array;
use smartcore::linalg::basic::matrix::DenseMatrix;
use smartcore::linear::ridge_regression::{RidgeRegression, RidgeRegressionParameters};

use super::line::{Matrix, Solved};
use super::{Fitted, Learner, TrainingSet, line};

/// Penalty on squared weights for each row, in units of the rows' scale.
const ALPHA_A_ROW: f64 = 0.02;

/// See the module's text.
#[derive(Debug, Clone, Default)]
pub struct SmartcoreRidge;

impl Learner for SmartcoreRidge {
    fn name(&self) -> &'static str {
        "smartcore_ridge"
    }

    fn describe(&self) -> String {
        format!("smartcore 0.7: ridge, penalty {ALPHA_A_ROW} a row; conformal quantiles")
    }

    fn fit(&self, _: usize, rows: TrainingSet, _: &(dyn Fn(usize) + Sync)) -> anyhow::Result<Fitted> {
        line::fit(&rows, &solve)
    }
}

fn matrix(rows: &Matrix) -> anyhow::Result<DenseMatrix<f64>> {
    DenseMatrix::new(rows.len(), rows.width, rows.values.clone(), false).map_err(|error| anyhow!("{error}"))
}

/// The library fits no intercept of its own here; the mean is taken out first and added again.
fn solve(rows: &Matrix, targets: &[f64], asked: &Matrix) -> anyhow::Result<Solved> {
    let mean = targets.iter().sum::<f64>() / targets.len().max(1) as f64;
    let centred: Vec<f64> = targets.iter().map(|target| target - mean).collect();
    let alpha = ALPHA_A_ROW * rows.len() as f64;
    let parameters = RidgeRegressionParameters::default().with_alpha(alpha).with_normalize(false);
    let ridge = RidgeRegression::fit(&matrix(rows)?, &centred, parameters)
        .map_err(|error| anyhow!("ridge regression over {} rows: {error}", rows.len()))?;
    let predicted = ridge.predict(&matrix(asked)?).map_err(|error| anyhow!("{error}"))?;
    let weights = ridge.coefficients().iterator(0).copied().collect();
    let intercept = mean + ridge.intercept();
    Ok(Solved { weights, intercept, predicted: predicted.into_iter().map(|line| line + mean).collect() })
}
