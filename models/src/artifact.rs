//! The artifact bundle: one self-verifying set of files, manifest, weights and probes.
//!
//! This crate does no IO, so a bundle is a map from file name to bytes. Loading checks every byte against the
//! manifest's hashes and the manifest against its own, and then runs the probes: rows of features with the
//! trainer's own outputs, which the serving code must meet: trees bit for bit, lines within rounding.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::forecast::ensemble::{Ensemble, EnsembleError};
use crate::forecast::linear::Linear;
use crate::forecast::{
    FEATURE_COUNT, ForecastModel, HORIZON_COUNT, HORIZONS_MS, ModelError, Predictor, QUANTILE_COUNT,
    QUANTILES, schema_hash,
};

/// Version of the bundle's form; another one is refused.
pub const FORMAT_VERSION: u32 = 1;
/// Name of the manifest's file.
pub const MANIFEST_FILE: &str = "manifest.json";
/// Name of the probes' file.
pub const PROBES_FILE: &str = "probes.json";
/// Most probes of a bundle.
pub const PROBES_MAX: usize = 1_024;
/// How far a line's output may lie from its learner's, relative to 1 + its size: a library sums in an order of its
/// own. Trees are met bit for bit.
pub const LINEAR_TOLERANCE: f32 = 1e-5;
const KIND: &str = "forecast";

/// What a bundle says about itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// See [`FORMAT_VERSION`].
    pub format_version: u32,
    /// `forecast`.
    pub kind: String,
    /// Names the weights: equal weights have equal ids.
    pub strategy_id: String,
    /// Hash of the feature list it was trained on.
    pub feature_schema: String,
    /// Length of a row of features.
    pub feature_count: usize,
    /// Horizons this build forecasts.
    pub horizons_ms: Vec<u64>,
    /// Those that were trained; the others are interpolated.
    pub horizons_trained_ms: Vec<u64>,
    /// Quantiles of every forecast.
    pub quantiles: Vec<f64>,
    /// What the trainer says.
    pub training: Training,
    /// SHA-256 of every other file of the bundle, by name.
    pub files: BTreeMap<String, String>,
    /// SHA-256 of this manifest with this field empty.
    pub manifest_sha256: String,
}

/// Where a bundle comes from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// Learner and settings.
    pub learner: String,
    /// Hash of the samples it was trained on.
    pub data_fingerprint: String,
    /// The newest instant it was trained on; UTC, epoch milliseconds.
    pub trained_until_ms: u64,
    /// Seed of every draw.
    pub seed: u64,
    /// Rows of each trained horizon.
    pub rows: Vec<u64>,
    /// CPU seconds of the training, where the system tells.
    pub train_cpu_s: Option<f64>,
    /// Figures against the baselines, by name; finite.
    pub metrics: BTreeMap<String, f64>,
}

/// A row of features with the trainer's own outputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// The horizon.
    pub horizon_ms: u64,
    /// Bits of the features.
    #[serde(with = "crate::forecast::packed")]
    features: Vec<u32>,
    /// Bits of the outputs, ascending.
    #[serde(with = "crate::forecast::packed")]
    outputs: Vec<u32>,
}

impl Probe {
    /// A probe of one horizon: features (NaN where missing) and the outputs the trainer gave for them, ascending.
    #[must_use]
    pub fn new(horizon_ms: u64, features: &[f32], outputs: &[f32]) -> Self {
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect();
        Self { horizon_ms, features: bits(features), outputs: bits(outputs) }
    }
}

