//! Reading an artifact bundle from a folder or from the ledger; the checks are `models`' own.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use berth_models::artifact::{ArtifactError, Bundle, MANIFEST_FILE};
use berth_models::forecast::ForecastModel;
use berth_models::policy::PlacementPolicy;
use berth_models::policy::bundle::{self, PolicyBundle, PolicyError};

use crate::ledger::ArtifactFiles;

/// Largest file of a bundle, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Why an artifact can't be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file can't be read.
    #[error(
        "{path}: {reason}; give the folder that `berth-trainer forecast train --out`, or for a policy `policy train --out`, wrote"
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// The bundle is refused.
    #[error("artifact {path} is refused: {source}")]
    Refused {
        /// The folder, or the artifact's id.
        path: PathBuf,
        /// Why.
        source: ArtifactError,
    },
    /// The policy is refused.
    #[error("policy {path} is refused: {source}")]
    PolicyRefused {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: PolicyError,
    },
}

/// A verified artifact, ready to be activated.
#[derive(Clone)]
pub struct Artifact {
    /// Its id: equal weights have equal ids.
    pub artifact_id: Arc<str>,
    /// The model.
    pub model: Arc<ForecastModel>,
    /// Its files, for the ledger.
    pub files: ArtifactFiles,
}

impl Artifact {
    /// Read and verify the bundle in folder `path`.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn read(path: &Path) -> Result<Self, LoadError> {
        let manifest = read_file(path, MANIFEST_FILE)?;
        let names = Bundle::file_names(&manifest).map_err(|source| refused(path, source))?;
        let mut files = ArtifactFiles::from([(MANIFEST_FILE.to_owned(), manifest)]);
        for name in names {
            let body = read_file(path, &name)?;
            files.insert(name, body);
        }
        Self::verify(files).map_err(|source| refused(path, source))
    }

    /// Verify a bundle's files.
    ///
    /// # Errors
    /// See [`ArtifactError`].
    pub fn verify(files: ArtifactFiles) -> Result<Self, ArtifactError> {
        let bundle = Bundle::from_files(&files)?;
        let artifact_id = bundle.manifest().strategy_id.as_str().into();
        Ok(Self { artifact_id, model: Arc::new(bundle.into_model()), files })
    }
}

/// A verified placement policy, ready to be activated.
#[derive(Clone)]
pub struct Policy {
    /// Its id: equal weights have equal ids, and no forecast has one of them.
    pub policy_id: Arc<str>,
    /// The policy.
    pub policy: Arc<PlacementPolicy>,
    /// Its files, for the ledger.
    pub files: ArtifactFiles,
}

impl Policy {
    /// Read and verify the policy in folder `path`.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn read(path: &Path) -> Result<Self, LoadError> {
        let mut files = ArtifactFiles::new();
        for name in [bundle::MANIFEST_FILE, bundle::PROBES_FILE, bundle::WEIGHTS_FILE] {
            files.insert(name.to_owned(), read_file(path, name)?);
        }
        Self::verify(files).map_err(|source| LoadError::PolicyRefused { path: path.to_owned(), source })
    }

    /// Verify a policy's files.
    ///
    /// # Errors
    /// See [`PolicyError`].
    pub fn verify(files: ArtifactFiles) -> Result<Self, PolicyError> {
        let bundle = PolicyBundle::from_files(&files)?;
        let policy_id = bundle.manifest().policy_id.as_str().into();
        Ok(Self { policy_id, policy: Arc::new(bundle.policy().clone()), files })
    }
}

fn refused(path: &Path, source: ArtifactError) -> LoadError {
    LoadError::Refused { path: path.to_owned(), source }
}

fn read_file(folder: &Path, name: &str) -> Result<Vec<u8>, LoadError> {
    let path = folder.join(name);
    let read = || -> std::io::Result<Vec<u8>> {
        // To open a pipe waits for somebody, and to read a device may never end.
        if !std::fs::metadata(&path)?.is_file() {
            return Err(std::io::Error::other("it is not a regular file"));
        }
        let mut body = Vec::new();
        File::open(&path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut body)?;
        if body.len() as u64 > FILE_BYTES_MAX {
            let reason =
                format!("it has more than {FILE_BYTES_MAX} bytes, the most a bundle's file may have");
            return Err(std::io::Error::other(reason));
        }
        Ok(body)
    };
    read().map_err(|error| LoadError::Read { reason: error.to_string(), path: path.clone() })
}
