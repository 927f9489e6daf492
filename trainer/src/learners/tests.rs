use ::hessboost::config::{TrainingParams, TreeMethod};
use ::hessboost::data::DMatrix;
use ::hessboost::training::Trainer;
use berth_models::artifact::{Bundle, Probe, Training};
use berth_models::forecast::{ForecastModel, HORIZONS_MS, Predictor};
use smartcore::linalg::basic::matrix::DenseMatrix;
use smartcore::xgboost::{XGRegressor, XGRegressorParameters};

use super::choose::{self, Choice};
use super::hessboost::HessboostLearner;
use super::*;

/// Numbers in 0..1, the same in every run.
fn numbers(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Rows whose target is a line of three features and noise; one feature in ten is missing, one never changes.
fn linear_rows(count: usize) -> TrainingSet {
    let mut number = numbers(7);
    let mut rows = TrainingSet::default();
    for index in 0..count {
        let mut row: Vec<f32> = (0..FEATURE_COUNT).map(|_| number() as f32 - 0.5).collect();
        let target = 2.0 * row[0] - row[1] + 0.5 * row[2] + 0.2 * (number() as f32 - 0.5);
        row[9] = 3.0;
        row.iter_mut().skip(10).filter(|_| number() < 0.1).for_each(|value| *value = f32::NAN);
        rows.push(&row, target, index >= count * 4 / 5);
    }
    rows
}

fn mean_error(predictor: &Predictor, rows: &TrainingSet) -> f32 {
    let error = |index: usize| {
        let mut out = [0.0; 3];
        predictor.predict_into(rows.row(index), &mut out);
        (out[0] - rows.targets[index]).abs()
    };
    (0..rows.len()).map(error).sum::<f32>() / rows.len() as f32
}

#[test]
fn a_line_in_few_rows_is_found_served_and_preferred_to_trees() {
    let rows = linear_rows(1_500);
    let boosting = HessboostLearner { rounds: 40, ..HessboostLearner::default() };
    for choice in [Choice::LinfaLinear, Choice::SmartcoreRidge, Choice::Auto] {
        let chosen = choose::fit(choice, &boosting, 3, rows.clone(), &|_| ()).expect("fits");
        let predictor = chosen.fitted.predictor.clone();
        assert!(matches!(predictor, Predictor::Linear(_)), "{choice:?}: {}", chosen.description);
        assert!(mean_error(&predictor, &rows) < 0.08, "{choice:?}: {}", mean_error(&predictor, &rows));
        // A bundle is verified as on loading: the line meets the outputs of the library that found it.
        let probes = chosen.fitted.probes.iter();
        let probes = probes.map(|(input, outputs)| Probe::new(HORIZONS_MS[3], input, outputs)).collect();
        let model = ForecastModel::new([None, None, None, Some(predictor)]).expect("valid");
        let bundle = Bundle::new(model, probes, Training::default()).expect("meets its probes");
        assert_eq!(Bundle::from_files(&bundle.to_files()).expect("loads"), bundle);
    }
}

#[test]
fn conformal_quantiles_of_a_line_cover_what_they_say() {
    let (fitted, rows) = (linear_rows(3_000), linear_rows(6_000));
    let chosen =
        choose::fit(Choice::LinfaLinear, &HessboostLearner::default(), 3, fitted, &|_| ()).expect("fits");
    let later = 3_000..rows.len();
    let covered = later.clone().filter(|&index| {
        let mut out = [0.0; 3];
        chosen.fitted.predictor.predict_into(rows.row(index), &mut out);
        rows.targets[index] <= out[1]
    });
    let share = covered.count() as f64 / later.len() as f64;
    assert!((share - 0.9).abs() < 0.03, "{share}");
}

#[test]
fn too_few_rows_for_their_features_are_refused_by_ridge_and_said() {
    let error =
        choose::fit(Choice::SmartcoreRidge, &HessboostLearner::default(), 3, linear_rows(40), &|_| ());
    let error = format!("{:#}", error.err().expect("more features than rows"));
    assert!(error.contains("ridge regression over 32 rows"), "{error}");
}

/// `smartcore` grows its trees on every possible split; `hessboost` on a histogram. On the same rows, depth and
/// rounds they must come to nearly the same error.
#[test]
fn boosting_on_histograms_is_as_good_as_the_exact_reference() {
    let (count, width, rounds) = (2_000, 6, 30);
    let mut number = numbers(11);
    let values: Vec<f64> = (0..2 * count * width).map(|_| number()).collect();
    let target = |row: &[f64]| (6.0 * row[0]).sin() + row[1] * row[2] + f64::from(u8::from(row[3] > 0.5));
    let targets: Vec<f64> = values.chunks(width).map(|row| target(row) + 0.1 * (number() - 0.5)).collect();
    let (training, testing) = values.split_at(count * width);

    let dense = |values: &[f64]| DenseMatrix::new(count, width, values.to_vec(), false).expect("a matrix");
    let parameters = XGRegressorParameters::default()
        .with_n_estimators(rounds)
        .with_max_depth(4)
        .with_learning_rate(0.3)
        .with_lambda(1.0)
        .with_base_score(0.5);
    let exact = XGRegressor::fit(&dense(training), &targets[..count].to_vec(), parameters).expect("fits");
    let exact = exact.predict(&dense(testing)).expect("predicts");

    let floats = |values: &[f64]| values.iter().map(|value| *value as f32).collect::<Vec<f32>>();
    let matrix = DMatrix::from_dense_vec(floats(training), count, width).expect("a matrix");
    let matrix = matrix.with_labels(&floats(&targets[..count])).expect("labels");
    let params = TrainingParams::builder().tree_method(TreeMethod::Hist).max_depth(4).eta(0.3).nthread(1);
    let params = params.build().expect("valid");
    let model = Trainer::new(&params, &matrix, rounds).train().expect("fits").model;
    let histogram = testing.chunks(width).map(|row| {
        let mut out = [0.0];
        model.predict_row_into(&floats(row), .., &mut out).expect("predicts");
        f64::from(out[0])
    });
    let histogram: Vec<f64> = histogram.collect();

    let rmse = |predicted: &[f64]| {
        let squares = predicted.iter().zip(&targets[count..]).map(|(one, truth)| (one - truth).powi(2));
        (squares.sum::<f64>() / count as f64).sqrt()
    };
    let (exact, histogram) = (rmse(&exact), rmse(&histogram));
    assert!(exact < 0.2, "the reference learns something: {exact}");
    assert!((histogram / exact - 1.0).abs() < 0.08, "histogram {histogram}, exact {exact}");
}
