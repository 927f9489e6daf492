//! The figures of an evaluation: per series and per set, in the form that `--json` prints.

use std::collections::BTreeMap;

use berth_models::forecast::{ForecastModel, HORIZON_COUNT, HORIZONS_MS, NAIVE_COUNT, NaiveKind};
use serde::Serialize;

use super::walk::{LeftOut, Scored, walk};
use super::{Split, TimedSeries};

/// The headline figures, of a set or of one series (a set of one).
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Name of the set or series.
    pub name: String,
    /// Series that could be scored.
    pub series: usize,
    /// Forecasts five minutes ahead that were scored.
    pub rows: usize,
    /// Mean over series of MAE ÷ MAE of the value a day before the target time.
    pub ratio_day_ago_mean: Option<f64>,
    /// Median over series of the same.
    pub ratio_day_ago_median: Option<f64>,
    /// Mean over series of MAE ÷ MAE of the naive forecast that was best the day before.
    pub ratio_best_naive_mean: Option<f64>,
    /// Largest of them.
    pub ratio_best_naive_worst: Option<f64>,
    /// Share of truths at or below the 0.9 quantile, mean over series.
    pub coverage_p90: Option<f64>,
    /// CPU seconds the training took.
    pub train_cpu_s: Option<f64>,
}

/// Errors at one horizon of one series.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct HorizonFigures {
    /// The horizon.
    pub horizon_ms: u64,
    /// Forecasts scored.
    pub rows: usize,
    /// Mean absolute errors: `forecast` (guarded), `model_alone`, `day_ago` (the exact sample), and every naive.
    pub mae: BTreeMap<String, f64>,
    /// Share of truths at or below each upper quantile: `p90`, `p99`, and of the model alone.
    pub coverage: BTreeMap<String, f64>,
    /// How much the model counted on average.
    pub model_weight_mean: f64,
}

/// The figures of one series.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SeriesFigures {
    /// The headline figures, five minutes ahead.
    #[serde(flatten)]
    pub figures: Figures,
    /// The set it belongs to.
    pub set: String,
    /// MAE ÷ MAE of the value a day before, for the model without the guard.
    pub ratio_day_ago_model_alone: Option<f64>,
    /// The naive forecast that was best the day before.
    pub best_naive: Option<String>,
    /// Mean absolute errors five minutes ahead.
    pub mae: BTreeMap<String, f64>,
    /// Every horizon that was forecast itself.
    pub horizons: Vec<HorizonFigures>,
    /// Forecasts left out for everyone: no sample at the target time.
    pub rows_without_truth: usize,
    /// Forecasts left out for everyone: no sample a day before the target time.
    pub rows_without_day_ago: usize,
}

/// Everything an evaluation found.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Evaluation {
    /// Per set.
    pub sets: Vec<Figures>,
    /// Per series.
    pub series: Vec<SeriesFigures>,
}

/// A running mean.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    sum: f64,
    count: usize,
}

impl Mean {
    fn add(&mut self, value: f64) {
        if value.is_finite() {
            self.sum += value;
            self.count += 1;
        }
    }

