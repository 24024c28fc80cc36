//! [`Currency`]: the currency of stakes.

use schemars::JsonSchema;

use crate::ParseError;
use crate::string_form::{code, string_newtype};

/// The code of a currency, such as `HKD`: three of `A-Z`, which bounds the sums that are kept of a horse.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(description = "The code of a currency.")]
#[schemars(extend("pattern" = "^[A-Z]{3}$", "examples" = ["HKD"]))]
pub struct Currency(String);

string_newtype!(Currency);

impl Currency {
    /// Parses a code.
    ///
    /// # Errors
    /// Returns [`ParseError`] for anything but three capital letters.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let known = |(_, b): (_, u8)| b.is_ascii_uppercase();
        code(text, 3..=3, known, "a currency is three of A-Z").map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::Currency;

    #[test]
    fn a_currency_is_three_capital_letters() {
        assert_eq!(Currency::parse("HKD").expect("a code").as_str(), "HKD");
        for text in ["", "HK", "HKDO", "hkd", "H D", "££", "€"] {
            assert!(Currency::parse(text).is_err(), "{text:?}");
        }
    }
}
