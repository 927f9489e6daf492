//! Bundles on disk: one directory.

use std::fs;
use std::path::Path;

use anyhow::Context;
use berth_models::artifact::{Bundle, MANIFEST_FILE};

/// Write a bundle into `folder`, which is made if it isn't there; the manifest goes last, so a bundle that was
/// written in part is not one.
///
/// # Errors
/// A file that can't be written.
pub fn write_bundle(folder: &Path, bundle: &Bundle) -> anyhow::Result<()> {
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
