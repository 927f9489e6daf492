//! What operators use: configuration, kill switch, artifacts, strategies, shadow, health.

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use berth_models::config::FleetConfig;
use berth_models::domain::Invalid;
use berth_models::strategy::StrategyName;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::App;
use super::allocate::durable;
use super::extract::{JsonBody, json};
use super::fields::Fields;
use super::problem::{Problem, kinds};
use crate::artifact::{Artifact, Policy};
use crate::ledger::Durability;
use crate::sequencer::Denied;
use crate::server;
use crate::shadow::ShadowSummary;

/// The configuration in force.
#[utoipa::path(get, path = "/v1/config", tag = "control", responses((status = 200, body = FleetConfig)))]
pub async fn config(State(app): State<Arc<App>>) -> Response {
    json(StatusCode::OK, &app.sequencer.config())
}

/// Replace the configuration: fields left out take their defaults. The version goes up by one; a `version` in the
/// body must be the one in force, so that no change is lost. The seed stays.
#[utoipa::path(put, path = "/v1/config", tag = "control", request_body = FleetConfig, responses(
    (status = 200, description = "The configuration in force", body = FleetConfig),
    (status = 400, description = "A value is not allowed", body = Problem),
    (status = 409, description = "The version has moved on", body = Problem)))]
pub async fn put_config(
    State(app): State<Arc<App>>,
    JsonBody(Fields(body)): JsonBody<Fields>,
) -> Result<Response, Problem> {
    change_config(&app, body, false).await
}

/// Change some fields of the configuration; the others stay. Otherwise as PUT.
#[utoipa::path(patch, path = "/v1/config", tag = "control", request_body = Object, responses(
    (status = 200, description = "The configuration in force", body = FleetConfig),
    (status = 400, description = "A value is not allowed", body = Problem),
    (status = 409, description = "The version has moved on", body = Problem)))]
pub async fn patch_config(
    State(app): State<Arc<App>>,
    JsonBody(Fields(body)): JsonBody<Fields>,
) -> Result<Response, Problem> {
    change_config(&app, body, true).await
}

async fn change_config(app: &App, body: Map<String, Value>, keeps_others: bool) -> Result<Response, Problem> {
    // Read it once before the turn, so that malformed JSON is told from a value not allowed.
    merge(&FleetConfig::default(), body.clone()).map_err(|error| Problem::malformed(&error))?;
    let (config, ticket) = app.sequencer.configure(|current| {
        let base = if keeps_others {
            current.clone()
        } else {
            FleetConfig { version: current.version, seed: current.seed, ..FleetConfig::default() }
        };
        let seed = body.get("seed").cloned();
        let config = merge(&base, body)
            .map_err(|error| Invalid::new("config", error, "the fields of GET /v1/config"))?;
        if seed.is_some() && config.seed != current.seed {
            let allowed = format!("{}, the one of the first start", current.seed);
            return Err(Invalid::new("seed", config.seed, allowed).into());
        }
        if config.version != current.version {
            return Err(Denied::Version { have: current.version, given: config.version });
        }
        Ok(config)
    })?;
    durable(ticket).await?;
    Ok(json(StatusCode::OK, &config))
}

/// `base` with the fields of `changes`.
///
/// # Errors
/// A field there is not, or of another type.
pub fn merge(base: &FleetConfig, changes: Map<String, Value>) -> Result<FleetConfig, serde_json::Error> {
    let mut value = serde_json::to_value(base)?;
    if let Value::Object(fields) = &mut value {
        fields.extend(changes);
    }
    serde_json::from_value(value)
}

/// The kill switch.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RulesOnly {
    /// Whether everything is decided by the rule from now on.
    pub on: bool,
}

/// Turn the kill switch: the very next decision follows it.
#[utoipa::path(post, path = "/v1/rules-only", tag = "control", request_body = RulesOnly, responses(
    (status = 200, description = "The configuration in force", body = FleetConfig)))]
pub async fn rules_only(
    State(app): State<Arc<App>>,
    JsonBody(body): JsonBody<RulesOnly>,
) -> Result<Response, Problem> {
    let change = |current: &FleetConfig| Ok(FleetConfig { rules_only: body.on, ..current.clone() });
    let (config, ticket) = app.sequencer.configure(change)?;
    durable(ticket).await?;
    Ok(json(StatusCode::OK, &config))
}

