//! The keys of views and state in the store.
//!
//! A key is text, such as `result/2026-11-21/ST/003`. Numbers are padded, so that the order of bytes is the order of
//! numbers.

use events::{HorseNo, RaceKey, RaceNumber, RacingDate, VenueCode};

/// The prefix of the store's own values, which are not views.
pub const META: &str = "meta/";
/// The prefix of all rejections.
pub const REJECTIONS: &str = "rejection/";
/// The prefix of the marks of all open races.
pub const OPEN_RACES: &str = "open/";
/// The prefix of all meetings.
pub const MEETINGS: &str = "meeting/";
/// The prefix of the odds histories of all races.
pub(crate) const TICKS: &str = "tick/";
/// The prefix of the states of all boards.
pub(crate) const BOARD_STATES: &str = "state/odds/";
/// The prefix of the states of all races.
pub(crate) const RACE_STATES: &str = "state/race/";
/// The prefix of the states of all races before a period.
pub(crate) const REPLAY_STATES: &str = "state/replay/";
/// The prefix of the form rows of all horses.
pub(crate) const FORMS: &str = "form/";
/// The prefix of the index of horses by name.
pub const HORSE_NAMES: &str = "name/";
/// Between name and number in that index. No name has it, and it comes before all other characters: a name is before
/// those that begin with it.
const AFTER_NAME: char = '\t';

/// The number of quotes in one stored value of the history, 3 to 10 KiB. A full chunk is never written again.
pub(crate) const TICKS_PER_CHUNK: u32 = 32;

/// The greatest index of revisions and of chunks of the odds history.
const INDEX_MAX: u32 = 999_999;

/// Whose rides a list has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum RidesOf {
    /// A jockey, by identifier or name.
    Jockey,
    /// A trainer, by identifier or name.
    Trainer,
    /// An owner, by name.
    Owner,
    /// A racecourse, by code.
    Venue,
}

fn race(kind: &str, race: &RaceKey) -> String {
    let (date, venue, number) = (race.date, &race.venue, race.race_number.get());
    format!("{kind}/{date}/{venue}/{number:03}")
}

fn meeting(kind: &str, date: RacingDate, venue: &VenueCode) -> String {
    format!("{kind}/{date}/{venue}/")
}

/// A horse's profile.
pub fn profile(horse_no: &HorseNo) -> String {
    ["horse/", horse_no.as_str()].concat()
}

/// A name as it is compared with others: case is ignored.
pub fn folded(name: &str) -> String {
    // Character by character: as a whole, the lower case of a word may depend on what follows its beginning.
    name.chars().flat_map(char::to_lowercase).collect()
}

/// The index entry of a horse. Its value has the name, folded, and those in other languages, each on a line.
pub(crate) fn horse_name(name: &str, horse_no: &HorseNo) -> String {
    format!("{HORSE_NAMES}{}{AFTER_NAME}{horse_no}", folded(name))
}

/// The horse of an index entry. `None` if the key is not one.
pub fn parse_horse_name(key: &str) -> Option<HorseNo> {
    HorseNo::parse(key.rsplit_once(AFTER_NAME)?.1).ok()
}

/// The prefix of all form rows of a horse, oldest first.
pub fn form(horse_no: &HorseNo) -> String {
    format!("form/{horse_no}/")
}

/// The key after all form rows of a horse.
pub fn form_end(horse_no: &HorseNo) -> String {
    format!("form/{horse_no}/~")
}

/// A horse's form row for one race.
pub fn form_row(horse_no: &HorseNo, key: &RaceKey) -> String {
    race(&format!("form/{horse_no}"), key)
}

/// The first key of a horse's form on or after a date.
pub fn form_from(horse_no: &HorseNo, date: RacingDate) -> String {
    format!("form/{horse_no}/{date}/")
}

/// The prefix of the rides of all jockeys, trainers, owners or venues.
pub fn all_rides(of: RidesOf) -> String {
    format!("ride/{of}/")
}

/// The kind of the rides of one of them. No key of a person has the tabulator.
fn whose_rides(of: RidesOf, whose: &str) -> String {
    format!("{}{whose}\t", all_rides(of))
}

/// The prefix of all rides of one of them, oldest first.
pub fn rides(of: RidesOf, whose: &str) -> String {
    whose_rides(of, whose) + "/"
}

/// The first key of the rides of one of them on or after a date.
pub fn rides_from(of: RidesOf, whose: &str, date: RacingDate) -> String {
    format!("{}{date}/", rides(of, whose))
}

/// The key after all rides of one of them.
pub fn rides_end(of: RidesOf, whose: &str) -> String {
    rides(of, whose) + "~"
}

/// The ride of a horse in a race.
pub(crate) fn ride(of: RidesOf, whose: &str, key: &RaceKey, horse_no: &HorseNo) -> String {
    format!("{}/{horse_no}", race(&whose_rides(of, whose), key))
}

/// Whose ride a key is of. `None` if the key is not one of a ride.
pub fn parse_whose_ride(of: RidesOf, key: &str) -> Option<&str> {
    Some(key.strip_prefix(&all_rides(of))?.rsplit_once("\t/")?.0)
}