/// Why a bundle is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ArtifactError {
    /// A file is not there.
    #[error("{file} is missing; copy the whole bundle or train again")]
    MissingFile {
        /// The file.
        file: String,
    },
    /// A file is not the JSON it should be.
    #[error("{file} can't be read: {reason}; it is damaged or not a bundle's")]
    Json {
        /// The file.
        file: &'static str,
        /// What the parser says.
        reason: String,
    },
    /// The bundle has another form.
    #[error(
        "the bundle has format version {have}, this build reads {FORMAT_VERSION}; train again with this build"
    )]
    FormatVersion {
        /// The bundle's version.
        have: u64,
    },
    /// The manifest does not have the hash it states.
    #[error("manifest.json was changed after it was written; copy the bundle again or train again")]
    ManifestChanged,
    /// The bundle was trained on other features.
    #[error("the bundle's feature schema is {have}, this build's is {want}; train again with this build")]
    Schema {
        /// The bundle's schema.
        have: String,
        /// This build's.
        want: String,
    },
    /// The manifest states something this build does not have.
    #[error("manifest.json: {field} is {have}, this build has {want}; train again with this build")]
    Field {
        /// The field.
        field: &'static str,
        /// The manifest's value.
        have: String,
        /// This build's.
        want: String,
    },
    /// A file does not have the hash the manifest states.
    #[error(
        "{file} does not have the hash that manifest.json states: it was cut or changed; copy the bundle again"
    )]
    Checksum {
        /// The file.
        file: String,
    },
    /// An ensemble or a line can't be used.
    #[error("{file}: {source}")]
    Ensemble {
        /// The file.
        file: String,
        /// Why.
        source: EnsembleError,
    },
    /// The ensembles don't make a model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A metric is not finite.
    #[error("metric {name} is {value}; leave it out of the manifest")]
    Metric {
        /// Its name.
        name: String,
        /// Its value.
        value: String,
    },
    /// A horizon has no probe, or there are too many.
    #[error("{horizon_ms} ms has {have} probes, needed are 1 to {PROBES_MAX}; train again")]
    ProbeCount {
        /// The horizon.
        horizon_ms: u64,
        /// Its probes.
        have: usize,
    },
    /// The serving code gives another output than the trainer did.
    #[error(
        "probe {index} ({horizon_ms} ms): this build computes {have:?}, the trainer recorded {want:?}; don't serve it"
    )]
    Probe {
        /// Index of the probe.
        index: usize,
        /// Its horizon.
        horizon_ms: u64,
        /// What this build computes.
        have: Vec<f32>,
        /// What the trainer recorded.
        want: Vec<f32>,
    },
}

/// A verified forecast with everything that proves it.
#[derive(Debug, Clone, PartialEq)]
pub struct Bundle {
    manifest: Manifest,
    model: ForecastModel,
    probes: Vec<Probe>,
}

impl Bundle {
    /// Put a bundle together; it is verified as it would be on loading.
    ///
    /// # Errors
    /// A probe the model does not meet, a horizon without a probe, or a metric that is not finite.
    pub fn new(model: ForecastModel, probes: Vec<Probe>, training: Training) -> Result<Self, ArtifactError> {
        let mut bundle = Self { manifest: manifest(&model, training), model, probes };
        let files = bundle.payload();
        let mut weights = Sha256::new();
        for (name, bytes) in &files {
            if name != PROBES_FILE {
                weights.update(bytes);
            }
        }
        bundle.manifest.strategy_id = format!("forecast_{}", &hex(&weights.finalize())[..12]);
        bundle.manifest.files = files.iter().map(|(name, bytes)| (name.clone(), sha256(bytes))).collect();
        bundle.manifest.manifest_sha256 = bundle.manifest.own_hash();
        bundle.verify()?;
        Ok(bundle)
    }

