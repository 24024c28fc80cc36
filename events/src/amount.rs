//! [`Amount`]: an exact amount of money.

use schemars::JsonSchema;

use crate::ParseError;
use crate::decimal::{exact, number_form};

/// An amount of money from 0.01 to 10,000,000,000, in integer hundredths: 87.5 is 8750.
///
/// On the wire it is a JSON number with at most two decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(with = "serde_json::Number")]
#[schemars(description = "An amount of money, at most two decimals.")]
#[schemars(extend("minimum" = 0.01, "maximum" = 10_000_000_000_u64, "examples" = [87.5]))]
pub struct Amount(u64);

number_form!(Amount);

impl Amount {
    const EXPECTED: &'static str =
        "an amount is a number from 0.01 to 10000000000 with at most two decimals";

    /// An amount of so many hundredths.
    ///
    /// # Errors
    /// Returns [`ParseError`] if it is out of range.
    pub fn from_hundredths(hundredths: u64) -> Result<Self, ParseError> {
        let is_in_range = (1..=1_000_000_000_000).contains(&hundredths);
        let amount = is_in_range.then_some(Self(hundredths));
        amount.ok_or_else(|| ParseError::new(Self::EXPECTED, hundredths))
    }

    /// The exact amount of a binary floating point number from a JSON parser.
    ///
    /// # Errors
    /// Returns [`ParseError`] if the number is out of range or has more than two decimals.
    pub fn from_number(number: f64) -> Result<Self, ParseError> {
        let hundredths = exact(number, 100.0, 1.0..=1_000_000_000_000.0).map(Self);
        hundredths.ok_or_else(|| ParseError::new(Self::EXPECTED, number))
    }

    /// The amount in hundredths.
    pub fn hundredths(self) -> u64 {
        self.0
    }

    fn to_number(self) -> f64 {
        // Below 2^53.
        self.0 as f64 / 100.0
    }
}

#[cfg(test)]
mod tests {
    use super::Amount;

    #[test]
    fn amounts_are_exact_on_the_way_in_and_out() {
        for (text, hundredths, written) in [
            ("87.5", 8_750, "87.5"),
            ("2970", 297_000, "2970.0"),
            ("0.01", 1, "0.01"),
            ("10.05", 1_005, "10.05"),
            ("10000000000", 1_000_000_000_000, "10000000000.0"),
            ("9999999999.99", 999_999_999_999, "9999999999.99"),
        ] {
            let amount: Amount = serde_json::from_str(text).expect(text);
            assert_eq!(amount.hundredths(), hundredths);
            assert_eq!(amount.to_string(), written);
            assert_eq!(serde_json::to_string(&amount).expect("json"), written);
        }
    }

    #[test]
    fn an_invalid_amount_is_rejected() {
        for text in [
            "0",
            "-1",
            "0.001",
            "1.005",
            "10000000000.01",
            "1e99",
            "\"1\"",
            "null",
        ] {
            assert!(serde_json::from_str::<Amount>(text).is_err(), "{text}");
        }
    }
}
