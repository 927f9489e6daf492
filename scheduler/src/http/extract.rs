//! What handlers take and give: JSON in with problems for errors, JSON out.

use std::future::Future;
use std::task::Poll;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use berth_models::domain::Invalid;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::problem::{Problem, kinds};

/// Largest accepted body, in bytes.
pub const BODY_BYTES_MAX: usize = 4 << 20;
/// Room for an answer of the usual size.
const ANSWER_BYTES: usize = 1_024;
/// Longest a body may take to arrive.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Wait for `future` at most `limit`; one that is ready at once costs no timer.
pub async fn within<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    let first = std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
    match first {
        Poll::Ready(value) => Some(value),
        Poll::Pending => tokio::time::timeout(limit, future).await.ok(),
    }
}

/// A body that is a JSON object.
pub struct JsonBody<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let bytes = body(request.into_body()).await?;
        match bytes.trim_ascii_start().first() {
            // Without this a list would be read as the object's fields in order.
            Some(first) if *first != b'{' => Err(no_object(&char::from(*first).to_string())),
            _ => serde_json::from_slice(&bytes).map(Self).map_err(|error| Problem::malformed(&error)),
        }
    }
}

/// A body that is a JSON list, whose items are each read for themselves by [`of_object`].
pub struct JsonList(pub Vec<Value>);

impl<S: Send + Sync> FromRequest<S> for JsonList {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let bytes = body(request.into_body()).await?;
        serde_json::from_slice(&bytes).map(Self).map_err(|error| Problem::malformed(&error))
    }
}

/// Read one item of a batch.
pub fn of_object<T: DeserializeOwned>(value: Value) -> Result<T, Problem> {
    match value {
        Value::Object(_) => serde_json::from_value(value).map_err(|error| Problem::malformed(&error)),
        other => Err(no_object(&other.to_string())),
    }
}

fn no_object(given: &str) -> Problem {
    let begin: String = given.chars().take(20).collect();
    let detail =
        format!("an object is expected, and {begin:?} begins none; see /openapi.json for the fields");
    Problem::new(kinds::MALFORMED, detail)
}

/// The whole body. The limit is held here and not by a layer over every route, which would cost each
/// request a boxed service more.
async fn body(body: Body) -> Result<Bytes, Problem> {
    match within(BODY_TIMEOUT, Limited::new(body, BODY_BYTES_MAX).collect()).await {
        Some(Ok(collected)) => Ok(collected.to_bytes()),
        Some(Err(error)) if error.is::<LengthLimitError>() => {
            let detail = format!("the body is larger than {BODY_BYTES_MAX} bytes; send less at once");
            Err(Problem::new(kinds::TOO_LARGE, detail))
        }
        Some(Err(error)) => Err(Problem::new(kinds::MALFORMED, format!("the body broke off: {error}"))),
        None => Err(Problem::new(kinds::SLOW, format!("the body did not arrive within {BODY_TIMEOUT:?}"))),
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

/// How many a list answers: `given`, or as `usual`, up to `most`.
///
/// # Errors
/// It is none, or more than `most`.
pub fn limit_of(given: Option<usize>, usual: usize, most: usize) -> Result<usize, Invalid> {
    let limit = given.unwrap_or(usual);
    if !(1..=most).contains(&limit) {
        return Err(Invalid::new("limit", limit, format!("1 to {most}")));
    }
    Ok(limit)
}

/// A JSON answer.
pub fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let mut body = Vec::with_capacity(ANSWER_BYTES);
    if let Err(error) = serde_json::to_writer(&mut body, value) {
        return Problem::new(kinds::INTERNAL, error).into_response();
    }
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
