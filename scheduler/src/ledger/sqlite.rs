//! The embedded ledger: one SQLite file in write-ahead mode.
//!
//! An event, its row in the placement index and with them the memory that makes retries idempotent
//! are one transaction. The file belongs to one scheduler at a time: a lock on the file itself says so,
//! and the seq's primary key would refuse a second writer anyway.

use std::fs::{File, TryLockError};
use std::io::Read;
use std::path::Path;

use berth_models::event::Event;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use super::{
    ArtifactFiles, Change, Durability, Ledger, LedgerError, Logged, Placement, PlacementQuery,
    PlacementState, RANGE_MAX, Refused, change,
};

/// Form of the file; another one is refused.
const FORMAT_VERSION: i64 = 1;
/// SQLite's `application_id` of Berth's files ("Brth"), by which they are told from other programs'.
const APPLICATION_ID: i32 = 0x4272_7468;
/// What every SQLite file begins with.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// Where in a SQLite file the application id is, big-endian.
const APPLICATION_ID_AT: std::ops::Range<usize> = 68..72;
/// How long a reader waits for a checkpoint, in milliseconds.
const BUSY_MS: u64 = 5_000;
const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS events (
    seq INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, wall_ms INTEGER NOT NULL,
    refused INTEGER NOT NULL, body TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS placements (
    lease_id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, ball_id TEXT NOT NULL,
    box_id TEXT NOT NULL, strategy_id TEXT NOT NULL, state INTEGER NOT NULL,
    decided_at_ms INTEGER NOT NULL, ended_at_ms INTEGER) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS placements_live ON placements (tenant, ball_id) WHERE state = 0;
CREATE INDEX IF NOT EXISTS placements_ball ON placements (tenant, ball_id, lease_id);
CREATE INDEX IF NOT EXISTS placements_box ON placements (box_id, lease_id);
CREATE TABLE IF NOT EXISTS snapshots (seq INTEGER PRIMARY KEY, parts INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS snapshot_parts (
    seq INTEGER NOT NULL, part INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (seq, part)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS artifact_files (
    artifact_id TEXT NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (artifact_id, name)) STRICT;
";

/// See the module's text.
pub struct SqliteLedger {
    connection: Connection,
    /// Held open for as long as this ledger is the owner; closed after the connection, see [`own`].
    _lock: Option<File>,
}

fn io(doing: &'static str) -> impl Fn(rusqlite::Error) -> LedgerError {
    move |error| LedgerError::Io { doing, reason: error.to_string() }
}

impl SqliteLedger {
    /// Open the file as its owner, making it when absent.
    ///
    /// # Errors
    /// It can't be opened, another scheduler holds it, it is another program's, or its form is another.
    pub fn open(path: &Path, durability: Durability) -> Result<Self, LedgerError> {
        let lock = own(path)?;
        let connection = Connection::open(path).map_err(io("opening the file"))?;
        let synchronous = match durability {
            Durability::Process => "NORMAL",
            Durability::Disk => "FULL",
        };
        let pragmas = format!(
            "PRAGMA application_id = {APPLICATION_ID}; PRAGMA journal_mode = WAL;
             PRAGMA synchronous = {synchronous};"
        );
        connection.execute_batch(&pragmas).map_err(io("opening the file"))?;
        connection.execute_batch(SCHEMA).map_err(io("making the tables"))?;
        let version: i64 = connection
            .query_row(
                "INSERT INTO meta (key, value) VALUES ('format_version', ?1)
                 ON CONFLICT (key) DO UPDATE SET value = value RETURNING value",
                [FORMAT_VERSION],
                |row| row.get(0),
            )
            .map_err(io("reading the format version"))?;
        if version != FORMAT_VERSION {
            let reason = format!("it has format version {version}, this build reads {FORMAT_VERSION}");
            return Err(LedgerError::Damaged(reason));
        }
        Ok(Self { connection, _lock: Some(lock) })
    }

    /// Open a second connection for reading beside the owner's.
    ///
    /// # Errors
    /// It can't be opened.
    pub fn open_reader(path: &Path) -> Result<Self, LedgerError> {
        let connection = Connection::open(path).map_err(io("opening the file"))?;
        connection
            .busy_timeout(std::time::Duration::from_millis(BUSY_MS))
            .and_then(|()| connection.execute_batch("PRAGMA query_only = ON;"))
            .map_err(io("opening the file"))?;
        Ok(Self { connection, _lock: None })
    }
}

/// Open the file and lock it: the file itself, by whatever name it is reached.
///
/// This lock (`flock`) and SQLite's own (`fcntl`) don't see each other; but a process that closes any
/// handle of a file loses its `fcntl` locks on it, so the handle outlives the connection. The system
/// gives the lock back when the process ends, however it does.
fn own(path: &Path) -> Result<File, LedgerError> {
    let name = || path.display().to_string();
    let failed = |error: std::io::Error| LedgerError::Io {
        doing: "opening the file",
        reason: format!("{}: {error}", path.display()),
    };
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path);
    let file = file.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(LedgerError::InUse { path: name() }),
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    if !file.metadata().map_err(failed)?.is_file() || !is_ours(&file).map_err(failed)? {
        return Err(LedgerError::Foreign { path: name() });
    }
    Ok(file)
}

/// Whether a file is empty or Berth's. Its first bytes are read without SQLite, which would change it.
fn is_ours(file: &File) -> std::io::Result<bool> {
    let mut head = Vec::new();
    file.take(APPLICATION_ID_AT.end as u64).read_to_end(&mut head)?;
    let is_marked = head.get(APPLICATION_ID_AT) == Some(&APPLICATION_ID.to_be_bytes());
    Ok(head.is_empty() || (head.starts_with(MAGIC) && is_marked))
}

/// Write one event and its change to the index; returns whether its placement was refused.
fn write(connection: &Connection, event: &Event, body: &str) -> rusqlite::Result<bool> {
    let (seq, at_ms) = (event.seq as i64, event.at_ms as i64);
    let mut is_refused = false;
    match change(event) {
        Change::Place { ball, box_id, strategy_id } => {
            let placed = connection
                .prepare_cached(
                    "INSERT OR IGNORE INTO placements
                     (lease_id, tenant, ball_id, box_id, strategy_id, state, decided_at_ms)
                     VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6)",
                )?
                .execute(params![seq, ball.tenant, ball.ball_id, box_id, strategy_id, at_ms])?;
            is_refused = placed == 0;
        }
        Change::End { lease_id, state } => {
            connection
                .prepare_cached(
                    "UPDATE placements SET state = ?2, ended_at_ms = ?3
                     WHERE lease_id = ?1 AND state = 0",
                )?
                .execute(params![lease_id as i64, state as i64, at_ms])?;
        }
        Change::None => {}
    }
    connection
        .prepare_cached(
            "INSERT INTO events (seq, at_ms, wall_ms, refused, body) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![seq, at_ms, event.wall_ms as i64, is_refused, body])?;
    Ok(is_refused)
}

fn placement(row: &Row) -> rusqlite::Result<Placement> {
    let number: usize = row.get::<_, i64>(5)? as usize;
    Ok(Placement {
        lease_id: row.get::<_, i64>(0)? as u64,
        tenant: row.get(1)?,
        ball_id: row.get(2)?,
        box_id: row.get(3)?,
        strategy_id: row.get(4)?,
        state: PlacementState::ALL[number.min(PlacementState::ALL.len() - 1)],
        decided_at_ms: row.get::<_, i64>(6)? as u64,
        ended_at_ms: row.get::<_, Option<i64>>(7)?.map(|at_ms| at_ms as u64),
    })
}

impl Ledger for SqliteLedger {
    fn commit(&mut self, events: &[Event]) -> Result<Vec<Refused>, LedgerError> {
        let failed = io("committing events");
        let transaction = self.connection.transaction().map_err(&failed)?;
        let mut refused = Vec::new();
        let mut body = Vec::new();
        for event in events {
            body.clear();
            serde_json::to_writer(&mut body, event).map_err(|error| LedgerError::Io {
                doing: "writing an event as JSON",
                reason: error.to_string(),
            })?;
            // JSON is UTF-8 always.
            let text = std::str::from_utf8(&body).unwrap_or_default();
            if write(&transaction, event, text).map_err(&failed)? {
                let reason = "the ball has a live placement".to_owned();
                refused.push(Refused { seq: event.seq, reason });
            }
        }
        transaction.commit().map_err(&failed)?;
        Ok(refused)
    }

    fn events_after(&self, seq: u64, limit: usize) -> Result<Vec<Logged>, LedgerError> {
        let failed = io("reading events");
        let mut statement = self
            .connection
            .prepare_cached("SELECT body, refused, seq FROM events WHERE seq > ?1 ORDER BY seq LIMIT ?2")
            .map_err(&failed)?;
        let mut rows = statement.query(params![seq as i64, limit as i64]).map_err(&failed)?;
        let mut logged = Vec::new();
        while let Some(row) = rows.next().map_err(&failed)? {
            let body = row.get_ref(0).map_err(&failed)?.as_bytes().unwrap_or_default();
            let event = serde_json::from_slice(body).map_err(|error| {
                let seq: i64 = row.get(2).unwrap_or(-1);
                LedgerError::Damaged(format!("event {seq} is not readable ({error})"))
            })?;
            let is_refused = row.get(1).map_err(&failed)?;
            logged.push(Logged { event, is_refused });
        }
        Ok(logged)
    }

    fn placements(&self, query: &PlacementQuery) -> Result<Vec<Placement>, LedgerError> {
        let failed = io("reading placements");
        let mut text = "SELECT lease_id, tenant, ball_id, box_id, strategy_id, state, decided_at_ms,
                        ended_at_ms FROM placements WHERE 1"
            .to_owned();
        let mut values = Vec::new();
        for (condition, value) in [
            (" AND tenant = ?", &query.tenant),
            (" AND ball_id >= ?", &query.from),
            (" AND ball_id <= ?", &query.to),
            (" AND box_id = ?", &query.box_id),
        ] {
            if let Some(value) = value {
                text.push_str(condition);
                values.push(value);
            }
        }
        let limit = query.limit.min(RANGE_MAX);
        text.push_str(&format!(" ORDER BY lease_id DESC LIMIT {limit}"));
        let mut statement = self.connection.prepare_cached(&text).map_err(&failed)?;
        let rows = statement.query_map(params_from_iter(values), placement).map_err(&failed)?;
        rows.collect::<Result<_, _>>().map_err(&failed)
    }

    fn save_snapshot_part(&mut self, seq: u64, part: u32, body: &[u8]) -> Result<(), LedgerError> {
        self.connection
            .prepare_cached("INSERT OR REPLACE INTO snapshot_parts (seq, part, body) VALUES (?1, ?2, ?3)")
            .and_then(|mut statement| statement.execute(params![seq as i64, part, body]))
            .map_err(io("writing a snapshot"))?;
        Ok(())
    }

    fn finish_snapshot(&mut self, seq: u64, parts: u32) -> Result<u64, LedgerError> {
        let failed = io("finishing a snapshot");
        let transaction = self.connection.transaction().map_err(&failed)?;
        transaction
            .execute(
                "INSERT OR REPLACE INTO snapshots (seq, parts) VALUES (?1, ?2)",
                params![seq as i64, parts],
            )
            .map_err(&failed)?;
        let older: i64 = transaction
            .query_row(
                "SELECT min(seq) FROM (SELECT seq FROM snapshots ORDER BY seq DESC LIMIT 2)",
                [],
                |row| row.get(0),
            )
            .map_err(&failed)?;
        for table in ["snapshots", "snapshot_parts"] {
            let text = format!("DELETE FROM {table} WHERE seq < ?1");
            transaction.execute(&text, [older]).map_err(&failed)?;
        }
        transaction.commit().map_err(&failed)?;
        Ok(older as u64)
    }

    fn newest_snapshot(&self) -> Result<Option<(u64, Vec<u8>)>, LedgerError> {
        let failed = io("reading a snapshot");
        let newest = self
            .connection
            .query_row("SELECT seq, parts FROM snapshots ORDER BY seq DESC LIMIT 1", [], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, u32>(1)?))
            })
            .optional()
            .map_err(&failed)?;
        let Some((seq, parts)) = newest else { return Ok(None) };
        let mut statement = self
            .connection
            .prepare_cached("SELECT body FROM snapshot_parts WHERE seq = ?1 AND part < ?2 ORDER BY part")
            .map_err(&failed)?;
        let mut rows = statement.query(params![seq, parts]).map_err(&failed)?;
        let (mut body, mut found) = (Vec::new(), 0);
        while let Some(row) = rows.next().map_err(&failed)? {
            body.extend_from_slice(row.get_ref(0).map_err(&failed)?.as_blob().unwrap_or_default());
            found += 1;
        }
        if found != parts {
            return Err(LedgerError::Damaged(format!("snapshot {seq} has {found} of {parts} parts")));
        }
        Ok(Some((seq as u64, body)))
    }

    fn truncate(&mut self, seq: u64, at_ms: u64, limit: usize) -> Result<usize, LedgerError> {
        let failed = io("truncating the log");
        let values = params![seq as i64, at_ms as i64, limit as i64];
        let mut deleted = 0;
        for text in [
            "DELETE FROM events WHERE seq IN
             (SELECT seq FROM events WHERE seq < ?1 AND at_ms < ?2 ORDER BY seq LIMIT ?3)",
            "DELETE FROM placements WHERE lease_id IN
             (SELECT lease_id FROM placements
              WHERE lease_id < ?1 AND state <> 0 AND ended_at_ms < ?2 ORDER BY lease_id LIMIT ?3)",
        ] {
            deleted += self.connection.execute(text, values).map_err(&failed)?;
        }
        Ok(deleted)
    }

    fn save_artifact(&mut self, artifact_id: &str, files: &ArtifactFiles) -> Result<(), LedgerError> {
        let failed = io("keeping an artifact");
        let transaction = self.connection.transaction().map_err(&failed)?;
        for (name, body) in files {
            transaction
                .execute(
                    "INSERT OR REPLACE INTO artifact_files (artifact_id, name, body) VALUES (?1, ?2, ?3)",
                    params![artifact_id, name, body],
                )
                .map_err(&failed)?;
        }
        transaction.commit().map_err(&failed)
    }

    fn artifact(&self, artifact_id: &str) -> Result<ArtifactFiles, LedgerError> {
        let failed = io("reading an artifact");
        let mut statement = self
            .connection
            .prepare_cached("SELECT name, body FROM artifact_files WHERE artifact_id = ?1")
            .map_err(&failed)?;
        let rows =
            statement.query_map([artifact_id], |row| Ok((row.get(0)?, row.get(1)?))).map_err(&failed)?;
        rows.collect::<Result<_, _>>().map_err(&failed)
    }
}
