//! [`RaceHeading`]: the fields of a race beside its runners.

use events::{FinishTime, RaceDeclared, RaceKey, ResultDeclared, ResultRunner, Text};

use crate::item::{LineItems, Location};

/// The revision of every imported result: files contain only the last one.
pub(crate) const REVISION: u32 = 1;

/// The fields of a race beside its runners, which each row of a table repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RaceHeading {
    /// Without runners.
    pub(crate) card: RaceDeclared,
    pub(crate) sectionals: Vec<FinishTime>,
}

impl RaceHeading {
    pub(crate) fn of(card: RaceDeclared) -> Self {
        let sectionals = Vec::new();
        Self { card, sectionals }
    }

    /// Notes that the heading of a row is not this one of the first row of its race.
    pub(crate) fn compare(&self, row: &Self, key: &RaceKey, first: &Location, out: &mut LineItems) {
        if self != row {
            let what = format!("the name, distance, going or another field of {key}");
            let line = first.line;
            out.note(format!("{what} differs from line {line}, which is kept"));
        }
    }

    /// Takes what this heading lacks from another one. A class is not taken: in some files races without one have a
    /// number in its place.
    pub(crate) fn fill(&mut self, other: &Self) {
        let (card, other) = (&mut self.card, &other.card);
        card.race_name = card.race_name.or(&other.race_name).clone();
        card.going = card.going.take().or_else(|| other.going.clone());
        card.surface = card.surface.take().or_else(|| other.surface.clone());
        card.course = card.course.take().or_else(|| other.course.clone());
        if card.prize.is_none() {
            card.prize = other.prize;
            card.prize_currency.clone_from(&other.prize_currency);
        }
        if card.distance == 0 {
            card.distance = other.distance;
        }
    }

    pub(crate) fn result(self, key: RaceKey, runners: Vec<ResultRunner>) -> ResultDeclared {
        let card = self.card;
        ResultDeclared {
            venue_name: card.venue_name,
            venue_names: card.venue_names,
            race_name: known(card.race_name),
            names: card.names,
            distance: (card.distance > 0).then_some(card.distance),
            class: known(card.class),
            going: card.going,
            surface: card.surface,
            course: card.course,
            rating_band: card.rating_band,
            prize: card.prize,
            prize_currency: card.prize_currency,
            sectionals: self.sectionals,
            runners,
            ..ResultDeclared::of(key, REVISION)
        }
    }
}

/// A text that is not empty.
pub(crate) fn known(text: Text) -> Option<Text> {
    (!text.is_empty()).then_some(text)
}
