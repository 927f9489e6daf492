//! The guard: what has been forecast for one horizon of one series, how it turned out, and how much each
//! forecaster therefore counts.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::adaptive::{Adaptive, Regressors};
use super::naive::{NAIVE_COUNT, NaiveKind};
use super::{QUANTILE_COUNT, QUANTILES};

/// Predictions waiting for their truth, at most, per horizon; denser ones are forecast but not scored.
pub const PENDING_KEPT: usize = 6;
/// Time constant of the error that decides: long enough to be sure, short enough to see a level shift within minutes.
const RECENT_MS: f64 = 3_600_000.0;
/// Time constant of the error that is a feature and the unit of the spread.
const SLOW_MS: f64 = 6.0 * 3_600_000.0;
/// How sharply a lower error is preferred: weights go with error to the power −`SHARPNESS`.
const SHARPNESS: f64 = 8.0;
/// The model's error counts as this share of it: a trained model is given the benefit of the doubt.
const MODEL_CREDIT: f64 = 0.9;
/// A naive forecast's quantiles above its median, in units of its mean absolute error: those of a Laplace law.
const NAIVE_SPREAD: [f64; QUANTILE_COUNT] = [0.0, 1.61, 3.91];
/// Step of the conformal shift at one miss, in units of the running error.
const SHIFT_STEP: f64 = 0.05;
/// The conformal shift stays within this many running errors.
const SHIFT_MAX: f64 = 6.0;

/// An exponentially decayed mean of absolute errors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Decayed {
    sum: f64,
    weight: f64,
}

impl Decayed {
    fn add(&mut self, error: f64, keep: f64) {
        self.sum = self.sum * keep + error;
        self.weight = self.weight * keep + 1.0;
    }

    /// NaN before anything was scored.
    fn mean(&self) -> f64 {
        self.sum / self.weight
    }
}

/// A forecast that waits for its truth; values are differences from `current`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Pending {
    target_ms: u64,
    current: f64,
    naive: [Option<f32>; NAIVE_COUNT],
    model: Option<f32>,
    scale: f64,
    regressors: Regressors,
    given: [f32; QUANTILE_COUNT],
}

/// Forecasts and errors of one horizon of one series.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Guard {
    pending: VecDeque<Pending>,
    /// Recent errors of the naive forecasts, over the same forecasts as the model's.
    naive: [Decayed; NAIVE_COUNT],
    naive_slow: [Decayed; NAIVE_COUNT],
    /// Recent error of the model.
    model: Decayed,
    given: Decayed,
    pub(super) adaptive: Adaptive,
    scored_ms: u64,
    /// Added to the upper quantiles (0.9 and 0.99).
    shift: [f64; QUANTILE_COUNT],
}

/// What the guard made of the forecasters' values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Combined {
    pub(super) quantiles: [f64; QUANTILE_COUNT],
    pub(super) naive: NaiveKind,
    pub(super) model_weight: f64,
}

/// The forecasters' values for one target time, in the series' unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidates {
    pub(super) current: f64,
    pub(super) naive: [f64; NAIVE_COUNT],
    pub(super) model: Option<[f64; QUANTILE_COUNT]>,
    pub(super) scale: f64,
    pub(super) regressors: Regressors,
}

impl Guard {
    /// Mean absolute errors of the naive forecasts over the last hours; NaN before any was scored.
    pub(super) fn naive_errors(&self) -> [f64; NAIVE_COUNT] {
        self.naive_slow.map(|error| error.mean())
    }

    /// The naive forecast that has been best, among those that have a value now.
    fn best_naive(&self, values: &[f64; NAIVE_COUNT]) -> usize {
        let mut best = NaiveKind::Persistence as usize;
        for (index, value) in values.iter().enumerate() {
            let error = self.naive[index].mean();
            let better = error < self.naive[best].mean() || self.naive[best].mean().is_nan();
            if value.is_finite() && !error.is_nan() && better {
                best = index;
            }
        }
        best
    }

    /// Weigh the model against the best naive forecast by their recent errors.
    pub(super) fn combine(&self, candidates: &Candidates) -> Combined {
        let naive = self.best_naive(&candidates.naive);
        let naive_error = self.naive[naive].mean();
        let spread = if naive_error.is_nan() { 0.0 } else { naive_error };
        let value = candidates.naive[naive];
        let mut quantiles = NAIVE_SPREAD.map(|width| value + width * spread);
        let mut model_weight = 0.0;
        if let Some(model) = candidates.model {
            model_weight = weight_of(self.model.mean(), naive_error);
            for (quantile, model) in quantiles.iter_mut().zip(model) {
                *quantile += model_weight * (model - *quantile);
            }
        }
        for (quantile, shift) in quantiles.iter_mut().zip(self.shift) {
            *quantile += shift;
        }
        for index in 1..QUANTILE_COUNT {
            quantiles[index] = quantiles[index].max(quantiles[index - 1]);
        }
        Combined { quantiles, naive: NaiveKind::ALL[naive], model_weight }
    }

