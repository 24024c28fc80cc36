//! [`Placing`]: the position in which a runner finished, or why it did not.

use events::{Outcome, ParseError, RUNNERS_MAX};

use crate::units::whole;

/// `3`, `3 DH` (a dead heat), or a code such as `PU`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Placing {
    /// The position, and whether it is shared.
    At(u16, bool),
    Without(Outcome),
}

/// Up to [`RUNNERS_MAX`]: in some files 99 means that there is no placing.
const EXPECTED: &str = "a placing is a number from 1 to 64, or a code such as PU";

impl Placing {
    pub(crate) fn parse(text: &str) -> Result<Self, ParseError> {
        let text = text.trim();
        let (number, dead_heat) = match text.strip_suffix("DH") {
            Some(number) => (number.trim_end(), true),
            None => (text, false),
        };
        match whole(number) {
            Some(position) => Self::at(position, dead_heat),
            None if text.starts_with(|c: char| c.is_ascii_uppercase()) => {
                Outcome::parse(text).map(Self::Without)
            }
            // `-1` and the like are invalid numbers, and not codes.
            None => Err(ParseError::new(EXPECTED, text)),
        }
    }

    pub(crate) fn at(position: u16, dead_heat: bool) -> Result<Self, ParseError> {
        if !(1..=RUNNERS_MAX).contains(&usize::from(position)) {
            return Err(ParseError::new(EXPECTED, position));
        }
        Ok(Self::At(position, dead_heat))
    }

    /// The position or the outcome.
    pub(crate) fn split(self) -> (Option<u16>, Option<Outcome>) {
        match self {
            Self::At(position, _) => (Some(position), None),
            Self::Without(outcome) => (None, Some(outcome)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Placing;

    #[test]
    fn a_placing_is_a_number_a_dead_heat_or_a_code() {
        assert_eq!(Placing::parse("3"), Ok(Placing::At(3, false)));
        assert_eq!(Placing::parse("1 DH"), Ok(Placing::At(1, true)));
        for code in ["PU", "WV-A", "TNP"] {
            let (position, outcome) = Placing::parse(code).expect(code).split();
            assert_eq!(position, None);
            assert_eq!(outcome.expect(code).as_str(), code);
        }
        for wrong in ["", "0", "-1", "1.5", "banana", "65", "99", "99999", "0 DH"] {
            assert!(Placing::parse(wrong).is_err(), "{wrong}");
        }
    }
}
