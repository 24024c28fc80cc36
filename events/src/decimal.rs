//! Exact decimals that are numbers on the wire.

use std::fmt;
use std::ops::RangeInclusive;

use serde::de::{Deserializer, Error, Unexpected, Visitor};

use crate::ParseError;

/// Implements `Display` and serde's traits for a type that is a JSON number: it is written by its `to_number`, and read
/// by its `from_number`.
macro_rules! number_form {
    ($type:ty) => {
        impl std::fmt::Display for $type {
            /// The shortest exact decimal with at least one place: `87.5`, `4.0`, `1.001`.
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{:?}", self.to_number())
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_f64(self.to_number())
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::decimal::read_with(deserializer, Self::EXPECTED, Self::from_number)
            }
        }
    };
}

pub(crate) use number_form;

/// A binary floating point number from a JSON parser as a whole number of its last place, of which `places` are one.
/// `None` if it has more decimals, or is out of range.
pub(crate) fn exact(number: f64, places: f64, range: RangeInclusive<f64>) -> Option<u64> {
    /// The largest relative difference between a double and its decimal.
    const TOLERANCE: f64 = 4.0 * f64::EPSILON;
    let nearest = (number * places).round();
    // The tolerance accepts the error of a few sums of doubles. A real further decimal is far outside of it.
    let is_exact = (number - nearest / places).abs() <= number.abs() * TOLERANCE;
    // In range, and whole.
    (is_exact && range.contains(&nearest)).then_some(nearest as u64)
}

/// Reads a number.
pub(crate) fn read_with<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    expected: &'static str,
    convert: fn(f64) -> Result<T, ParseError>,
) -> Result<T, D::Error> {
    struct Number<T>(&'static str, fn(f64) -> Result<T, ParseError>);

    impl<T> Visitor<'_> for Number<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
            (self.1)(number).map_err(E::custom)
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
            // A number that loses digits is out of range.
            let converted = (self.1)(number as f64);
            converted.map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
            Err(E::invalid_value(Unexpected::Signed(number), &self))
        }
    }
    deserializer.deserialize_any(Number(expected, convert))
}
