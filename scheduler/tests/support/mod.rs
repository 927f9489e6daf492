//! What the tests share: a server in this process, the real binary, and a small blocking client.

#![allow(dead_code, missing_docs, clippy::unwrap_used, reason = "each test uses a part of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use berth_scheduler::{Server, Settings, StartError};
use serde_json::{Map, Value, json};

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub text: String,
    pub body: Value,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let line = self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then_some(value)
        });
        line.map(str::trim)
    }

    /// The body of an answer that must be a success.
    #[track_caller]
    pub fn ok(self) -> Value {
        assert!(self.status < 300, "{} {}", self.status, self.text);
        self.body
    }

    /// The body of an answer that must be a problem of this status and kind.
    #[track_caller]
    pub fn problem(self, status: u16, kind: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(self.body["type"], format!("urn:berth:problem:{kind}"));
        assert_eq!(self.body["status"], status);
        assert!(self.body["title"].is_string() && self.body["detail"].is_string());
        self.body
    }
}

/// A client of one server.
#[derive(Debug, Clone, Copy)]
pub struct Api(pub SocketAddr);

impl Api {
    /// Send a request; `Err` when the connection breaks.
    pub fn try_send(&self, method: &str, path: &str, body: &str, header: &str) -> std::io::Result<Answer> {
        let mut stream = TcpStream::connect(self.0)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: test\r\n{header}connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes())?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let (head, text) = text.split_once("\r\n\r\n").ok_or(std::io::ErrorKind::UnexpectedEof)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or(std::io::ErrorKind::InvalidData)?;
        let body = serde_json::from_str(text).unwrap_or(Value::Null);
        Ok(Answer { status, head: head.to_owned(), text: text.to_owned(), body })
    }

    pub fn send(&self, method: &str, path: &str, body: Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.try_send(method, path, &body, "").unwrap()
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, Value::Null)
    }

    pub fn post(&self, path: &str, body: Value) -> Answer {
        self.send("POST", path, body)
    }

    /// Register a mature box with `slots`.
    pub fn add_box(&self, box_id: &str, slots: u64) {
        let endpoint = format!("http://{box_id}/");
        let body = json!({ "capacity": { "slots": slots }, "stage": "mature", "endpoint": endpoint });
        self.send("PUT", &format!("/v1/boxes/{box_id}"), body).ok();
    }

    pub fn allocate(&self, ball_id: &str) -> Answer {
        self.post("/v1/allocate", json!({ "ball_id": ball_id }))
    }
}

/// A server in this process.
pub struct Running {
    runtime: tokio::runtime::Runtime,
    server: Option<Server>,
    pub api: Api,
}

/// Settings for tests: a free port, a fixed seed, rules that need no model, and `config` over them.
pub fn settings(config: Value) -> Settings {
    let mut fields = Map::new();
    fields.insert("primary".to_owned(), json!("least_loaded"));
    fields.insert("critical_headroom".to_owned(), json!(0.0));
    if let Value::Object(more) = config {
        fields.extend(more);
    }
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    Settings { listen, config: fields, seed: Some(7), ..Settings::default() }
}

impl Running {
    pub fn start(settings: Settings) -> Self {
        Self::try_start(settings).unwrap()
    }

    pub fn try_start(settings: Settings) -> Result<Self, StartError> {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
        let server = runtime.block_on(Server::start(settings))?;
        let api = Api(server.address());
        Ok(Self { runtime, server: Some(server), api })
    }

    pub fn sequencer(&self) -> Arc<berth_scheduler::sequencer::Sequencer> {
        self.server.as_ref().unwrap().sequencer().clone()
    }

    pub fn stop(self) {
        self.try_stop().unwrap();
    }

    pub fn try_stop(mut self) -> Result<(), berth_scheduler::ledger::CommitError> {
        let server = self.server.take().unwrap();
        self.runtime.block_on(server.stop())
    }
}

/// The real binary.
pub struct Binary {
    pub child: Child,
    pub api: Api,
}

impl Binary {
    /// Start `serve` with `arguments` on a free port, and wait for its address.
    pub fn serve(arguments: &[&str]) -> Self {
        let mut child = command(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").expect("the line with the address");
        Self { api: Api(address.parse().unwrap()), child }
    }

    /// Stop it as an operator would, and return its exit code.
    pub fn terminate(mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        self.child.wait().unwrap().code()
    }

    /// End it at once: `kill -9`.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Binary {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth-scheduler"));
    command.arg("serve");
    if !arguments.contains(&"--listen") {
        command.args(["--listen", "127.0.0.1:0"]);
    }
    command.args(arguments);
    command
}

/// Try until `check` is true; the bound ends a broken run and is never waited for otherwise.
#[track_caller]
pub fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if check() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never: {what}");
}

/// Write a small artifact to `folder`, whose weights depend on `seed`; returns its id.
pub fn write_artifact(folder: &std::path::Path, seed: f32) -> String {
    use berth_models::artifact::{Bundle, Probe, Training};
    use berth_models::forecast::ensemble::{Ensemble, NodeSpec};
    use berth_models::forecast::{FEATURE_COUNT, ForecastModel, HORIZON_COUNT, HORIZONS_MS, QUANTILE_COUNT};

    let horizon = HORIZON_COUNT - 1;
    let mut ensemble =
        Ensemble::new(FEATURE_COUNT, vec![seed, seed + 0.5, seed + 1.0], QUANTILE_COUNT).unwrap();
    ensemble.push_tree(0, &[NodeSpec::Leaf(vec![seed, 0.0, 0.0])]).unwrap();
    let mut ensembles = [const { None }; HORIZON_COUNT];
    ensembles[horizon] = Some(ensemble);
    let model = ForecastModel::new(ensembles).unwrap();
    let features = [0.5; FEATURE_COUNT];
    let outputs = model.outputs(horizon, &features).unwrap();
    let probes = vec![Probe::new(HORIZONS_MS[horizon], &features, &outputs)];
    let bundle = Bundle::new(model, probes, Training::default()).unwrap();
    std::fs::create_dir_all(folder).unwrap();
    for (name, bytes) in bundle.to_files() {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
    bundle.manifest().strategy_id.clone()
}
