//! A ball: a request, task, upload, order or session that needs a place.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use super::amounts::AMOUNT_MAX;
use super::{Amounts, Invalid, check_identifier};

/// How much a ball matters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Class {
    /// Always decided by the deterministic critical rule; may use the reserved headroom.
    Critical,
    /// Ordinary traffic.
    #[default]
    Normal,
    /// Traffic that is the first to go when room is short.
    Low,
}

impl Class {
    /// All classes, in the order of every array over classes.
    pub const ALL: [Self; 3] = [Self::Critical, Self::Normal, Self::Low];

    /// The name used in JSON, logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["critical", "normal", "low"][self as usize]
    }
}

fn default_tenant() -> String {
    "default".to_owned()
}

fn default_demand() -> Amounts {
    Amounts::ONE_SLOT
}

/// A ball, as its sender describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ball {
    /// Who owns the ball; with `ball_id` it is the key of idempotency.
    #[serde(default = "default_tenant")]
    pub tenant: String,
    /// Identity within the tenant.
    pub ball_id: String,
    /// How much it matters.
    #[serde(default)]
    pub class: Class,
    /// What it takes from a box while it is there; one slot when not stated.
    #[serde(default = "default_demand")]
    #[cfg_attr(feature = "openapi", schema(value_type = super::amounts::AmountsJson))]
    pub demand: Amounts,
    /// Service it needs, in milliseconds on a box of speed 1; `None`: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_ms: Option<f64>,
    /// How long it is expected to stay, in milliseconds; `None`: the class's recent mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_residence_ms: Option<u64>,
    /// How long the lease should last before a heartbeat, in milliseconds; `None`: the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// Balls of one group must share a box.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Only boxes of this role will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// What the ball is (order, user, log, …), for look-ups and logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Where it comes from, for look-ups and logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Whose upload it is, so that the user's recent speed is expected of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Bytes it moves; with the time it takes they say how fast its user is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Speed measured in the user's current session, in bits per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_bps: Option<f64>,
}

impl Ball {
    /// A normal ball of the default tenant that takes one slot.
    #[must_use]
    pub fn new(ball_id: impl Into<String>) -> Self {
        Self {
            tenant: default_tenant(),
            ball_id: ball_id.into(),
            class: Class::Normal,
            demand: Amounts::ONE_SLOT,
            work_ms: None,
            expected_residence_ms: None,
            lease_ms: None,
            group: None,
            role: None,
            kind: None,
            region: None,
            user: None,
            size_bytes: None,
            speed_bps: None,
        }
    }

    /// Check every field against the domain's limits.
    ///
    /// # Errors
    /// [`Invalid`] naming the first field that is refused.
    pub fn check(&self) -> Result<(), Invalid> {
        check_identifier("tenant", &self.tenant)?;
        check_identifier("ball_id", &self.ball_id)?;
        for (field, value) in [
            ("group", &self.group),
            ("role", &self.role),
            ("kind", &self.kind),
            ("region", &self.region),
            ("user", &self.user),
        ] {
            value.as_deref().map_or(Ok(()), |value| check_identifier(field, value))?;
        }
        if let Some(work_ms) = self.work_ms
            && !(work_ms.is_finite() && (0.0..=DURATION_MS_MAX as f64).contains(&work_ms))
        {
            return Err(Invalid::new("work_ms", work_ms, format!("0 to {DURATION_MS_MAX}")));
        }
        if let Some(bps) = self.speed_bps
            && !(bps > 0.0 && bps <= AMOUNT_MAX as f64)
        {
            return Err(Invalid::new("speed_bps", bps, format!("above 0, at most {AMOUNT_MAX}")));
        }
        for (field, value) in
            [("expected_residence_ms", self.expected_residence_ms), ("lease_ms", self.lease_ms)]
        {
            if let Some(value) = value
                && !(1..=DURATION_MS_MAX).contains(&value)
            {
                return Err(Invalid::new(field, value, format!("1 to {DURATION_MS_MAX}")));
            }
        }
        Ok(())
    }

    /// The key of idempotency: 128 bits of tenant and ball id.
    #[must_use]
    pub fn key(&self) -> u128 {
        ball_key(&self.tenant, &self.ball_id)
    }
}

/// Longest duration a ball may state: 30 days, in milliseconds.
pub const DURATION_MS_MAX: u64 = 30 * 24 * 3_600_000;

/// The key of idempotency of `ball_id` within `tenant`.
#[must_use]
pub fn ball_key(tenant: &str, ball_id: &str) -> u128 {
    // Identifiers hold no control characters, so the separator can't be forged.
    let mut bytes = [0_u8; 2 * super::IDENTIFIER_BYTES_MAX + 1];
    let length = tenant.len() + 1 + ball_id.len();
    if length > bytes.len() {
        return xxh3_128(format!("{tenant}\n{ball_id}").as_bytes());
    }
    bytes[..tenant.len()].copy_from_slice(tenant.as_bytes());
    bytes[tenant.len()] = b'\n';
    bytes[tenant.len() + 1..length].copy_from_slice(ball_id.as_bytes());
    xxh3_128(&bytes[..length])
}

/// How a ball's stay ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Outcome {
    /// Whether the work succeeded.
    pub succeeded: bool,
    /// What the sender saw, in milliseconds, when it measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
}
