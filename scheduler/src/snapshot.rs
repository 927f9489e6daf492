//! Snapshots, made in the background by the recovery code itself.
//!
//! A thread folds the log behind the sequencer's back, on a connection of its own, and writes the
//! fleet in parts between the writer's batches: no decision waits for it, and what it writes is what
//! a restart would reach. Two snapshots are kept. Events and ended placements are deleted once they
//! are older than both the older snapshot and the stated retention.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::ledger::{Journal, Ledger, LedgerError};
use crate::recovery::{RecoveryError, recover, write_snapshot};

/// Events after which a snapshot is made, unless told otherwise.
pub const EVENTS_DEFAULT: u64 = 100_000;
/// How long events and ended placements stay, unless told otherwise: a day, in milliseconds.
pub const RETENTION_MS_DEFAULT: u64 = 24 * 3_600_000;
/// Bytes of one part: a few milliseconds of the writer's time.
const PART_BYTES: usize = 256 << 10;
/// Rows deleted at a time.
const DELETED_A_TIME: usize = 2_000;
/// How often the log's length is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Why a snapshot was not made. The log is whole without it.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The log does not fold.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// The fleet has no form.
    #[error("the fleet could not be written: {0}")]
    Encode(#[from] rmp_serde::encode::Error),
    /// The ledger failed.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The writer has stopped.
    #[error("the ledger's writer has stopped")]
    Stopped,
}

/// Makes snapshots.
pub struct Snapshotter {
    journal: Arc<Journal>,
    reader: Box<dyn Ledger>,
    events: u64,
    retention_ms: u64,
    last_seq: Arc<AtomicU64>,
}

/// A running snapshotter.
pub struct SnapshotThread {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Snapshotter {
    /// Snapshots every `events` events, read with `reader` and written through `journal`; the last
    /// one's seq is kept in `last_seq`.
    #[must_use]
    pub fn new(
        journal: Arc<Journal>,
        reader: Box<dyn Ledger>,
        events: u64,
        retention_ms: u64,
        last_seq: Arc<AtomicU64>,
    ) -> Self {
        Self { journal, reader, events, retention_ms, last_seq }
    }

    /// Run in a thread of its own.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn spawn(self) -> std::io::Result<SnapshotThread> {
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new().name("snapshot".to_owned());
        let thread = thread.spawn(move || self.run(&stopped))?;
        Ok(SnapshotThread { stop, thread })
    }

    fn run(&self, stopped: &Receiver<()>) {
        loop {
            let is_last = !matches!(stopped.recv_timeout(LOOK_EVERY), Err(RecvTimeoutError::Timeout));
            let since = self.journal.durable_seq().saturating_sub(self.last_seq.load(Ordering::Relaxed));
            let is_due = since >= self.events || (is_last && since > 0);
            if is_due && self.journal.failure().is_none() {
                match self.take() {
                    Ok(seq) => tracing::info!(seq, "snapshot taken"),
                    Err(error) => tracing::error!(%error, "no snapshot was taken; the log stays whole"),
                }
            }
            if is_last {
                return;
            }
        }
    }

    /// Take one snapshot now; returns its seq.
    ///
    /// # Errors
    /// See [`SnapshotError`].
    pub fn take(&self) -> Result<u64, SnapshotError> {
        let recovered = recover(&*self.reader, self.journal.durable_seq())?;
        let (seq, at_ms) = (recovered.fleet.seq(), recovered.fleet.at_ms());
        let wall_ms = recovered.end.map_or(at_ms, |end| end.wall_ms);
        let body = write_snapshot(&recovered.fleet, wall_ms)?;
        drop(recovered);
        let mut parts = 0;
        for chunk in body.chunks(PART_BYTES) {
            let (part, chunk) = (parts, chunk.to_vec());
            self.write(move |ledger| ledger.save_snapshot_part(seq, part, &chunk))?;
            parts += 1;
        }
        let older = self.write(move |ledger| ledger.finish_snapshot(seq, parts))?;
        self.last_seq.store(seq, Ordering::Relaxed);
        let before_ms = at_ms.saturating_sub(self.retention_ms);
        while self.write(move |ledger| ledger.truncate(older, before_ms, DELETED_A_TIME))? >= DELETED_A_TIME {
        }
        Ok(seq)
    }

    /// Have the writer do something, and wait for it. A snapshot that fails is no reason to stop
    /// acknowledging, so the writer is told that all is well.
    fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn Ledger) -> Result<T, LedgerError> + Send + 'static,
    ) -> Result<T, SnapshotError> {
        let (sender, receiver) = channel();
        self.journal.submit_job(Box::new(move |ledger| {
            let _ = sender.send(work(ledger));
            Ok(())
        }));
        Ok(receiver.recv().map_err(|_| SnapshotError::Stopped)??)
    }
}

impl SnapshotThread {
    /// Take a last snapshot, and stop.
    pub fn stop(self) {
        let _ = self.stop.send(());
        if self.thread.join().is_err() {
            tracing::error!("the snapshot thread panicked");
        }
    }
}
