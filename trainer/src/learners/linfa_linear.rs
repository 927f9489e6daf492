//! Linear models by `linfa`: ordinary least squares where rows are many, an elastic net where they are few or where
//! features repeat each other, for which least squares has no one answer.

use anyhow::Context;
use linfa::Dataset;
use linfa::traits::{Fit, Predict};
use linfa_elasticnet::ElasticNet;
use linfa_linear::LinearRegression;
use ndarray::{Array1, Array2};

use super::line::{Matrix, Solved};
use super::{Fitted, Learner, TrainingSet, line};

/// Below this many rows least squares follows the noise, and the elastic net takes its place.
const OLS_ROWS_MIN: usize = 2_000;
/// Weight of the elastic net's penalty beside the mean squared error, in units of the rows' scale.
const PENALTY: f64 = 0.01;
/// Share of the penalty that is on absolute weights.
const L1_RATIO: f64 = 0.5;
/// A larger weight, in scales a standard deviation, comes of features that nearly repeat each other and cancel.
const WEIGHT_MAX: f64 = 100.0;
/// Passes of coordinate descent at most.
const ITERATIONS_MAX: u32 = 2_000;

/// See the module's text.
#[derive(Debug, Clone, Default)]
pub struct LinfaLinear;

impl Learner for LinfaLinear {
    fn name(&self) -> &'static str {
        "linfa_linear"
    }

    fn describe(&self) -> String {
        format!(
            "linfa 0.8: least squares from {OLS_ROWS_MIN} rows, below, and where features repeat each other, an elastic net (penalty {PENALTY}, L1 share {L1_RATIO}); conformal quantiles"
        )
    }

    fn fit(&self, _: usize, rows: TrainingSet, _: &(dyn Fn(usize) + Sync)) -> anyhow::Result<Fitted> {
        let is_few = rows.len() < OLS_ROWS_MIN;
        line::fit(&rows, &|rows, targets, asked| {
            let solved = if is_few { None } else { least_squares(rows, targets, asked)? };
            solved.map_or_else(|| elastic_net(rows, targets, asked), Ok)
        })
    }
}

fn array(matrix: &Matrix) -> anyhow::Result<Array2<f64>> {
    Array2::from_shape_vec((matrix.len(), matrix.width), matrix.values.clone()).context("shape of the rows")
}

/// `None` when the features don't determine the weights.
fn least_squares(rows: &Matrix, targets: &[f64], asked: &Matrix) -> anyhow::Result<Option<Solved>> {
    let dataset = Dataset::new(array(rows)?, Array1::from_vec(targets.to_vec()));
    let Ok(fitted) = LinearRegression::new().fit(&dataset) else { return Ok(None) };
    if fitted.params().iter().any(|weight| weight.is_nan() || weight.abs() > WEIGHT_MAX) {
        return Ok(None);
    }
    let predicted = fitted.predict(&array(asked)?).to_vec();
    Ok(Some(Solved { weights: fitted.params().to_vec(), intercept: fitted.intercept(), predicted }))
}

fn elastic_net(rows: &Matrix, targets: &[f64], asked: &Matrix) -> anyhow::Result<Solved> {
    let dataset = Dataset::new(array(rows)?, Array1::from_vec(targets.to_vec()));
    let params = ElasticNet::params().penalty(PENALTY).l1_ratio(L1_RATIO).max_iterations(ITERATIONS_MAX);
    let fitted = params.fit(&dataset).context("elastic net")?;
    let predicted = fitted.predict(&array(asked)?).to_vec();
    Ok(Solved { weights: fitted.hyperplane().to_vec(), intercept: fitted.intercept(), predicted })
}
