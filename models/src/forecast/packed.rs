//! Serde of the bits of `f32` arrays as hexadecimal text: exact in every format, missing values (NaN) included.
//!
//! JSON has no NaN, and a snapshot that lost its missing values would give other features after a restart.

use serde::{Deserialize, Deserializer, Serializer, de::Error};

/// Write the values as eight hexadecimal digits each.
pub fn serialize<S: Serializer>(values: &[u32], serializer: S) -> Result<S::Ok, S::Error> {
    let mut text = String::with_capacity(values.len() * 8);
    for bits in values {
        for shift in (0..8).rev() {
            let digit = (bits >> (shift * 4)) & 0xF;
            text.push(char::from_digit(digit, 16).unwrap_or('0'));
        }
    }
    serializer.serialize_str(&text)
}

/// Read what [`serialize`] wrote.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if !text.is_ascii() || text.len() % 8 != 0 {
        return Err(D::Error::custom("packed values need eight hexadecimal digits each"));
    }
    (0..text.len() / 8)
        .map(|index| {
            u32::from_str_radix(&text[index * 8..index * 8 + 8], 16)
                .map_err(|_| D::Error::custom(format!("packed value {index} is not hexadecimal")))
        })
        .collect()
}
