//! [`Odds`]: an exact decimal price.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{Deserializer, Unexpected, Visitor};
use serde::ser::Serializer;

use crate::ParseError;

/// A decimal price including the stake, from 1 to 100,000, in integer thousandths: 3.5 is 3500.
///
/// On the wire it is a JSON number with at most three decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(
    with = "serde_json::Number",
    description = "A decimal price including the stake, at most three decimals.",
    // No `multipleOf: 0.001`: validators that divide doubles reject every seventh price with it, such as 3.3.
    extend("minimum" = 1, "maximum" = 100_000, "examples" = [3.5])
)]
pub struct Odds(u32);

impl Odds {
    const EXPECTED: &'static str = "odds are a number from 1 to 100000 with at most three decimals";

    /// Odds of this many thousandths.
    ///
    /// # Errors
    /// Returns [`ParseError`] below 1.0 and above 100,000.
    pub fn from_thousandths(thousandths: u32) -> Result<Self, ParseError> {
        if (1_000..=100_000_000).contains(&thousandths) {
            Ok(Self(thousandths))
        } else {
            Err(ParseError::new(
                Self::EXPECTED,
                f64::from(thousandths) / 1000.0,
            ))
        }
    }

    /// Parses the text of a decimal number, such as `3.5`.
    ///
    /// # Errors
    /// Returns [`ParseError`] if the text is not a number, out of range, or has more than three decimals.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        match text.parse::<f64>() {
            Ok(number) => Self::from_number(number),
            Err(_) => Err(ParseError::new(Self::EXPECTED, text)),
        }
    }

    /// The exact price of a binary floating point number from a JSON parser.
    ///
    /// # Errors
    /// Returns [`ParseError`] if the number is out of range or has more than three decimals.
    pub fn from_number(number: f64) -> Result<Self, ParseError> {
        /// The largest relative difference between a double and its price.
        const TOLERANCE: f64 = 4.0 * f64::EPSILON;
        let nearest = (number * 1000.0).round();
        // The tolerance accepts the error of a few sums of doubles. A real fourth decimal is far outside of it.
        let exact = (number - nearest / 1000.0).abs() <= number.abs() * TOLERANCE;
        if !exact || !(1_000.0..=100_000_000.0).contains(&nearest) {
            return Err(ParseError::new(Self::EXPECTED, number));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "in range, whole"
        )]
        Ok(Self(nearest as u32))
    }

    /// The price in thousandths.
    pub fn thousandths(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Odds {
    /// The shortest exact decimal with at least one place: `3.5`, `4.0`, `1.001`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.0 / 1000;
        let thousandths = self.0 % 1000;
        match thousandths {
            r if r % 100 == 0 => write!(f, "{whole}.{}", r / 100),
            r if r % 10 == 0 => write!(f, "{whole}.{:02}", r / 10),
            r => write!(f, "{whole}.{r:03}"),
        }
    }
}

impl serde::Serialize for Odds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(f64::from(self.0) / 1000.0)
    }
}

impl<'de> serde::Deserialize<'de> for Odds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Odds;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(Odds::EXPECTED)
            }

            fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Odds, E> {
                Odds::from_number(number).map_err(E::custom)
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Odds, E> {
                u32::try_from(number)
                    .ok()
                    .and_then(|n| n.checked_mul(1000))
                    .and_then(|n| Odds::from_thousandths(n).ok())
                    .ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Odds, E> {
                Err(E::invalid_value(Unexpected::Signed(number), &self))
            }
        }
        deserializer.deserialize_any(Number)
    }
}

#[cfg(test)]
mod tests {
    use super::Odds;

    #[test]
    fn odds_are_exact_on_the_way_in_and_out() {
        for (text, thousandths) in [
            ("3.5", 3_500),
            ("1.4", 1_400),
            ("4", 4_000),
            ("1.001", 1_001),
            ("100000", 100_000_000),
        ] {
            let odds: Odds = serde_json::from_str(text).expect(text);
            assert_eq!(odds.thousandths(), thousandths);
        }
        assert_eq!(serde_json::to_string(&Odds(4_000)).expect("json"), "4.0");
        assert_eq!(serde_json::to_string(&Odds(12_340)).expect("json"), "12.34");
    }

    #[test]
    fn every_price_survives_a_round_trip_through_json() {
        for thousandths in (1_000..2_000_000)
            .step_by(7)
            .chain((1_000..=100_000_000).step_by(99_991))
        {
            let odds = Odds::from_thousandths(thousandths).expect("in range");
            let back: Odds = serde_json::from_str(&odds.to_string()).expect("its own text");
            assert_eq!(back, odds);
            assert_eq!(
                serde_json::to_string(&odds).expect("json"),
                odds.to_string()
            );
        }
    }

    #[test]
    fn an_invalid_price_is_rejected() {
        for text in [
            "-3.5",
            "0",
            "0.999",
            "1.2345",
            "1.2340001",
            "100000.001",
            "100001",
            "1e99",
            "\"3.5\"",
            "true",
        ] {
            assert!(serde_json::from_str::<Odds>(text).is_err(), "{text}");
        }
    }
}
