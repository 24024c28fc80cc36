//! [`Part`]: the races and horses that an answer depends on.

use std::collections::BTreeSet;

use events::{HorseNo, RaceKey, RaceNumber, RacingDate, VenueCode};

/// The races and horses that an answer depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// The cards and the results of all races of some days, and the odds of the races with a number.
    Days {
        dates: BTreeSet<RacingDate>,
        odds_of: Option<RaceNumber>,
    },
    /// All messages about the races of a day: of all venues and numbers, unless one is given.
    Races {
        date: RacingDate,
        venue: Option<VenueCode>,
        race_number: Option<RaceNumber>,
    },
    /// A horse, and the cards and the results of races.
    Horse {
        horse_no: HorseNo,
        races: Vec<RaceKey>,
    },
}

impl Part {
    /// The subjects of its messages. They may have wildcards, and no message is on two of them.
    pub(super) fn subjects(&self) -> Vec<String> {
        match self {
            Self::Days { dates, odds_of } => {
                let facts = dates.iter().flat_map(|date| {
                    ["race", "result"].map(|kind| format!("racing.{kind}.{date}.*.*"))
                });
                let odds = odds_of.iter().flat_map(|number| {
                    let subject = move |date| format!("racing.odds.{date}.*.{number}");
                    dates.iter().map(subject)
                });
                facts.chain(odds).collect()
            }
            Self::Races {
                date,
                venue,
                race_number,
            } => {
                let any = || "*".to_owned();
                let venue = venue.as_ref().map_or_else(any, VenueCode::to_string);
                let number = race_number.map_or_else(any, |number| number.to_string());
                vec![format!("racing.*.{date}.{venue}.{number}")]
            }
            Self::Horse { horse_no, races } => {
                let facts = races.iter().flat_map(|race| {
                    ["race", "result"].map(|kind| format!("racing.{kind}.{race}"))
                });
                facts.chain([subject_of_horse(horse_no)]).collect()
            }
        }
    }
}

/// The subject of what a horse is registered as.
pub(super) fn subject_of_horse(horse_no: &HorseNo) -> String {
    format!("racing.horse.{horse_no}")
}
