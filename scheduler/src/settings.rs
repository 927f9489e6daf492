//! How a scheduler is to run, and why it does not start.

use std::net::SocketAddr;
use std::path::PathBuf;

use berth_models::engine::EngineError;
use serde_json::{Map, Value};

use crate::artifact::LoadError;
use crate::ledger::{CommitError, Durability, LedgerError};
use crate::link::LinkError;
use crate::recovery::RecoveryError;
use crate::sequencer::Denied;
use crate::snapshot;

/// Where events become durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Store {
    /// Nowhere.
    Memory,
    /// In a SQLite file.
    Sqlite(PathBuf),
}

impl std::fmt::Display for Store {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Memory => formatter.write_str("memory"),
            Self::Sqlite(path) => write!(formatter, "sqlite:{}", path.display()),
        }
    }
}

impl std::str::FromStr for Store {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "memory" => Ok(Self::Memory),
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self::Sqlite(path.into())),
            _ => Err(format!("{text:?} is no store; give memory or sqlite:PATH")),
        }
    }
}

/// How a scheduler is to run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The store.
    pub store: Store,
    /// What an acknowledgement promises.
    pub durability: Durability,
    /// Folder of the artifact to activate; `None`: the one that was active, if any.
    pub artifact: Option<PathBuf>,
    /// The same for the placement policy.
    pub policy: Option<PathBuf>,
    /// Fields of the configuration to set over the recovered or default one.
    pub config: Map<String, Value>,
    /// Token every request needs.
    pub token: Option<String>,
    /// Key of the links; `None`: one that nobody else knows.
    pub link_key: Option<Vec<u8>>,
    /// Engine milliseconds in a wall millisecond.
    pub time_scale: f64,
    /// Engine time of the first start of a store, in milliseconds; `None`: wall time.
    pub engine_start_ms: Option<u64>,
    /// Seed of the first start; `None`: from the operating system.
    pub seed: Option<u64>,
    /// Events after which a snapshot is made.
    pub snapshot_events: u64,
    /// How long events and ended placements are kept, in engine milliseconds.
    pub retention_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7_700)),
            store: Store::Memory,
            durability: Durability::default(),
            artifact: None,
            policy: None,
            config: Map::new(),
            token: None,
            link_key: None,
            time_scale: 1.0,
            engine_start_ms: None,
            seed: None,
            snapshot_events: snapshot::EVENTS_DEFAULT,
            retention_ms: snapshot::RETENTION_MS_DEFAULT,
        }
    }
}

/// Why a scheduler did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The settings contradict each other or are not allowed.
    #[error("{0}")]
    Settings(String),
    /// The artifact can't be used.
    #[error(transparent)]
    Artifact(#[from] LoadError),
    /// The link key can't be used.
    #[error(transparent)]
    LinkKey(#[from] LinkError),
    /// The store can't be used.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The log does not give a fleet.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// The system refuses something.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The first events could not be recorded.
    #[error("the start could not be recorded: {0}")]
    Denied(#[from] Denied),
    /// The first events did not become durable.
    #[error("the start could not be recorded: {0}")]
    Commit(#[from] CommitError),
}

impl StartError {
    /// Whether the settings are to blame, and not the system.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Settings(_)
                | Self::Artifact(_)
                | Self::LinkKey(_)
                | Self::Ledger(LedgerError::InUse { .. } | LedgerError::Foreign { .. })
                | Self::Denied(Denied::Engine(EngineError::Invalid(_)))
        )
    }
}
