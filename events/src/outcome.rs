//! [`Outcome`]: why a runner has no official placing.

use schemars::JsonSchema;

use crate::ParseError;
use crate::string_form::{code, string_newtype};

/// Why a runner has no official placing: an upper-case code such as `PU`, `UR`, `WV-A`, `DISQ`.
///
/// The codes are those of the Hong Kong Jockey Club's "special incidents index". Any other code of 1 to 8 of `A-Z 0-9
/// -` that begins with a letter is kept as it is and counts as a start.
///
/// A horse that came under starter's orders has started, unless the starter or the stewards withdrew it (British Rules
/// of Racing (B)36.6). The Club counts in the same way: the totals of its horses include PU, UR and FE, and exclude WV
/// and WV-A. In its results TNP (took no part) has a draw and a price, as runners have; a withdrawn horse has neither.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(
    description = "Why a runner has no placing. WV, WV-A, WX, WX-A, WXNR, WX-NR, WR, SCR and NR are not starts; VOID counts for nobody."
)]
#[schemars(extend("pattern" = "^[A-Z][A-Z0-9-]{0,7}$", "examples" = ["PU"]))]
pub struct Outcome(String);

string_newtype!(Outcome);

impl Outcome {
    /// The codes of horses that were withdrawn before the start, or were never runners.
    #[rustfmt::skip]
    const WITHDRAWN: [&'static str; 9] =
        ["WV", "WV-A", "WX", "WX-A", "WXNR", "WX-NR", "WR", Self::SCRATCHED, "NR"];
    /// The code of a void race, or of one runner for whom it is void.
    const VOID: &'static str = "VOID";
    /// The code of a runner that was withdrawn from the card and is not in the result.
    pub const SCRATCHED: &'static str = "SCR";

    /// Parses a code.
    ///
    /// # Errors
    /// Returns [`ParseError`] for more than 8 characters, another first character than a letter, or any other
    /// character.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let after_letter = |b: u8| b.is_ascii_digit() || b == b'-';
        let known = |(at, b): (usize, u8)| b.is_ascii_uppercase() || at > 0 && after_letter(b);
        let expected = "an outcome is a code such as PU, UR or WV-A";
        code(text, 1..=8, known, expected).map(Self)
    }

    /// Whether the outcome is a start: neither a withdrawal nor void.
    pub fn is_start(&self) -> bool {
        !self.is_void() && !Self::WITHDRAWN.contains(&self.as_str())
    }

    /// Whether the race counts for nothing, not even its stakes.
    pub fn is_void(&self) -> bool {
        self.0 == Self::VOID
    }
}

#[cfg(test)]
mod tests {
    use super::Outcome;

    #[test]
    fn an_outcome_is_a_code_and_not_a_position() {
        for text in ["PU", "WV-A", "DISQ", "X2", "ABCDEFGH"] {
            assert_eq!(Outcome::parse(text).expect(text).as_str(), text);
        }
        for text in [
            "",
            "1",
            "-1",
            "---",
            "7-UP",
            "pu",
            "P U",
            "1 DH",
            "ABCDEFGHI",
            "PU ",
        ] {
            assert!(Outcome::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn every_outcome_but_a_withdrawal_and_a_void_is_a_start() {
        let is_start = |text: &str| Outcome::parse(text).expect(text).is_start();
        for text in ["PU", "UR", "FE", "DNF", "TNP", "DISQ", "XYZ"] {
            assert!(is_start(text), "{text}");
        }
        for text in [
            "WV", "WV-A", "WX", "WX-A", "WXNR", "WX-NR", "WR", "SCR", "NR", "VOID",
        ] {
            assert!(!is_start(text), "{text}");
        }
    }
}
