//! What handlers take and give: JSON in with problems for errors, JSON out.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::problem::{Problem, kinds};

/// Largest accepted body, in bytes; [`axum::extract::DefaultBodyLimit`] holds it.
pub const BODY_BYTES_MAX: usize = 4 << 20;
/// Longest a body may take to arrive.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// A JSON body.
pub struct JsonBody<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let bytes = body(request, state).await?;
        serde_json::from_slice(&bytes).map(Self).map_err(|error| Problem::malformed(&error))
    }
}

async fn body<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Problem> {
    // A body that is there already never arms the timer.
    match tokio::time::timeout(BODY_TIMEOUT, Bytes::from_request(request, state)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(rejection)) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            let detail = format!("the body is larger than {BODY_BYTES_MAX} bytes; send less at once");
            Err(Problem::new(kinds::TOO_LARGE, detail))
        }
        Ok(Err(rejection)) => Err(Problem::new(kinds::MALFORMED, rejection)),
        Err(_) => Err(Problem::new(kinds::SLOW, format!("the body did not arrive within {BODY_TIMEOUT:?}"))),
    }
}

/// Parameters of the path.
pub struct PathOf<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for PathOf<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<T>::from_request_parts(parts, state).await;
        path.map(|Path(value)| Self(value))
            .map_err(|rejection: PathRejection| Problem::new(kinds::MALFORMED, rejection.body_text()))
    }
}

/// Parameters of the query.
pub struct QueryOf<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for QueryOf<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        query
            .map(|Query(value)| Self(value))
            .map_err(|rejection: QueryRejection| Problem::new(kinds::MALFORMED, rejection.body_text()))
    }
}

/// A JSON answer.
pub fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let mut body = Vec::with_capacity(512);
    if let Err(error) = serde_json::to_writer(&mut body, value) {
        return Problem::new(kinds::INTERNAL, error).into_response();
    }
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
