//! The one policy for errors: every one is a problem document (RFC 9457) that names the field, the
//! value, what is allowed and what to do.

use std::collections::BTreeMap;
use std::fmt::Display;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use berth_models::decision::Decision;
use berth_models::domain::Invalid;
use berth_models::engine::EngineError;
use serde::Serialize;
use utoipa::ToSchema;

use crate::sequencer::Denied;

/// Media type of problem documents.
pub const PROBLEM_JSON: &str = "application/problem+json";
/// When a refused client may come again, in seconds.
const RETRY_AFTER_S: u32 = 1;

/// A problem document.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Problem {
    /// Kind of the problem: `urn:berth:problem:<name>`.
    pub r#type: String,
    /// The kind in words.
    pub title: &'static str,
    /// HTTP status.
    pub status: u16,
    /// What happened, and what to do.
    pub detail: String,
    /// What depends on the kind.
    #[serde(flatten)]
    pub more: Box<More>,
    #[serde(skip)]
    retry_after_s: Option<u32>,
}

/// What a problem says beyond its words.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct More {
    /// The field that is not allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// What is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed: Option<String>,
    /// Number of boxes by the reason why they refused the ball.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub causes: Option<BTreeMap<&'static str, u32>>,
}

/// Name, status and title of a kind of problem.
pub struct Kind(&'static str, u16, &'static str);

/// The kinds of problems.
pub mod kinds {
    use super::Kind;
    /// The body is not the JSON it should be.
    pub const MALFORMED: Kind = Kind("malformed", 400, "The request is not what this route reads");
    /// A value is not allowed.
    pub const INVALID: Kind = Kind("invalid", 400, "A value is not allowed");
    /// The token is missing or wrong.
    pub const UNAUTHORIZED: Kind = Kind("unauthorized", 401, "The bearer token is missing or wrong");
    /// The lease is another's.
    pub const NOT_OWNER: Kind = Kind("not_owner", 403, "The lease belongs to another ball");
    /// Nothing is there.
    pub const UNKNOWN: Kind = Kind("unknown", 404, "There is no such thing");
    /// The path has other methods.
    pub const METHOD: Kind = Kind("method_not_allowed", 405, "This path does not take this method");
    /// The request took too long.
    pub const SLOW: Kind = Kind("request_timeout", 408, "The request took too long to arrive");
    /// The ball is known with another body.
    pub const CONFLICT: Kind = Kind("conflict", 409, "The ball is known with another body");
    /// The lease is over.
    pub const LEASE_ENDED: Kind = Kind("lease_ended", 409, "The lease has ended");
    /// Somebody else changed it.
    pub const VERSION: Kind = Kind("version", 409, "The configuration has changed since");
    /// The body is too large.
    pub const TOO_LARGE: Kind = Kind("too_large", 413, "The request is too large");
    /// The artifact is refused.
    pub const ARTIFACT: Kind = Kind("artifact", 422, "The artifact is refused");
    /// A limit is reached.
    pub const LIMIT: Kind = Kind("limit", 429, "A limit is reached");
    /// A bug.
    pub const INTERNAL: Kind = Kind("internal", 500, "The scheduler failed at this");
    /// No place.
    pub const NO_BOX: Kind = Kind("no_box", 503, "No box can take the ball");
    /// The ledger does not answer.
    pub const NOT_READY: Kind = Kind("not_ready", 503, "Nothing can be recorded at present");
}

impl Problem {
    /// A problem of `kind`.
    #[must_use]
    pub fn new(kind: Kind, detail: impl Display) -> Self {
        let Kind(name, status, title) = kind;
        Self {
            r#type: format!("urn:berth:problem:{name}"),
            title,
            status,
            detail: detail.to_string(),
            more: Box::default(),
            retry_after_s: None,
        }
    }

    /// The body is not the JSON it should be.
    #[must_use]
    pub fn malformed(error: &serde_json::Error) -> Self {
        Self::new(kinds::MALFORMED, format!("{error}; see /openapi.json for the fields"))
    }

    fn no_box(decision: &Decision) -> Self {
        let boxes: u32 = decision.refused.values().sum();
        let causes = decision.refused.iter().map(|(refusal, count)| (refusal.name(), *count)).collect();
        let more = More { causes: Some(causes), ..More::default() };
        let detail = if boxes == 0 {
            "no box is registered; register one with PUT /v1/boxes/{box_id}".to_owned()
        } else {
            format!("all {boxes} boxes refused; POST the ball to /v1/explain to see each, and come again")
        };
        Self { more: Box::new(more), ..Self::new(kinds::NO_BOX, detail).later() }
    }

    fn later(mut self) -> Self {
        self.retry_after_s = Some(RETRY_AFTER_S);
        self
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        let detail = invalid.to_string();
        let more = More {
            field: Some(invalid.field.to_owned()),
            value: Some(invalid.value),
            allowed: Some(invalid.allowed),
            causes: None,
        };
        Self { more: Box::new(more), ..Self::new(kinds::INVALID, detail) }
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        let text = error.to_string();
        let limit = |field: &str, limit: usize| {
            let (field, value) = (Some(field.to_owned()), Some(limit.to_string()));
            let more = More { field, value, ..More::default() };
            Self { more: Box::new(more), ..Self::new(kinds::LIMIT, &text).later() }
        };
        match error {
            EngineError::Invalid(invalid) => invalid.into(),
            EngineError::Conflict { .. } => Self::new(kinds::CONFLICT, text),
            EngineError::TooManyBalls { balls_max, .. } => limit("balls_max", balls_max),
            EngineError::TooManyBoxes { boxes_max } => limit("boxes_max", boxes_max),
            EngineError::UnknownBox(_) => {
                Self::new(kinds::UNKNOWN, format!("{text}: PUT /v1/boxes/{{box_id}}"))
            }
            EngineError::UnknownLease(_) => Self::new(kinds::UNKNOWN, text),
            EngineError::NotOwner(_) => {
                Self::new(kinds::NOT_OWNER, format!("{text}; send the tenant and ball_id it was granted to"))
            }
            EngineError::Ended { .. } => {
                let advice = "allocate with a new ball_id if a place is still needed";
                Self::new(kinds::LEASE_ENDED, format!("{text}; {advice}"))
            }
        }
    }
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Self {
        let text = denied.to_string();
        match denied {
            Denied::NotReady(_) => Self::new(
                kinds::NOT_READY,
                format!("{text}; see /readyz, and restart to recover from the log"),
            )
            .later(),
            Denied::Panicked => Self::new(kinds::INTERNAL, text),
            Denied::Behind => Self::new(kinds::NOT_READY, format!("{text}; come again")).later(),
            Denied::Unplaceable(decision) => Self::no_box(&decision),
            Denied::Engine(error) => error.into(),
            Denied::Version { .. } => {
                Self::new(kinds::VERSION, format!("{text}; read it again and repeat the change"))
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (status, [(header::CONTENT_TYPE, PROBLEM_JSON)], body).into_response();
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
