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

/// Longest part of a refused value that a message repeats, in bytes.
const VALUE_BYTES_MAX: usize = 120;

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
        let mut value = value.to_string();
        if value.len() > VALUE_BYTES_MAX {
            let end = (0..=VALUE_BYTES_MAX).rev().find(|at| value.is_char_boundary(*at)).unwrap_or(0);
            value.truncate(end);
            value.push('…');
        }
        Self { field, value, allowed: allowed.into() }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_repeats_no_more_of_a_value_than_helps() {
        let long = "é".repeat(1_000_000);
        let invalid = check_identifier("ball_id", &long).unwrap_err();
        assert!(invalid.value.len() < 130 && invalid.value.ends_with('…'));
    }
}
