//! The description of the API, made from the handlers and the types.

use axum::http::StatusCode;
use axum::response::Response;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, ResponseBuilder};
use utoipa::{Modify, OpenApi};

use super::problem::PROBLEM_JSON;
use super::{admin, allocate, boxes, leases, metrics, placements};

/// The description of the API.
#[derive(OpenApi)]
#[openapi(
    modifiers(&Token),
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
        admin::activate_policy,
        admin::strategies,
        admin::shadow,
        admin::healthz,
        admin::readyz,
        metrics::metrics,
        openapi,
    )
)]
pub struct Api;

/// Says of every route but `/healthz` that it may need the token.
struct Token;

impl Modify for Token {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        api.components.get_or_insert_default().add_security_scheme("token", scheme);
        let problem = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        let refused = ResponseBuilder::new()
            .description("A token is set, and it is missing or wrong")
            .content(PROBLEM_JSON, problem)
            .build();
        let routes = api.paths.paths.iter_mut().filter(|(path, _)| *path != "/healthz");
        for (_, item) in routes {
            let methods = [&mut item.get, &mut item.put, &mut item.post, &mut item.patch];
            for operation in methods.into_iter().flatten() {
                let with_token = SecurityRequirement::new("token", [] as [&str; 0]);
                operation.security = Some(vec![SecurityRequirement::default(), with_token]);
                operation.responses.responses.insert("401".to_owned(), refused.clone().into());
            }
        }
    }
}

/// This description.
#[utoipa::path(get, path = "/openapi.json", tag = "health", responses((status = 200, body = Object)))]
pub async fn openapi() -> Response {
    super::extract::json(StatusCode::OK, &Api::openapi())
}
