use proptest::prelude::*;

use super::*;
use crate::forecast::ensemble::NodeSpec;

fn ensemble(seed: f32) -> Ensemble {
    let mut ensemble = Ensemble::new(FEATURE_COUNT, vec![0.0, 0.5, 1.0], QUANTILE_COUNT).expect("valid");
    let specs = [
        NodeSpec::Split { feature: 3, threshold: seed, default_left: seed > 0.0, left: 1, right: 2 },
        NodeSpec::Leaf(vec![seed, 1.0, 2.0]),
        NodeSpec::Leaf(vec![-seed, 3.0, 4.0]),
    ];
    ensemble.push_tree(0, &specs).expect("valid");
    ensemble
}

fn probe(model: &ForecastModel, horizon: usize, value: f32) -> Probe {
    let features = [value; FEATURE_COUNT];
    Probe::new(HORIZONS_MS[horizon], &features, &model.outputs(horizon, &features).expect("trained"))
}

fn bundle(seed: f32) -> Bundle {
    let model = ForecastModel::new([None, None, Some(ensemble(seed)), Some(ensemble(-seed))]).expect("valid");
    let probes = vec![probe(&model, 2, 0.5), probe(&model, 3, f32::NAN)];
    let metrics = BTreeMap::from([("ratio_day_ago_mean".to_owned(), 0.1 + f64::from(seed))]);
    Bundle::new(model, probes, Training { seed: 7, rows: vec![1, 2], metrics, ..Training::default() })
        .expect("valid")
}

/// Change the manifest and make its hashes right again, as somebody would who means it.
fn reseal(files: &mut BTreeMap<String, Vec<u8>>, change: impl FnOnce(&mut Manifest)) {
    let mut manifest: Manifest = serde_json::from_slice(&files[MANIFEST_FILE]).expect("a manifest");
    manifest.files = files
        .iter()
        .filter(|(name, _)| *name != MANIFEST_FILE)
        .map(|(name, bytes)| (name.clone(), sha256(bytes)))
        .collect();
    change(&mut manifest);
    manifest.manifest_sha256 = manifest.own_hash();
    files.insert(MANIFEST_FILE.to_owned(), json_bytes(&manifest));
}

fn refused(change: impl FnOnce(&mut BTreeMap<String, Vec<u8>>)) -> ArtifactError {
    let mut files = bundle(0.25).to_files();
    change(&mut files);
    Bundle::from_files(&files).expect_err("refused")
}

#[test]
fn every_kind_of_damage_has_its_own_message() {
    let ensemble = "ensemble_300000ms.bin";
    let messages = [
        refused(|files| drop(files.remove(MANIFEST_FILE))),
        refused(|files| drop(files.remove(ensemble))),
        refused(|files| reseal(files, |manifest| manifest.format_version = 2)),
        refused(|files| reseal(files, |manifest| manifest.feature_schema = "other".to_owned())),
        refused(|files| reseal(files, |manifest| manifest.quantiles = vec![0.5])),
        refused(|files| {
            let bytes = files.get_mut(ensemble).expect("there");
            let end = bytes.len();
            bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
            reseal(files, |_| ());
        }),
        refused(|files| {
            files.get_mut(ensemble).expect("there").truncate(40);
            reseal(files, |_| ());
        }),
        refused(|files| {
            let other = Ensemble::new(FEATURE_COUNT - 1, vec![0.0; 3], 3).expect("valid");
            files.insert(ensemble.to_owned(), other.to_bytes());
            reseal(files, |_| ());
        }),
        refused(|files| {
            files.insert(ensemble.to_owned(), super::tests::ensemble(0.75).to_bytes());
            reseal(files, |_| ());
        }),
        refused(|files| {
            files.insert(PROBES_FILE.to_owned(), b"[]\n".to_vec());
            reseal(files, |_| ());
        }),
        refused(|files| files.get_mut(MANIFEST_FILE).expect("there").push(b' ')),
    ]
    .map(|error| error.to_string());
    let expected = [
        "manifest.json is missing",
        "ensemble_300000ms.bin is missing",
        "format version 2",
        "feature schema is other",
        "quantiles is [0.5]",
        "every number of an ensemble must be finite",
        "bytes where",
        "features, this build computes",
        "the trainer recorded",
        "has 0 probes",
        "was changed after it was written",
    ];
    for (message, expected) in messages.iter().zip(expected) {
        assert!(message.contains(expected), "{message} should contain {expected}");
    }
}

proptest! {
    #[test]
    fn files_round_trip(seed in -1e3_f32..1e3) {
        let bundle = bundle(seed);
        let files = bundle.to_files();
        prop_assert_eq!(Bundle::file_names(&files[MANIFEST_FILE]).expect("reads").len() + 1, files.len());
        prop_assert_eq!(Bundle::from_files(&files), Ok(bundle));
    }

    #[test]
    fn any_flipped_byte_or_cut_is_refused(file in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), flip in 1_u8..) {
        let mut files = bundle(0.25).to_files();
        let name = file.get(&files.keys().cloned().collect::<Vec<_>>()).clone();
        let whole = files[&name].clone();
        let at = at.index(whole.len());
        files.get_mut(&name).expect("there")[at] ^= flip;
        prop_assert!(Bundle::from_files(&files).is_err(), "flip at {} of {}", at, name);
        files.insert(name.clone(), whole[..at].to_vec());
        prop_assert!(Bundle::from_files(&files).is_err(), "cut at {} of {}", at, name);
    }
}
