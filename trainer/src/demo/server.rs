//! A scheduler started as a child process, and the requests the demo makes of it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;

/// Time the scheduler has to say where it listens.
const START_LINES_MAX: usize = 200;
/// Time limit of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// How to start a scheduler for a replay.
pub struct Start<'a> {
    /// The `berth-scheduler` binary.
    pub binary: &'a Path,
    /// Its store address.
    pub store: String,
    /// The artifact folder.
    pub artifact: &'a Path,
    /// Strategy of all traffic that is not critical.
    pub primary: &'a str,
    /// Strategy in shadow.
    pub candidate: &'a str,
    /// Engine time at the start, in epoch milliseconds.
    pub engine_start_ms: i64,
    /// Engine milliseconds a wall millisecond.
    pub time_scale: f64,
    /// Where its log goes.
    pub log: PathBuf,
}

/// A running scheduler; stopped by its own pid when dropped.
pub struct Server {
    child: Child,
    address: String,
    client: reqwest::Client,
}

impl Server {
    /// Start one on a free port of the loopback and wait until it listens.
    ///
    /// # Errors
    /// When it ends or says nothing useful; its log is named.
    pub fn start(start: &Start) -> anyhow::Result<Self> {
        let log = std::fs::File::create(&start.log)?;
        let mut child = Command::new(start.binary)
            .args(["serve", "--listen", "127.0.0.1:0", "--store", &start.store])
            .args(["--primary", start.primary, "--candidate", start.candidate])
            .args(["--engine-start-ms", &start.engine_start_ms.to_string()])
            .args(["--time-scale", &start.time_scale.to_string(), "--seed", "1"])
            .arg("--artifact")
            .arg(start.artifact)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .with_context(|| format!("can't start {}", start.binary.display()))?;
        let stdout = child.stdout.take().context("no standard output")?;
        let mut lines = BufReader::new(stdout).lines().take(START_LINES_MAX);
        let address = lines.find_map(|line| {
            line.ok()?.strip_prefix("listening on ").map(|address| address.trim().to_owned())
        });
        let Some(address) = address else {
            child.kill().ok();
            bail!("the scheduler did not start; see {}", start.log.display());
        };
        let client = reqwest::Client::builder().timeout(REQUEST_TIMEOUT).build()?;
        Ok(Self { child, address, client })
    }

    /// A handle to send requests with, cheap to clone.
    #[must_use]
    pub fn api(&self) -> Api {
        Api { client: self.client.clone(), address: self.address.clone() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Requests to a scheduler.
#[derive(Clone)]
pub struct Api {
    client: reqwest::Client,
    address: String,
}

impl Api {
    /// Send `body` and return status and answer.
    ///
    /// # Errors
    /// When there is no answer, or it is not JSON.
    pub async fn send(
        &self,
        method: reqwest::Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<(u16, Value)> {
        let mut request = self.client.request(method, format!("{}{path}", self.address));
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let response = request.send().await?;
        let (status, bytes) = (response.status().as_u16(), response.bytes().await?);
        let answer = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes)? };
        Ok((status, answer))
    }

    /// Send `body` and insist on success.
    ///
    /// # Errors
    /// When the answer is a problem; its detail is in the message.
    pub async fn expect(
        &self,
        method: reqwest::Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let (status, answer) = self.send(method, path, body).await?;
        anyhow::ensure!(status < 300, "{path} answered {status}: {answer}");
        Ok(answer)
    }
}
