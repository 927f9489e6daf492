//! The command line of `berth-scheduler`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use berth_models::strategy::StrategyName;
use clap::{Args, Parser, Subcommand};
use serde_json::{Map, Value};

use crate::export::Export;
use crate::ledger::Durability;
use crate::settings::{Settings, Store};
use crate::snapshot;

const EXAMPLES: &str = "\
Examples:
  berth-scheduler serve
      sqlite in ./berth.db, http://127.0.0.1:7700, the rule decides until an artifact is active
  berth-scheduler serve --artifact demo/artifact --candidate power_of_two
      place by predicted load, with a candidate in shadow (GET /v1/shadow)
  berth-scheduler serve --policy policies/park --primary learned
      a trained policy decides where it was ahead of the rules; elsewhere they do
  berth-scheduler serve --store memory --listen 127.0.0.1:0 --rule least_loaded
      nothing survives the process; the free port is printed
  berth-scheduler serve --listen 0.0.0.0:7700 --token-file token --link-key-file key
      reachable from other machines; every request needs the token, boxes check links with the key

Exit codes: 0 done, 1 failed, 2 bad usage or configuration.";

const EXPORT_EXAMPLE: &str = "\
Example:
  berth-scheduler export --store sqlite:berth.db --out log.ndjson
  berth-trainer ingest --data log.ndjson --out tables";

/// Decides where work goes.
#[derive(Debug, Parser)]
#[command(name = "berth-scheduler", version, about, after_help = EXAMPLES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve allocation decisions over HTTP.
    #[command(after_help = EXAMPLES)]
    Serve(Box<Serve>),
    /// Write the event log as JSON lines, which `berth-trainer ingest` reads.
    #[command(after_help = EXPORT_EXAMPLE)]
    Export(Export),
}

/// Options of `serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// Address to listen on; port 0 takes a free one, which is printed.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7700", value_parser = address)]
    listen: SocketAddr,
    /// Where events become durable: memory or sqlite:PATH.
    #[arg(long, value_name = "STORE", default_value = "sqlite:berth.db")]
    store: Store,
    /// What an acknowledgement survives: the end of the process, or a loss of power.
    #[arg(long, value_enum, default_value_t = Durability::Disk)]
    durability: Durability,
    /// Folder of the forecast artifact; without it the one that was active stays.
    #[arg(long, value_name = "DIR")]
    artifact: Option<PathBuf>,
    /// Folder of the placement policy that `learned` decides by; without it the one that was active stays.
    #[arg(long, value_name = "DIR")]
    policy: Option<PathBuf>,
    /// Fields of the fleet's configuration as JSON; fields left out stay as they were.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Strategy of all traffic that is not critical and not on rules.
    #[arg(long, value_name = "NAME")]
    primary: Option<StrategyName>,
    /// Strategy of everything on rules; one that needs no model.
    #[arg(long, value_name = "NAME")]
    rule: Option<StrategyName>,
    /// Strategy to evaluate in shadow.
    #[arg(long, value_name = "NAME")]
    candidate: Option<StrategyName>,
    /// File with the bearer token that requests need.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File with the key that links are signed with; boxes check them with the same.
    #[arg(long, value_name = "FILE")]
    link_key_file: Option<PathBuf>,
    /// Engine time in units of wall time: 60 makes a minute of a second, for demos and replays.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    time_scale: f64,
    /// Engine time at the first start of a store, in milliseconds, for replays; wall time when not given.
    #[arg(long, value_name = "MS")]
    engine_start_ms: Option<u64>,
    /// Seed of every draw, at the first start of a store; from the system when not given.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Events after which a snapshot is made.
    #[arg(long, value_name = "NUMBER", default_value_t = snapshot::EVENTS_DEFAULT)]
    snapshot_events: u64,
    /// Hours that events and ended placements are kept, at least to the older of two snapshots.
    #[arg(long, value_name = "HOURS", default_value_t = snapshot::RETENTION_MS_DEFAULT / 3_600_000)]
    retention_hours: u64,
    /// Write log lines as JSON.
    #[arg(long)]
    pub log_json: bool,
}

impl Serve {
    /// The settings these options stand for; files are read.
    ///
    /// # Errors
    /// A file can't be read or does not hold what it should.
    pub fn settings(&self) -> Result<Settings> {
        Ok(Settings {
            listen: self.listen,
            store: self.store.clone(),
            durability: self.durability,
            artifact: self.artifact.clone(),
            policy: self.policy.clone(),
            config: self.config_fields()?,
            token: self.token_file.as_deref().map(read_token).transpose()?,
            link_key: self.link_key_file.as_deref().map(read_key).transpose()?,
            time_scale: self.time_scale,
            engine_start_ms: self.engine_start_ms,
            seed: self.seed,
            snapshot_events: self.snapshot_events,
            retention_ms: self.retention_hours.saturating_mul(3_600_000),
        })
    }

    fn config_fields(&self) -> Result<Map<String, Value>> {
        let mut fields = Map::new();
        if let Some(path) = &self.config {
            let text = std::fs::read(path).with_context(|| format!("--config {}", path.display()))?;
            fields = serde_json::from_slice(&text).with_context(|| {
                format!("--config {}: not a JSON object of configuration fields", path.display())
            })?;
        }
        for (field, name) in [("primary", self.primary), ("rule", self.rule), ("candidate", self.candidate)] {
            if let Some(name) = name {
                fields.insert(field.to_owned(), Value::String(name.name().to_owned()));
            }
        }
        for field in ["version", "seed"] {
            if fields.contains_key(field) {
                bail!("configuration: {field} is the scheduler's own; leave it out (see --seed)");
            }
        }
        Ok(fields)
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let expected = "an IP address and a port are expected, such as 127.0.0.1:7700; names are not looked up";
    text.parse().map_err(|_| expected.to_owned())
}

fn read_token(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("--token-file {}", path.display()))?;
    let token = text.trim();
    if token.len() < 16 || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        bail!(
            "--token-file {}: a token is one line of at least 16 printable characters (try: openssl rand -hex 32)",
            path.display()
        );
    }
    Ok(token.to_owned())
}

fn read_key(path: &Path) -> Result<Vec<u8>> {
    let bytes = std::fs::read(path).with_context(|| format!("--link-key-file {}", path.display()))?;
    Ok(bytes.trim_ascii().to_vec())
}
