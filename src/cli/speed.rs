//! [`Speed`]: how much faster than in life events are published.

use std::str::FromStr;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Speed {
    /// At this multiple of the pace in life.
    Times(f64),
    /// As fast as the log accepts events.
    Max,
}

impl FromStr for Speed {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            _ if text == "max" => Ok(Self::Max),
            Ok(times) if (0.1..=1_000_000.0).contains(&times) => Ok(Self::Times(times)),
            _ => Err("a speed is 0.1 to 1000000, or max"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Speed;

    #[test]
    fn a_speed_is_a_number_within_bounds_or_max() {
        for (text, times) in [("0.1", 0.1), ("1", 1.0), ("60", 60.0), ("1000000", 1e6)] {
            assert_eq!(text.parse(), Ok(Speed::Times(times)));
        }
        assert_eq!("max".parse(), Ok(Speed::Max));
        for text in [
            "", "0", "0.09", "-1", "1000001", "NaN", "inf", "fast", "60x",
        ] {
            assert!(text.parse::<Speed>().is_err(), "{text}");
        }
    }
}
