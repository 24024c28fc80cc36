//! [`Odds`]: an exact decimal price.

use schemars::JsonSchema;

use crate::ParseError;
use crate::decimal::{exact, number_form};

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

number_form!(Odds);

impl Odds {
    const EXPECTED: &'static str = "odds are a number from 1 to 100000 with at most three decimals";

    /// Odds of this many thousandths.
    ///
    /// # Errors
    /// Returns [`ParseError`] below 1.0 and above 100,000.
    pub fn from_thousandths(thousandths: u32) -> Result<Self, ParseError> {
        let is_in_range = (1_000..=100_000_000).contains(&thousandths);
        let odds = is_in_range.then_some(Self(thousandths));
        odds.ok_or_else(|| ParseError::new(Self::EXPECTED, f64::from(thousandths) / 1000.0))
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
        let thousandths = exact(number, 1_000.0, 1_000.0..=100_000_000.0);
        let odds = thousandths.and_then(|odds| Some(Self(u32::try_from(odds).ok()?)));
        odds.ok_or_else(|| ParseError::new(Self::EXPECTED, number))
    }

    fn to_number(self) -> f64 {
        f64::from(self.0) / 1_000.0
    }

    /// The price in thousandths.
    pub fn thousandths(self) -> u32 {
        self.0
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
