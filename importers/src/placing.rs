//! [`Placing`]: the position in which a runner finished, or why it did not.

use events::{Outcome, ParseError};

use crate::units::whole;

/// `3`, `3 DH` (a dead heat), or a code such as `PU`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Placing {
    At { position: u16, dead_heat: bool },
    Without(Outcome),
}

impl Placing {
    pub(crate) fn parse(text: &str) -> Result<Self, ParseError> {
        let text = text.trim();
        let (number, dead_heat) = match text.strip_suffix("DH") {
            Some(number) => (number.trim_end(), true),
            None => (text, false),
        };
        match whole(number) {
            Some(position @ 1..) => Ok(Self::At {
                position,
                dead_heat,
            }),
            _ if text.starts_with(|c: char| c.is_ascii_uppercase()) => {
                Outcome::parse(text).map(Self::Without)
            }
            // `0`, `-1` and the like are invalid numbers, and not codes.
            _ => Err(ParseError::new(
                "a placing is a number from 1, or a code such as PU",
                text,
            )),
        }
    }

    pub(crate) fn position(&self) -> Option<u16> {
        match self {
            Self::At { position, .. } => Some(*position),
            Self::Without(_) => None,
        }
    }

    /// Whether the runner took part.
    pub(crate) fn is_start(&self) -> bool {
        self.outcome().is_none_or(Outcome::is_start)
    }

    pub(crate) fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::At { .. } => None,
            Self::Without(outcome) => Some(outcome),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Placing;

    #[test]
    fn a_placing_is_a_number_a_dead_heat_or_a_code() {
        let at = |position, dead_heat| Placing::At {
            position,
            dead_heat,
        };
        assert_eq!(Placing::parse("3"), Ok(at(3, false)));
        assert_eq!(Placing::parse("1 DH"), Ok(at(1, true)));
        for code in ["PU", "WV-A", "TNP"] {
            assert_eq!(
                Placing::parse(code)
                    .expect(code)
                    .outcome()
                    .expect(code)
                    .as_str(),
                code
            );
        }
        for wrong in ["", "0", "-1", "1.5", "banana", "99999", "0 DH"] {
            assert!(Placing::parse(wrong).is_err(), "{wrong}");
        }
    }
}