    /// What the bundle says about itself.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &ForecastModel {
        &self.model
    }

    /// The model, without the rest.
    #[must_use]
    pub fn into_model(self) -> ForecastModel {
        self.model
    }

    /// The bundle's files by name.
    #[must_use]
    pub fn to_files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = self.payload();
        files.insert(MANIFEST_FILE.to_owned(), json_bytes(&self.manifest));
        files
    }

    /// Everything but the manifest.
    fn payload(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::from([(PROBES_FILE.to_owned(), json_bytes(&self.probes))]);
        for (horizon, horizon_ms) in HORIZONS_MS.into_iter().enumerate() {
            match self.model.predictor(horizon) {
                Some(Predictor::Trees(ensemble)) => {
                    files.insert(ensemble_file(horizon_ms), ensemble.to_bytes());
                }
                Some(Predictor::Linear(linear)) => {
                    files.insert(linear_file(horizon_ms), linear.to_bytes());
                }
                None => {}
            }
        }
        files
    }

    /// Names of the files of a bundle whose manifest is `manifest`: what a loader has to read. The names in it are
    /// only ever this crate's own, so none can lead out of the bundle's directory.
    ///
    /// # Errors
    /// As [`Self::from_files`], for the manifest alone.
    pub fn file_names(manifest: &[u8]) -> Result<Vec<String>, ArtifactError> {
        let manifest = read_manifest(manifest)?;
        let trained = manifest.horizons_trained_ms.iter();
        let mut names: Vec<String> = trained.map(|ms| predictor_file(&manifest, *ms)).collect();
        names.push(PROBES_FILE.to_owned());
        Ok(names)
    }

    /// Load and verify a bundle; files it does not name are ignored.
    ///
    /// # Errors
    /// See [`ArtifactError`]: each says which file or field is wrong and what to do.
    pub fn from_files(files: &BTreeMap<String, Vec<u8>>) -> Result<Self, ArtifactError> {
        let missing = |file: &str| ArtifactError::MissingFile { file: file.to_owned() };
        let manifest_bytes = files.get(MANIFEST_FILE).ok_or_else(|| missing(MANIFEST_FILE))?;
        let manifest = read_manifest(manifest_bytes)?;
        for (name, hash) in &manifest.files {
            let bytes = files.get(name).ok_or_else(|| missing(name))?;
            if sha256(bytes) != *hash {
                return Err(ArtifactError::Checksum { file: name.clone() });
            }
        }
        let mut predictors: [Option<Predictor>; HORIZON_COUNT] = Default::default();
        for (horizon, horizon_ms) in HORIZONS_MS.into_iter().enumerate() {
            if manifest.horizons_trained_ms.contains(&horizon_ms) {
                let file = predictor_file(&manifest, horizon_ms);
                let bytes = listed(&manifest, files, &file)?;
                let predictor = if file == linear_file(horizon_ms) {
                    Linear::from_bytes(bytes).map(Predictor::from)
                } else {
                    Ensemble::from_bytes(bytes).map(Predictor::from)
                };
                predictors[horizon] =
                    Some(predictor.map_err(|source| ArtifactError::Ensemble { file, source })?);
            }
        }
        let probes = parse(PROBES_FILE, listed(&manifest, files, PROBES_FILE)?)?;
        let bundle = Self { manifest, model: ForecastModel::new(predictors)?, probes };
        bundle.verify()?;
        Ok(bundle)
    }

    fn verify(&self) -> Result<(), ArtifactError> {
        if let Some((name, value)) =
            self.manifest.training.metrics.iter().find(|(_, value)| !value.is_finite())
        {
            return Err(ArtifactError::Metric { name: name.clone(), value: value.to_string() });
        }
        for &horizon_ms in &self.manifest.horizons_trained_ms {
            let have = self.probes.iter().filter(|probe| probe.horizon_ms == horizon_ms).count();
            if have == 0 || self.probes.len() > PROBES_MAX {
                return Err(ArtifactError::ProbeCount { horizon_ms, have });
            }
        }
        for (index, probe) in self.probes.iter().enumerate() {
            self.meet(index, probe)?;
        }
        Ok(())
    }

    fn meet(&self, index: usize, probe: &Probe) -> Result<(), ArtifactError> {
        let floats = |bits: &[u32]| bits.iter().map(|bits| f32::from_bits(*bits)).collect::<Vec<f32>>();
        let horizon = HORIZONS_MS.iter().position(|horizon_ms| *horizon_ms == probe.horizon_ms);
        let have = horizon
            .and_then(|horizon| self.model.outputs(horizon, &floats(&probe.features)))
            .map_or_else(Vec::new, |outputs| outputs.to_vec());
        let want = floats(&probe.outputs);
        let is_line = horizon
            .is_some_and(|horizon| matches!(self.model.predictor(horizon), Some(Predictor::Linear(_))));
        let is_met = |(have, want): (&f32, &f32)| match is_line {
            true => (have - want).abs() <= LINEAR_TOLERANCE * (1.0 + want.abs()),
            false => have.to_bits() == want.to_bits(),
        };
        if have.len() == QUANTILE_COUNT && want.len() == QUANTILE_COUNT && have.iter().zip(&want).all(is_met)
        {
            return Ok(());
        }
        Err(ArtifactError::Probe { index, horizon_ms: probe.horizon_ms, have, want })
    }
}

