//! The load: prebuilt requests over kept connections, as little work a request as possible, so that
//! two cores measure the server rather than its client.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Connections of the open loop.
const OPEN_CONNECTIONS: usize = 32;
/// Largest answer.
const ANSWER_BYTES: usize = 4_096;

/// A request, ready to be written.
pub type Request = Vec<u8>;

/// The request that places ball `ball_id`.
pub fn allocate(ball_id: &str) -> Request {
    let body = format!(
        "{{\"tenant\":\"bench\",\"ball_id\":\"{ball_id}\",\"class\":\"normal\",\"demand\":{{\"cpu_cores\":0.01,\
         \"memory_bytes\":1048576,\"slots\":1}},\"expected_residence_ms\":45000}}"
    );
    post("/v1/allocate", &body)
}

/// The request that completes ball `ball_id` under `lease_id`.
pub fn complete(ball_id: &str, lease_id: u64) -> Request {
    let body =
        format!("{{\"tenant\":\"bench\",\"ball_id\":\"{ball_id}\",\"succeeded\":true,\"latency_ms\":7}}");
    post(&format!("/v1/leases/{lease_id}/complete"), &body)
}

fn post(path: &str, body: &str) -> Request {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// The lease id in an answer that must be a success.
fn lease_id(answer: &[u8]) -> u64 {
    const FIELD: &[u8] = b"\"lease_id\":";
    let text = || String::from_utf8_lossy(answer);
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", text());
    let start = answer
        .windows(FIELD.len())
        .rposition(|window| window == FIELD)
        .unwrap_or_else(|| panic!("{}", text()));
    let digits = answer[start + FIELD.len()..].iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}

/// Whether `answer` holds a whole answer: its head and as many bytes as that says.
fn is_whole(answer: &[u8]) -> bool {
    let Some(head) = answer.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
    let text = std::str::from_utf8(&answer[..head]).expect("a head of text");
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
    answer.len() >= head + 4 + length.and_then(|length| length.parse::<usize>().ok()).expect("a length")
}

/// Send all requests over `connections`, each as soon as the answer before it is there; returns the
/// seconds that took and the lease ids in the order of the requests.
pub fn closed(address: SocketAddr, connections: usize, requests: Vec<Request>) -> (f64, Vec<u64>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let requests = Arc::new(requests);
    runtime.block_on(async {
        let mut streams = Vec::new();
        for _ in 0..connections {
            let stream = tokio::net::TcpStream::connect(address).await.expect("connects");
            stream.set_nodelay(true).expect("a socket option");
            streams.push(stream);
        }
        let started = Instant::now();
        let tasks: Vec<_> = streams
            .into_iter()
            .enumerate()
            .map(|(first, stream)| tokio::spawn(each(stream, requests.clone(), first, connections)))
            .collect();
        let mut leases = vec![0; requests.len()];
        for (first, task) in tasks.into_iter().enumerate() {
            for (turn, lease) in task.await.expect("finishes").into_iter().enumerate() {
                leases[first + turn * connections] = lease;
            }
        }
        (started.elapsed().as_secs_f64(), leases)
    })
}

/// Send every `step`-th request from `first` on.
async fn each(
    mut stream: tokio::net::TcpStream,
    requests: Arc<Vec<Request>>,
    first: usize,
    step: usize,
) -> Vec<u64> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut leases = Vec::new();
    let mut answer = [0; ANSWER_BYTES];
    for request in requests.iter().skip(first).step_by(step) {
        stream.write_all(request).await.expect("writes");
        let mut length = 0;
        while length == 0 || !is_whole(&answer[..length]) {
            let read = stream.read(&mut answer[length..]).await.expect("reads");
            assert!(read > 0, "the server hung up");
            length += read;
        }
        leases.push(lease_id(&answer[..length]));
    }
    leases
}

/// What an open loop saw, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Open {
    /// Median from the scheduled moment to the answer.
    pub p50_ms: f64,
    /// 99th percentile of it.
    pub p99_ms: f64,
    /// 99th percentile of how late requests were sent.
    pub late_ms_p99: f64,
}

struct Connection {
    stream: TcpStream,
    /// Index and scheduled moment of the request under way.
    busy: Option<(usize, Duration)>,
    answer: Vec<u8>,
}

/// Send requests at their scheduled moments, whatever the server does; one thread that never sleeps.
pub fn open(address: SocketAddr, requests: &[Request], at: &[Duration]) -> (Open, Vec<u64>) {
    let mut connections: Vec<Connection> = (0..OPEN_CONNECTIONS)
        .map(|_| {
            let stream = TcpStream::connect(address).expect("connects");
            stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true)).expect("socket options");
            Connection { stream, busy: None, answer: Vec::with_capacity(ANSWER_BYTES) }
        })
        .collect();
    let (mut leases, mut taken, mut late) = (vec![0; requests.len()], Vec::new(), Vec::new());
    let (mut next, started) = (0, Instant::now());
    while taken.len() < requests.len() {
        for connection in &mut connections {
            if let Some((index, due)) = connection.busy {
                if let Some(lease) = connection.poll() {
                    leases[index] = lease;
                    taken.push((started.elapsed() - due).as_secs_f64() * 1e3);
                }
            } else if next < requests.len() && started.elapsed() >= at[next] {
                late.push((started.elapsed() - at[next]).as_secs_f64() * 1e3);
                connection.stream.write_all(&requests[next]).expect("writes");
                connection.busy = Some((next, at[next]));
                next += 1;
            }
        }
    }
    let open = Open {
        p50_ms: quantile(&mut taken, 0.5),
        p99_ms: quantile(&mut taken, 0.99),
        late_ms_p99: quantile(&mut late, 0.99),
    };
    (open, leases)
}

impl Connection {
    fn poll(&mut self) -> Option<u64> {
        let mut bytes = [0; ANSWER_BYTES];
        match self.stream.read(&mut bytes) {
            Ok(0) => panic!("the server hung up"),
            Ok(length) => self.answer.extend_from_slice(&bytes[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
            Err(error) => panic!("{error}"),
        }
        if !is_whole(&self.answer) {
            return None;
        }
        let lease = lease_id(&self.answer);
        self.answer.clear();
        self.busy = None;
        Some(lease)
    }
}

/// The value below which `share` of the values lie; sorts them.
pub fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let index = (values.len() as f64 * share) as usize;
    values.get(index.min(values.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}
