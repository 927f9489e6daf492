//! What the end-to-end tests share: a real server on a free port, and a log driven again.

use std::sync::Arc;

use berth_models::engine::{Engine, Stamp};
use berth_models::event::{Event, EventKind};
use berth_models::fleet::Fleet;
use berth_models::forecast::ForecastModel;
use berth_scheduler::Server;
use berth_scheduler::cli::{Cli, Command};
use clap::Parser;
use serde_json::Value;

/// Start a real server on a free port of the loopback with further `arguments` of `serve`.
///
/// # Panics
/// When it does not start: the tests have nothing to test then.
pub async fn serve(arguments: &[&str]) -> Server {
    let all = ["berth-scheduler", "serve", "--listen", "127.0.0.1:0"].iter().chain(arguments);
    let Command::Serve(serve) = Cli::parse_from(all).command else {
        panic!("the arguments are those of `serve`");
    };
    let settings = serve.settings().expect("the settings are good");
    Server::start(settings).await.expect("the server starts")
}

/// A client of one server.
pub struct Client {
    http: reqwest::Client,
    address: String,
}

impl Client {
    /// A client of `server`.
    #[must_use]
    pub fn of(server: &Server) -> Self {
        Self { http: reqwest::Client::new(), address: format!("http://{}", server.address()) }
    }

    /// Send JSON; returns status and answer.
    ///
    /// # Panics
    /// When there is no answer.
    pub async fn send(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let method = reqwest::Method::from_bytes(method.as_bytes()).expect("a method");
        let mut request = self.http.request(method, format!("{}{path}", self.address));
        if !body.is_null() {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let response = request.send().await.expect("the server answers");
        let status = response.status().as_u16();
        let bytes = response.bytes().await.expect("a body");
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }
}

/// Take every request of a log again, on an engine that has never seen it, and return the events
/// this makes: equal to `events` byte for byte when deciding is the function it is said to be.
///
/// # Panics
/// When the engine refuses what the log says was carried out.
#[must_use]
pub fn drive_again(events: &[Event], first: Fleet, model: Option<&Arc<ForecastModel>>) -> Vec<Event> {
    let mut engine = Engine::new(first);
    let mut again: Vec<Event> = Vec::new();
    for event in events {
        if again.last().is_some_and(|last| last.seq >= event.seq) {
            // An expiry that came with a request before it in this loop.
            continue;
        }
        let stamp = Stamp { at_ms: event.at_ms, wall_ms: event.wall_ms };
        request(&mut engine, event, stamp, model, &mut again);
    }
    again
}

fn request(
    engine: &mut Engine,
    event: &Event,
    stamp: Stamp,
    model: Option<&Arc<ForecastModel>>,
    out: &mut Vec<Event>,
) {
    let owner = |engine: &Engine, lease_id: u64| {
        engine.fleet().leases().get(lease_id).expect("a lease of the log").decision.ball.key()
    };
    match event.kind.clone() {
        EventKind::Configured { config } => engine.configure(*config, stamp, out).expect("configured"),
        EventKind::Registered { spec } => {
            assert!(engine.register(*spec, stamp, out).expect("registered"));
        }
        EventKind::Drained { box_id } => engine.drain(&box_id, stamp, out).expect("drained"),
        EventKind::Reported { report } => {
            assert!(engine.report(*report, stamp, out).expect("reported").is_news);
        }
        EventKind::Decided { decision } => {
            engine.allocate(decision.ball.clone(), stamp, out).expect("allocated");
        }
        EventKind::Reverted { lease_id } => engine.revert(lease_id, stamp, out),
        EventKind::Renewed { lease_id, .. } => {
            engine.heartbeat(lease_id, owner(engine, lease_id), stamp, out).expect("renewed");
        }
        EventKind::Completed { lease_id, outcome } => {
            let owner = owner(engine, lease_id);
            engine.complete(lease_id, owner, outcome, stamp, out).expect("completed");
        }
        EventKind::Released { lease_id } => {
            engine.release(lease_id, owner(engine, lease_id), stamp, out).expect("released");
        }
        EventKind::Expired { .. } => engine.expire(stamp, out),
        EventKind::Activated { artifact_id } => {
            engine.activate(artifact_id.zip(model.cloned()), stamp, out);
        }
        EventKind::PolicyActivated { .. } => engine.activate_policy(None, stamp, out),
    }
}

/// Events as the log holds them, a line each.
///
/// # Panics
/// Never: events are JSON.
#[must_use]
pub fn lines(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| serde_json::to_string(event).expect("events are JSON")).collect()
}