impl Manifest {
    fn own_hash(&self) -> String {
        sha256(&json_bytes(&Self { manifest_sha256: String::new(), ..self.clone() }))
    }
}

fn manifest(model: &ForecastModel, training: Training) -> Manifest {
    let trained = |(horizon, _): &(usize, u64)| model.predictor(*horizon).is_some();
    Manifest {
        format_version: FORMAT_VERSION,
        kind: KIND.to_owned(),
        strategy_id: String::new(),
        feature_schema: schema_hash(),
        feature_count: FEATURE_COUNT,
        horizons_ms: HORIZONS_MS.to_vec(),
        horizons_trained_ms: HORIZONS_MS.into_iter().enumerate().filter(trained).map(|(_, ms)| ms).collect(),
        quantiles: QUANTILES.to_vec(),
        training,
        files: BTreeMap::new(),
        manifest_sha256: String::new(),
    }
}

/// Parse a manifest and check everything in it that does not need the other files.
fn read_manifest(bytes: &[u8]) -> Result<Manifest, ArtifactError> {
    let value: serde_json::Value = parse(MANIFEST_FILE, bytes)?;
    let version = value.get("format_version").and_then(serde_json::Value::as_u64);
    match version {
        Some(version) if version == u64::from(FORMAT_VERSION) => {}
        Some(have) => return Err(ArtifactError::FormatVersion { have }),
        None => {
            let reason = "format_version is missing or not a whole number".to_owned();
            return Err(ArtifactError::Json { file: MANIFEST_FILE, reason });
        }
    }
    let manifest: Manifest = parse(MANIFEST_FILE, bytes)?;
    // Written again it must be the same bytes: no change hides in spaces or in the form of a number.
    if json_bytes(&manifest) != bytes || manifest.own_hash() != manifest.manifest_sha256 {
        return Err(ArtifactError::ManifestChanged);
    }
    let want = schema_hash();
    if manifest.feature_schema != want {
        return Err(ArtifactError::Schema { have: manifest.feature_schema, want });
    }
    let field = |field, have: String, want: String| {
        if have == want { Ok(()) } else { Err(ArtifactError::Field { field, have, want }) }
    };
    field("kind", manifest.kind.clone(), KIND.to_owned())?;
    field("feature_count", manifest.feature_count.to_string(), FEATURE_COUNT.to_string())?;
    field("horizons_ms", format!("{:?}", manifest.horizons_ms), format!("{HORIZONS_MS:?}"))?;
    field("quantiles", format!("{:?}", manifest.quantiles), format!("{QUANTILES:?}"))?;
    Ok(manifest)
}

/// A file whose hash was checked because the manifest lists it.
fn listed<'a>(
    manifest: &Manifest,
    files: &'a BTreeMap<String, Vec<u8>>,
    name: &str,
) -> Result<&'a Vec<u8>, ArtifactError> {
    let file = files.get(name).filter(|_| manifest.files.contains_key(name));
    file.ok_or_else(|| ArtifactError::MissingFile { file: name.to_owned() })
}

fn ensemble_file(horizon_ms: u64) -> String {
    format!("ensemble_{horizon_ms}ms.bin")
}

fn linear_file(horizon_ms: u64) -> String {
    format!("linear_{horizon_ms}ms.bin")
}

/// The file that holds a trained horizon: a line's where the manifest lists one.
fn predictor_file(manifest: &Manifest, horizon_ms: u64) -> String {
    let linear = linear_file(horizon_ms);
    if manifest.files.contains_key(&linear) { linear } else { ensemble_file(horizon_ms) }
}

fn parse<T: serde::de::DeserializeOwned>(file: &'static str, bytes: &[u8]) -> Result<T, ArtifactError> {
    serde_json::from_slice(bytes).map_err(|error| ArtifactError::Json { file, reason: error.to_string() })
}

/// The types written here have string keys and finite numbers, so this can't fail; an empty file would be refused.
pub(crate) fn json_bytes<T: Serialize>(value: &T) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
