//! A policy as a self-verifying set of files: manifest, weights (safetensors) and probes.
//!
//! As with forecasts, a bundle is a map from file name to bytes; loading checks every hash, then runs the
//! probes: features with the trainer's own outputs, which this crate's scorer must meet.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::features::{self, BOX_FEATURES, POOL_FEATURES};
use super::safetensors::{self, Tensor};
use super::scorer::{HIDDEN, INPUTS, PARAMETERS};
use super::{PlacementPolicy, Regime, Scale, Scorer, traffic::Shape};
use crate::artifact::{json_bytes, sha256};
use crate::strategy::StrategyName;

/// Version of the bundle's form; another one is refused.
pub const FORMAT_VERSION: u32 = 1;
/// Name of the manifest's file.
pub const MANIFEST_FILE: &str = "manifest.json";
/// Name of the weights' file.
pub const WEIGHTS_FILE: &str = "weights.safetensors";
/// Name of the probes' file.
pub const PROBES_FILE: &str = "probes.json";
/// What the manifest says it is.
pub const KIND: &str = "placement_policy";
/// Largest difference of a probe, relative to 1 + the trainer's output: learners sum in another order.
pub const PROBE_TOLERANCE: f32 = 1e-4;
/// Most probes of a bundle.
pub const PROBES_MAX: usize = 256;
/// Most regimes of a bundle.
pub const REGIMES_MAX: usize = 64;

/// What a bundle says about itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// See [`FORMAT_VERSION`].
    pub format_version: u32,
    /// [`KIND`].
    pub kind: String,
    /// Names the weights: equal weights have equal ids.
    pub policy_id: String,
    /// Hash of the names of the features.
    pub feature_schema: String,
    /// Units of the features.
    pub scale: Scale,
    /// Traffic it was trained on.
    pub trained_on: Shape,
    /// The rule that decides outside all regimes.
    pub rule: StrategyName,
    /// Where it was measured.
    pub regimes: Vec<Regime>,
    /// Where it comes from.
    pub training: Training,
    /// SHA-256 of every other file, by name.
    pub files: BTreeMap<String, String>,
    /// SHA-256 of this manifest with this field empty.
    pub manifest_sha256: String,
}

/// Where a policy comes from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// Learner and settings.
    pub learner: String,
    /// The traffic it was trained on.
    pub data: String,
    /// Seed of every draw.
    pub seed: u64,
    /// Iterations done, and the one the weights are of.
    pub iterations: u32,
    /// Decisions simulated.
    pub steps: u64,
    /// Seconds it took.
    pub wall_s: f64,
    /// Figures on validation seeds, by name; finite.
    pub metrics: BTreeMap<String, f64>,
}

/// Features with the trainer's own output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// Pool features, then the box's.
    pub features: Vec<f32>,
    /// The trainer's score.
    pub output: f32,
}

/// Why a policy bundle is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PolicyError {
    /// A file is not there.
    #[error("{0} is missing; copy the whole bundle or train again")]
    MissingFile(String),
    /// A file can't be read.
    #[error("{file} can't be read: {reason}; it is damaged or not a policy's")]
    Unreadable {
        /// The file.
        file: &'static str,
        /// Why.
        reason: String,
    },
    /// The manifest states something this build does not have.
    #[error("manifest.json: {field} is {have}, this build takes {want}; train again with this build")]
    Field {
        /// The field.
        field: &'static str,
        /// The manifest's value.
        have: String,
        /// What is taken.
        want: String,
    },
    /// A file does not have the hash that is stated.
    #[error("{0} does not have the hash that is stated: it was cut or changed; copy the bundle again")]
    Checksum(String),
    /// The serving code gives another output than the trainer did.
    #[error("probe {index}: this build computes {have}, the trainer recorded {want}; don't serve it")]
    Probe {
        /// Index of the probe.
        index: usize,
        /// What this build computes.
        have: f32,
        /// What the trainer recorded.
        want: f32,
    },
}

/// A verified policy with everything that proves it.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyBundle {
    manifest: Manifest,
    policy: PlacementPolicy,
    probes: Vec<Probe>,
}

