use proptest::prelude::*;

use super::*;
use crate::forecast::ensemble::{Ensemble, NodeSpec};
use crate::forecast::{FEATURE_COUNT, QUANTILES};

/// 2023-11-14, a full hour.
const START_MS: u64 = 1_699_999_200_000;

/// A model that always gives the same change, in units of the scale.
fn model(change: f32) -> ForecastModel {
    let ensemble = || {
        let mut ensemble = Ensemble::new(FEATURE_COUNT, vec![0.0; 3], 3).expect("valid");
        ensemble.push_tree(0, &[NodeSpec::Leaf(vec![change, change + 2.0, change + 5.0])]).expect("valid");
        Some(ensemble)
    };
    ForecastModel::new([ensemble(), ensemble(), ensemble(), ensemble()]).expect("valid")
}

/// Noise of mean 0 in −0.5..0.5, the same in every run.
fn noise(index: u64) -> f64 {
    let mixed = (index + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (mixed >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
}

/// Feed `count` samples a `step_ms` apart and forecast after each; returns the last forecast.
fn run(
    state: &mut SeriesState,
    from: u64,
    count: u64,
    step_ms: u64,
    model: Option<&ForecastModel>,
    value: impl Fn(u64) -> f64,
) -> SeriesForecast {
    let mut forecast = None;
    for index in from..from + count {
        state.observe(START_MS + index * step_ms, value(index));
        forecast = state.predict(model);
    }
    forecast.expect("a sample")
}

#[test]
fn nothing_is_known_before_the_first_sample() {
    assert_eq!(SeriesState::new().predict(None), None);
}

#[test]
fn late_and_unusable_samples_change_nothing() {
    let mut state = SeriesState::new();
    run(&mut state, 0, 10, 60_000, None, noise);
    let before = state.clone();
    assert_eq!(state.observe(START_MS, 5.0), Observed::NotAfterLast);
    assert_eq!(state.observe(START_MS + 9 * 60_000, 5.0), Observed::NotAfterLast);
    assert_eq!(state.observe(START_MS + 3_600_000, f64::NAN), Observed::NotFinite);
    assert_eq!(state, before);
}

#[test]
fn forecasts_are_scored_when_due_and_missed_in_a_gap() {
    let mut state = SeriesState::new();
    run(&mut state, 0, 10, 60_000, None, noise);
    // 1, 2 and 5 minutes; 30 s is shorter than the cadence.
    assert_eq!(state.observe(START_MS + 600_000, 0.0), Observed::Accepted { scored: 3, missed: 0 });
    let after_gap = state.observe(START_MS + 3_600_000, 0.0);
    assert_eq!(after_gap, Observed::Accepted { scored: 0, missed: 5 });
}

#[test]
fn a_model_counts_by_its_own_recent_error() {
    // On a random walk no forecast is better than "no change", and a trained model gets the benefit of the doubt.
    let walk = |index: u64| 10.0 + (0..=index).map(noise).sum::<f64>();
    let mut state = SeriesState::new();
    run(&mut state, 0, 300, 60_000, None, walk);
    let good = run(&mut state, 300, 60, 60_000, Some(&model(0.0)), walk);
    assert!(good.horizons[3].model_weight > 0.5, "{good:?}");
    let value = |index: u64| 10.0 + noise(index);
    let mut bad = SeriesState::new();
    run(&mut bad, 0, 300, 60_000, None, value);
    let bad = run(&mut bad, 300, 30, 60_000, Some(&model(40.0)), value);
    assert!(bad.horizons[3].model_weight < 0.01, "{bad:?}");
    assert!((bad.horizons[3].p50 - 10.0).abs() < 1.0, "{bad:?}");
    assert!(matches!(bad.horizons[3].source, ForecastSource::Naive(_)));
}

#[test]
fn a_level_shift_is_survived_within_minutes() {
    let mut state = SeriesState::new();
    run(&mut state, 0, 2_000, 60_000, None, |index| 1.0 + 0.1 * noise(index));
    let forecast = run(&mut state, 2_000, 15, 60_000, None, |index| 50.0 + noise(index));
    assert!((forecast.horizons[3].p50 - 50.0).abs() < 5.0, "{forecast:?}");
}

#[test]
fn short_horizons_of_a_slow_series_are_interpolated() {
    let mut state = SeriesState::new();
    let forecast = run(&mut state, 0, 40, 300_000, Some(&model(3.0)), |index| index as f64 % 7.0);
    let last = 39.0 % 7.0;
    let far = forecast.horizons[3].p50 - last;
    for (horizon, share) in [(0, 0.1), (1, 0.2), (2, 0.4)] {
        assert!((forecast.horizons[horizon].p50 - last - share * far).abs() < 1e-9, "{forecast:?}");
    }
}

#[test]
fn coverage_is_corrected_on_noise_of_another_law() {
    let mut state = SeriesState::new();
    // Squared noise has a longer upper tail than the Laplace law that the spread starts from.
    let value = |index: u64| (2.0 * noise(index)).powi(2) + 0.5 * libm::sin(index as f64 / 200.0);
    run(&mut state, 0, 2_000, 60_000, None, value);
    let (mut under, mut all) = ([0.0; 2], 0.0);
    for index in 2_000..6_000 {
        let forecast = run(&mut state, index, 1, 60_000, None, value).horizons[3];
        let truth = value(index + 5);
        under[0] += f64::from(u8::from(truth <= forecast.p90));
        under[1] += f64::from(u8::from(truth <= forecast.p99));
        all += 1.0;
    }
    assert!((under[0] / all - QUANTILES[1]).abs() < 0.02, "{}", under[0] / all);
    assert!((under[1] / all - QUANTILES[2]).abs() < 0.01, "{}", under[1] / all);
}

#[test]
fn a_snapshot_forecasts_as_the_state_it_was_taken_of() {
    let mut state = SeriesState::new();
    let model = model(0.5);
    run(&mut state, 0, 3_500, 61_000, Some(&model), |index| 3.0 + noise(index));
    let text = serde_json::to_string(&state).expect("serialises");
    let mut back: SeriesState = serde_json::from_str(&text).expect("parses");
    assert_eq!(back, state);
    for index in 3_500..3_600 {
        let value = 3.0 + noise(index);
        assert_eq!(
            run(&mut state, index, 1, 61_000, Some(&model), |_| value),
            run(&mut back, index, 1, 61_000, Some(&model), |_| value)
        );
    }
}

#[test]
fn a_series_in_other_units_gets_the_same_forecast_in_those_units() {
    let (mut small, mut large) = (SeriesState::new(), SeriesState::new());
    let model = model(0.5);
    // A power of two scales every number exactly.
    for index in 0..2_000 {
        let value = 5.0 + noise(index) + libm::sin(index as f64 / 50.0);
        let one = run(&mut small, index, 1, 60_000, Some(&model), |_| value);
        let other = run(&mut large, index, 1, 60_000, Some(&model), |_| value * 4_096.0);
        for (one, other) in one.horizons.iter().zip(other.horizons) {
            assert_eq!(one.p50 * 4_096.0, other.p50, "{index}");
            assert_eq!(one.p99 * 4_096.0, other.p99, "{index}");
        }
    }
}

proptest! {
    #[test]
    fn quantiles_are_finite_and_never_cross(
        samples in prop::collection::vec((1_u64..2_000_000, prop_oneof![-1e12_f64..1e12, Just(0.0), -1.0_f64..1.0]), 1..120),
        change in -1e6_f32..1e6,
        with_model in any::<bool>(),
    ) {
        let model = model(change);
        let mut state = SeriesState::new();
        let mut at_ms = START_MS;
        for (gap_ms, value) in samples {
            at_ms += gap_ms;
            state.observe(at_ms, value);
            let forecast = state.predict(with_model.then_some(&model)).expect("a sample");
            for horizon in forecast.horizons {
                prop_assert!(horizon.p50 <= horizon.p90 && horizon.p90 <= horizon.p99, "{horizon:?}");
                prop_assert!(horizon.p50.is_finite() && horizon.p99.is_finite(), "{horizon:?}");
                prop_assert!((0.0..=1.0).contains(&horizon.model_weight));
            }
        }
    }
}
