//! [`MeetingPlan`]: one of the two meetings of a day, its racecourse, races and horses.

use events::{RaceNumber, Text, VenueCode};

use crate::day::{MeetingTime, RaceDay, VENUES};
use crate::words::text;

/// Horses of a venue for each race of a day: as many as the fullest field.
pub(crate) const STABLED_PER_RACE: u64 = 14;

pub(crate) struct MeetingPlan<'a> {
    pub(crate) day: &'a RaceDay,
    pub(crate) session: MeetingTime,
}

impl MeetingPlan<'_> {
    pub(crate) fn venue(&self) -> VenueCode {
        VenueCode::parse(self.racecourse().0).expect("two capitals are a code")
    }

    pub(crate) fn venue_name(&self) -> Text {
        text(self.racecourse().1)
    }

    fn racecourse(&self) -> (&'static str, &'static str) {
        VENUES[self.session as usize]
    }

    pub(crate) fn races(&self) -> u64 {
        self.day.races.into()
    }

    /// The number of the nth race of this day, from 1.
    pub(crate) fn race_number(&self, nth: u64) -> RaceNumber {
        u16::try_from(u64::from(self.day.races_before) + nth)
            .ok()
            .and_then(|number| RaceNumber::try_from(number).ok())
            .expect("a day has more races only while there are numbers for them")
    }

    /// The horses that may run: no horse runs twice on a date.
    pub(crate) fn stabled(&self) -> impl Iterator<Item = u64> + use<> {
        let before = u64::from(self.day.races_before) * STABLED_PER_RACE;
        (1..=self.races() * STABLED_PER_RACE).map(move |n| before + n)
    }

    /// When the nth race is off, in milliseconds after midnight.
    pub(crate) fn off_ms(&self, nth: u64) -> u64 {
        self.day.off_ms(self.session, nth)
    }

    /// A name for a part of this meeting, and of no other.
    pub(crate) fn label(&self, part: &str) -> String {
        self.day.label(format_args!("{}/{part}", self.venue()))
    }

    /// A name for the venue, the same on every date.
    pub(crate) fn venue_label(&self) -> String {
        format!("{}/{}", self.day.seed, self.venue())
    }
}
