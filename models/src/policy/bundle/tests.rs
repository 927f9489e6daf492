use super::*;

fn bundle() -> PolicyBundle {
    let parameters = (0..PARAMETERS).map(|index| (index as f32 * 0.37) % 0.5 - 0.2).collect();
    let scorer = Scorer::new(parameters, [0.1; INPUTS], [1.5; INPUTS]).unwrap();
    let features = vec![0.5_f32; INPUTS];
    let begun = scorer.begin(&[0.5; POOL_FEATURES]);
    let output = scorer.score(&begun, &[0.5; BOX_FEATURES]);
    let trained_on = Shape { log_work_mean: 5.0, log_work_spread: 0.6, work_ms_mean: 300.0 };
    let rule = StrategyName::LeastWorkLeft;
    let (load_from, load_to) = (0.8, 1.0);
    let regime = Regime { load_from, load_to, rule, ratio: 0.7, ratio_low: 0.6, ratio_high: 0.8, traces: 9 };
    let policy = PlacementPolicy {
        scorer,
        scale: trained_on.scale(0.6),
        regimes: vec![regime],
        trained_on,
        rule: StrategyName::LeastWorkLeft,
    };
    PolicyBundle::new(policy, vec![Probe { features, output }], Training::default()).unwrap()
}

#[test]
fn a_bundle_is_loaded_as_it_was_made() {
    let made = bundle();
    assert_eq!(PolicyBundle::from_files(&made.to_files()), Ok(made));
}

#[test]
fn every_changed_missing_or_cut_file_is_refused() {
    let files = bundle().to_files();
    for (name, bytes) in &files {
        let mut missing = files.clone();
        missing.remove(name);
        assert_eq!(PolicyBundle::from_files(&missing), Err(PolicyError::MissingFile(name.clone())));
        for at in (0..bytes.len()).step_by(97) {
            let mut changed = files.clone();
            changed.get_mut(name).unwrap()[at] ^= 1;
            assert!(PolicyBundle::from_files(&changed).is_err(), "{name} at {at}");
        }
        let mut cut = files.clone();
        cut.get_mut(name).unwrap().truncate(bytes.len() / 2);
        assert!(PolicyBundle::from_files(&cut).is_err(), "{name}");
    }
}

#[test]
fn a_probe_that_this_build_does_not_meet_is_refused() {
    let made = bundle();
    let mut probes = made.probes.clone();
    probes[0].output += 0.01;
    let refused = PolicyBundle::new(made.policy.clone(), probes.clone(), Training::default());
    assert!(matches!(refused, Err(PolicyError::Probe { index: 0, .. })), "{refused:?}");
    probes[0].output = f32::NAN;
    assert!(PolicyBundle::new(made.policy, probes, Training::default()).is_err());
}

#[test]
fn a_policy_may_not_fall_back_to_a_model() {
    let mut policy = bundle().policy;
    policy.rule = StrategyName::Learned;
    let refused = PolicyBundle::new(policy, bundle().probes, Training::default());
    assert!(matches!(refused, Err(PolicyError::Field { field: "rule", .. })), "{refused:?}");
}
