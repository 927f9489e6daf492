//! The HTTP interface: routes, and what they share.

pub mod admin;
pub mod allocate;
pub mod boxes;
pub mod extract;
pub mod fields;
pub mod leases;
pub mod metrics;
pub mod openapi;
pub mod placements;
pub mod problem;
mod router;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

pub use router::router;

use crate::ledger::{Durability, Ledger, LedgerError, MemoryLedger, Placement, PlacementQuery};
use crate::link::LinkKey;
use crate::sequencer::Sequencer;
use crate::warmup::Warmup;
use problem::{Problem, kinds};

/// What every handler has.
pub struct App {
    /// The sequencer.
    pub sequencer: Arc<Sequencer>,
    /// Signs links.
    pub link_key: LinkKey,
    /// Calls warm-up hooks.
    pub warmup: Warmup,
    /// Answers look-ups that the fleet has forgotten.
    pub lookup: Lookup,
    /// The store, as it was given.
    pub store: String,
    /// What an acknowledgement promises; `None` with the store in memory.
    pub durability: Option<Durability>,
    /// Seq of the last snapshot.
    pub snapshot_seq: Arc<AtomicU64>,
}

/// Reads the placement index beside the writer.
#[derive(Clone)]
pub enum Lookup {
    /// In memory.
    Memory(Arc<Mutex<MemoryLedger>>),
    /// By a connection of its own.
    Reader(Arc<Mutex<Box<dyn Ledger>>>),
}

impl From<LedgerError> for Problem {
    fn from(error: LedgerError) -> Self {
        Self::new(kinds::INTERNAL, error)
    }
}

impl Lookup {
    /// Placements of a range, newest first.
    ///
    /// # Errors
    /// The index can't be read.
    pub async fn placements(&self, query: PlacementQuery) -> Result<Vec<Placement>, Problem> {
        let lookup = self.clone();
        let found = tokio::task::spawn_blocking(move || match lookup {
            Self::Memory(ledger) => {
                let kept = ledger.lock().unwrap_or_else(PoisonError::into_inner).kept();
                Ok(MemoryLedger::scan(&kept, &query))
            }
            Self::Reader(reader) => reader.lock().unwrap_or_else(PoisonError::into_inner).placements(&query),
        });
        let found = found.await.map_err(|error| Problem::new(kinds::INTERNAL, error))?;
        Ok(found?)
    }

    /// Events dropped by the ledger in memory.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        match self {
            Self::Memory(ledger) => ledger.lock().unwrap_or_else(PoisonError::into_inner).dropped(),
            Self::Reader(_) => 0,
        }
    }
}
