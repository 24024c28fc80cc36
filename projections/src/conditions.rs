//! [`Conditions`]: what is known of a race beside the fields of every race.

use schemars::JsonSchema;
use serde::Serialize;

use crate::race::Race;

/// The fields that a card and a result share. Each is left out if it is unknown.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Conditions<'a> {
    /// Such as `TURF`.
    surface: Option<&'a str>,
    /// By the position of the rail, such as `C+3`.
    course: Option<&'a str>,
    /// The ratings that the race is for, such as `60-40`.
    rating_band: Option<&'a str>,
    /// In whole units of the currency.
    prize: Option<u64>,
    /// Such as `HKD`.
    prize_currency: Option<&'a str>,
}

impl<'a> Conditions<'a> {
    /// Those of the result, else those of the card.
    pub(crate) fn of(race: &'a Race) -> Self {
        let prize = race.prize();
        Self {
            surface: race.text(|r| r.surface.as_ref(), |c| c.surface.as_ref()),
            course: race.text(|r| r.course.as_ref(), |c| c.course.as_ref()),
            rating_band: race.text(|r| r.rating_band.as_ref(), |c| c.rating_band.as_ref()),
            prize: prize.map(|(prize, _)| prize),
            prize_currency: prize.and_then(|(_, currency)| currency),
        }
    }
}
