//! The routes, the token and the limits.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};

use super::problem::{Problem, kinds};
use super::{App, admin, allocate, boxes, leases, metrics, openapi, placements};

/// All routes over `app`; with a `token` everything but `/healthz` needs it.
pub fn router(app: Arc<App>, token: Option<Arc<str>>) -> Router {
    let router = Router::new()
        .route("/v1/allocate", post(allocate::allocate))
        .route("/v1/allocate/batch", post(allocate::batch))
        .route("/v1/explain", post(allocate::explain))
        .route("/v1/boxes", get(boxes::list))
        .route("/v1/boxes/{box_id}", put(boxes::register).get(boxes::get))
        .route("/v1/boxes/{box_id}/drain", post(boxes::drain))
        .route("/v1/boxes/{box_id}/report", post(boxes::report))
        .route("/v1/boxes/{box_id}/report/batch", post(boxes::report_batch))
        .route("/v1/balls", get(placements::range))
        .route("/v1/balls/{tenant}/{ball_id}", get(placements::get))
        .route("/v1/leases/{lease_id}/heartbeat", post(leases::heartbeat))
        .route("/v1/leases/{lease_id}/complete", post(leases::complete))
        .route("/v1/leases/{lease_id}/release", post(leases::release))
        .route("/v1/strategies", get(admin::strategies))
        .route("/v1/shadow", get(admin::shadow))
        .route("/v1/config", get(admin::config).put(admin::put_config).patch(admin::patch_config))
        .route("/v1/rules-only", post(admin::rules_only))
        .route("/v1/artifacts/activate", post(admin::activate))
        .route("/v1/policies/activate", post(admin::activate_policy))
        .route("/metrics", get(metrics::metrics))
        .route("/readyz", get(admin::readyz))
        .route("/openapi.json", get(openapi::openapi))
        .method_not_allowed_fallback(wrong_method)
        .fallback(nothing_here)
        .with_state(app.clone());
    let router = match token {
        Some(token) => router.layer(from_fn_with_state(token, authorised)),
        None => router,
    };
    let alive = get(admin::healthz).with_state(app);
    router.route("/healthz", alive)
}

async fn nothing_here(uri: Uri) -> Problem {
    Problem::new(kinds::UNKNOWN, format!("{} is no route; see /openapi.json", uri.path()))
}

async fn wrong_method(method: Method, uri: Uri) -> Problem {
    Problem::new(kinds::METHOD, format!("{} does not take {method}; see /openapi.json", uri.path()))
}

async fn authorised(State(token): State<Arc<str>>, request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.split_once(' '));
    let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let given = given.map_or("", |(_, token)| token);
    if is_equal(given.as_bytes(), token.as_bytes()) {
        return next.run(request).await;
    }
    let problem =
        Problem::new(kinds::UNAUTHORIZED, "send the header Authorization: Bearer <token of --token-file>");
    let mut response = problem.into_response();
    response.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
    response
}

/// Compare in a time that depends on the lengths alone.
fn is_equal(given: &[u8], wanted: &[u8]) -> bool {
    let difference = given.iter().zip(wanted).fold(0, |difference, (a, b)| difference | (a ^ b));
    given.len() == wanted.len() && std::hint::black_box(difference) == 0
}
