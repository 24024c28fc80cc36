//! [`RaceHeading`]: the fields of a race beside its runners.

use events::{
    Currency, DeclaredRunner, FinishTime, Moment, Names, RaceDeclared, RaceKey, ResultDeclared,
    ResultRunner, Text,
};

use crate::item::{LineItems, Location};

/// The revision of every imported result: files contain only the last one.
pub(crate) const REVISION: u32 = 1;

/// The fields of a race beside its runners, which each row of a table repeats. An unknown text is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RaceHeading {
    pub(crate) venue_name: Option<Text>,
    pub(crate) venue_names: Names,
    pub(crate) race_name: Text,
    pub(crate) race_names: Names,
    /// Metres; 0 where it is not known.
    pub(crate) distance: u32,
    pub(crate) class: Text,
    pub(crate) going: Text,
    pub(crate) surface: Text,
    pub(crate) course: Text,
    pub(crate) rating_band: Text,
    pub(crate) prize: Option<(u64, Currency)>,
    pub(crate) sectionals: Vec<FinishTime>,
    pub(crate) off_time: Option<Moment>,
    /// The racecourse's time zone, where the source names it.
    pub(crate) time_zone: Option<Text>,
}

impl RaceHeading {
    /// Notes that the heading of a row is not this one of the first row of its race.
    pub(crate) fn compare(&self, row: &Self, key: &RaceKey, first: &Location, out: &mut LineItems) {
        if self != row {
            let what = format!("the name, distance, going or another field of {key}");
            out.note(format!(
                "{what} differs from line {}, which is kept",
                first.line
            ));
        }
    }

    /// Takes what this heading lacks from another one. A class is not taken: in some files races without one have a
    /// number in its place.
    pub(crate) fn fill(&mut self, other: &Self) {
        self.race_name = self.race_name.or(&other.race_name).clone();
        self.going = self.going.or(&other.going).clone();
        self.surface = self.surface.or(&other.surface).clone();
        self.course = self.course.or(&other.course).clone();
        self.prize = self.prize.take().or_else(|| other.prize.clone());
        if self.distance == 0 {
            self.distance = other.distance;
        }
    }

    pub(crate) fn result(self, key: RaceKey, runners: Vec<ResultRunner>) -> ResultDeclared {
        let (prize, prize_currency) = self.prize.unzip();
        ResultDeclared {
            venue_name: self.venue_name,
            venue_names: self.venue_names,
            names: self.race_names,
            race_name: known(self.race_name),
            distance: (self.distance > 0).then_some(self.distance),
            going: known(self.going),
            class: known(self.class),
            surface: known(self.surface),
            course: known(self.course),
            rating_band: known(self.rating_band),
            prize,
            prize_currency,
            sectionals: self.sectionals,
            runners,
            ..ResultDeclared::of(key, REVISION)
        }
    }

    pub(crate) fn card(self, key: RaceKey, runners: Vec<DeclaredRunner>) -> RaceDeclared {
        let (prize, prize_currency) = self.prize.unzip();
        RaceDeclared {
            venue_name: self.venue_name,
            venue_names: self.venue_names,
            race_name: self.race_name,
            names: self.race_names,
            distance: self.distance,
            class: self.class,
            going: known(self.going),
            surface: known(self.surface),
            course: known(self.course),
            rating_band: known(self.rating_band),
            prize,
            prize_currency,
            off_time: self.off_time,
            time_zone: self.time_zone,
            runners,
            ..RaceDeclared::of(key)
        }
    }
}

/// A text that is not empty.
pub(crate) fn known(text: Text) -> Option<Text> {
    (!text.is_empty()).then_some(text)
}
