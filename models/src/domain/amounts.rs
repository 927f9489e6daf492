//! Exact amounts of what a box offers and a ball demands.
//!
//! Amounts are integers in base units (micro-cores, bytes, bits per second, slots), so that
//! reserving and releasing in any order comes back to exactly zero and capacity checks are exact.

use serde::{Deserialize, Serialize};

use super::Invalid;

/// Number of dimensions.
pub const DIMENSIONS: usize = 4;
/// Base units of one core.
const MICRO_CORES_PER_CORE: f64 = 1_000_000.0;
/// Largest amount in any dimension, in base units; sums of 100,000 of these still fit in `u64`.
pub const AMOUNT_MAX: u64 = 1 << 46;

/// One dimension of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// Processor time, in cores.
    CpuCores,
    /// Memory, in bytes.
    MemoryBytes,
    /// Network, in bits per second.
    BandwidthBps,
    /// Places: connections, seats, workers.
    Slots,
}

impl Dimension {
    /// All dimensions, in the order of every array over dimensions.
    pub const ALL: [Self; DIMENSIONS] = [Self::CpuCores, Self::MemoryBytes, Self::BandwidthBps, Self::Slots];

    /// The name used in JSON and in logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["cpu_cores", "memory_bytes", "bandwidth_bps", "slots"][self as usize]
    }

    /// Convert a measured value in the dimension's public unit to base units, saturating.
    #[must_use]
    pub fn to_base(self, value: f64) -> u64 {
        let scaled = if self == Self::CpuCores { value * MICRO_CORES_PER_CORE } else { value };
        // `as` saturates and takes NaN to 0; callers refuse non-finite values before.
        libm::round(scaled) as u64
    }

    /// Convert base units to the dimension's public unit.
    #[must_use]
    pub fn to_public(self, base: u64) -> f64 {
        if self == Self::CpuCores { base as f64 / MICRO_CORES_PER_CORE } else { base as f64 }
    }
}

/// The JSON shape of amounts: public units, absent means zero.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Amounts))]
pub(crate) struct AmountsJson {
    #[serde(skip_serializing_if = "is_zero")]
    cpu_cores: f64,
    #[serde(skip_serializing_if = "is_zero")]
    memory_bytes: f64,
    #[serde(skip_serializing_if = "is_zero")]
    bandwidth_bps: f64,
    #[serde(skip_serializing_if = "is_zero")]
    slots: f64,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// Amounts in every dimension, in base units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "AmountsJson", into = "AmountsJson")]
pub struct Amounts(pub [u64; DIMENSIONS]);

impl Amounts {
    /// Nothing in any dimension.
    pub const ZERO: Self = Self([0; DIMENSIONS]);
    /// One slot and nothing else: the demand of a ball that states none.
    pub const ONE_SLOT: Self = Self([0, 0, 0, 1]);

    /// Amounts from public units, in the order of [`Dimension::ALL`].
    ///
    /// # Errors
    /// [`Invalid`] when a value is negative, not finite or above [`AMOUNT_MAX`] base units.
    pub fn from_public(values: [f64; DIMENSIONS]) -> Result<Self, Invalid> {
        let mut base = [0; DIMENSIONS];
        for dimension in Dimension::ALL {
            base[dimension as usize] = to_base_checked(dimension, values[dimension as usize])?;
        }
        Ok(Self(base))
    }

    /// Add in every dimension.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    /// Subtract in every dimension; an amount never goes below zero.
    pub fn subtract(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = mine.saturating_sub(theirs);
        }
    }
}

fn to_base_checked(dimension: Dimension, value: f64) -> Result<u64, Invalid> {
    let allowed = || format!("a finite number from 0 to {}", dimension.to_public(AMOUNT_MAX));
    if !value.is_finite() || value < 0.0 || value > dimension.to_public(AMOUNT_MAX) {
        return Err(Invalid::new(dimension.name(), value, allowed()));
    }
    Ok(dimension.to_base(value))
}

impl TryFrom<AmountsJson> for Amounts {
    type Error = Invalid;
    fn try_from(json: AmountsJson) -> Result<Self, Invalid> {
        Self::from_public([json.cpu_cores, json.memory_bytes, json.bandwidth_bps, json.slots])
    }
}

impl From<Amounts> for AmountsJson {
    fn from(amounts: Amounts) -> Self {
        let public = |d: Dimension| d.to_public(amounts.0[d as usize]);
        Self {
            cpu_cores: public(Dimension::CpuCores),
            memory_bytes: public(Dimension::MemoryBytes),
            bandwidth_bps: public(Dimension::BandwidthBps),
            slots: public(Dimension::Slots),
        }
    }
}

/// The JSON shape of a capacity: public units, absent means not limited by this dimension.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Capacity))]
pub(crate) struct CapacityJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_cores: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bandwidth_bps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slots: Option<f64>,
}

/// What a box offers, in base units. `None`: not limited and not measured in this dimension.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "CapacityJson", into = "CapacityJson")]
pub struct Capacity(pub [Option<u64>; DIMENSIONS]);

impl Capacity {
    /// A capacity from public units, in the order of [`Dimension::ALL`].
    ///
    /// # Errors
    /// [`Invalid`] when a value is negative, not finite or too large, or when none is given.
    pub fn from_public(values: [Option<f64>; DIMENSIONS]) -> Result<Self, Invalid> {
        let mut base = [None; DIMENSIONS];
        for dimension in Dimension::ALL {
            if let Some(value) = values[dimension as usize] {
                base[dimension as usize] = Some(to_base_checked(dimension, value)?);
            }
        }
        if base.iter().all(Option::is_none) {
            return Err(Invalid::new("capacity", "{}", "at least one dimension with a number"));
        }
        Ok(Self(base))
    }
}

impl TryFrom<CapacityJson> for Capacity {
    type Error = Invalid;
    fn try_from(json: CapacityJson) -> Result<Self, Invalid> {
        Self::from_public([json.cpu_cores, json.memory_bytes, json.bandwidth_bps, json.slots])
    }
}

impl From<Capacity> for CapacityJson {
    fn from(capacity: Capacity) -> Self {
        let public = |d: Dimension| capacity.0[d as usize].map(|base| d.to_public(base));
        Self {
            cpu_cores: public(Dimension::CpuCores),
            memory_bytes: public(Dimension::MemoryBytes),
            bandwidth_bps: public(Dimension::BandwidthBps),
            slots: public(Dimension::Slots),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_in_public_units_and_comes_back() {
        let amounts: Amounts = serde_json::from_str(r#"{"cpu_cores":0.25,"memory_bytes":1024}"#).unwrap();
        assert_eq!(amounts, Amounts([250_000, 1024, 0, 0]));
        let text = serde_json::to_string(&amounts).unwrap();
        assert_eq!(text, r#"{"cpu_cores":0.25,"memory_bytes":1024.0}"#);
        assert_eq!(serde_json::from_str::<Amounts>(&text).unwrap(), amounts);
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for text in [r#"{"cpu_cores":-1}"#, r#"{"memory_bytes":1e300}"#, r#"{"gpu":1}"#] {
            assert!(serde_json::from_str::<Amounts>(text).is_err(), "{text}");
        }
        assert!(serde_json::from_str::<Capacity>("{}").is_err());
        assert!(Amounts::from_public([f64::NAN, 0.0, 0.0, 0.0]).is_err());
    }
}
