//! Which learner fits the rows at hand: each is fitted on the early rows and judged on the late ones, all of them
//! before the held-out part.

use berth_models::forecast::{QUANTILE_COUNT, QUANTILES};

use super::hessboost::HessboostLearner;
use super::linfa_linear::LinfaLinear;
use super::smartcore_ridge::SmartcoreRidge;
use super::{Fitted, Learner, TrainingSet};

/// From this many rows on boosting is taken without a contest: lines have not been better there.
pub const CONTEST_ROWS_MAX: usize = 20_000;
/// Fewer rows than this are too few for trees.
const TREE_ROWS_MIN: usize = 1_000;
/// From this many rows on ridge is no contender.
const RIDGE_ROWS_MAX: usize = 5_000;

/// Which learner to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Choice {
    /// The one that is best on late rows when fitted on early ones; boosting where rows are many.
    #[default]
    Auto,
    /// Gradient-boosted trees.
    Hessboost,
    /// Least squares or an elastic net.
    LinfaLinear,
    /// Ridge regression.
    SmartcoreRidge,
}

/// A fit with how it was chosen.
pub struct Chosen {
    /// The fit, on all rows.
    pub fitted: Fitted,
    /// The learner, and what the contest said.
    pub description: String,
}

/// Fit the rows of one horizon by `choice`.
///
/// # Errors
/// The learner that was named, or every contender, can't fit them.
pub fn fit(
    choice: Choice,
    boosting: &HessboostLearner,
    horizon: usize,
    rows: TrainingSet,
    progress: &(dyn Fn(usize) + Sync),
) -> anyhow::Result<Chosen> {
    let named = |learner: &dyn Learner, rows| -> anyhow::Result<Chosen> {
        let fitted = learner.fit(horizon, rows, progress)?;
        Ok(Chosen { fitted, description: learner.describe() })
    };
    match choice {
        Choice::Hessboost => named(boosting, rows),
        Choice::LinfaLinear => named(&LinfaLinear, rows),
        Choice::SmartcoreRidge => named(&SmartcoreRidge, rows),
        Choice::Auto if rows.len() >= CONTEST_ROWS_MAX => named(boosting, rows),
        Choice::Auto => contest(boosting, horizon, rows, progress),
    }
}

fn contest(
    boosting: &HessboostLearner,
    horizon: usize,
    rows: TrainingSet,
    progress: &(dyn Fn(usize) + Sync),
) -> anyhow::Result<Chosen> {
    let mut contenders: Vec<Box<dyn Learner>> = vec![Box::new(LinfaLinear)];
    if rows.len() < RIDGE_ROWS_MAX {
        contenders.push(Box::new(SmartcoreRidge));
    }
    if rows.len() >= TREE_ROWS_MIN {
        contenders.push(Box::new(boosting.clone()));
    }
    let (early, late) = rows.early_and_late();
    let mut best: Option<(usize, f64)> = None;
    let mut said = Vec::new();
    for (index, learner) in contenders.iter().enumerate() {
        match learner.fit(horizon, early.clone(), &|_| ()) {
            Ok(fitted) => {
                let loss = pinball(&fitted, &late);
                said.push(format!("{} {loss:.4}", learner.name()));
                if loss.is_finite() && best.is_none_or(|(_, least)| loss < least) {
                    best = Some((index, loss));
                }
            }
            Err(error) => said.push(format!("{} failed: {error:#}", learner.name())),
        }
    }
    let said = said.join(", ");
    let Some((index, _)) = best else { anyhow::bail!("no learner fits {} rows: {said}", rows.len()) };
    let fitted = contenders[index].fit(horizon, rows, progress)?;
    let description = format!("{}; pinball loss on late rows: {said}", contenders[index].describe());
    Ok(Chosen { fitted, description })
}

/// Mean pinball loss over rows and quantiles, in units of the rows' scale; NaN without rows.
fn pinball(fitted: &Fitted, rows: &TrainingSet) -> f64 {
    let mut sum = 0.0;
    for index in 0..rows.len() {
        let mut out = [0.0; QUANTILE_COUNT];
        fitted.predictor.predict_into(rows.row(index), &mut out);
        out.sort_by(f32::total_cmp);
        for (forecast, quantile) in out.iter().zip(QUANTILES) {
            let error = f64::from(rows.targets[index]) - f64::from(*forecast);
            sum += (quantile * error).max((quantile - 1.0) * error);
        }
    }
    sum / (rows.len() * QUANTILE_COUNT) as f64
}