/// Which artifact to serve.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Activate {
    /// Folder of the bundle on the scheduler's machine; `null`: none is active. To leave it out is no way to say so.
    #[schema(value_type = Option<String>, required = true)]
    #[serde(deserialize_with = "Option::deserialize")]
    pub path: Option<PathBuf>,
}

/// The active artifact.
#[derive(Debug, Serialize, ToSchema)]
pub struct Active {
    /// Its id; absent: none is active.
    pub artifact_id: Option<Arc<str>>,
}

/// Load, verify and activate an artifact; decisions go on while it loads, and none fails.
#[utoipa::path(post, path = "/v1/artifacts/activate", tag = "control", request_body = Activate, responses(
    (status = 200, description = "Active", body = Active),
    (status = 422, description = "The bundle is refused, with the reason", body = Problem)))]
pub async fn activate(
    State(app): State<Arc<App>>,
    JsonBody(body): JsonBody<Activate>,
) -> Result<Response, Problem> {
    let artifact = match body.path {
        None => None,
        Some(path) => {
            let read = tokio::task::spawn_blocking(move || Artifact::read(&path)).await;
            let read = read.map_err(|error| Problem::new(kinds::INTERNAL, error))?;
            Some(read.map_err(|error| Problem::new(kinds::ARTIFACT, error))?)
        }
    };
    let artifact_id = artifact.as_ref().map(|artifact| artifact.artifact_id.clone());
    let sequencer = app.sequencer.clone();
    let activated =
        tokio::task::spawn_blocking(move || server::activate_artifact(&sequencer, artifact)).await;
    let ticket = activated.map_err(|error| Problem::new(kinds::INTERNAL, error))??;
    durable(ticket).await?;
    Ok(json(StatusCode::OK, &Active { artifact_id }))
}

/// The active placement policy.
#[derive(Debug, Serialize, ToSchema)]
pub struct ActivePolicy {
    /// Its id; absent: none is active.
    pub policy_id: Option<Arc<str>>,
}

/// Load, verify and activate a placement policy, as an artifact is; `learned` decides by it.
#[utoipa::path(post, path = "/v1/policies/activate", tag = "control", request_body = Activate, responses(
    (status = 200, description = "Active", body = ActivePolicy),
    (status = 422, description = "The bundle is refused, with the reason", body = Problem)))]
pub async fn activate_policy(
    State(app): State<Arc<App>>,
    JsonBody(body): JsonBody<Activate>,
) -> Result<Response, Problem> {
    let sequencer = app.sequencer.clone();
    let load = move || {
        let policy = body.path.as_deref().map(Policy::read).transpose();
        let policy = policy.map_err(|error| Problem::new(kinds::ARTIFACT, error))?;
        let policy_id = policy.as_ref().map(|policy| policy.policy_id.clone());
        Ok::<_, Problem>((policy_id, server::activate_policy(&sequencer, policy)?))
    };
    let activated = tokio::task::spawn_blocking(load).await;
    let (policy_id, ticket) = activated.map_err(|error| Problem::new(kinds::INTERNAL, error))??;
    durable(ticket).await?;
    Ok(json(StatusCode::OK, &ActivePolicy { policy_id }))
}

/// A strategy.
#[derive(Debug, Serialize, ToSchema)]
pub struct StrategyView {
    /// Its name.
    #[schema(value_type = String)]
    pub name: StrategyName,
    /// What its decisions carry at present.
    pub strategy_id: String,
    /// What it looks at.
    pub sees: &'static str,
    /// Whether it is nothing without a forecast model.
    pub needs_model: bool,
    /// Whether it is nothing without a placement policy.
    pub needs_policy: bool,
    /// `primary`, `rule`, `candidate`: what it is used for at present.
    pub used_as: Vec<&'static str>,
}

/// The strategies there are.
#[utoipa::path(get, path = "/v1/strategies", tag = "control", responses((status = 200, body = Vec<StrategyView>)))]
pub async fn strategies(State(app): State<Arc<App>>) -> Response {
    let views: Vec<_> = app.sequencer.look(|fleet| {
        let config = fleet.config();
        let view = |name: StrategyName| {
            let uses = [
                (config.primary == name, "primary"),
                (config.rule == name, "rule"),
                (config.candidate == Some(name), "candidate"),
                (name == StrategyName::CriticalRule, "critical"),
            ];
            StrategyView {
                name,
                strategy_id: fleet.strategy_id(name).to_string(),
                sees: name.sees(),
                needs_model: name.needs_model(),
                needs_policy: name.needs_policy(),
                used_as: uses.into_iter().filter_map(|(is_used, name)| is_used.then_some(name)).collect(),
            }
        };
        StrategyName::ALL.into_iter().map(view).collect()
    });
    json(StatusCode::OK, &views)
}

