//! The names under which views and state lie in the store, in the order in which they are read.
//!
//! Keys are text: `<kind>/<what>`. Numbers within a key are padded, so that the byte order is the order of the numbers.

use events::{HorseNo, RaceKey, RaceNumber, RacingDate, VenueCode};

/// Everything under this prefix is the store's own and belongs to no view.
pub const META: &str = "meta/";
/// Every refused message.
pub const REJECTIONS: &str = "rejection/";
/// Every race whose odds may still move.
pub const OPEN_RACES: &str = "open/";
/// Every meeting.
pub const MEETINGS: &str = "meeting/";

fn race(kind: &str, race: &RaceKey) -> String {
    format!(
        "{kind}/{}/{}/{:03}",
        race.date,
        race.venue,
        race.race_number.get()
    )
}

fn meeting(kind: &str, date: RacingDate, venue: &VenueCode) -> String {
    format!("{kind}/{date}/{venue}/")
}

/// A horse's profile.
#[must_use]
pub fn profile(horse_no: &HorseNo) -> String {
    format!("horse/{horse_no}")
}

/// All form rows of a horse, oldest first.
#[must_use]
pub fn form(horse_no: &HorseNo) -> String {
    format!("form/{horse_no}/")
}

/// The key behind all form rows of a horse.
#[must_use]
pub fn form_end(horse_no: &HorseNo) -> String {
    format!("form/{horse_no}/~")
}

/// A horse's form row for one race.
#[must_use]
pub fn form_row(horse_no: &HorseNo, key: &RaceKey) -> String {
    race(&format!("form/{horse_no}"), key)
}

/// The first key of a horse's form on or after a date.
#[must_use]
pub fn form_from(horse_no: &HorseNo, date: RacingDate) -> String {
    format!("form/{horse_no}/{date}/")
}

/// A race's card.
#[must_use]
pub fn card(key: &RaceKey) -> String {
    race("card", key)
}

/// All cards of a meeting, by race number.
#[must_use]
pub fn cards(date: RacingDate, venue: &VenueCode) -> String {
    meeting("card", date, venue)
}

/// A race's result.
#[must_use]
pub fn result(key: &RaceKey) -> String {
    race("result", key)
}

/// All results of a meeting, by race number.
#[must_use]
pub fn results(date: RacingDate, venue: &VenueCode) -> String {
    meeting("result", date, venue)
}

/// All statements of a race's result, in the order of the log.
#[must_use]
pub fn revisions(key: &RaceKey) -> String {
    race("revision", key) + "/"
}

/// The `index`th statement of a race's result, from 0.
#[must_use]
pub fn revision(key: &RaceKey, index: u32) -> String {
    format!("{}{index:06}", revisions(key))
}

/// A meeting.
#[must_use]
pub fn meeting_view(date: RacingDate, venue: &VenueCode) -> String {
    format!("{MEETINGS}{date}/{venue}")
}

/// All meetings of a day, by venue code.
#[must_use]
pub fn meetings_of(date: RacingDate) -> String {
    format!("{MEETINGS}{date}/")
}

/// A race's odds board.
#[must_use]
pub fn board(key: &RaceKey) -> String {
    race("odds", key)
}

/// All odds boards of a day, by venue code and race number.
#[must_use]
pub fn boards_of(date: RacingDate) -> String {
    format!("odds/{date}/")
}

/// The race that a key of one race's view is about, such as [`board`] or [`open_race`] make.
#[must_use]
pub fn parse_race(key: &str) -> Option<RaceKey> {
    let mut parts = key.split('/').skip(1);
    let (date, venue, number) = (parts.next()?, parts.next()?, parts.next()?);
    Some(RaceKey {
        date: RacingDate::parse(date).ok()?,
        venue: VenueCode::parse(venue).ok()?,
        race_number: RaceNumber::try_from(number.parse::<u16>().ok()?).ok()?,
    })
}

/// The mark of a race whose odds may still move.
#[must_use]
pub fn open_race(key: &RaceKey) -> String {
    race("open", key)
}

/// All chunks of a race's odds history, in the order of the log.
#[must_use]
pub fn ticks(key: &RaceKey) -> String {
    race("tick", key) + "/"
}

/// The `index`th chunk of a race's odds history, from 0.
#[must_use]
pub fn tick_chunk(key: &RaceKey, index: u32) -> String {
    format!("{}{index:06}", ticks(key))
}

/// A refused message, by its place in the log.
#[must_use]
pub fn rejection(seq: u64) -> String {
    format!("{REJECTIONS}{seq:020}")
}

/// How many messages were refused.
pub(crate) const REFUSED: &str = "state/refused";

pub(crate) fn race_state(key: &RaceKey) -> String {
    race("state/race", key)
}

pub(crate) fn board_state(key: &RaceKey) -> String {
    race("state/odds", key)
}

pub(crate) fn horse_state(horse_no: &HorseNo) -> String {
    format!("state/horse/{horse_no}")
}

pub(crate) fn meeting_state(date: RacingDate, venue: &VenueCode) -> String {
    format!("state/meeting/{date}/{venue}")
}
