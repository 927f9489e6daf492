//! The description of the API, made from the handlers and the types.

use axum::http::StatusCode;
use axum::response::Response;
use utoipa::OpenApi;

use super::{admin, allocate, boxes, leases, metrics, placements};

/// The description of the API.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Berth scheduler",
        description = "Decides where work goes. Errors are problem documents (RFC 9457). \
        Where a token is set, every route but /healthz needs `Authorization: Bearer <token>`."
    ),
    paths(
        allocate::allocate,
        allocate::batch,
        allocate::explain,
        boxes::register,
        boxes::drain,
        boxes::report,
        boxes::report_batch,
        boxes::get,
        boxes::list,
        leases::heartbeat,
        leases::complete,
        leases::release,
        placements::get,
        placements::range,
        admin::config,
        admin::put_config,
        admin::patch_config,
        admin::rules_only,
        admin::activate,
        admin::strategies,
        admin::shadow,
        admin::healthz,
        admin::readyz,
        metrics::metrics,
        openapi,
    )
)]
pub struct Api;

/// This description.
#[utoipa::path(get, path = "/openapi.json", tag = "health", responses((status = 200, body = Object)))]
pub async fn openapi() -> Response {
    super::extract::json(StatusCode::OK, &Api::openapi())
}