impl PolicyBundle {
    /// Put a bundle together; it is verified as it would be on loading.
    ///
    /// # Errors
    /// See [`PolicyError`].
    pub fn new(policy: PlacementPolicy, probes: Vec<Probe>, training: Training) -> Result<Self, PolicyError> {
        let weights = weights_bytes(&policy.scorer);
        let files = BTreeMap::from([
            (PROBES_FILE.to_owned(), sha256(&json_bytes(&probes))),
            (WEIGHTS_FILE.to_owned(), sha256(&weights)),
        ]);
        let mut manifest = Manifest {
            format_version: FORMAT_VERSION,
            kind: KIND.to_owned(),
            policy_id: format!("policy_{}", &sha256(&weights)[..12]),
            feature_schema: feature_schema(),
            scale: policy.scale,
            trained_on: policy.trained_on,
            rule: policy.rule,
            regimes: policy.regimes.clone(),
            training,
            files,
            manifest_sha256: String::new(),
        };
        manifest.manifest_sha256 = manifest.own_hash();
        let bundle = Self { manifest, policy, probes };
        bundle.verify()?;
        Ok(bundle)
    }

    /// What the bundle says about itself.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &PlacementPolicy {
        &self.policy
    }

    /// The bundle's files by name.
    #[must_use]
    pub fn to_files(&self) -> BTreeMap<String, Vec<u8>> {
        BTreeMap::from([
            (MANIFEST_FILE.to_owned(), json_bytes(&self.manifest)),
            (PROBES_FILE.to_owned(), json_bytes(&self.probes)),
            (WEIGHTS_FILE.to_owned(), weights_bytes(&self.policy.scorer)),
        ])
    }

    /// Load and verify a bundle.
    ///
    /// # Errors
    /// See [`PolicyError`]: each says which file or field is wrong and what to do.
    pub fn from_files(files: &BTreeMap<String, Vec<u8>>) -> Result<Self, PolicyError> {
        let file = |name: &str| files.get(name).ok_or_else(|| PolicyError::MissingFile(name.to_owned()));
        let manifest: Manifest = parse(MANIFEST_FILE, file(MANIFEST_FILE)?)?;
        manifest.check()?;
        for name in [WEIGHTS_FILE, PROBES_FILE] {
            if manifest.files.get(name) != Some(&sha256(file(name)?)) {
                return Err(PolicyError::Checksum(name.to_owned()));
            }
        }
        let scorer = read_scorer(file(WEIGHTS_FILE)?)
            .map_err(|reason| PolicyError::Unreadable { file: WEIGHTS_FILE, reason })?;
        let policy = PlacementPolicy {
            scorer,
            scale: manifest.scale,
            regimes: manifest.regimes.clone(),
            trained_on: manifest.trained_on,
            rule: manifest.rule,
        };
        let probes = parse(PROBES_FILE, file(PROBES_FILE)?)?;
        let bundle = Self { manifest, policy, probes };
        bundle.verify()?;
        Ok(bundle)
    }

    fn verify(&self) -> Result<(), PolicyError> {
        self.manifest.check()?;
        if !(1..=PROBES_MAX).contains(&self.probes.len()) {
            let have = format!("{} probes", self.probes.len());
            return Err(PolicyError::Field { field: "probes", have, want: format!("1 to {PROBES_MAX}") });
        }
        for (index, probe) in self.probes.iter().enumerate() {
            let have = self.output(&probe.features).unwrap_or(f32::NAN);
            let allowed = PROBE_TOLERANCE * (1.0 + probe.output.abs());
            // Written so that what is no number is refused.
            if (have - probe.output).abs().partial_cmp(&allowed).is_none_or(std::cmp::Ordering::is_gt) {
                return Err(PolicyError::Probe { index, have, want: probe.output });
            }
        }
        Ok(())
    }

    fn output(&self, features: &[f32]) -> Option<f32> {
        let (pool, rest) = features.split_first_chunk::<POOL_FEATURES>()?;
        let one: &[f32; BOX_FEATURES] = rest.try_into().ok()?;
        Some(self.policy.scorer.score(&self.policy.scorer.begin(pool), one))
    }

    /// Largest difference between this build's and the trainer's output over the probes.
    #[must_use]
    pub fn probe_difference(&self) -> f32 {
        let difference =
            |probe: &Probe| (self.output(&probe.features).unwrap_or(f32::NAN) - probe.output).abs();
        self.probes.iter().map(difference).fold(0.0, f32::max)
    }
}

impl Manifest {
    fn own_hash(&self) -> String {
        sha256(&json_bytes(&Self { manifest_sha256: String::new(), ..self.clone() }))
    }

