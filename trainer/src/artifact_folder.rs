//! Artifact bundles as folders: the only place of the trainer that reads or writes one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::Path;

use anyhow::{Context, ensure};
use berth_models::artifact::{Bundle, MANIFEST_FILE};
use serde_json::Value;

use crate::cli::Usage;

/// Largest file of a bundle, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// What a bundle's manifest says it is.
const KIND: &str = "forecast";

/// Read and verify the bundle in `folder`.
///
/// # Errors
/// [`Usage`] when there is no bundle; otherwise a file that is missing, too large or not what the manifest says.
pub fn load(folder: &Path) -> anyhow::Result<Bundle> {
    if !folder.join(MANIFEST_FILE).is_file() {
        let message = "give the folder that `berth-trainer forecast train --out` wrote";
        return Err(Usage(format!("{} holds no {MANIFEST_FILE}: {message}", folder.display())).into());
    }
    verify(folder).with_context(|| format!("artifact {} is refused", folder.display()))
}

fn verify(folder: &Path) -> anyhow::Result<Bundle> {
    let manifest = read(folder, MANIFEST_FILE)?;
    let mut files = BTreeMap::new();
    for name in Bundle::file_names(&manifest)? {
        files.insert(name.clone(), read(folder, &name)?);
    }
    files.insert(MANIFEST_FILE.to_owned(), manifest);
    Ok(Bundle::from_files(&files)?)
}

fn read(folder: &Path, name: &str) -> anyhow::Result<Vec<u8>> {
    let path = folder.join(name);
    let context = || format!("reading {}", path.display());
    // A pipe or a device may never end, and a file may grow.
    ensure!(fs::metadata(&path).with_context(context)?.is_file(), "{} is no file", path.display());
    let mut bytes = Vec::new();
    let file = File::open(&path).with_context(context)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).with_context(context)?;
    ensure!(bytes.len() as u64 <= FILE_BYTES_MAX, "{} has more than {FILE_BYTES_MAX} bytes", path.display());
    Ok(bytes)
}

/// Check that a bundle may be written into `folder`: it is new, empty, or holds a bundle.
///
/// # Errors
/// [`Usage`] when it is or holds something else; or it can't be read.
pub fn check_free(folder: &Path) -> anyhow::Result<()> {
    let refuse = |why: String| {
        let allowed = "name a new or an empty folder, or an artifact to replace";
        Err(Usage(format!("can't write an artifact to {}: {why}; {allowed}", folder.display())).into())
    };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            return refuse("it is no folder".to_owned());
        }
        Err(error) => return Err(error).with_context(|| format!("reading {}", folder.display())),
    };
    let names = entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<Vec<_>, _>>();
    let names = names.with_context(|| format!("reading {}", folder.display()))?;
    match names.iter().min() {
        Some(first) if !is_bundle(folder) => refuse(format!("it holds {}", first.display())),
        _ => Ok(()),
    }
}

/// Whether `folder` holds a bundle by its manifest, whole or not.
fn is_bundle(folder: &Path) -> bool {
    let manifest = read(folder, MANIFEST_FILE).unwrap_or_default();
    serde_json::from_slice::<Value>(&manifest).is_ok_and(|manifest| manifest["kind"] == KIND)
}

/// Write a bundle into `folder`, which is made if it isn't there; the manifest goes last, so a bundle that was
/// written in part is not one. See [`check_free`] for what may be there.
///
/// # Errors
/// A folder that holds something else, or a file that can't be written.
pub fn save(folder: &Path, bundle: &Bundle) -> anyhow::Result<()> {
    check_free(folder)?;
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let files = bundle.to_files();
    let manifest = files.iter().filter(|(name, _)| *name == MANIFEST_FILE);
    for (name, bytes) in files.iter().filter(|(name, _)| *name != MANIFEST_FILE).chain(manifest) {
        let path = folder.join(name);
        let part = folder.join(format!("{name}.part"));
        fs::write(&part, bytes).with_context(|| format!("writing {}", part.display()))?;
        fs::rename(&part, &path)
            .with_context(|| format!("renaming {} to {}", part.display(), path.display()))?;
    }
    Ok(())
}
