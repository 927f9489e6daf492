//! Accepting connections: HTTP/1.1, with limits, and an end that lets requests finish.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

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
///
/// Every core has a thread with an event loop of its own, and a connection stays on its thread: an
/// answer takes microseconds, so moving requests between threads costs more than it evens out.
///
/// # Errors
/// The system gives no thread.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    stop: impl Future<Output = ()>,
) -> std::io::Result<()> {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = (0..count).map(|_| Worker::start(router.clone())).collect::<Result<Vec<_>, _>>()?;
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut turn = (0..count).cycle();
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = async {
            // Nobody closes it.
            let permit = permits.clone().acquire_owned().await.ok();
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = accepted => accepted,
        };
        // A stream leaves this event loop to be taken up by another.
        match accepted.and_then(|(stream, _)| stream.into_std()) {
            Ok(stream) => workers[turn.next().unwrap_or(0)].take((stream, permit)),
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    let stopped = tokio::task::spawn_blocking(|| Worker::stop(workers)).await;
    stopped.map_err(std::io::Error::other)
}

/// A connection and its share of [`CONNECTIONS_MAX`].
type Accepted = (std::net::TcpStream, Option<OwnedSemaphorePermit>);

/// A thread with an event loop.
struct Worker {
    connections: UnboundedSender<Accepted>,
    thread: JoinHandle<()>,
}

impl Worker {
    fn start(router: Router) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (connections, accepted) = unbounded_channel();
        let thread = std::thread::Builder::new().name("http".to_owned());
        let thread = thread.spawn(move || runtime.block_on(work(router, accepted)))?;
        Ok(Self { connections, thread })
    }

    fn take(&self, accepted: Accepted) {
        if self.connections.send(accepted).is_err() {
            tracing::error!("a thread that serves connections has ended");
        }
    }

    /// Let the requests of all workers finish, and end them.
    fn stop(workers: Vec<Self>) {
        let (ends, threads): (Vec<_>, Vec<_>) =
            workers.into_iter().map(|worker| (worker.connections, worker.thread)).unzip();
        // All of them hear of it before any is waited for.
        drop(ends);
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread that serves connections panicked");
            }
        }
    }
}

/// Serve connections as they come, until no more will.
async fn work(router: Router, mut accepted: UnboundedReceiver<Accepted>) {
    // Answers are small: copying one beside its head is cheaper than a gathering write.
    let http = http1::Builder::new().writev(false).to_owned();
    let graceful = GracefulShutdown::new();
    while let Some((stream, permit)) = accepted.recv().await {
        // Answers are small and written whole; waiting to merge them only adds delay.
        let stream = stream.set_nodelay(true).and_then(|()| TcpStream::from_std(stream));
        // It was closed meanwhile.
        let Ok(stream) = stream else { continue };
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
