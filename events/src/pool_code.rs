//! [`PoolCode`]: the code of a betting pool.

use schemars::JsonSchema;

use crate::ParseError;
use crate::string_form::{code, string_newtype};

/// The code of a pool: 1 to 32 of `a-z 0-9 _` that begin with a letter, such as `win`, `place`, `quinella`,
/// `quinella_place`, `forecast`, `tierce`, `trio`, `first_4`, `quartet`. Any other code is kept as it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(
    description = "The code of a pool: win, place, quinella, quinella_place, forecast, tierce, trio, first_4, quartet or another."
)]
#[schemars(extend("pattern" = "^[a-z][a-z0-9_]{0,31}$", "examples" = ["quinella_place"]))]
pub struct PoolCode(String);

string_newtype!(PoolCode);

impl PoolCode {
    /// Win and place, which one event quotes by runner. No other event may name it.
    pub fn win_place() -> Self {
        Self("win_place".to_owned())
    }

    /// Parses a code.
    ///
    /// # Errors
    /// Returns [`ParseError`] for more than 32 characters, another first character than a letter, or any other
    /// character.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let after_letter = |b: u8| b.is_ascii_digit() || b == b'_';
        let known = |(at, b): (usize, u8)| b.is_ascii_lowercase() || at > 0 && after_letter(b);
        let expected = "a pool is 1 to 32 of a-z 0-9 _ that begin with a letter";
        code(text, 1..=32, known, expected).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::PoolCode;

    #[test]
    fn a_pool_is_a_code() {
        for text in ["win", "first_4", "x", &"x".repeat(32)] {
            assert_eq!(PoolCode::parse(text).expect(text).as_str(), text);
        }
        for text in ["", "Win", "4", "_a", "first 4", "é", &"x".repeat(33)] {
            assert!(PoolCode::parse(text).is_err(), "{text:?}");
        }
    }
}
