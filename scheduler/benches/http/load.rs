//! The load: prebuilt requests over kept connections, as little work a request as possible, so that
//! two cores measure the server rather than its client.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
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
///
/// One thread that never sleeps: a server that had to wake its client would be charged for that, and
/// the slower of two servers would be charged more often.
pub fn closed(address: SocketAddr, connections: usize, requests: &[Request]) -> (f64, Vec<u64>) {
    let mut connections: Vec<Connection> = (0..connections).map(|_| Connection::open(address)).collect();
    let mut leases = vec![0; requests.len()];
    let (mut next, mut answered) = (0, 0);
    let started = Instant::now();
    while answered < requests.len() {
        for connection in &mut connections {
            if let Some(index) = connection.busy
                && let Some(lease) = connection.poll()
            {
                leases[index] = lease;
                answered += 1;
            }
            if connection.busy.is_none() && next < requests.len() {
                connection.stream.write_all(&requests[next]).expect("writes");
                connection.busy = Some(next);
                next += 1;
            }
        }
    }
    (started.elapsed().as_secs_f64(), leases)
}

/// A kept connection that is looked at without waiting.
struct Connection {
    stream: TcpStream,
    /// Index of the request under way.
    busy: Option<usize>,
    answer: [u8; ANSWER_BYTES],
    length: usize,
}

impl Connection {
    fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("connects");
        stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true)).expect("socket options");
        Self { stream, busy: None, answer: [0; ANSWER_BYTES], length: 0 }
    }

    /// The lease id of the answer, once it is whole.
    fn poll(&mut self) -> Option<u64> {
        match self.stream.read(&mut self.answer[self.length..]) {
            Ok(0) => panic!("the server hung up"),
            Ok(length) => self.length += length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
            Err(error) => panic!("{error}"),
        }
        if !is_whole(&self.answer[..self.length]) {
            return None;
        }
        let lease = lease_id(&self.answer[..self.length]);
        (self.busy, self.length) = (None, 0);
        Some(lease)
    }
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

/// Send requests at their scheduled moments, whatever the server does. One thread that never sleeps, so
/// that requests leave on time; one that finds all connections busy waits, and its time counts from when
/// it was due.
pub fn open(address: SocketAddr, requests: &[Request], at: &[Duration]) -> (Open, Vec<u64>) {
    let mut connections: Vec<_> = (0..OPEN_CONNECTIONS).map(|_| Connection::open(address)).collect();
    let mut free: Vec<usize> = (0..connections.len()).collect();
    let mut busy = Vec::with_capacity(connections.len());
    let (mut leases, mut taken, mut late) = (vec![0; requests.len()], Vec::new(), Vec::new());
    let started = Instant::now();
    let since_ms = |due: Duration| started.elapsed().saturating_sub(due).as_secs_f64() * 1e3;
    let mut next = 0;
    while taken.len() < requests.len() {
        while next < requests.len()
            && at[next] <= started.elapsed()
            && let Some(connection) = free.pop()
        {
            late.push(since_ms(at[next]));
            connections[connection].stream.write_all(&requests[next]).expect("writes");
            connections[connection].busy = Some(next);
            busy.push(connection);
            next += 1;
        }
        busy.retain(|connection| {
            let index = connections[*connection].busy.expect("a request under way");
            let Some(lease) = connections[*connection].poll() else { return true };
            leases[index] = lease;
            taken.push(since_ms(at[index]));
            free.push(*connection);
            false
        });
    }
    let (p50_ms, p99_ms) = (quantile(&mut taken, 0.5), quantile(&mut taken, 0.99));
    (Open { p50_ms, p99_ms, late_ms_p99: quantile(&mut late, 0.99) }, leases)
}

/// The value below which `share` of the values lie; sorts them.
pub fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let index = (values.len() as f64 * share) as usize;
    values.get(index.min(values.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}
