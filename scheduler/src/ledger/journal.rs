//! The way from the sequencer to a ledger.
//!
//! Events are handed over in order, under the sequencer's lock and without waiting. In memory they
//! are committed on the spot; otherwise one writer thread takes what has gathered, commits it as one
//! batch, and wakes whoever waits. When the ledger fails nothing more is acknowledged: the log is the
//! truth, and a restart recovers from it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use berth_models::event::Event;
use tokio::sync::oneshot;

use super::{Ledger, LedgerError, MemoryLedger, Refused};
use crate::telemetry::Histogram;

/// Most items waiting for the writer; above it new requests are turned away before they change
/// anything. Events that can't be turned away (expiries, reversals) may exceed it.
pub const QUEUE_MAX: usize = 65_536;
/// Most items of one batch.
const BATCH_MAX: usize = 4_096;

/// Why an event was not committed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The ledger refused this placement; it is undone.
    #[error("the ledger refused the placement: {0}")]
    Refused(String),
    /// The ledger failed as a whole.
    #[error("{0}")]
    Failed(String),
}

/// A wait for durability.
pub enum Ticket {
    /// It is durable.
    Durable,
    /// It will be, or not.
    Pending(oneshot::Receiver<Result<(), CommitError>>),
}

impl Ticket {
    /// Wait.
    ///
    /// # Errors
    /// See [`CommitError`].
    pub async fn wait(self) -> Result<(), CommitError> {
        match self {
            Self::Durable => Ok(()),
            Self::Pending(receiver) => receiver
                .await
                .unwrap_or_else(|_| Err(CommitError::Failed("the ledger's writer has stopped".to_owned()))),
        }
    }

    /// Wait on a thread of its own kind, outside any runtime.
    ///
    /// # Errors
    /// See [`CommitError`].
    pub fn wait_blocking(self) -> Result<(), CommitError> {
        match self {
            Self::Durable => Ok(()),
            Self::Pending(receiver) => receiver
                .blocking_recv()
                .unwrap_or_else(|_| Err(CommitError::Failed("the ledger's writer has stopped".to_owned()))),
        }
    }
}

/// Work for the writer between two batches.
pub type Job = Box<dyn FnOnce(&mut dyn Ledger) -> Result<(), LedgerError> + Send>;
/// Called on the writer's thread with refused placements, before anybody is woken.
pub type OnRefused = Box<dyn Fn(&[Refused]) + Send>;

enum Item {
    Event(Event),
    Waiter { seq: u64, sender: oneshot::Sender<Result<(), CommitError>> },
    Job(Job),
}

/// What a journal has done so far.
#[derive(Default)]
pub struct JournalStats {
    /// Events committed.
    pub events: AtomicU64,
    /// Batches committed.
    pub batches: AtomicU64,
    /// Placements refused.
    pub refused: AtomicU64,
    /// Seconds a commit took.
    pub commit_seconds: Histogram,
}

struct Grouped {
    queue: Mutex<VecDeque<Item>>,
    ready: Condvar,
    is_closed: AtomicBool,
    durable_seq: AtomicU64,
    writer: Mutex<Option<JoinHandle<()>>>,
}

enum Kind {
    Inline(Arc<Mutex<MemoryLedger>>),
    Grouped(Grouped),
}

/// See the module's text.
pub struct Journal {
    kind: Kind,
    failure: OnceLock<String>,
    stats: JournalStats,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Journal {
    /// A journal that commits to memory on the spot.
    #[must_use]
    pub fn inline(ledger: Arc<Mutex<MemoryLedger>>) -> Self {
        Self::of(Kind::Inline(ledger))
    }

    /// A journal in front of a writer thread, which [`Self::run`] starts; everything up to
    /// `durable_seq` is durable already.
    #[must_use]
    pub fn grouped(durable_seq: u64) -> Self {
        Self::of(Kind::Grouped(Grouped {
            queue: Mutex::new(VecDeque::new()),
            ready: Condvar::new(),
            is_closed: AtomicBool::new(false),
            durable_seq: AtomicU64::new(durable_seq),
            writer: Mutex::new(None),
        }))
    }

    fn of(kind: Kind) -> Self {
        Self { kind, failure: OnceLock::new(), stats: JournalStats::default() }
    }

    /// Start the writer thread of a grouped journal over `ledger`.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn run(self: &Arc<Self>, mut ledger: Box<dyn Ledger>, on_refused: OnRefused) -> std::io::Result<()> {
        let Kind::Grouped(grouped) = &self.kind else { return Ok(()) };
        let journal = self.clone();
        let thread = std::thread::Builder::new().name("ledger".to_owned());
        let handle = thread.spawn(move || {
            if let Kind::Grouped(grouped) = &journal.kind {
                while let Some(batch) = grouped.take() {
                    journal.write(grouped, batch, &mut *ledger, &on_refused);
                }
            }
        })?;
        *lock(&grouped.writer) = Some(handle);
        Ok(())
    }