/// The race and the horse of a ride. `None` if the key is not one of a ride.
pub fn parse_ride(key: &str) -> Option<(RaceKey, HorseNo)> {
    let (race, horse_no) = key.rsplit_once('/')?;
    Some((parse_race(race)?, HorseNo::parse(horse_no).ok()?))
}

/// A race's card.
pub fn card(key: &RaceKey) -> String {
    race("card", key)
}

/// The prefix of all cards of a meeting, ordered by race number.
pub fn cards(date: RacingDate, venue: &VenueCode) -> String {
    meeting("card", date, venue)
}

/// A race's result.
pub fn result(key: &RaceKey) -> String {
    race("result", key)
}

/// The prefix of all results of a meeting, ordered by race number.
pub fn results(date: RacingDate, venue: &VenueCode) -> String {
    meeting("result", date, venue)
}

/// A race's dividends.
pub fn dividends(key: &RaceKey) -> String {
    race("dividend", key)
}

/// The prefix of all revisions of a race's result, in the order of the log.
pub fn revisions(key: &RaceKey) -> String {
    race("revision", key) + "/"
}

/// The key of the `n`th revision of a race's result, from 0.
pub fn revisions_from(key: &RaceKey, n: u64) -> String {
    revision(key, index(n))
}

/// The `index`th revision of a race's result, from 0.
pub(crate) fn revision(key: &RaceKey, index: u32) -> String {
    format!("{}{index:06}", revisions(key))
}

/// A meeting.
pub fn meeting_view(date: RacingDate, venue: &VenueCode) -> String {
    format!("{MEETINGS}{date}/{venue}")
}

/// The prefix of all meetings of a day, ordered by venue code.
pub fn meetings_of(date: RacingDate) -> String {
    format!("{MEETINGS}{date}/")
}

/// A race's odds board.
pub fn board(key: &RaceKey) -> String {
    race("odds", key)
}

/// The prefix of all odds boards of a day, ordered by venue code and race number.
pub fn boards_of(date: RacingDate) -> String {
    format!("odds/{date}/")
}

/// The race at the end of a key such as [`board`], [`open_race`] or [`form_row`]. `None` if the key is not one of a
/// race.
pub fn parse_race(key: &str) -> Option<RaceKey> {
    let mut parts = key.rsplit('/');
    Some(RaceKey {
        race_number: RaceNumber::try_from(parts.next()?.parse::<u16>().ok()?).ok()?,
        venue: VenueCode::parse(parts.next()?).ok()?,
        date: RacingDate::parse(parts.next()?).ok()?,
    })
}

/// The mark of an open race: one with a board that is not over, and whose date has not ended everywhere.
pub fn open_race(key: &RaceKey) -> String {
    race("open", key)
}

/// The prefix of all chunks of a race's odds history, in the order of the log.
pub fn ticks(key: &RaceKey) -> String {
    race("tick", key) + "/"
}

/// The `index`th chunk of a race's odds history, from 0.
pub(crate) fn tick_chunk(key: &RaceKey, index: u32) -> String {
    format!("{}{index:06}", ticks(key))
}

/// The key of the chunk that has the `n`th quote of a race, from 0, and the number of quotes before it in that chunk.
pub fn ticks_from(key: &RaceKey, n: u64) -> (String, usize) {
    let per_chunk = u64::from(TICKS_PER_CHUNK);
    let before = usize::try_from(n % per_chunk).unwrap_or(0);
    (tick_chunk(key, index(n / per_chunk)), before)
}

/// An index of six digits. A greater one is after all others.
fn index(n: u64) -> u32 {
    u32::try_from(n).map_or(INDEX_MAX, |n| n.min(INDEX_MAX))
}

/// A rejection, by the log sequence of its message.
pub fn rejection(seq: u64) -> String {
    format!("{REJECTIONS}{seq:020}")
}

/// The number of messages that were ever rejected.
pub(crate) const REJECTION_COUNT: &str = "state/rejections";

pub(crate) fn race_state(key: &RaceKey) -> String {
    race("state/race", key)
}

pub(crate) fn board_state(key: &RaceKey) -> String {
    race("state/odds", key)
}

/// The prefix of the states of all markets of a race beside win and place.
pub(crate) fn market_states(key: &RaceKey) -> String {
    race("state/market", key) + "/"
}

/// The state of a race before its first message of a period. The period after the next one has the same keys.
pub(crate) fn replay_state(period: u64, key: &RaceKey) -> String {
    race(&replay_states(period), key)
}

/// The prefix of all these states.
pub(crate) fn replay_states(period: u64) -> String {
    format!("{REPLAY_STATES}{}", period % 2)
}

pub(crate) fn horse_state(horse_no: &HorseNo) -> String {
    format!("state/horse/{horse_no}")
}

pub(crate) fn meeting_state(date: RacingDate, venue: &VenueCode) -> String {
    format!("state/meeting/{date}/{venue}")
}
