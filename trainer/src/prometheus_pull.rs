//! A live pull from a Prometheus server: `query_range` in pieces, each reply kept as the server sent it.
//!
//! The replies are files that `berth-datasets` reads like any saved reply, so what was pulled can be read again.
//! Source of the interface: Prometheus, HTTP API, range queries.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use berth_datasets::check_prometheus_reply;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Client, Response};

use crate::cli::Usage;

/// Points a series that one request asks for; the server refuses more than 11,000.
pub const POINTS_MAX: u64 = 10_000;
/// Requests of one pull.
pub const REQUESTS_MAX: u64 = 10_000;
/// Longest time of one request, its body included.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Wait before the one retry.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// Largest reply.
const REPLY_BYTES_MAX: u64 = 512 << 20;
/// Characters of a server's message that are shown.
const MESSAGE_CHARS: usize = 500;

/// What to pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pull {
    /// `http://host:port`, perhaps with a path before `/api/v1`.
    pub address: String,
    /// The expression.
    pub query: String,
    /// First stamp, epoch seconds.
    pub from_s: u64,
    /// Last stamp, epoch seconds.
    pub until_s: u64,
    /// Step between stamps.
    pub step_s: u64,
}

/// Why one try failed, and whether another may help.
struct Failed {
    error: anyhow::Error,
    may_pass: bool,
}

impl Pull {
    /// The first and last stamp of each request, on multiples of the step; no stamp is asked for twice.
    ///
    /// # Errors
    /// [`Usage`] for an empty range, a step of 0, or more than [`REQUESTS_MAX`] requests.
    pub fn pieces(&self) -> Result<Vec<(u64, u64)>> {
        let refuse = |text: String| Err(anyhow::Error::from(Usage(text)));
        if self.step_s == 0 || self.from_s > self.until_s {
            return refuse("--step and --range must be at least a second, such as 60s and 7d".to_owned());
        }
        let last = self.until_s / self.step_s;
        let mut first = self.from_s.div_ceil(self.step_s);
        if last < first {
            return refuse("--range is shorter than --step; ask for a longer range".to_owned());
        }
        let requests = (last - first) / POINTS_MAX + 1;
        if requests > REQUESTS_MAX {
            return refuse(format!(
                "{requests} requests of {POINTS_MAX} points, allowed are {REQUESTS_MAX}: take a longer --step"
            ));
        }
        let mut pieces = Vec::new();
        while first <= last {
            let end = last.min(first + POINTS_MAX - 1);
            pieces.push((first * self.step_s, end * self.step_s));
            first = end + 1;
        }
        Ok(pieces)
    }

    /// Pull every piece into `folder`, one file each; returns the files. `progress` gets pieces done and all.
    ///
    /// # Errors
    /// The server can't be reached, refuses the query, sends what is no reply, or has no series.
    pub fn run(&self, folder: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<PathBuf>> {
        if !self.address.starts_with("http://") {
            let text = "needs an address http://HOST:PORT (for https put a local proxy before it)";
            return Err(Usage(format!("--prometheus {}: {text}", self.address)).into());
        }
        let pieces = self.pieces()?;
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = Client::builder().timeout(TIMEOUT).connect_timeout(CONNECT_TIMEOUT).build()?;
        let (mut files, mut series) = (Vec::new(), 0);
        for (at, (from_s, to_s)) in pieces.iter().enumerate() {
            progress(at as u64, pieces.len() as u64);
            let path = folder.join(format!("range-{from_s}-{to_s}.json"));
            runtime.block_on(self.piece(&client, *from_s, *to_s, &path))?;
            series += check_prometheus_reply(&path).with_context(|| format!("reply of {}", self.address))?;
            files.push(path);
        }
        ensure!(
            series > 0,
            "{} has no series for `{}` in that range; try the query in its own page, and see --range",
            self.address,
            self.query
        );
        Ok(files)
    }

    /// One piece, tried twice where the first failure may pass.
    async fn piece(&self, client: &Client, from_s: u64, to_s: u64, path: &Path) -> Result<()> {
        match self.attempt(client, from_s, to_s, path).await {
            Ok(()) => Ok(()),
            Err(failed) if failed.may_pass => {
                eprintln!("note: {:#}; trying once more", failed.error);
                tokio::time::sleep(RETRY_AFTER).await;
                self.attempt(client, from_s, to_s, path).await.map_err(|failed| failed.error)
            }
            Err(failed) => Err(failed.error),
        }
    }

    async fn attempt(&self, client: &Client, from_s: u64, to_s: u64, path: &Path) -> Result<(), Failed> {
        let url = format!(
            "{}/api/v1/query_range?query={}&start={from_s}&end={to_s}&step={}",
            self.address.trim_end_matches('/'),
            utf8_percent_encode(&self.query, NON_ALPHANUMERIC),
            self.step_s
        );
        let sent = client.get(url).send().await;
        let response = sent.map_err(|error| {
            let may_pass = !error.is_builder();
            let error = anyhow::Error::from(error.without_url()).context(format!("asking {}", self.address));
            Failed { error, may_pass }
        })?;
        let status = response.status();
        if status.is_success() {
            return save(response, path).await.map_err(|error| Failed { error, may_pass: true });
        }
        let said = message(response).await;
        let error = anyhow::anyhow!("{} answered {status}: {said}", self.address);
        Err(Failed { error, may_pass: status.is_server_error() || status.as_u16() == 429 })
    }
}

/// What a server says about its refusal: the `error` of its JSON, or the start of the body.
async fn message(mut response: Response) -> String {
    let mut body = Vec::new();
    while body.len() < 1 << 16
        && let Ok(Some(chunk)) = response.chunk().await
    {
        body.extend_from_slice(&chunk);
    }
    let json: Option<serde_json::Value> = serde_json::from_slice(&body).ok();
    let error = json.as_ref().and_then(|json| json.get("error")).and_then(serde_json::Value::as_str);
    let text = error.map_or_else(|| String::from_utf8_lossy(&body).into_owned(), str::to_owned);
    text.chars().take(MESSAGE_CHARS).collect()
}

async fn save(mut response: Response, path: &Path) -> Result<()> {
    let mut file = std::fs::File::create(path).with_context(|| path.display().to_string())?;
    let mut bytes = 0;
    while let Some(chunk) = response.chunk().await.context("the reply broke off")? {
        bytes += chunk.len() as u64;
        if bytes > REPLY_BYTES_MAX {
            bail!(
                "a reply of more than {REPLY_BYTES_MAX} bytes: aggregate in the query, or take a longer --step"
            );
        }
        file.write_all(&chunk).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pull(from_s: u64, until_s: u64, step_s: u64) -> Result<Vec<(u64, u64)>> {
        let (address, query) = ("http://h".to_owned(), "up".to_owned());
        Pull { address, query, from_s, until_s, step_s }.pieces()
    }

    #[test]
    fn pieces_cover_the_range_once_and_keep_to_the_limit() {
        assert_eq!(pull(61, 185, 60).unwrap(), [(120, 180)]);
        let pieces = pull(0, 25_000 * 15, 15).unwrap();
        assert_eq!(pieces.len(), 3);
        let mut next = 0;
        for (from_s, to_s) in pieces {
            assert_eq!(from_s, next);
            assert!((to_s - from_s) / 15 < POINTS_MAX);
            next = to_s + 15;
        }
        assert_eq!(next, 25_001 * 15);
        assert!(pull(5, 4, 1).is_err() && pull(0, 9, 0).is_err() && pull(61, 119, 60).is_err());
        assert!(pull(0, u64::MAX / 2, 1).is_err());
    }
}
