//! [`Margin`]: the distance of a runner behind the winner.

use std::fmt;

use schemars::JsonSchema;

use crate::ParseError;
use crate::string_form::string_form;

/// The distance of a runner behind the winner as the judge states it: lengths in quarters, or a word.
///
/// On the wire `3/4`, `2`, `2-1/2`; `NOSE`, `SH` (a short head), `HD` (a head), `N` (a neck), `ML` (many lengths), `TO`
/// (tailed off) or `DIST` (a distance).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(
    with = "String",
    description = "Lengths behind the winner, 2-1/2, or NOSE, SH (short head), HD (head), N (neck), ML (many lengths), TO (tailed off), DIST (a distance)."
)]
#[schemars(extend(
    "pattern" = "^([1-9][0-9]{0,2}(-(1/4|1/2|3/4))?|1/4|1/2|3/4|NOSE|SH|HD|N|ML|TO|DIST)$",
    "examples" = ["2-1/2"],
))]
pub struct Margin(Distance);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Distance {
    Quarters(u16),
    /// Its index in [`Margin::WORDS`].
    Word(usize),
}

string_form!(Margin);

impl Margin {
    const EXPECTED: &'static str =
        "a margin is lengths such as 3/4 or 2-1/2, or NOSE, SH, HD, N, ML, TO or DIST";
    const WORDS: [&'static str; 7] = ["NOSE", "SH", "HD", "N", "ML", "TO", "DIST"];
    const FRACTIONS: [&'static str; 4] = ["", "1/4", "1/2", "3/4"];
    const QUARTERS_MAX: u16 = 3_999;

    /// A margin of so many quarters of a length.
    ///
    /// # Errors
    /// Returns [`ParseError`] for 0, and for a thousand lengths or more.
    pub fn from_quarters(quarters: u16) -> Result<Self, ParseError> {
        let is_in_range = (1..=Self::QUARTERS_MAX).contains(&quarters);
        let margin = is_in_range.then_some(Self(Distance::Quarters(quarters)));
        margin.ok_or_else(|| ParseError::new(Self::EXPECTED, quarters))
    }

    /// Parses lengths or a word.
    ///
    /// # Errors
    /// Returns [`ParseError`] for any other form.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let wrong = || ParseError::new(Self::EXPECTED, text);
        if let Some(word) = Self::WORDS.iter().position(|word| *word == text) {
            return Ok(Self(Distance::Word(word)));
        }
        let (whole, fraction) = match text.split_once('-') {
            Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
            Some(_) => return Err(wrong()),
            None if text.contains('/') => ("", text),
            None => (text, ""),
        };
        let is_number = !whole.starts_with('0') && whole.bytes().all(|b| b.is_ascii_digit());
        let lengths: u16 = match whole {
            "" if text == fraction => 0,
            _ if is_number && whole.len() <= 3 => whole.parse().map_err(|_| wrong())?,
            _ => return Err(wrong()),
        };
        let mut fractions = Self::FRACTIONS.iter().zip(0..);
        let quarters = fractions.find(|(f, _)| **f == fraction);
        let (_, quarters) = quarters.ok_or_else(wrong)?;
        Self::from_quarters(4 * lengths + quarters).map_err(|_| wrong())
    }
}

impl fmt::Display for Margin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Distance::Word(word) => f.write_str(Self::WORDS[word]),
            Distance::Quarters(quarters) => {
                match (quarters / 4, Self::FRACTIONS[usize::from(quarters % 4)]) {
                    (0, fraction) => f.write_str(fraction),
                    (lengths, "") => write!(f, "{lengths}"),
                    (lengths, fraction) => write!(f, "{lengths}-{fraction}"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Margin;

    #[test]
    fn a_margin_is_written_as_it_was_read() {
        for text in [
            "1/4", "3/4", "1", "2-1/2", "98-3/4", "999-3/4", "NOSE", "SH", "HD", "N", "ML", "TO",
            "DIST",
        ] {
            assert_eq!(Margin::parse(text).expect(text).to_string(), text);
        }
        assert_eq!(Margin::from_quarters(5), Margin::parse("1-1/4"));
    }

    #[test]
    fn an_invalid_margin_is_rejected() {
        for text in [
            "", "0", "-", "---", "-1/2", "1-", "1-1", "2/4", "1/3", "01", "1000", "1.25", "+1",
            "n", "1 1/4", "0-1/4",
        ] {
            assert!(Margin::parse(text).is_err(), "{text:?}");
        }
        assert!(Margin::from_quarters(0).is_err() && Margin::from_quarters(4_000).is_err());
    }
}
