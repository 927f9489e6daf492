//! Leases over HTTP: heartbeat, completion, release.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use berth_models::domain::Outcome;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::App;
use super::allocate::durable;
use super::extract::{JsonBody, PathOf, json};
use super::problem::Problem;
use crate::sequencer::{Ended, Owner, state_name};

fn default_tenant() -> String {
    "default".to_owned()
}

/// A sign of life from the owner of a lease.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// The ball's tenant.
    #[serde(default = "default_tenant")]
    pub tenant: String,
    /// The ball the lease was granted to.
    pub ball_id: String,
}

/// The end of a ball's work.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Completion {
    /// The ball's tenant.
    #[serde(default = "default_tenant")]
    pub tenant: String,
    /// The ball the lease was granted to.
    pub ball_id: String,
    /// Whether the work succeeded.
    pub succeeded: bool,
    /// What the sender saw, in milliseconds.
    #[serde(default)]
    pub latency_ms: Option<u64>,
}

/// A place given back unused.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// The ball's tenant.
    #[serde(default = "default_tenant")]
    pub tenant: String,
    /// The ball the lease was granted to.
    pub ball_id: String,
}

/// How a lease stands. Times are UTC epoch milliseconds by the scheduler's clock.
#[derive(Debug, Serialize, ToSchema)]
pub struct LeaseAnswer {
    /// The lease.
    pub lease_id: u64,
    /// `live`, `completed` or `released`.
    pub state: &'static str,
    /// When it ends without a heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_expires_at_ms: Option<u64>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<u64>,
    /// Whether it had ended in this very way before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
}

impl LeaseAnswer {
    fn ended(app: &App, ended: &Ended) -> Self {
        Self {
            lease_id: ended.lease_id,
            state: state_name(ended.state),
            lease_expires_at_ms: None,
            ended_at_ms: Some(app.sequencer.clock().to_wall(ended.ended_at_ms)),
            repeated: ended.is_repeat,
        }
    }
}

/// Renew a lease; only its owner can, and only while it lasts.
#[utoipa::path(post, path = "/v1/leases/{lease_id}/heartbeat", tag = "leases",
    params(("lease_id" = u64, Path)), request_body = Heartbeat, responses(
    (status = 200, description = "Renewed", body = LeaseAnswer),
    (status = 403, description = "Another ball's lease", body = Problem),
    (status = 404, description = "No such lease", body = Problem),
    (status = 409, description = "The lease has ended", body = Problem)))]
pub async fn heartbeat(
    State(app): State<Arc<App>>,
    PathOf(lease_id): PathOf<u64>,
    JsonBody(body): JsonBody<Heartbeat>,
) -> Result<Response, Problem> {
    let owner = Owner { tenant: &body.tenant, ball_id: &body.ball_id };
    let (expires_at_ms, ticket) = app.sequencer.heartbeat(lease_id, owner)?;
    durable(ticket).await?;
    let answer = LeaseAnswer {
        lease_id,
        state: "live",
        lease_expires_at_ms: Some(app.sequencer.clock().to_wall(expires_at_ms)),
        ended_at_ms: None,
        repeated: false,
    };
    Ok(json(StatusCode::OK, &answer))
}

/// Complete a ball with its outcome; only its owner can.
#[utoipa::path(post, path = "/v1/leases/{lease_id}/complete", tag = "leases",
    params(("lease_id" = u64, Path)), request_body = Completion, responses(
    (status = 200, description = "Completed, now or before", body = LeaseAnswer),
    (status = 403, description = "Another ball's lease", body = Problem),
    (status = 404, description = "No such lease", body = Problem),
    (status = 409, description = "The lease has ended in another way", body = Problem)))]
pub async fn complete(
    State(app): State<Arc<App>>,
    PathOf(lease_id): PathOf<u64>,
    JsonBody(body): JsonBody<Completion>,
) -> Result<Response, Problem> {
    let owner = Owner { tenant: &body.tenant, ball_id: &body.ball_id };
    let outcome = Outcome { succeeded: body.succeeded, latency_ms: body.latency_ms };
    let (ended, ticket) = app.sequencer.complete(lease_id, owner, outcome)?;
    durable(ticket).await?;
    Ok(json(StatusCode::OK, &LeaseAnswer::ended(&app, &ended)))
}

/// Give a place back unused; only its owner can.
#[utoipa::path(post, path = "/v1/leases/{lease_id}/release", tag = "leases",
    params(("lease_id" = u64, Path)), request_body = Release, responses(
    (status = 200, description = "Released, now or before", body = LeaseAnswer),
    (status = 403, description = "Another ball's lease", body = Problem),
    (status = 404, description = "No such lease", body = Problem),
    (status = 409, description = "The lease has ended in another way", body = Problem)))]
pub async fn release(
    State(app): State<Arc<App>>,
    PathOf(lease_id): PathOf<u64>,
    JsonBody(body): JsonBody<Release>,
) -> Result<Response, Problem> {
    let owner = Owner { tenant: &body.tenant, ball_id: &body.ball_id };
    let (ended, ticket) = app.sequencer.release(lease_id, owner)?;
    durable(ticket).await?;
    Ok(json(StatusCode::OK, &LeaseAnswer::ended(&app, &ended)))
}