/// What the candidate in shadow would have done.
#[utoipa::path(get, path = "/v1/shadow", tag = "control", responses(
    (status = 200, body = ShadowSummary), (status = 404, description = "No candidate was set", body = Problem)))]
pub async fn shadow(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let summary = app.sequencer.shadow().summary().ok_or_else(|| {
        let detail = "no candidate is set; set one with PATCH /v1/config {\"candidate\": \"least_loaded\"}";
        Problem::new(kinds::UNKNOWN, detail)
    })?;
    Ok(json(StatusCode::OK, &summary))
}

/// Whether the process lives and a restart would not help.
#[utoipa::path(get, path = "/healthz", tag = "health", responses(
    (status = 200, body = Object), (status = 503, description = "Only a restart helps", body = Problem)))]
pub async fn healthz(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    // It is open to all, so the reason is left to /readyz.
    if app.sequencer.failure().is_some() {
        let detail =
            "nothing can be recorded any more; restart to recover from the log, the reason is in /readyz";
        return Err(Problem::new(kinds::NOT_READY, detail));
    }
    Ok(json(StatusCode::OK, &serde_json::json!({ "status": "alive" })))
}

/// Whether the scheduler serves, and how.
#[derive(Debug, Serialize, ToSchema)]
pub struct Readiness {
    /// Whether it does.
    pub ready: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The store.
    pub store: String,
    /// What an acknowledgement promises; absent: with the store in memory nothing survives the process.
    pub durability: Option<Durability>,
    /// Seq of the last event.
    pub seq: u64,
    /// Seq of the last snapshot.
    pub snapshot_seq: u64,
    /// Engine time now, in milliseconds.
    pub at_ms: u64,
    /// Wall time at that very moment, in UTC epoch milliseconds by the scheduler's clock.
    pub wall_ms: u64,
    /// Engine milliseconds in a wall millisecond.
    pub time_scale: f64,
    /// Version of the configuration.
    pub config_version: u64,
    /// Whether the kill switch is on.
    pub rules_only: bool,
    /// The active artifact.
    pub artifact_id: Option<Arc<str>>,
    /// Whether its model is there; without it the rule decides.
    pub has_model: bool,
    /// The active placement policy.
    pub policy_id: Option<Arc<str>>,
    /// Whether it is there; without it the rule decides.
    pub has_policy: bool,
    /// Mean weight of the model in the forecasts in use, 0 to 1; absent: no forecast yet.
    pub model_weight: Option<f64>,
    /// Whether the forecasts have lost their skill, so that the rule decides.
    pub skill_lost: bool,
    /// Whether too few boxes are in order, so that old news counts.
    pub panic: bool,
    /// Boxes.
    pub boxes: usize,
    /// Live leases.
    pub live_leases: usize,
}

/// Whether it serves, and how: durability, store, artifact, skill, panic.
#[utoipa::path(get, path = "/readyz", tag = "health", responses(
    (status = 200, body = Readiness), (status = 503, description = "Not ready, with the reason", body = Readiness)))]
pub async fn readyz(State(app): State<Arc<App>>) -> Response {
    let reason = app.sequencer.failure().map(str::to_owned);
    let clock = app.sequencer.clock();
    let readiness = app.sequencer.look(|fleet| Readiness {
        ready: reason.is_none(),
        reason,
        store: app.store.clone(),
        durability: app.durability,
        seq: fleet.seq(),
        snapshot_seq: app.snapshot_seq.load(std::sync::atomic::Ordering::Relaxed),
        at_ms: fleet.at_ms(),
        wall_ms: clock.to_wall(fleet.at_ms()),
        time_scale: clock.scale(),
        config_version: fleet.config().version,
        rules_only: fleet.config().rules_only,
        artifact_id: fleet.artifact_id().cloned(),
        has_model: fleet.model().is_some(),
        policy_id: fleet.policy_id().cloned(),
        has_policy: fleet.policy().is_some(),
        model_weight: fleet.model_weight(),
        skill_lost: fleet.model().is_some() && fleet.has_lost_skill(),
        panic: fleet.is_panicking(),
        boxes: fleet.boxes().len(),
        live_leases: fleet.leases().live_count(),
    });
    let status = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    json(status, &readiness)
}
