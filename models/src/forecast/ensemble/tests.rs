use proptest::prelude::*;

use super::*;

/// A balanced tree of depth two over features 0 and 1, with `seed` in its leaves.
fn specs(seed: f32, width: usize) -> Vec<NodeSpec> {
    let split = |feature, threshold, default_left, left, right| NodeSpec::Split {
        feature,
        threshold,
        default_left,
        left,
        right,
    };
    let leaf = |value: f32| NodeSpec::Leaf((0..width).map(|output| value + output as f32).collect());
    vec![
        split(0, 0.5, true, 1, 2),
        split(1, seed, false, 3, 4),
        leaf(seed),
        leaf(seed * 2.0),
        leaf(seed * 3.0),
    ]
}

fn ensemble(seeds: &[f32]) -> Ensemble {
    let mut ensemble = Ensemble::new(2, vec![0.25, 0.5, 1.0], 3).expect("valid");
    for &seed in seeds {
        ensemble.push_tree(0, &specs(seed, 3)).expect("valid");
    }
    ensemble
}

#[test]
fn missing_values_take_the_learnt_direction() {
    let ensemble = ensemble(&[10.0]);
    let mut out = [0.0; 3];
    for (row, leaf) in [
        ([0.5, 0.0], 10.0),
        ([0.0, 0.0], 20.0),
        ([f32::NAN, 9.0], 20.0),
        ([f32::NAN, f32::NAN], 30.0),
        ([0.0, 10.0], 30.0),
    ] {
        ensemble.predict_into(&row, &mut out);
        assert_eq!(out, [0.25 + leaf, 1.5 + leaf, 3.0 + leaf], "{row:?}");
    }
}

#[test]
fn a_row_of_another_length_gives_no_number() {
    let mut out = [0.0; 3];
    ensemble(&[1.0]).predict_into(&[1.0], &mut out);
    assert!(out.iter().all(|value| value.is_nan()));
}

#[test]
fn a_leaf_that_is_not_a_number_is_refused() {
    let mut bytes = ensemble(&[1.0, 2.0]).to_bytes();
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    assert!(matches!(Ensemble::from_bytes(&bytes), Err(EnsembleError::NotFinite { what: "leaf value", .. })));
}

#[test]
fn a_tree_that_loops_is_refused() {
    let mut ensemble = ensemble(&[]);
    let mut looped = specs(1.0, 3);
    if let NodeSpec::Split { left, .. } = &mut looped[1] {
        *left = 0;
    }
    assert!(matches!(ensemble.push_tree(0, &looped), Err(EnsembleError::Structure { .. })));
    assert_eq!(ensemble.nodes(), 0);
}

proptest! {
    #[test]
    fn bytes_round_trip(seeds in prop::collection::vec(-1e3_f32..1e3, 0..20)) {
        let ensemble = ensemble(&seeds);
        prop_assert_eq!(Ensemble::from_bytes(&ensemble.to_bytes()), Ok(ensemble));
    }

    #[test]
    fn damaged_bytes_never_panic(seeds in prop::collection::vec(-1e3_f32..1e3, 1..6), at in any::<prop::sample::Index>(), flip in 1_u8..) {
        let mut bytes = ensemble(&seeds).to_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        if let Ok(ensemble) = Ensemble::from_bytes(&bytes) {
            ensemble.predict_into(&[0.1, f32::NAN], &mut [0.0; 3]);
        }
        prop_assert!(Ensemble::from_bytes(&bytes[..at]).is_err());
    }

    #[test]
    fn lanes_agree_with_one_tree_at_a_time(seeds in prop::collection::vec(-8_f32..8.0, 1..30), row in [-9_f32..9.0, -9_f32..9.0]) {
        let mut want = [0.25, 0.5, 1.0];
        for seed in &seeds {
            let leaf = if row[0] < 0.5 { if row[1] < *seed { seed * 2.0 } else { seed * 3.0 } } else { *seed };
            for (output, sum) in want.iter_mut().enumerate() {
                *sum += leaf + output as f32;
            }
        }
        let mut out = [0.0; 3];
        ensemble(&seeds).predict_into(&row, &mut out);
        prop_assert_eq!(out, want);
    }
}
