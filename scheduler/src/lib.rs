//! The online scheduler: a thin shell around the deciding core.
//!
//! HTTP (`http`) hands requests to the sequencer (`sequencer`), which asks `berth_models` under one
//! lock, applies the event and hands it to the ledger (`ledger`). Recovery (`recovery`) and snapshots
//! (`snapshot`) fold the log with the same code; a candidate is evaluated beside it (`shadow`).

pub mod artifact;
pub mod cli;
pub mod clock;
pub mod export;
pub mod http;
pub mod ledger;
pub mod link;
pub mod listen;
pub mod recovery;
pub mod sequencer;
pub mod server;
pub mod settings;
pub mod shadow;
pub mod snapshot;
pub mod telemetry;
pub mod warmup;

pub use server::Server;
pub use settings::{Settings, StartError, Store};
