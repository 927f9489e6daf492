//! `berth-scheduler export`: the event log as one JSON object a line, for training on what was decided.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::Store;
use crate::ledger::{Ledger, SqliteLedger};

/// Events read at a time.
const BATCH: usize = 10_000;

/// Options of `export`.
#[derive(Debug, Args)]
pub struct Export {
    /// The store; a scheduler may be running on it.
    #[arg(long, value_name = "STORE", default_value = "sqlite:berth.db")]
    store: Store,
    /// File to write; an existing one is left alone.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

impl Export {
    /// Write the log from its oldest kept event to the newest one; returns how many events there were.
    ///
    /// # Errors
    /// The store is not there or can't be read, or the file exists or can't be written. The file appears only
    /// when it is whole.
    pub fn run(&self) -> Result<u64> {
        let Store::Sqlite(path) = &self.store else {
            bail!(
                "--store {}: only the log of a sqlite store can be exported, such as sqlite:berth.db",
                self.store
            );
        };
        ensure!(path.is_file(), "--store {}: there is no such file", self.store);
        ensure!(!self.out.exists(), "--out {} exists; name a new file", self.out.display());
        let ledger = SqliteLedger::open_reader(path)?;
        let partial = PathBuf::from(format!("{}.partial", self.out.display()));
        let written = write(&ledger, &partial).with_context(|| format!("writing {}", partial.display()))?;
        std::fs::rename(&partial, &self.out).with_context(|| format!("naming {}", self.out.display()))?;
        Ok(written)
    }
}

fn write(ledger: &dyn Ledger, path: &Path) -> Result<u64> {
    let mut file = BufWriter::new(File::create(path)?);
    let (mut seq, mut written) = (0, 0);
    loop {
        let batch = ledger.events_after(seq, BATCH)?;
        let Some(last) = batch.last() else {
            break;
        };
        seq = last.event.seq;
        for logged in &batch {
            // A refused placement needs no mark: its reversal follows in the log.
            serde_json::to_writer(&mut file, &logged.event)?;
            file.write_all(b"\n")?;
            written += 1;
        }
    }
    file.into_inner().context("flushing")?.sync_all()?;
    Ok(written)
}
