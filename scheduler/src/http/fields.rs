//! JSON objects in which no field is given twice: of two values one would be dropped in silence.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Value};

/// The fields of an object, none of them given twice, at any depth.
pub struct Fields(pub Map<String, Value>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Unique::deserialize(deserializer)? {
            Unique(Value::Object(fields)) => Ok(Self(fields)),
            Unique(other) => Err(D::Error::custom(format!("an object is expected, and {other} is none"))),
        }
    }
}

/// A value that has no such object in it.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Unique(Value::Null))
    }
}

impl<'de> Visitor<'de> for Unique {
    type Value = Self;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self, E> {
        Ok(Self(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self, E> {
        Ok(Self(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self, E> {
        Ok(Self(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self, E> {
        Ok(Self(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self, E> {
        Ok(Self(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        let mut values = Vec::new();
        while let Some(Self(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(Self(values.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = items.next_key::<String>()? {
            match fields.entry(name) {
                Entry::Vacant(entry) => {
                    entry.insert(items.next_value::<Self>()?.0);
                }
                Entry::Occupied(entry) => {
                    return Err(A::Error::custom(format!("field `{}` is given twice", entry.key())));
                }
            }
        }
        Ok(Self(fields.into()))
    }
}
