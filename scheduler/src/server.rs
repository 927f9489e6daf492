//! A whole scheduler: store, recovery, sequencer, background work and HTTP, from start to stop.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_models::config::FleetConfig;
use berth_models::fleet::Fleet;
use serde_json::{Map, Value};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::artifact::{Artifact, Policy};
use crate::clock::{EngineClock, LogEnd};
use crate::http::{App, Lookup, admin, router};
use crate::ledger::{
    ArtifactFiles, CommitError, Journal, Ledger, LedgerError, MemoryLedger, SqliteLedger, Ticket,
};
use crate::link::LinkKey;
use crate::listen;
use crate::recovery::recover;
use crate::sequencer::{Denied, Sequencer};
use crate::settings::{Settings, StartError, Store};
use crate::snapshot::{SnapshotThread, Snapshotter};
use crate::telemetry::Telemetry;
use crate::warmup::Warmup;

/// How often leases are ended when nobody asks.
const TICK: Duration = Duration::from_millis(100);

/// A running scheduler.
pub struct Server {
    address: SocketAddr,
    sequencer: Arc<Sequencer>,
    journal: Arc<Journal>,
    snapshots: Option<SnapshotThread>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<std::io::Result<()>>,
    ticking: JoinHandle<()>,
}

/// An opened store: journal, reader for look-ups, and the fleet so far.
struct Opened {
    journal: Arc<Journal>,
    lookup: Lookup,
    /// What the writer thread and the snapshots get; nothing in memory.
    ledgers: Option<(Box<dyn Ledger>, Box<dyn Ledger>)>,
    fleet: Fleet,
    end: Option<LogEnd>,
    refused: Vec<u64>,
    snapshot_seq: u64,
}

impl Server {
    /// Start: open the store, recover, listen. Needs a tokio runtime.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(settings: Settings) -> Result<Self, StartError> {
        check(&settings)?;
        let artifact = settings.artifact.as_deref().map(Artifact::read).transpose()?;
        let policy = settings.policy.as_deref().map(Policy::read).transpose()?;
        let link_key = link_key(settings.link_key.as_deref())?;
        let listener = TcpListener::bind(settings.listen).await.map_err(|source| StartError::System {
            doing: format!("listening on {}", settings.listen),
            source,
        })?;
        let address = listener
            .local_addr()
            .map_err(|source| StartError::System { doing: "listening".to_owned(), source })?;

        let opened = open(&settings)?;
        let telemetry = Arc::new(Telemetry::default());
        let clock = EngineClock::start(opened.end, settings.engine_start_ms, settings.time_scale);
        let journal = opened.journal;
        let sequencer = Arc::new(Sequencer::new(opened.fleet, clock, journal.clone(), telemetry.clone()));
        let snapshot_seq = Arc::new(AtomicU64::new(opened.snapshot_seq));
        let mut snapshots = None;
        if let Some((writer, reader)) = opened.ledgers {
            let weak = Arc::downgrade(&sequencer);
            let on_refused = move |refused: &[crate::ledger::Refused]| {
                if let Some(sequencer) = weak.upgrade() {
                    sequencer.revert(refused);
                }
            };
            let no_thread = |source| StartError::System { doing: "starting a thread".to_owned(), source };
            journal.run(writer, Box::new(on_refused)).map_err(no_thread)?;
            let snapshotter = Snapshotter::new(
                journal.clone(),
                reader,
                settings.snapshot_events,
                settings.retention_ms,
                snapshot_seq.clone(),
            );
            snapshots = Some(snapshotter.spawn().map_err(no_thread)?);
        }
        begin(&sequencer, &settings, (artifact, policy), &opened.refused).await?;