    fn check(&self) -> Result<(), PolicyError> {
        let field = |field, is_allowed: bool, have: String, want: &str| {
            if is_allowed { Ok(()) } else { Err(PolicyError::Field { field, have, want: want.to_owned() }) }
        };
        let version = self.format_version;
        field("format_version", version == FORMAT_VERSION, version.to_string(), "1")?;
        field("kind", self.kind == KIND, self.kind.clone(), KIND)?;
        let schema = feature_schema();
        field("feature_schema", self.feature_schema == schema, self.feature_schema.clone(), &schema)?;
        if self.own_hash() != self.manifest_sha256 {
            return Err(PolicyError::Checksum(MANIFEST_FILE.to_owned()));
        }
        let is_positive = |value: f64| value.is_finite() && value > 0.0;
        let is_scaled = is_positive(self.scale.work_ms) && is_positive(self.scale.time_ms);
        field("scale", is_scaled, format!("{:?}", self.scale), "numbers above 0")?;
        let shape = &self.trained_on;
        let is_shape = shape.log_work_mean.is_finite()
            && is_positive(shape.work_ms_mean)
            && (0.0..f64::INFINITY).contains(&shape.log_work_spread);
        field("trained_on", is_shape, format!("{shape:?}"), "finite numbers")?;
        let mut rules = self.regimes.iter().map(|r| r.rule).chain([self.rule]);
        let is_rule = rules.all(|rule| !rule.needs_model() && !rule.needs_policy());
        field("rule", is_rule, self.rule.to_string(), "a strategy that needs no model and no policy")?;
        let is_regime = |r: &Regime| {
            [r.load_from, r.load_to, r.ratio, r.ratio_low, r.ratio_high].iter().all(|v| v.is_finite())
                && r.load_from < r.load_to
        };
        let are_regimes = self.regimes.len() <= REGIMES_MAX && self.regimes.iter().all(is_regime);
        field("regimes", are_regimes, format!("{:?}", self.regimes), "at most 64, load_from below load_to")?;
        let metrics = &self.training.metrics;
        field("metrics", metrics.values().all(|v| v.is_finite()), format!("{metrics:?}"), "finite numbers")
    }
}

fn feature_schema() -> String {
    sha256(format!("{HIDDEN} relu: {}", features::NAMES.join(",")).as_bytes())[..16].to_owned()
}

fn parse<T: serde::de::DeserializeOwned>(file: &'static str, bytes: &[u8]) -> Result<T, PolicyError> {
    serde_json::from_slice(bytes).map_err(|error| PolicyError::Unreadable { file, reason: error.to_string() })
}

fn weights_bytes(scorer: &Scorer) -> Vec<u8> {
    let (hidden, rest) = scorer.parameters().split_at(INPUTS * HIDDEN);
    let (bias, output) = rest.split_at(HIDDEN);
    let tensor = |shape: &[usize], values: &[f32]| Tensor { shape: shape.to_vec(), values: values.to_vec() };
    safetensors::write(&BTreeMap::from([
        ("hidden.weight".to_owned(), tensor(&[INPUTS, HIDDEN], hidden)),
        ("hidden.bias".to_owned(), tensor(&[HIDDEN], bias)),
        ("output.weight".to_owned(), tensor(&[HIDDEN], output)),
        ("features.mean".to_owned(), tensor(&[INPUTS], scorer.mean())),
        ("features.inverse_spread".to_owned(), tensor(&[INPUTS], scorer.inverse_spread())),
    ]))
}

fn read_scorer(bytes: &[u8]) -> Result<Scorer, String> {
    let mut tensors = safetensors::read(bytes)?;
    let mut take = |name: &str, shape: &[usize]| {
        let tensor = tensors.remove(name).ok_or_else(|| format!("tensor {name} is missing"))?;
        if tensor.shape != shape {
            return Err(format!("tensor {name} has shape {:?}, this build takes {shape:?}", tensor.shape));
        }
        Ok(tensor.values)
    };
    let mut parameters = take("hidden.weight", &[INPUTS, HIDDEN])?;
    parameters.extend(take("hidden.bias", &[HIDDEN])?);
    parameters.extend(take("output.weight", &[HIDDEN])?);
    let row = |values: Vec<f32>| <[f32; INPUTS]>::try_from(values).map_err(|_| "wrong length".to_owned());
    let mean = row(take("features.mean", &[INPUTS])?)?;
    let inverse_spread = row(take("features.inverse_spread", &[INPUTS])?)?;
    debug_assert_eq!(parameters.len(), PARAMETERS);
    Scorer::new(parameters, mean, inverse_spread).ok_or_else(|| "a value is not finite".to_owned())
}

#[cfg(test)]
mod tests;
