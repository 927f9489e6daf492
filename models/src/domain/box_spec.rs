//! A box: a server, uploader, warehouse, broker, worker or seat that offers places.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ball::DURATION_MS_MAX;
use super::{Capacity, Invalid, check_identifier};

/// Largest operator weight; sums over 100,000 boxes stay exact enough in `f64`.
pub const WEIGHT_MAX: f64 = 1_000.0;
/// Fastest and slowest relative speed.
pub const SPEED_RANGE: std::ops::RangeInclusive<f64> = 1e-3..=1e3;
/// Longest accepted endpoint, in bytes.
pub const ENDPOINT_BYTES_MAX: usize = 2_048;

/// Where a box is in its life, as the box itself reports it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Stage {
    /// Loading caches and connections: a tenth of its weight.
    #[default]
    Warming,
    /// Serving under watch: ramps to half of its weight, back to a tenth above 5 % failures.
    Observing,
    /// Full weight.
    Mature,
    /// Finishing what it has; takes nothing new.
    Draining,
    /// Gone.
    Down,
}

fn one() -> f64 {
    1.0
}

/// A box, as it registers itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BoxSpec {
    /// Identity; ties between boxes are broken by it.
    pub box_id: Arc<str>,
    /// What it offers.
    #[cfg_attr(feature = "openapi", schema(value_type = super::amounts::CapacityJson))]
    pub capacity: Capacity,
    /// Where a client reaches it; the signed link points here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Relative speed: work of 1 ms takes 1/speed ms here.
    #[serde(default = "one")]
    pub speed: f64,
    /// Operator's weight; 0 gets nothing.
    #[serde(default = "one")]
    pub weight: f64,
    /// Factor on the weight for the price of its region or kind: below 1 for a cheaper box that should
    /// be used less than its share, above 1 for one that should be used more; 0 gets nothing.
    #[serde(default = "one")]
    pub price_weight: f64,
    /// Balls that ask for a role come only to boxes that have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Arc<str>>,
    /// The stage it registers in; later reports move it on.
    #[serde(default)]
    pub stage: Stage,
    /// The stage never passes `warming` before this long after registration, in milliseconds.
    #[serde(default)]
    pub min_warmup_time_ms: u64,
    /// Called once (POST) after registration while the box is warming.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup_url: Option<String>,
}

impl BoxSpec {
    /// A mature box of speed and weight 1.
    #[must_use]
    pub fn new(box_id: &str, capacity: Capacity) -> Self {
        Self {
            box_id: box_id.into(),
            capacity,
            endpoint: None,
            speed: 1.0,
            weight: 1.0,
            price_weight: 1.0,
            role: None,
            stage: Stage::Mature,
            min_warmup_time_ms: 0,
            warmup_url: None,
        }
    }

    /// Check every field against the domain's limits.
    ///
    /// # Errors
    /// [`Invalid`] naming the first field that is refused.
    pub fn check(&self) -> Result<(), Invalid> {
        check_identifier("box_id", &self.box_id)?;
        self.role.as_deref().map_or(Ok(()), |role| check_identifier("role", role))?;
        for (field, weight) in [("weight", self.weight), ("price_weight", self.price_weight)] {
            if !(0.0..=WEIGHT_MAX).contains(&weight) {
                return Err(Invalid::new(field, weight, format!("0 to {WEIGHT_MAX}")));
            }
        }
        if !SPEED_RANGE.contains(&self.speed) {
            let allowed = format!("{} to {}", SPEED_RANGE.start(), SPEED_RANGE.end());
            return Err(Invalid::new("speed", self.speed, allowed));
        }
        if self.min_warmup_time_ms > DURATION_MS_MAX {
            let allowed = format!("0 to {DURATION_MS_MAX} ms (30 days)");
            return Err(Invalid::new("min_warmup_time_ms", self.min_warmup_time_ms, allowed));
        }
        for (field, url) in [("endpoint", &self.endpoint), ("warmup_url", &self.warmup_url)] {
            if url.as_deref().is_some_and(|url| !is_address(url)) {
                let allowed = format!(
                    "http:// or https://, a host, at most {ENDPOINT_BYTES_MAX} bytes, no spaces and no #"
                );
                return Err(Invalid::new(field, url.as_deref().unwrap_or_default(), allowed));
            }
        }
        Ok(())
    }
}

/// Whether a link can be made of `url`: a query is appended to it, so it holds no fragment.
fn is_address(url: &str) -> bool {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let is_clean = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
    url.len() <= ENDPOINT_BYTES_MAX
        && url.bytes().all(is_clean)
        && rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', '?', ':']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_no_link_can_be_made_of_are_refused() {
        for url in ["httpfoo bar", "http://x/\n", "http://x/#frag", "http://", "http:///x", "ftp://x"] {
            assert!(!is_address(url), "{url:?}");
        }
        for url in ["http://web-1.internal:8080/", "https://a", "http://[::1]:80/x?y=1"] {
            assert!(is_address(url), "{url:?}");
        }
    }

    #[test]
    fn the_warm_up_time_is_bounded() {
        let mut spec = BoxSpec::new("a", Capacity([None, None, None, Some(1)]));
        assert_eq!(spec.check(), Ok(()));
        spec.min_warmup_time_ms = u64::MAX;
        assert!(spec.check().is_err());
    }
}