        let app = App {
            sequencer: sequencer.clone(),
            link_key,
            warmup: Warmup::new(telemetry),
            lookup: opened.lookup,
            store: settings.store.to_string(),
            durability: (settings.store != Store::Memory).then_some(settings.durability),
            snapshot_seq,
        };
        let router = router(Arc::new(app), settings.token.as_deref().map(Into::into));
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(listen::serve(listener, router, async {
            let _ = stopped.await;
        }));
        let ticking = tokio::spawn(tick(sequencer.clone()));
        Ok(Self { address, sequencer, journal, snapshots, stop, serving, ticking })
    }

    /// The address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The sequencer, for looking at the fleet from within the process.
    #[must_use]
    pub fn sequencer(&self) -> &Arc<Sequencer> {
        &self.sequencer
    }

    /// Stop: let requests finish, make everything durable, take a last snapshot.
    ///
    /// # Errors
    /// The ledger had failed; what was acknowledged is in the log.
    pub async fn stop(self) -> Result<(), CommitError> {
        let _ = self.stop.send(());
        if let Err(error) = self.serving.await.map_err(std::io::Error::other).flatten() {
            tracing::error!(%error, "serving ended badly");
        }
        self.ticking.abort();
        let flushed = self.sequencer.flush().wait().await;
        let (journal, snapshots) = (self.journal, self.snapshots);
        let closed = tokio::task::spawn_blocking(move || {
            if let Some(snapshots) = snapshots {
                snapshots.stop();
            }
            journal.close();
        });
        if let Err(error) = closed.await {
            tracing::error!(%error, "the store was closed badly");
        }
        flushed
    }
}

fn check(settings: &Settings) -> Result<(), StartError> {
    if !settings.listen.ip().is_loopback() && settings.token.is_none() {
        let text = format!(
            "--listen {} can be reached from other machines, and no token is set; give --token-file FILE, or listen on 127.0.0.1",
            settings.listen
        );
        return Err(StartError::Settings(text));
    }
    if !crate::clock::SCALE_RANGE.contains(&settings.time_scale) {
        let (least, most) = (crate::clock::SCALE_RANGE.start(), crate::clock::SCALE_RANGE.end());
        let text = format!("--time-scale {} is not allowed: {least} to {most}", settings.time_scale);
        return Err(StartError::Settings(text));
    }
    if let Some(start_ms) = settings.engine_start_ms.filter(|ms| *ms > crate::clock::ENGINE_START_MS_MAX) {
        let most = crate::clock::ENGINE_START_MS_MAX;
        let text = format!("--engine-start-ms {start_ms} is not allowed: 0 to {most}, the year 2100");
        return Err(StartError::Settings(text));
    }
    if settings.snapshot_events == 0 {
        return Err(StartError::Settings("--snapshot-events 0 is not allowed: 1 or more".to_owned()));
    }
    merged(&FleetConfig::default(), &settings.config).map(drop)
}

fn merged(base: &FleetConfig, fields: &Map<String, Value>) -> Result<FleetConfig, StartError> {
    let config = admin::merge(base, fields.clone())
        .map_err(|error| StartError::Settings(format!("configuration: {error}")))?;
    config.check().map_err(|invalid| StartError::Settings(format!("configuration: {invalid}")))?;
    Ok(config)
}

fn link_key(bytes: Option<&[u8]>) -> Result<LinkKey, StartError> {
    if let Some(bytes) = bytes {
        return Ok(LinkKey::new(bytes)?);
    }
    let mut own = [0; 32];
    getrandom::fill(&mut own).map_err(|error| StartError::System {
        doing: "drawing a link key".to_owned(),
        source: std::io::Error::other(error),
    })?;
    tracing::info!("no --link-key-file: links are signed with a key of this process that no box can check");
    Ok(LinkKey::new(&own)?)
}

fn open(settings: &Settings) -> Result<Opened, StartError> {
    let Store::Sqlite(path) = &settings.store else {
        let ledger = Arc::new(Mutex::new(MemoryLedger::default()));
        return Ok(Opened {
            journal: Arc::new(Journal::inline(ledger.clone())),
            lookup: Lookup::Memory(ledger),
            ledgers: None,
            fleet: Fleet::default(),
            end: None,
            refused: Vec::new(),
            snapshot_seq: 0,
        });
    };
    let ledger = SqliteLedger::open(path, settings.durability)?;
    let recovered = recover(&ledger, 0)?;
    tracing::info!(
        seq = recovered.fleet.seq(),
        snapshot_seq = recovered.snapshot_seq,
        events = recovered.events,
        live_leases = recovered.fleet.leases().live_count(),
        "recovered; the recount is exact"
    );
    let reader =
        || -> Result<Box<dyn Ledger>, LedgerError> { Ok(Box::new(SqliteLedger::open_reader(path)?)) };
    Ok(Opened {
        journal: Arc::new(Journal::grouped(recovered.fleet.seq())),
        lookup: Lookup::Reader(Arc::new(Mutex::new(reader()?))),
        ledgers: Some((Box::new(ledger), reader()?)),
        end: recovered.end,
        refused: recovered.refused,
        snapshot_seq: recovered.snapshot_seq,
        fleet: recovered.fleet,
    })
}

