//! [`RaceDay`]: two meetings and when their races are off; [`Pace`]: how fast they are played.

use std::fmt::Display;

use events::RacingDate;
use jiff::{SignedDuration, Timestamp};

use crate::units::{HOUR_MS, MINUTE_MS};

/// The most races of a meeting: they have to fit into a day.
pub const RACES_MAX: u16 = 20;

/// The invented racecourses of the afternoon and of the evening: code and name. The first by code is served where no
/// venue is requested.
pub const VENUES: [(&str, &str); 2] = [("RB", "Railbird Park"), ("SM", "Saltmarsh")];

/// A race number has three digits.
const RACE_NUMBER_MAX: u16 = 999;

/// The slowest speed.
const SPEED_MIN: f64 = 0.01;

/// The last race of the day is off after midnight, and still belongs to the day's date.
const LAST_OFF_MS: u64 = 24 * HOUR_MS + 20 * MINUTE_MS;
const BETWEEN_RACES_MS: u64 = 30 * MINUTE_MS;
/// Races of the afternoon that are off after the first one of the evening.
const OVERLAP_RACES: u64 = 3;
/// The races of one meeting are off between those of the other.
const BETWEEN_MEETINGS_MS: u64 = 15 * MINUTE_MS;
/// The cards of both meetings are out this long before the first race of the day.
const CARDS_OUT_BEFORE_MS: u64 = 10 * MINUTE_MS;

/// A race day: a meeting in the afternoon, and one in the evening that ends after midnight.
///
/// With [`RaceDay::FULL_RACES`] or more races at each, everything happens that the simulator has: see `twists.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RaceDay {
    pub(crate) date: RacingDate,
    /// The races of each meeting.
    pub(crate) races: u16,
    /// The races of each meeting before these, with lower numbers.
    pub(crate) races_before: u16,
    pub(crate) seed: u64,
}

/// One of the two meetings of a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MeetingTime {
    Afternoon,
    Evening,
}

impl RaceDay {
    /// From so many races at each meeting on, everything happens that the simulator has.
    pub const FULL_RACES: u16 = 4;

    /// A day with so many races at each meeting, limited to 1 to [`RACES_MAX`].
    pub fn new(date: RacingDate, races: u16, seed: u64) -> Self {
        Self {
            date,
            races: races.clamp(1, RACES_MAX),
            races_before: 0,
            seed,
        }
    }

    /// The same number of further races on the same date, with other horses; `None` when the race numbers are used up.
    pub fn more(self) -> Option<Self> {
        let races_before = self.races_before + self.races;
        (races_before + self.races <= RACE_NUMBER_MAX).then_some(Self {
            races_before,
            ..self
        })
    }

    /// The pace of a real day whose date begins at `midnight`: the last race is off twenty minutes after the next one.
    pub fn as_in_life(&self, midnight: Timestamp) -> Pace {
        Pace {
            begins: after(midnight, self.cards_out_ms()),
            speed: 1.0,
        }
    }

    /// When the last race is off.
    pub fn last_off(&self, pace: &Pace) -> Timestamp {
        pace.at(LAST_OFF_MS - self.cards_out_ms())
    }

    /// When the cards of the day are out, in milliseconds after midnight.
    pub(crate) fn cards_out_ms(&self) -> u64 {
        self.off_ms(MeetingTime::Afternoon, 1) - CARDS_OUT_BEFORE_MS
    }

    /// When the nth race of a meeting is off, in milliseconds after midnight.
    pub(crate) fn off_ms(&self, session: MeetingTime, nth: u64) -> u64 {
        let races = u64::from(self.races);
        let evening_ms = LAST_OFF_MS - (races - nth) * BETWEEN_RACES_MS;
        let ahead = races.saturating_sub(OVERLAP_RACES).max(1);
        match session {
            MeetingTime::Evening => evening_ms,
            MeetingTime::Afternoon => evening_ms - ahead * BETWEEN_RACES_MS - BETWEEN_MEETINGS_MS,
        }
    }

    /// A name for a part of this day, and of no other.
    pub(crate) fn label(&self, part: impl Display) -> String {
        let races = format_args!("{}+{}", self.races_before, self.races);
        format!("{}/{}/{races}/{part}", self.seed, self.date)
    }
}

/// When a day begins, and how much faster than in life it is played.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// When the cards are out, some minutes before the first race.
    pub begins: Timestamp,
    /// At least 0.01: anything else counts as that.
    pub speed: f64,
}

impl Pace {
    /// The time so many milliseconds after the cards are out.
    pub(crate) fn at(&self, since_ms: u64) -> Timestamp {
        // A day has under 2^53 ms, and a float is cast to the nearest integer that there is.
        let speed = self.speed.max(SPEED_MIN);
        after(self.begins, (since_ms as f64 / speed).round() as u64)
    }
}

fn after(time: Timestamp, ms: u64) -> Timestamp {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    time.saturating_add(SignedDuration::from_millis(ms))
        .unwrap_or(Timestamp::MAX)
}