    /// Hand over events in order. With `wait_for`, the ticket tells when that seq is durable.
    pub fn submit(&self, events: &mut Vec<Event>, wait_for: Option<u64>) -> Ticket {
        match &self.kind {
            Kind::Inline(ledger) => {
                let mut ledger = lock(ledger);
                self.stats.events.fetch_add(events.len() as u64, Ordering::Relaxed);
                for event in events.drain(..) {
                    ledger.keep(event, false);
                }
                Ticket::Durable
            }
            Kind::Grouped(grouped) => {
                let mut queue = lock(&grouped.queue);
                queue.extend(events.drain(..).map(Item::Event));
                let ticket = match wait_for {
                    Some(seq) if seq > grouped.durable_seq.load(Ordering::Acquire) => {
                        let (sender, receiver) = oneshot::channel();
                        queue.push_back(Item::Waiter { seq, sender });
                        Ticket::Pending(receiver)
                    }
                    _ => Ticket::Durable,
                };
                drop(queue);
                grouped.ready.notify_one();
                ticket
            }
        }
    }

    /// Have the writer do `job` once everything handed over so far is committed; returns `false`
    /// for a journal in memory, which keeps nothing.
    pub fn submit_job(&self, job: Job) -> bool {
        let Kind::Grouped(grouped) = &self.kind else { return false };
        lock(&grouped.queue).push_back(Item::Job(job));
        grouped.ready.notify_one();
        true
    }

    /// Why the ledger has failed, if it has.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Acknowledge nothing from now on; the first reason stays. Returns the reason that stays.
    pub fn fail(&self, reason: impl ToString) -> String {
        let first = self.failure.get_or_init(|| {
            let reason = reason.to_string();
            tracing::error!(%reason, "nothing more is acknowledged; restart to recover from the log");
            reason
        });
        first.clone()
    }

    /// Whether so much waits for the writer that new requests must be turned away.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.queued() >= QUEUE_MAX
    }

    /// Items that wait for the writer.
    #[must_use]
    pub fn queued(&self) -> usize {
        match &self.kind {
            Kind::Inline(_) => 0,
            Kind::Grouped(grouped) => lock(&grouped.queue).len(),
        }
    }

    /// Everything up to this seq is durable.
    #[must_use]
    pub fn durable_seq(&self) -> u64 {
        match &self.kind {
            Kind::Inline(_) => u64::MAX,
            Kind::Grouped(grouped) => grouped.durable_seq.load(Ordering::Acquire),
        }
    }

    /// What has been done so far.
    #[must_use]
    pub fn stats(&self) -> &JournalStats {
        &self.stats
    }

    /// Commit everything that waits, and stop the writer.
    pub fn close(&self) {
        if let Kind::Grouped(grouped) = &self.kind {
            grouped.is_closed.store(true, Ordering::Release);
            // Between its look at the flag and its wait the writer holds the queue.
            drop(lock(&grouped.queue));
            grouped.ready.notify_all();
            if let Some(writer) = lock(&grouped.writer).take()
                && writer.join().is_err()
            {
                tracing::error!("the ledger's writer panicked");
            }
        }
    }

    fn write(&self, grouped: &Grouped, batch: Vec<Item>, ledger: &mut dyn Ledger, on_refused: &OnRefused) {
        let (mut events, mut waiters, mut jobs) = (Vec::new(), Vec::new(), Vec::new());
        for item in batch {
            match item {
                Item::Event(event) => events.push(event),
                Item::Waiter { seq, sender } => waiters.push((seq, sender)),
                Item::Job(job) => jobs.push(job),
            }
        }
        let refused = self.commit(grouped, &events, ledger);
        if let Ok(refused) = &refused
            && !refused.is_empty()
        {
            on_refused(refused);
        }
        for (seq, sender) in waiters {
            let result = match &refused {
                Err(reason) => Err(CommitError::Failed(reason.clone())),
                Ok(refused) => match refused.iter().find(|refused| refused.seq == seq) {
                    Some(refused) => Err(CommitError::Refused(refused.reason.clone())),
                    None => Ok(()),
                },
            };
            // Whoever waited may have gone.
            let _ = sender.send(result);
        }
        for job in jobs {
            if self.failure.get().is_none()
                && let Err(error) = job(ledger)
            {
                self.fail(error);
            }
        }
    }

    fn commit(
        &self,
        grouped: &Grouped,
        events: &[Event],
        ledger: &mut dyn Ledger,
    ) -> Result<Vec<Refused>, String> {
        if let Some(reason) = self.failure() {
            return Err(reason.to_owned());
        }
        let Some(last) = events.last() else { return Ok(Vec::new()) };
        let started = Instant::now();
        let refused = ledger.commit(events).map_err(|error| self.fail(error))?;
        self.stats.commit_seconds.observe(started.elapsed());
        self.stats.batches.fetch_add(1, Ordering::Relaxed);
        self.stats.events.fetch_add(events.len() as u64, Ordering::Relaxed);
        self.stats.refused.fetch_add(refused.len() as u64, Ordering::Relaxed);
        grouped.durable_seq.store(last.seq, Ordering::Release);
        Ok(refused)
    }
}