/// Record how this start differs from what was recovered: configuration, artifact, undone placements.
async fn begin(
    sequencer: &Arc<Sequencer>,
    settings: &Settings,
    (artifact, policy): (Option<Artifact>, Option<Policy>),
    refused: &[u64],
) -> Result<(), StartError> {
    let is_first = sequencer.look(|fleet| fleet.seq() == 0);
    let mut current = sequencer.config();
    if is_first {
        let seed = settings.seed.map_or_else(getrandom::u64, Ok);
        current.seed = seed.map_err(|error| StartError::System {
            doing: "drawing a seed".to_owned(),
            source: std::io::Error::other(error),
        })?;
    } else if settings.seed.is_some_and(|seed| seed != current.seed) {
        let seed = current.seed;
        tracing::warn!(seed, "--seed is not followed: the store has the seed of its first start");
    }
    let wanted = merged(&current, &settings.config)?;
    let (_, ticket) = sequencer.configure(|_| Ok(wanted))?;
    ticket.wait().await?;
    if !refused.is_empty() {
        let reason = "refused before the last stop".to_owned();
        let refused: Vec<_> =
            refused.iter().map(|seq| crate::ledger::Refused { seq: *seq, reason: reason.clone() }).collect();
        sequencer.revert(&refused);
    }
    let sequencer = sequencer.clone();
    let activate = move || {
        let mut tickets = Vec::new();
        if artifact.is_some() {
            tickets.push(activate_artifact(&sequencer, artifact)?);
        }
        if policy.is_some() {
            tickets.push(activate_policy(&sequencer, policy)?);
        }
        Ok::<_, Denied>(tickets)
    };
    let activated = tokio::task::spawn_blocking(activate).await;
    let tickets = activated.map_err(|error| StartError::System {
        doing: "activating the artifacts".to_owned(),
        source: std::io::Error::other(error),
    })??;
    for ticket in tickets {
        ticket.wait().await?;
    }
    Ok(())
}

/// Keep an artifact's files in the ledger, then make it the active one; `None`: none is active. Blocks.
///
/// # Errors
/// See [`Denied`].
pub fn activate_artifact(sequencer: &Sequencer, artifact: Option<Artifact>) -> Result<Ticket, Denied> {
    let Some(artifact) = artifact else { return sequencer.activate(None) };
    keep(sequencer, artifact.artifact_id.clone(), artifact.files)?;
    tracing::info!(artifact_id = %artifact.artifact_id, "artifact activated");
    sequencer.activate(Some((artifact.artifact_id, artifact.model)))
}

/// The same for a placement policy.
///
/// # Errors
/// See [`Denied`].
pub fn activate_policy(sequencer: &Sequencer, policy: Option<Policy>) -> Result<Ticket, Denied> {
    let Some(policy) = policy else { return sequencer.activate_policy(None) };
    keep(sequencer, policy.policy_id.clone(), policy.files)?;
    tracing::info!(policy_id = %policy.policy_id, "policy activated");
    sequencer.activate_policy(Some((policy.policy_id, policy.policy)))
}

fn keep(sequencer: &Sequencer, id: Arc<str>, files: ArtifactFiles) -> Result<(), Denied> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let is_queued = sequencer.journal().submit_job(Box::new(move |ledger| {
        // Not to be able to keep it is this request's failure, not the ledger's.
        let _ = sender.send(ledger.save_artifact(&id, &files));
        Ok(())
    }));
    if is_queued {
        let kept =
            receiver.recv().map_err(|_| Denied::NotReady("the ledger's writer has stopped".to_owned()))?;
        kept.map_err(|error| Denied::NotReady(error.to_string()))?;
    }
    Ok(())
}

async fn tick(sequencer: Arc<Sequencer>) {
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        sequencer.tick();
    }
}
