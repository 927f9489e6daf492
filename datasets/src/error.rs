//! What can go wrong while reading or writing data.

use std::path::PathBuf;

/// A failure that stops the reading of a file; single bad rows never do, they are counted.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// The file system refused.
    #[error("{path}: {cause}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The format of a file can't be told from its content and path.
    #[error(
        "{path}: can't tell the format ({found}); name it with a format ({}) or map its columns",
        crate::FormatName::names()
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// What was seen instead.
        found: String,
    },
    /// The file's structure is not that of its format.
    #[error("{path}: {message}")]
    Malformed {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong, what is allowed, what to do.
        message: String,
    },
    /// A mapping or setting that can't be used.
    #[error("{0}")]
    Usage(String),
    /// A file or set of paths without one usable row.
    #[error("{path}: no usable row: {summary}")]
    Empty {
        /// The file or folder.
        path: PathBuf,
        /// How many rows were read and why they were rejected.
        summary: String,
    },
    /// A table could not be read, written or computed.
    #[error("{path}: table: {cause}")]
    Table {
        /// The file.
        path: PathBuf,
        /// What polars said.
        cause: polars::error::PolarsError,
    },
    /// A JSON file could not be read or written.
    #[error("{path}: JSON: {cause}")]
    Json {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        cause: serde_json::Error,
    },
}

impl DatasetError {
    /// Wrap an I/O failure with its path.
    pub(crate) fn io(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let path = path.to_path_buf();
        move |cause| Self::Io { path, cause }
    }

    /// Wrap a polars failure with its path.
    pub(crate) fn table(path: &std::path::Path) -> impl Fn(polars::error::PolarsError) -> Self + use<> {
        let path = path.to_path_buf();
        move |cause| Self::Table { path: path.clone(), cause }
    }

    /// Wrap a JSON failure with its path.
    pub(crate) fn json(path: &std::path::Path) -> impl FnOnce(serde_json::Error) -> Self + use<> {
        let path = path.to_path_buf();
        move |cause| Self::Json { path, cause }
    }

    /// A structural fault of a file.
    pub(crate) fn malformed(path: &std::path::Path, message: impl Into<String>) -> Self {
        Self::Malformed { path: path.to_path_buf(), message: message.into() }
    }
}