    fn get(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct HorizonSums {
    given: Mean,
    model: Mean,
    day_ago: Mean,
    naive: [Mean; NAIVE_COUNT],
    naive_before: [Mean; NAIVE_COUNT],
    under: [Mean; 2],
    model_under: [Mean; 2],
    weight: Mean,
}

impl HorizonSums {
    fn add(&mut self, scored: &Scored, held_out: bool) {
        let error = |value: f64| (scored.truth - value).abs();
        let naive = if held_out { &mut self.naive } else { &mut self.naive_before };
        for (mean, value) in naive.iter_mut().zip(scored.naive) {
            mean.add(error(value));
        }
        if !held_out {
            return;
        }
        self.given.add(error(scored.given.p50));
        self.day_ago.add(error(scored.day_ago));
        self.weight.add(scored.given.model_weight);
        for (mean, quantile) in self.under.iter_mut().zip([scored.given.p90, scored.given.p99]) {
            mean.add(f64::from(scored.truth <= quantile));
        }
        if let Some(model) = scored.model {
            self.model.add(error(model[0]));
            for (mean, quantile) in self.model_under.iter_mut().zip([model[1], model[2]]) {
                mean.add(f64::from(scored.truth <= quantile));
            }
        }
    }

    /// The naive forecast that was best before the held-out part.
    fn best_naive(&self) -> Option<usize> {
        (0..NAIVE_COUNT)
            .filter(|&index| NaiveKind::ALL[index].is_baseline())
            .filter_map(|index| Some((index, self.naive_before[index].get()?)))
            .min_by(|left, right| left.1.total_cmp(&right.1))
            .map(|(index, _)| index)
    }

    fn figures(&self, horizon_ms: u64) -> HorizonFigures {
        let named = [("forecast", self.given), ("model_alone", self.model), ("day_ago_exact", self.day_ago)];
        let naive = NaiveKind::ALL.iter().zip(self.naive).map(|(kind, mean)| (kind.name(), mean));
        let mae = named.into_iter().chain(naive);
        let coverage = [
            ("p90", self.under[0]),
            ("p99", self.under[1]),
            ("model_alone_p90", self.model_under[0]),
            ("model_alone_p99", self.model_under[1]),
        ];
        let known = |(name, mean): (&str, Mean)| Some((name.to_owned(), mean.get()?));
        HorizonFigures {
            horizon_ms,
            rows: self.given.count,
            mae: mae.filter_map(known).collect(),
            coverage: coverage.into_iter().filter_map(known).collect(),
            model_weight_mean: self.weight.get().unwrap_or(0.0),
        }
    }
}

/// Evaluate one series; `each` sees every scored forecast of the held-out part.
pub fn evaluate_series(
    series: &TimedSeries,
    split: &Split,
    model: Option<&ForecastModel>,
    mut each: impl FnMut(&Scored),
) -> SeriesFigures {
    let mut result = SeriesFigures { set: series.set.clone(), ..SeriesFigures::default() };
    result.figures.name.clone_from(&series.name);
    let Some(span) = series.span(split) else {
        return result;
    };
    let mut sums = [HorizonSums::default(); HORIZON_COUNT];
    let LeftOut { without_truth, without_day_ago } =
        walk(&span, model, span.cut_ms.saturating_sub(split.holdout_ms), |scored| {
            let held_out = scored.at_ms > span.cut_ms;
            sums[scored.horizon].add(scored, held_out);
            if held_out {
                each(scored);
            }
        });
    result.rows_without_truth = without_truth;
    result.rows_without_day_ago = without_day_ago;
    result.horizons = sums
        .iter()
        .zip(HORIZONS_MS)
        .filter(|(sums, _)| sums.given.count > 0)
        .map(|(sums, horizon_ms)| sums.figures(horizon_ms))
        .collect();
    headline(&mut result, &sums[HORIZON_COUNT - 1]);
    result
}

fn headline(result: &mut SeriesFigures, sums: &HorizonSums) {
    let ratio = |error: Option<f64>, by: Option<f64>| match (error, by) {
        (Some(error), Some(by)) if by > 0.0 => Some(error / by),
        _ => None,
    };
    let best = sums.best_naive();
    let given = sums.given.get();
    let day_ago = ratio(given, sums.day_ago.get());
    let best_naive = ratio(given, best.and_then(|index| sums.naive[index].get()));
    result.ratio_day_ago_model_alone = ratio(sums.model.get(), sums.day_ago.get());
    result.best_naive = best.map(|index| NaiveKind::ALL[index].name().to_owned());
    result.mae = sums.figures(0).mae;
    let figures = &mut result.figures;
    figures.series = usize::from(sums.given.count > 0);
    figures.rows = sums.given.count;
    (figures.ratio_day_ago_mean, figures.ratio_day_ago_median) = (day_ago, day_ago);
    (figures.ratio_best_naive_mean, figures.ratio_best_naive_worst) = (best_naive, best_naive);
    figures.coverage_p90 = sums.under[0].get();
}

/// Put series together into their sets, in the order in which the sets appear.
#[must_use]
pub fn by_set(series: Vec<SeriesFigures>, train_cpu_s: Option<f64>) -> Evaluation {
    let mut names: Vec<&str> = Vec::new();
    for one in &series {
        if !names.contains(&one.set.as_str()) {
            names.push(&one.set);
        }
    }
    let sets = names
        .into_iter()
        .map(|name| {
            let members: Vec<&Figures> =
                series.iter().filter(|one| one.set == name).map(|one| &one.figures).collect();
            set_figures(name, &members, train_cpu_s)
        })
        .collect();
    Evaluation { sets, series }
}

fn set_figures(name: &str, members: &[&Figures], train_cpu_s: Option<f64>) -> Figures {
    let gather = |pick: fn(&Figures) -> Option<f64>| {
        let mut values: Vec<f64> = members.iter().filter_map(|one| pick(one)).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let day_ago = gather(|one| one.ratio_day_ago_mean);
    let best_naive = gather(|one| one.ratio_best_naive_mean);
    Figures {
        name: name.to_owned(),
        series: members.iter().map(|one| one.series).sum(),
        rows: members.iter().map(|one| one.rows).sum(),
        ratio_day_ago_mean: mean(&day_ago),
        ratio_day_ago_median: median(&day_ago),
        ratio_best_naive_mean: mean(&best_naive),
        ratio_best_naive_worst: best_naive.last().copied(),
        coverage_p90: mean(&gather(|one| one.coverage_p90)),
        train_cpu_s,
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Of sorted values.
fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some(0.5 * (sorted[middle - 1] + sorted[middle])),
    }
}
