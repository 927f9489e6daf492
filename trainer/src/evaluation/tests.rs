use berth_models::artifact::{Bundle, Probe, Training};
use berth_models::forecast::{ForecastModel, HORIZONS_MS};

use super::rows::collect;
use super::summary::{by_set, evaluate_series};
use super::*;
use crate::learners::hessboost::HessboostLearner;
use crate::learners::{Fitted, Learner};

const MINUTE_MS: u64 = 60_000;
const START_MS: u64 = 1_700_000_000_000 / DAY_MS * DAY_MS;

/// Three days of minutes: a daily wave, a wave that only the recent past tells, and noise.
fn series(name: &str, seed: u64) -> TimedSeries {
    let mut state = seed;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
    };
    let mut drift = 0.0;
    let points = (0..3 * 1_440)
        .map(|minute| {
            drift = 0.995 * drift + noise();
            let day = (minute as f64 / 1_440.0 * std::f64::consts::TAU).sin();
            (START_MS + minute * MINUTE_MS, 20.0 + 5.0 * day + drift + 0.5 * noise())
        })
        .collect();
    TimedSeries { set: "made".to_owned(), name: name.to_owned(), points }
}

fn fit(series: &[TimedSeries], split: &Split, rounds: usize, threads: usize) -> Fitted {
    let mut rows = collect(series, split, 1, |_| ());
    let last = HORIZONS_MS.len() - 1;
    let learner = HessboostLearner { rounds, threads, ..HessboostLearner::default() };
    learner.fit(last, std::mem::take(&mut rows.horizons[last]), &|_| ()).expect("fits")
}

#[test]
fn a_trained_bundle_meets_its_probes_and_beats_the_day_ago_value() {
    let series = [series("one", 1), series("two", 2)];
    let split = Split { holdout_ms: DAY_MS, skip_ms: 0 };
    let fitted = fit(&series, &split, 20, 1);
    let other = fit(&series, &split, 20, 2);
    assert_eq!(fitted.predictor, other.predictor, "training does not depend on the number of threads");
    let probes =
        fitted.probes.iter().map(|(input, outputs)| Probe::new(HORIZONS_MS[3], input, outputs)).collect();
    let model = ForecastModel::new([None, None, None, Some(fitted.predictor)]).expect("valid");
    let bundle = Bundle::new(model, probes, Training::default())
        .expect("the flat ensemble meets the trainer's outputs");
    let loaded = Bundle::from_files(&bundle.to_files()).expect("loads");
    let figures =
        series.iter().map(|one| evaluate_series(one, &split, Some(loaded.model()), |_| ())).collect();
    let evaluation = by_set(figures, None);
    let set = &evaluation.sets[0];
    // The last five minutes have no truth.
    assert_eq!((set.series, set.rows), (2, 2 * 1_435));
    assert!(set.ratio_day_ago_mean.expect("scored") < 0.5, "{set:?}");
    assert!(set.ratio_best_naive_worst.expect("scored") < 1.05, "{set:?}");
    assert!((set.coverage_p90.expect("scored") - 0.9).abs() < 0.03, "{set:?}");
}

#[test]
fn no_row_looks_past_the_cut() {
    let whole = [series("one", 1)];
    let mut changed = whole.clone();
    let split = Split { holdout_ms: DAY_MS, skip_ms: 0 };
    let cut_ms = whole[0].span(&split).expect("long enough").cut_ms;
    for point in changed[0].points.iter_mut().filter(|point| point.0 > cut_ms) {
        point.1 = 1e6;
    }
    let (rows, other) = (collect(&whole, &split, 1, |_| ()), collect(&changed, &split, 1, |_| ()));
    for (one, other) in rows.horizons.iter().zip(&other.horizons) {
        assert_eq!(one.targets, other.targets);
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&one.values), bits(&other.values));
    }
}

#[test]
fn forecasts_without_truth_or_yesterday_are_counted_not_scored() {
    let mut gappy = series("gappy", 3);
    let cut_ms = gappy.span(&Split { holdout_ms: DAY_MS, skip_ms: 0 }).expect("long enough").cut_ms;
    // An hour is missing yesterday and another one today.
    gappy.points.retain(|point| {
        let yesterday = point.0 > cut_ms - DAY_MS / 2 && point.0 <= cut_ms - DAY_MS / 2 + 60 * MINUTE_MS;
        let today = point.0 > cut_ms + DAY_MS / 4 && point.0 <= cut_ms + DAY_MS / 4 + 60 * MINUTE_MS;
        !yesterday && !today
    });
    let figures = evaluate_series(&gappy, &Split { holdout_ms: DAY_MS, skip_ms: 0 }, None, |_| ());
    assert_eq!(figures.rows_without_day_ago, 60);
    // Five minutes before the gap, and the last five.
    assert_eq!(figures.rows_without_truth, 5 + 5);
    assert_eq!(figures.figures.rows, 1_440 - 60 - 60 - 10);
}

/// The bar on the real traces, where they are there.
#[test]
fn real_traces_meet_the_first_bar() {
    let root = std::env::var_os("BERTH_TRACES").map_or_else(
        || std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"),
        Into::into,
    );
    let folder = root.join("crane_dsp");
    if !folder.is_dir() {
        eprintln!("SKIPPED: no traces in {}; name their folder with BERTH_TRACES", folder.display());
        return;
    }
    let (read, _) = berth_datasets::load_series(&[folder], &Default::default()).expect("reads");
    let series: Vec<TimedSeries> = read.iter().map(|one| TimedSeries::new(one).0).collect();
    let split = Split { holdout_ms: DAY_MS, skip_ms: 0 };
    let fitted = fit(&series, &split, 60, 1);
    let model = ForecastModel::new([None, None, None, Some(fitted.predictor)]).expect("valid");
    let figures = series.iter().map(|one| evaluate_series(one, &split, Some(&model), |_| ())).collect();
    let set = by_set(figures, None).sets.remove(0);
    assert_eq!(set.series, 12);
    assert!(set.ratio_day_ago_mean.expect("scored") < 0.435, "{set:?}");
    assert!(set.ratio_day_ago_median.expect("scored") < 0.442, "{set:?}");
    assert!(set.ratio_best_naive_worst.expect("scored") < 1.05, "{set:?}");
    assert!((set.coverage_p90.expect("scored") - 0.9).abs() < 0.02, "{set:?}");
}

#[test]
fn lengths_of_time() {
    assert_eq!(parse_duration_ms("1d").expect("valid"), DAY_MS);
    assert_eq!(parse_duration_ms("90s").expect("valid"), 90_000);
    for bad in ["", "d", "1", "1w", "-1d", "9999999d"] {
        assert!(parse_duration_ms(bad).is_err(), "{bad}");
    }
}

#[test]
fn truth_is_within_half_a_cadence() {
    let points: Vec<(u64, f64)> = (0..10).map(|index| (index * 60_000, index as f64)).collect();
    let series = TimedSeries { set: String::new(), name: String::new(), points };
    let span = series.span(&Split { holdout_ms: 120_000, skip_ms: 60_000 }).expect("two samples");
    assert_eq!((span.cut_ms, span.cadence_ms, span.points.len()), (360_000, 60_000, 9));
    assert_eq!(span.near(89_000), Some(1.0));
    assert_eq!(span.near(91_000), Some(2.0));
    assert_eq!(span.near(540_000), None);
    assert_eq!(span.truth(60_000, 120_000), Some(3.0));
    // A horizon of 20 s has no truth in a series of minutes: the nearest sample is the origin.
    assert_eq!(span.truth(60_000, 20_000), None);
}