impl Grouped {
    /// Wait for items; `None` when closed and empty. A batch ends where nobody waits for a part of it.
    fn take(&self) -> Option<Vec<Item>> {
        let mut queue = lock(&self.queue);
        while queue.is_empty() {
            if self.is_closed.load(Ordering::Acquire) {
                return None;
            }
            queue = self.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        let mut count = queue.len().min(BATCH_MAX);
        // A waiter stays with the event it waits for, so that a refusal reaches it.
        while matches!(queue.get(count), Some(Item::Waiter { .. })) {
            count += 1;
        }
        Some(queue.drain(..count).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_models::event::EventKind;

    /// Refuses every second event, and fails at seq 100.
    struct Moody;

    impl Moody {
        fn event(seq: u64) -> Event {
            let kind = EventKind::Released { lease_id: 0 };
            Event { seq, at_ms: 0, wall_ms: 0, kind }
        }
    }

    impl Ledger for Moody {
        fn commit(&mut self, events: &[Event]) -> Result<Vec<Refused>, LedgerError> {
            if events.iter().any(|event| event.seq >= 100) {
                return Err(LedgerError::Io { doing: "committing events", reason: "disk full".to_owned() });
            }
            let odd = events.iter().filter(|event| event.seq % 2 == 1);
            Ok(odd.map(|event| Refused { seq: event.seq, reason: "odd".to_owned() }).collect())
        }
        fn events_after(&self, _: u64, _: usize) -> Result<Vec<super::super::Logged>, LedgerError> {
            Ok(Vec::new())
        }
        fn placements(
            &self,
            _: &super::super::PlacementQuery,
        ) -> Result<Vec<super::super::Placement>, LedgerError> {
            Ok(Vec::new())
        }
        fn save_snapshot_part(&mut self, _: u64, _: u32, _: &[u8]) -> Result<(), LedgerError> {
            Ok(())
        }
        fn finish_snapshot(&mut self, seq: u64, _: u32) -> Result<u64, LedgerError> {
            Ok(seq)
        }
        fn newest_snapshot(&self) -> Result<Option<(u64, Vec<u8>)>, LedgerError> {
            Ok(None)
        }
        fn truncate(&mut self, _: u64, _: u64, _: usize) -> Result<usize, LedgerError> {
            Ok(0)
        }
        fn save_artifact(&mut self, _: &str, _: &super::super::ArtifactFiles) -> Result<(), LedgerError> {
            Ok(())
        }
        fn artifact(&self, _: &str) -> Result<super::super::ArtifactFiles, LedgerError> {
            Ok(super::super::ArtifactFiles::new())
        }
    }

    #[test]
    fn each_waiter_learns_what_became_of_its_own_event_and_a_failure_stays() {
        let journal = Arc::new(Journal::grouped(0));
        let tickets: Vec<_> =
            (1..=10).map(|seq| journal.submit(&mut vec![Moody::event(seq)], Some(seq))).collect();
        let (sender, seen) = std::sync::mpsc::channel();
        let on_refused = move |refused: &[Refused]| sender.send(refused.len()).unwrap();
        journal.run(Box::new(Moody), Box::new(on_refused)).unwrap();
        for (index, ticket) in tickets.into_iter().enumerate() {
            let is_refused = matches!(ticket.wait_blocking(), Err(CommitError::Refused(_)));
            assert_eq!(is_refused, index % 2 == 0, "event {}", index + 1);
        }
        assert_eq!(seen.try_iter().sum::<usize>(), 5);
        assert_eq!(journal.durable_seq(), 10);
        let failed = journal.submit(&mut vec![Moody::event(100)], Some(100)).wait_blocking();
        assert!(matches!(failed, Err(CommitError::Failed(reason)) if reason.contains("disk full")));
        let after = journal.submit(&mut vec![Moody::event(101)], Some(101)).wait_blocking();
        assert!(matches!(after, Err(CommitError::Failed(_))), "a failure is for good");
        assert_eq!(journal.durable_seq(), 10);
        journal.close();
    }
}
