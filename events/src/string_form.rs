//! The serde form of values that are strings on the wire.

use std::fmt;
use std::ops::RangeInclusive;

use serde::de::{Deserializer, Error, Visitor};

use crate::ParseError;

/// Implements `Deserialize` by a type's `parse`.
macro_rules! parsed {
    ($type:ty) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::string_form::parse_with(deserializer, Self::parse)
            }
        }
    };
}

/// Implements serde's traits: a type is written by its `Display`, and read by its `parse`.
macro_rules! string_form {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        $crate::string_form::parsed!($type);
    };
}

/// Implements `as_str`, `Display` and serde's traits for a type that wraps a string and has a `parse`.
macro_rules! string_newtype {
    ($type:ty) => {
        impl $type {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        $crate::string_form::parsed!($type);
    };
}

pub(crate) use {parsed, string_form, string_newtype};

/// A text of so many bytes, each of which is allowed where it is.
pub(crate) fn code(
    text: &str,
    lengths: RangeInclusive<usize>,
    is_allowed: impl Fn((usize, u8)) -> bool,
    expected: &'static str,
) -> Result<String, ParseError> {
    let is_valid = lengths.contains(&text.len()) && text.bytes().enumerate().all(is_allowed);
    let code = is_valid.then(|| text.to_owned());
    code.ok_or_else(|| ParseError::new(expected, text))
}

/// Reads a string without a copy of it.
pub(crate) fn parse_with<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: fn(&str) -> Result<T, ParseError>,
) -> Result<T, D::Error> {
    struct StrVisitor<T>(fn(&str) -> Result<T, ParseError>);

    impl<T> Visitor<'_> for StrVisitor<T> {
        type Value = Result<T, ParseError>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
            Ok((self.0)(text))
        }
    }

    let parsed = deserializer.deserialize_str(StrVisitor(parse))?;
    parsed.map_err(D::Error::custom)
}
