//! Accepting connections: HTTP/1.1, with limits, and an end that lets requests finish.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Most connections at once; further ones wait in the system's queue.
pub const CONNECTIONS_MAX: usize = 10_000;
/// A connection on which no request began in one of these stretches is closed: idle ones, and ones
/// whose request never becomes whole. One timer a connection, not one a request.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest the requests under way may take after a stop.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after an accept that failed for want of something, such as file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serve `router` on `listener` until `stop` resolves, then let the requests under way finish.
pub async fn serve(listener: TcpListener, router: Router, stop: impl Future<Output = ()>) {
    let http = http1::Builder::new();
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let graceful = GracefulShutdown::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = async {
            let permit = permits.clone().acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = accepted => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Answers are small and written whole; waiting to merge them only adds delay.
        let _ = stream.set_nodelay(true);
        let begun = Arc::new(AtomicU64::new(0));
        let service = Counting { inner: TowerToHyperService::new(router.clone()), begun: begun.clone() };
        let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            tokio::select! {
                // A client that goes away is no event worth a line.
                _ = connection => {}
                () = idle(&begun) => {}
            }
            drop(permit);
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_TIMEOUT, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests were still under way {DRAIN_TIMEOUT:?} after the stop");
    }
}

/// Counts the requests that begin on a connection.
struct Counting {
    inner: TowerToHyperService<Router>,
    begun: Arc<AtomicU64>,
}

impl Service<Request<Incoming>> for Counting {
    type Response = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Response;
    type Error = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Error;
    type Future = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.inner.call(request)
    }
}

/// Resolves once no request has begun for a stretch of [`IDLE_TIMEOUT`].
async fn idle(begun: &AtomicU64) {
    let mut seen = u64::MAX;
    loop {
        tokio::time::sleep(IDLE_TIMEOUT).await;
        let now = begun.load(Ordering::Relaxed);
        if now == seen || now == 0 {
            return;
        }
        seen = now;
    }
}
