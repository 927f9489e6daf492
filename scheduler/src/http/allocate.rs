//! Allocation over HTTP: one ball, a batch, and the dry run.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use berth_models::domain::Ball;
use berth_models::fleet::LeaseState;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::App;
use super::extract::{JsonBody, json, of_object, within};
use super::problem::{Problem, kinds};
use crate::ledger::CommitError;
use crate::sequencer::{Denied, Placed, state_name};

/// Most balls of one batch.
pub const BATCH_MAX: usize = 1_000;
/// Longest a request waits for durability; what it asked may still happen, and a retry tells.
pub const COMMIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Where a ball goes. Times are UTC epoch milliseconds by the scheduler's clock.
#[derive(Debug, Serialize, ToSchema)]
pub struct Allocation<'a> {
    /// Whose ball.
    pub tenant: &'a str,
    /// The ball.
    pub ball_id: &'a str,
    /// The box it goes to.
    pub box_id: &'a str,
    /// Where the box is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<&'a str>,
    /// The signed, expiring link straight to the box; absent when the lease has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// The lease; grows with every grant, and so is the fencing token.
    pub lease_id: u64,
    /// When the lease ends without a heartbeat.
    pub lease_expires_at_ms: u64,
    /// The strategy and version that decided.
    pub strategy_id: &'a str,
    /// Which way the ball went to it.
    pub route: &'static str,
    /// Probability with which the strategy chooses this box in this state.
    pub propensity: f64,
    /// The strategy's score of the box; lower is better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// Whether too few boxes were in order and old news counted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub panic: bool,
    /// How the lease stands, when this answer was given before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeated: Option<&'static str>,
}

impl<'a> Allocation<'a> {
    /// The answer for a placed ball.
    #[must_use]
    pub fn new(app: &App, placed: &'a Placed) -> Self {
        let decision = &*placed.decision;
        let (ball, spec) = (&*decision.ball, &*placed.spec);
        let expires_at_ms = app.sequencer.clock().to_wall(placed.expires_at_ms);
        let is_live = placed.state == LeaseState::Live;
        let sign = |endpoint| app.link_key.sign(endpoint, &spec.box_id, ball, placed.lease_id, expires_at_ms);
        Self {
            tenant: &ball.tenant,
            ball_id: &ball.ball_id,
            box_id: &spec.box_id,
            endpoint: spec.endpoint.as_deref(),
            link: spec.endpoint.as_deref().filter(|_| is_live).map(sign),
            lease_id: placed.lease_id,
            lease_expires_at_ms: expires_at_ms,
            strategy_id: &decision.strategy_id,
            route: decision.route.name(),
            propensity: decision.propensity,
            score: decision.candidates.first().map(|best| best.score),
            panic: decision.panic,
            repeated: placed.is_repeat.then(|| state_name(placed.state)),
        }
    }
}

fn too_late() -> Problem {
    let detail = format!(
        "not durable within {COMMIT_TIMEOUT:?}; send the same request again to learn what became of it"
    );
    Problem::new(kinds::NOT_READY, detail)
}

/// Wait for durability within [`COMMIT_TIMEOUT`].
pub(super) async fn durable(ticket: crate::ledger::Ticket) -> Result<(), Problem> {
    match within(COMMIT_TIMEOUT, ticket.wait()).await {
        Some(Ok(())) => Ok(()),
        Some(Err(error)) => Err(Denied::from(error).into()),
        None => Err(too_late()),
    }
}

/// Place a ball. The same ball again gets the same answer; with another body it is a conflict.
#[utoipa::path(post, path = "/v1/allocate", tag = "balls", request_body = Ball, responses(
    (status = 200, description = "Placed", body = Allocation),
    (status = 400, description = "A value is not allowed", body = Problem),
    (status = 409, description = "The ball is known with another body", body = Problem),
    (status = 429, description = "balls_max is reached", body = Problem),
    (status = 503, description = "No box can take it (with causes), or nothing can be recorded", body = Problem)))]
