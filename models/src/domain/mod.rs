//! The words of the domain: balls, boxes, amounts, reports and outcomes.

pub mod amounts;
pub mod ball;
pub mod box_spec;
pub mod report;

pub use amounts::{Amounts, Capacity, DIMENSIONS, Dimension};
pub use ball::{Ball, Class, Outcome};
pub use box_spec::{BoxSpec, Stage};
pub use report::{BoxReport, FieldIssue, Usage};

/// Longest accepted identifier (tenant, ball, box, group, role, kind, region), in bytes.
pub const IDENTIFIER_BYTES_MAX: usize = 256;

/// A value the domain refuses, with the field, the value and what is allowed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{field} = {value} is not allowed: {allowed}")]
pub struct Invalid {
    /// Name of the field, as in the JSON.
    pub field: &'static str,
    /// The value that was given, as text.
    pub value: String,
    /// What would be accepted.
    pub allowed: String,
}

impl Invalid {
    /// Build a refusal for `field` with the `value` given and what is `allowed`.
    pub fn new(field: &'static str, value: impl ToString, allowed: impl Into<String>) -> Self {
        Self { field, value: value.to_string(), allowed: allowed.into() }
    }
}

/// Check that an identifier is not empty, not too long and printable.
///
/// # Errors
/// [`Invalid`] naming `field` when it is none of these.
pub fn check_identifier(field: &'static str, value: &str) -> Result<(), Invalid> {
    let allowed = || format!("1 to {IDENTIFIER_BYTES_MAX} bytes without control characters");
    if value.is_empty() || value.len() > IDENTIFIER_BYTES_MAX || value.chars().any(char::is_control) {
        return Err(Invalid::new(field, format!("{value:?}"), allowed()));
    }
    Ok(())
}
