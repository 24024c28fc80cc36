//! [`Meeting`]: one of the two meetings of a day, and when its races are.

use events::{RaceNumber, RacingDate, Text, VenueCode};

use super::words::text;
use super::{HOUR_MS, MINUTE_MS, RaceDay, VENUES};

/// The last race of the day is off after midnight, and belongs to the day's date all the same.
pub(super) const LAST_OFF_MS: u64 = 24 * HOUR_MS + 20 * MINUTE_MS;
const BETWEEN_RACES_MS: u64 = 30 * MINUTE_MS;
/// So many races of the afternoon are still to come when the evening's first is off, ...
const OVERLAP_RACES: u64 = 3;
/// ... and the races of one meeting are off between those of the other.
const BETWEEN_MEETINGS_MS: u64 = 15 * MINUTE_MS;
/// The cards of both meetings are out so long before the first race of the day.
const CARDS_OUT_BEFORE_MS: u64 = 10 * MINUTE_MS;

/// Horses of a venue for each race of a day: as many as the fullest field.
pub(super) const STABLED_PER_RACE: u64 = 14;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Session {
    Afternoon,
    Evening,
}

/// One of the two meetings of a day.
pub(super) struct Meeting<'a> {
    day: &'a RaceDay,
    pub(super) session: Session,
}

impl<'a> Meeting<'a> {
    pub(super) fn afternoon(day: &'a RaceDay) -> Self {
        let session = Session::Afternoon;
        Self { day, session }
    }

    pub(super) fn evening(day: &'a RaceDay) -> Self {
        let session = Session::Evening;
        Self { day, session }
    }

    pub(super) fn date(&self) -> RacingDate {
        self.day.date
    }

    pub(super) fn venue(&self) -> VenueCode {
        VenueCode::parse(self.racecourse().0).expect("two capitals are a code")
    }

    pub(super) fn venue_name(&self) -> Text {
        text(self.racecourse().1)
    }

    fn racecourse(&self) -> (&'static str, &'static str) {
        match self.session {
            Session::Afternoon => VENUES[0],
            Session::Evening => VENUES[1],
        }
    }

    pub(super) fn races(&self) -> u64 {
        self.day.races.into()
    }

    /// The number of the nth race of this day, from 1.
    pub(super) fn race_number(&self, nth: u64) -> RaceNumber {
        u16::try_from(u64::from(self.day.races_before) + nth)
            .ok()
            .and_then(|number| RaceNumber::try_from(number).ok())
            .expect("a day has more races while there are numbers for them")
    }

    /// The horses that may run: no horse runs twice on a date.
    pub(super) fn stabled(&self) -> impl Iterator<Item = u64> + use<> {
        let before = u64::from(self.day.races_before) * STABLED_PER_RACE;
        (1..=self.races() * STABLED_PER_RACE).map(move |n| before + n)
    }

    /// When the nth race is off, after midnight.
    pub(super) fn off_ms(&self, nth: u64) -> u64 {
        let evening_ms = LAST_OFF_MS - (self.races() - nth) * BETWEEN_RACES_MS;
        let ahead = self.races().saturating_sub(OVERLAP_RACES).max(1);
        match self.session {
            Session::Evening => evening_ms,
            Session::Afternoon => evening_ms - ahead * BETWEEN_RACES_MS - BETWEEN_MEETINGS_MS,
        }
    }

    /// When the cards of the day are out.
    pub(super) fn cards_out_ms(&self) -> u64 {
        Self::afternoon(self.day).off_ms(1) - CARDS_OUT_BEFORE_MS
    }

    /// Names something of this meeting, and of no other.
    pub(super) fn label(&self, what: &str) -> String {
        self.day.label(format_args!("{}/{what}", self.venue()))
    }

    /// Names something of the venue, on every date.
    pub(super) fn venue_label(&self) -> String {
        format!("{}/{}", self.day.seed, self.venue())
    }
}
