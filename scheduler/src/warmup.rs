//! The warm-up hook: one POST to a box that registered while warming.
//!
//! Plain `http://` only, HTTP/1.1, an empty body, at most once for a registration: a scheduler that
//! stops in between does not call again. Calls run in the background, bounded in number and time.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::telemetry::{Counted, Telemetry};

/// Calls under way at once; a box that registers above it is not called, and counted as failed.
const CALLS_MAX: usize = 64;
/// Longest a call may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// An address that a hook can be called at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookAddress {
    authority: String,
    path: String,
}

impl HookAddress {
    /// Parse `http://host[:port][/path]`.
    #[must_use]
    pub fn parse(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("http://")?;
        let (authority, path) =
            rest.split_once('/').map_or((rest, ""), |(authority, path)| (authority, path));
        let is_plain = !authority.is_empty() && !authority.contains('@');
        let is_printable = url.bytes().all(|byte| (0x21..0x7f).contains(&byte));
        (is_plain && is_printable).then(|| Self { authority: authority.to_owned(), path: format!("/{path}") })
    }

    async fn call(&self, box_id: &str) -> std::io::Result<String> {
        let has_port = self.authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = if has_port { self.authority.clone() } else { format!("{}:80", self.authority) };
        let mut stream = TcpStream::connect(address).await?;
        let request = format!(
            "POST {} HTTP/1.1\r\nhost: {}\r\nuser-agent: berth\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            self.path, self.authority
        );
        stream.write_all(request.as_bytes()).await?;
        let mut head = [0; 64];
        let mut length = 0;
        while length < head.len() && !head[..length].contains(&b'\r') {
            match stream.read(&mut head[length..]).await? {
                0 => break,
                more => length += more,
            }
        }
        let line = String::from_utf8_lossy(&head[..length]);
        let status = line.split(' ').nth(1).unwrap_or_default();
        if status.starts_with('2') {
            return Ok(status.to_owned());
        }
        Err(std::io::Error::other(format!("box {box_id} answered {status:?}")))
    }
}

/// Calls hooks in the background.
pub struct Warmup {
    permits: Arc<Semaphore>,
    telemetry: Arc<Telemetry>,
}

impl Warmup {
    /// A caller that counts in `telemetry`.
    #[must_use]
    pub fn new(telemetry: Arc<Telemetry>) -> Self {
        Self { permits: Arc::new(Semaphore::new(CALLS_MAX)), telemetry }
    }

    /// Call the hook of a box, in the background.
    pub fn call(&self, box_id: Arc<str>, address: HookAddress) {
        let telemetry = self.telemetry.clone();
        let Ok(permit) = self.permits.clone().try_acquire_owned() else {
            telemetry.count(Counted::WarmupsFailed);
            tracing::warn!(%box_id, "warm-up hook not called: {CALLS_MAX} calls are under way");
            return;
        };
        tokio::spawn(async move {
            let called = tokio::time::timeout(TIMEOUT, address.call(&box_id)).await;
            let reason = match called {
                Ok(Ok(_)) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some(format!("no answer within {TIMEOUT:?}")),
            };
            match reason {
                None => telemetry.count(Counted::WarmupsCalled),
                Some(reason) => {
                    telemetry.count(Counted::WarmupsFailed);
                    tracing::warn!(%box_id, %reason, "warm-up hook failed");
                }
            }
            drop(permit);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_a_request_could_be_smuggled_through_are_refused() {
        let address = HookAddress::parse("http://a:81/warm?x=1").unwrap();
        assert_eq!((&*address.authority, &*address.path), ("a:81", "/warm?x=1"));
        assert_eq!(HookAddress::parse("http://a").unwrap().path, "/");
        for url in ["https://a/", "http://", "http://a/ HTTP/1.1\r\nx: y", "http://u@a/", "ftp://a"] {
            assert_eq!(HookAddress::parse(url), None, "{url}");
        }
    }
}
