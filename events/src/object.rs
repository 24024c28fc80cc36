//! [`Object`]: a struct that is parsed from a JSON object only.
//!
//! serde also parses a struct from an array, by the order of its fields. No schema allows that, and the order of fields
//! must not become part of the wire form by accident.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// A value that is parsed from a JSON object.
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }

        let object = deserializer.deserialize_map(ObjectVisitor(PhantomData));
        object.map(Object)
    }
}

/// Parses a field that is a list of structs.
pub(crate) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let objects = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(objects.into_iter().map(|object| object.0).collect())
}

/// Parses a field that is a struct or null.
pub(crate) fn option<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let object = Option::<Object<T>>::deserialize(deserializer)?;
    Ok(object.map(|object| object.0))
}

/// Parses a field that is a list of values or null.
pub(crate) fn values<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    Option::<Vec<T>>::deserialize(deserializer).map(Option::unwrap_or_default)
}
