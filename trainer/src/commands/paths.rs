//! Paths of a command line, checked before any work is done.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::cli::Usage;

/// Check that a named path is there; returns it without links and detours.
///
/// # Errors
/// [`Usage`] when it isn't there; or it can't be looked up.
pub fn must_exist(path: &Path) -> anyhow::Result<PathBuf> {
    match path.canonicalize() {
        Ok(real) => Ok(real),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(Usage(format!("{} doesn't exist; name a file or a folder", path.display())).into())
        }
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// Check that a file can be made at `path`: its folder is there, or is `made`, which will be.
///
/// # Errors
/// [`Usage`] when it isn't.
pub fn must_have_folder(path: &Path, made: Option<&Path>) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if folder.is_dir() || made == Some(folder) {
        return Ok(());
    }
    let (path, folder) = (path.display(), folder.display());
    Err(Usage(format!("can't write {path}: there is no folder {folder}; make it, or name another")).into())
}

/// The paths as they were given, each place once, so that nothing counts twice.
///
/// # Errors
/// [`Usage`] for a path that isn't there, or lies inside a folder that is named, too.
pub fn distinct(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut kept: Vec<(&PathBuf, PathBuf)> = Vec::with_capacity(paths.len());
    for path in paths {
        let real = must_exist(path)?;
        if let Some((first, _)) = kept.iter().find(|(_, other)| *other == real) {
            eprintln!(
                "note: {} is named twice, first as {}; it is read once",
                path.display(),
                first.display()
            );
        } else {
            kept.push((path, real));
        }
    }
    for (path, real) in &kept {
        let around = kept.iter().find(|(_, other)| other != real && real.starts_with(other));
        if let Some((folder, _)) = around {
            let (path, folder) = (path.display(), folder.display());
            return Err(Usage(format!("{path} lies inside {folder}, which is named, too; name one")).into());
        }
    }
    Ok(kept.into_iter().map(|(path, _)| path.clone()).collect())
}