    /// Remember a forecast until its truth is known, unless it follows the one before too closely.
    pub(super) fn record(
        &mut self,
        target_ms: u64,
        horizon_ms: u64,
        candidates: &Candidates,
        combined: &Combined,
    ) {
        let spacing = horizon_ms / PENDING_KEPT as u64;
        if self.pending.back().is_some_and(|last| target_ms < last.target_ms + spacing) {
            return;
        }
        if self.pending.len() == PENDING_KEPT {
            self.pending.pop_front();
        }
        let offset = |value: f64| (value - candidates.current) as f32;
        self.pending.push_back(Pending {
            target_ms,
            current: candidates.current,
            naive: candidates.naive.map(|value| Some(offset(value)).filter(|offset| offset.is_finite())),
            model: candidates.model.map(|model| offset(model[0])),
            scale: candidates.scale,
            regressors: candidates.regressors,
            given: combined.quantiles.map(offset),
        });
    }

    /// Score the forecasts that have come due between the sample before (`previous`) and the new one, each given as
    /// time and value. Returns how many were scored and how many had no sample within `tolerance_ms`.
    pub(super) fn score(
        &mut self,
        previous: (u64, f64),
        newest: (u64, f64),
        tolerance_ms: u64,
    ) -> (u32, u32) {
        let (mut scored, mut missed) = (0, 0);
        while self.pending.front().is_some_and(|pending| pending.target_ms <= newest.0) {
            let Some(pending) = self.pending.pop_front() else {
                break;
            };
            let before = pending.target_ms.abs_diff(previous.0);
            let after = newest.0 - pending.target_ms;
            let (away, truth) = if before < after { (before, previous.1) } else { (after, newest.1) };
            if away <= tolerance_ms {
                self.learn(&pending, truth);
                scored += 1;
            } else {
                missed += 1;
            }
        }
        (scored, missed)
    }

    fn learn(&mut self, pending: &Pending, truth: f64) {
        let elapsed_ms =
            if self.scored_ms == 0 { 0 } else { pending.target_ms.saturating_sub(self.scored_ms) };
        self.scored_ms = pending.target_ms;
        let keep = libm::exp(-(elapsed_ms as f64) / RECENT_MS);
        let keep_slow = libm::exp(-(elapsed_ms as f64) / SLOW_MS);
        let truth = truth - pending.current;
        match pending.model {
            // A new model is compared from its first forecast on: errors of another hour would be no match.
            Some(_) if self.model.weight == 0.0 => self.naive = Default::default(),
            Some(_) => {}
            None => self.model = Decayed::default(),
        }
        if let Some(value) = pending.model {
            self.model.add((truth - f64::from(value)).abs(), keep);
        }
        for (index, value) in pending.naive.iter().enumerate() {
            if let Some(value) = value {
                let error = (truth - f64::from(*value)).abs();
                self.naive[index].add(error, keep);
                self.naive_slow[index].add(error, keep_slow);
            }
        }
        self.adaptive.learn(&pending.regressors, truth / pending.scale);
        self.given.add((truth - f64::from(pending.given[0])).abs(), keep_slow);
        self.learn_shift(pending, truth);
    }

    /// Move each upper quantile up after a miss and down after a hit, in the proportion that is still when its
    /// coverage is right.
    fn learn_shift(&mut self, pending: &Pending, truth: f64) {
        let unit = self.given.mean();
        let bound = SHIFT_MAX * unit;
        let upper = self.shift.iter_mut().zip(pending.given).zip(QUANTILES).skip(1);
        for ((shift, given), quantile) in upper {
            let missed = truth > f64::from(given);
            let step = if missed { quantile } else { quantile - 1.0 };
            *shift = (*shift + SHIFT_STEP * unit * step).clamp(-bound, bound);
        }
    }
}

/// Weight of the model against the best naive forecast, from their errors; half before there is evidence.
fn weight_of(model: f64, naive: f64) -> f64 {
    if model.is_nan() || naive.is_nan() || (model <= 0.0 && naive <= 0.0) {
        return 0.5;
    }
    if model <= 0.0 {
        return 1.0;
    }
    1.0 / (1.0 + libm::pow(MODEL_CREDIT * model / naive.max(f64::MIN_POSITIVE), SHARPNESS))
}
