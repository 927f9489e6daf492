//! Look-ups: where is a ball, what was placed in a range.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use berth_models::fleet::LeaseState;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::App;
use super::allocate::durable;
use super::extract::{PathOf, QueryOf, json, limit_of};
use super::problem::{Problem, kinds};
use crate::ledger::{Placement, PlacementQuery, PlacementState, RANGE_MAX};

/// A ball's placement. Times are UTC epoch milliseconds by the scheduler's clock.
#[derive(Debug, Serialize, ToSchema)]
pub struct PlacementView {
    /// Whose ball.
    pub tenant: String,
    /// The ball.
    pub ball_id: String,
    /// Where it went.
    pub box_id: String,
    /// The lease.
    pub lease_id: u64,
    /// What decided.
    pub strategy_id: String,
    /// How it stands.
    pub state: PlacementState,
    /// When it was decided.
    pub decided_at_ms: u64,
    /// When the lease ends without a heartbeat; known while the ball is remembered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_expires_at_ms: Option<u64>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<u64>,
}

impl PlacementView {
    fn new(app: &App, placement: Placement) -> Self {
        let clock = app.sequencer.clock();
        Self {
            tenant: placement.tenant,
            ball_id: placement.ball_id,
            box_id: placement.box_id,
            lease_id: placement.lease_id,
            strategy_id: placement.strategy_id,
            state: placement.state,
            decided_at_ms: clock.to_wall(placement.decided_at_ms),
            lease_expires_at_ms: None,
            ended_at_ms: placement.ended_at_ms.map(|at_ms| clock.to_wall(at_ms)),
        }
    }
}

fn state_of(state: LeaseState) -> PlacementState {
    match state {
        LeaseState::Live => PlacementState::Live,
        LeaseState::Completed { .. } => PlacementState::Completed,
        LeaseState::Released => PlacementState::Released,
        LeaseState::Expired => PlacementState::Expired,
    }
}

/// Where a ball is, or was last: from the fleet while it is remembered, else from the ledger.
#[utoipa::path(get, path = "/v1/balls/{tenant}/{ball_id}", tag = "balls",
    params(("tenant" = String, Path), ("ball_id" = String, Path)), responses(
    (status = 200, description = "Its last placement", body = PlacementView),
    (status = 404, description = "Never placed, or older than the retention", body = Problem)))]
pub async fn get(
    State(app): State<Arc<App>>,
    PathOf((tenant, ball_id)): PathOf<(String, String)>,
) -> Result<Response, Problem> {
    let (placed, ticket) = app.sequencer.find(&tenant, &ball_id)?;
    if let Some(placed) = placed {
        durable(ticket).await?;
        let clock = app.sequencer.clock();
        let view = PlacementView {
            tenant,
            ball_id,
            box_id: placed.spec.box_id.to_string(),
            lease_id: placed.lease_id,
            strategy_id: placed.decision.strategy_id.to_string(),
            state: state_of(placed.state),
            decided_at_ms: clock.to_wall(placed.decided_at_ms),
            lease_expires_at_ms: Some(clock.to_wall(placed.expires_at_ms)),
            ended_at_ms: placed.ended_at_ms.map(|at_ms| clock.to_wall(at_ms)),
        };
        return Ok(json(StatusCode::OK, &view));
    }
    let found = app.lookup.placements(PlacementQuery::of_ball(&tenant, &ball_id)).await?;
    let placement = found.into_iter().next().ok_or_else(|| {
        let detail = format!(
            "ball {ball_id:?} of tenant {tenant:?} was never placed, or longer ago than the log is kept"
        );
        Problem::new(kinds::UNKNOWN, detail)
    })?;
    Ok(json(StatusCode::OK, &PlacementView::new(&app, placement)))
}

/// Which placements to list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RangeQuery {
    /// Only this tenant's.
    pub tenant: Option<String>,
    /// First ball id, inclusive, in the order of bytes.
    pub from: Option<String>,
    /// Last ball id, inclusive.
    pub to: Option<String>,
    /// Only on this box.
    pub box_id: Option<String>,
    /// Most placements, up to 10,000; 100 when absent.
    pub limit: Option<usize>,
}

/// Placements of a range, newest first, from the ledger.
#[utoipa::path(get, path = "/v1/balls", tag = "balls", params(RangeQuery), responses(
    (status = 200, description = "The placements", body = Vec<PlacementView>)))]
pub async fn range(
    State(app): State<Arc<App>>,
    QueryOf(query): QueryOf<RangeQuery>,
) -> Result<Response, Problem> {
    let limit = limit_of(query.limit, 100, RANGE_MAX)?;
    let query =
        PlacementQuery { tenant: query.tenant, from: query.from, to: query.to, box_id: query.box_id, limit };
    let found = app.lookup.placements(query).await?;
    let views: Vec<_> = found.into_iter().map(|placement| PlacementView::new(&app, placement)).collect();
    Ok(json(StatusCode::OK, &views))
}
