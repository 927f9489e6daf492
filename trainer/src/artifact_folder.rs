//! Artifact bundles as folders: the only place of the trainer that reads or writes one.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use berth_models::artifact::{Bundle, MANIFEST_FILE};

/// Largest file of a bundle, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Read and verify the bundle in `folder`.
///
/// # Errors
/// When a file is missing, too large or not what the manifest says.
pub fn load(folder: &Path) -> anyhow::Result<Bundle> {
    let manifest = read(folder, MANIFEST_FILE)?;
    let mut files = BTreeMap::new();
    for name in Bundle::file_names(&manifest)? {
        files.insert(name.clone(), read(folder, &name)?);
    }
    files.insert(MANIFEST_FILE.to_owned(), manifest);
    Bundle::from_files(&files).with_context(|| format!("{} is no usable artifact", folder.display()))
}

fn read(folder: &Path, name: &str) -> anyhow::Result<Vec<u8>> {
    let path = folder.join(name);
    let context = || format!("artifact file {}", path.display());
    let length = std::fs::metadata(&path).with_context(context)?.len();
    anyhow::ensure!(length <= FILE_BYTES_MAX, "{} is {length} bytes", path.display());
    std::fs::read(&path).with_context(context)
}