pub async fn allocate(
    State(app): State<Arc<App>>,
    JsonBody(ball): JsonBody<Ball>,
) -> Result<Response, Problem> {
    let ball = Arc::new(ball);
    let placed = within(COMMIT_TIMEOUT, app.sequencer.allocate(&ball)).await.ok_or_else(too_late)??;
    Ok(json(StatusCode::OK, &Allocation::new(&app, &placed)))
}

/// Balls to place, each for itself.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// The balls, at most 1,000; each is read for itself, so one that is malformed harms no other.
    #[schema(value_type = Vec<Ball>)]
    pub balls: Vec<Value>,
}

/// The answers, in the order of the balls: an allocation, or an object with `problem`.
#[derive(Debug, Serialize, ToSchema)]
pub struct BatchAnswer {
    /// One a ball.
    #[schema(value_type = Vec<Object>)]
    pub results: Vec<Value>,
}

/// Place many balls; each succeeds or fails for itself.
#[utoipa::path(post, path = "/v1/allocate/batch", tag = "balls", request_body = Batch, responses(
    (status = 200, description = "One result a ball", body = BatchAnswer),
    (status = 413, description = "Too many balls", body = Problem)))]
pub async fn batch(
    State(app): State<Arc<App>>,
    JsonBody(batch): JsonBody<Batch>,
) -> Result<Response, Problem> {
    if batch.balls.len() > BATCH_MAX {
        let detail = format!(
            "{} balls in one batch; at most {BATCH_MAX} are allowed: send several",
            batch.balls.len()
        );
        return Err(Problem::new(kinds::TOO_LARGE, detail));
    }
    // All are decided before any is waited for, so they share commits.
    let begun: Vec<_> = batch.balls.into_iter().map(|value| begin(&app, value)).collect();
    let deadline = tokio::time::Instant::now() + COMMIT_TIMEOUT;
    let mut results = Vec::with_capacity(begun.len());
    for begun in begun {
        let result = match begun {
            Err(problem) => Err(problem),
            Ok((ball, placed, ticket)) => match tokio::time::timeout_at(deadline, ticket.wait()).await {
                Ok(Ok(())) => Ok(placed),
                Ok(Err(CommitError::Refused(_))) => {
                    app.sequencer.allocate(&ball).await.map_err(Problem::from)
                }
                Ok(Err(error)) => Err(Denied::from(error).into()),
                Err(_) => Err(too_late()),
            },
        };
        let value = match &result {
            Ok(placed) => serde_json::to_value(Allocation::new(&app, placed)),
            Err(problem) => {
                serde_json::to_value(problem).map(|problem| serde_json::json!({ "problem": problem }))
            }
        };
        results.push(value.map_err(|error| Problem::new(kinds::INTERNAL, error))?);
    }
    Ok(json(StatusCode::OK, &BatchAnswer { results }))
}

fn begin(app: &App, value: Value) -> Result<(Arc<Ball>, Placed, crate::ledger::Ticket), Problem> {
    let ball: Ball = of_object(value)?;
    ball.check()?;
    let ball = Arc::new(ball);
    let (placed, ticket) = app.sequencer.allocate_in_turn(&ball)?;
    Ok((ball, placed, ticket))
}

/// What would happen to a ball: every box with its load, or the reason why it would not take it.
#[utoipa::path(post, path = "/v1/explain", tag = "balls", request_body = Ball, responses(
    (status = 200, description = "The decision that would be taken, and every box", body = Object)))]
pub async fn explain(
    State(app): State<Arc<App>>,
    JsonBody(ball): JsonBody<Ball>,
) -> Result<Response, Problem> {
    ball.check()?;
    let explanation = app.sequencer.explain(&Arc::new(ball))?;
    Ok(json(StatusCode::OK, &explanation))
}
