//! Policy bundles and checkpoints as files in a folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use berth_models::policy::bundle::{KIND, MANIFEST_FILE, PROBES_FILE, PolicyBundle, WEIGHTS_FILE};

use crate::cli::Usage;
use crate::policy::training::Progress;

/// Name of the checkpoint's file.
pub const CHECKPOINT_FILE: &str = "checkpoint.json";
/// Name of the report's file.
pub const REPORT_FILE: &str = "report.html";
/// Largest file read, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Whether `folder` holds a placement policy, by its manifest's kind.
#[must_use]
pub fn is_policy(folder: &Path) -> bool {
    let manifest = read(folder, MANIFEST_FILE).unwrap_or_default();
    serde_json::from_slice::<serde_json::Value>(&manifest).is_ok_and(|manifest| manifest["kind"] == KIND)
}

/// Read and verify the policy in `folder`.
///
/// # Errors
/// A file that is missing, too large or not what the manifest says.
pub fn load(folder: &Path) -> anyhow::Result<PolicyBundle> {
    let mut files = BTreeMap::new();
    for name in [MANIFEST_FILE, PROBES_FILE, WEIGHTS_FILE] {
        files.insert(name.to_owned(), read(folder, name)?);
    }
    PolicyBundle::from_files(&files).with_context(|| format!("policy {} is refused", folder.display()))
}

fn read(folder: &Path, name: &str) -> anyhow::Result<Vec<u8>> {
    let path = folder.join(name);
    let context = || format!("reading {}", path.display());
    let metadata = fs::metadata(&path).with_context(context)?;
    ensure!(metadata.is_file(), "{} is no file", path.display());
    ensure!(metadata.len() <= FILE_BYTES_MAX, "{} has more than {FILE_BYTES_MAX} bytes", path.display());
    fs::read(&path).with_context(context)
}

/// Make `folder` ready to be trained into: new, empty, or one that a training left behind.
///
/// # Errors
/// [`Usage`] when it holds something else.
pub fn prepare(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let is_ours = is_policy(folder) || folder.join(CHECKPOINT_FILE).is_file();
    let mut entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    if !is_ours && let Some(first) = entries.next().transpose()? {
        let (folder, first) = (folder.display(), first.file_name());
        let message = format!(
            "can't train into {folder}: it holds {}; name a new or empty folder, or a policy to replace",
            first.display()
        );
        return Err(Usage(message).into());
    }
    Ok(())
}

/// The checkpoint in `folder`, if there is one.
///
/// # Errors
/// One that can't be read.
pub fn checkpoint(folder: &Path) -> anyhow::Result<Option<Progress>> {
    if !folder.join(CHECKPOINT_FILE).is_file() {
        return Ok(None);
    }
    let bytes = read(folder, CHECKPOINT_FILE)?;
    let context = || format!("{} is no checkpoint; remove it", folder.join(CHECKPOINT_FILE).display());
    serde_json::from_slice(&bytes).with_context(context).map(Some)
}

/// Write a file whole or not at all.
///
/// # Errors
/// A file that can't be written.
pub fn write(folder: &Path, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
    let (path, part) = (folder.join(name), folder.join(format!("{name}.part")));
    fs::write(&part, bytes).with_context(|| format!("writing {}", part.display()))?;
    fs::rename(&part, &path).with_context(|| format!("renaming {} to {}", part.display(), path.display()))
}

/// Write a policy; the manifest goes last, so a bundle written in part is none.
///
/// # Errors
/// A file that can't be written.
pub fn save(folder: &Path, bundle: &PolicyBundle) -> anyhow::Result<()> {
    let files = bundle.to_files();
    for name in [WEIGHTS_FILE, PROBES_FILE, MANIFEST_FILE] {
        write(folder, name, &files[name])?;
    }
    Ok(())
}

/// Take away an earlier policy, so that a training that found none leaves none.
///
/// # Errors
/// A manifest that can't be removed.
pub fn remove_policy(folder: &Path) -> anyhow::Result<()> {
    if is_policy(folder) {
        fs::remove_file(folder.join(MANIFEST_FILE)).context("removing the earlier policy's manifest")?;
    }
    Ok(())
}
