//! [`Placing`]: the position in which a runner finished, or why it did not.

use events::{Outcome, ParseError};

/// `3`, `3 DH` (a dead heat), or a code such as `PU`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Placing {
    At { position: u16, dead_heat: bool },
    Without(Outcome),
}

impl Placing {
    pub(crate) fn parse(text: &str) -> Result<Self, ParseError> {
        let text = text.trim();
        let wrong = || ParseError::new("a placing is a number from 1, or a code such as PU", text);
        let (number, dead_heat) = match text.strip_suffix("DH") {
            Some(number) => (number.trim_end(), true),
            None => (text, false),
        };
        if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) {
            let position = number.parse().map_err(|_| wrong())?;
            return match position {
                0 => Err(wrong()),
                position => Ok(Self::At {
                    position,
                    dead_heat,
                }),
            };
        }
        // `-1` and the like are invalid numbers, and not codes.
        match text.starts_with(|c: char| c.is_ascii_uppercase()) {
            true => Outcome::parse(text).map(Self::Without),
            false => Err(wrong()),
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
