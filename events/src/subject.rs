//! [`Subject`]: the subject of a fact in the log.

use derive_more::Display;

use crate::{HorseNo, RaceKey, RaceNumber, RacingDate, VenueCode};

/// All subjects of the log, as a NATS wildcard.
pub const SUBJECTS: &str = "racing.>";

/// A subject of the log, such as `racing.odds.2026-11-21.ST.3`.
#[derive(Debug, Display, Clone, PartialEq, Eq, Hash)]
pub enum Subject {
    /// `racing.horse.<horse_no>`
    #[display("racing.horse.{_0}")]
    Horse(HorseNo),
    /// `racing.race.<date>.<venue>.<race>`
    #[display("racing.race.{_0}")]
    Race(RaceKey),
    /// `racing.result.<date>.<venue>.<race>`
    #[display("racing.result.{_0}")]
    Result(RaceKey),
    /// `racing.odds.<date>.<venue>.<race>`
    #[display("racing.odds.{_0}")]
    Odds(RaceKey),
    /// `racing.sources`
    #[display("racing.sources")]
    Sources,
}

impl Subject {
    /// Parses a subject; `None` for any other form than the five.
    pub fn parse(text: &str) -> Option<Self> {
        let mut tokens = text.strip_prefix("racing.")?.split('.');
        let mut next = || tokens.next();
        match (next(), next(), next(), next(), next()) {
            (Some("sources"), None, ..) => Some(Self::Sources),
            (Some("horse"), Some(horse_no), None, ..) => {
                HorseNo::parse(horse_no).ok().map(Self::Horse)
            }
            (Some(kind), Some(date), Some(venue), Some(race_number), None) => {
                let race = RaceKey {
                    date: RacingDate::parse(date).ok()?,
                    venue: VenueCode::parse(venue).ok()?,
                    race_number: RaceNumber::parse(race_number).ok()?,
                };
                match kind {
                    "race" => Some(Self::Race(race)),
                    "result" => Some(Self::Result(race)),
                    "odds" => Some(Self::Odds(race)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Subject;

    #[test]
    fn subjects_survive_a_round_trip() {
        for text in [
            "racing.horse.HK_2016_A123",
            "racing.race.2026-11-21.ST.3",
            "racing.result.2026-11-21.S1.11",
            "racing.odds.2026-11-21.HV.1",
            "racing.sources",
        ] {
            assert_eq!(Subject::parse(text).expect(text).to_string(), text);
        }
    }

    #[test]
    fn an_invalid_subject_is_rejected() {
        for text in [
            "",
            "racing",
            "racing.horse",
            "racing.horse.a.b",
            "racing.sources.tote",
            "racing.race.2026-11-21.ST",
            "racing.race.2026-11-21.st.3",
            "racing.race.2026-02-30.ST.3",
            "racing.race.2026-11-21.ST.03",
            "racing.race.2026-11-21.ST.0",
            "racing.tote.2026-11-21.ST.3",
            "other.horse.A1",
        ] {
            assert!(Subject::parse(text).is_none(), "{text}");
        }
    }
}
