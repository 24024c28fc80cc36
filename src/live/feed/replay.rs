//! What the live channel told before this process followed the log, told again: clients that come back after a restart, or to
//! another replica, miss nothing.
//!
//! The messages of a race are a pure function of its events. So the races of the latest events are folded from their first
//! event on, and what they told is kept from some place on.

use std::collections::HashSet;

use events::{RaceKey, Subject};
use projections::{LogIdentity, RaceReplay};

use crate::live::feed::{MESSAGES_MAX, Replayed};
use crate::log::{Log, RACING, ReadError, ReadPosition};

/// Races that are folded again at most: those of some days.
const RACES_MAX: usize = 256;

/// Tells again what the latest events up to `seq` told.
///
/// # Errors
/// The log is another one.
pub async fn replay(log: &Log, identity: &LogIdentity, seq: u64) -> Result<Replayed, ReadError> {
    let earliest = seq.saturating_sub(MESSAGES_MAX as u64);
    let (after, races) = latest_races(log, identity, earliest, seq).await?;
    let mut replayed = Replayed {
        complete_from: after + 1,
        updates: Vec::new(),
    };
    if races.is_empty() {
        return Ok(replayed);
    }
    let all_of =
        |race: &RaceKey| format!("racing.*.{}.{}.{}", race.date, race.venue, race.race_number);
    let subjects = races.iter().map(all_of).collect();
    let mut reader = log.reader_of(RACING, place(identity, 0), subjects);
    let mut fold = RaceReplay::new(after);
    loop {
        let batch = reader.next().await?;
        let of_time = batch
            .messages
            .iter()
            .take_while(|message| message.seq <= seq);
        replayed
            .updates
            .extend(of_time.filter_map(|message| fold.fold(message.as_message())));
        if batch.pending == 0 || batch.messages.last().is_some_and(|last| last.seq >= seq) {
            return Ok(replayed);
        }
    }
}

/// The races of the events behind a place, which is not before `earliest`, and up to `seq`. It is later where there are too many.
async fn latest_races(
    log: &Log,
    identity: &LogIdentity,
    earliest: u64,
    seq: u64,
) -> Result<(u64, HashSet<RaceKey>), ReadError> {
    let mut reader = log.reader(RACING, place(identity, earliest));
    let mut events = Vec::new();
    while events.last().map_or(earliest, |(last, _)| *last) < seq {
        let batch = reader.next().await?;
        events.extend(
            batch
                .messages
                .iter()
                .map(|message| (message.seq, race_of(message.subject()))),
        );
    }
    let mut races = HashSet::new();
    for (at, race) in events.into_iter().rev().filter(|(at, _)| *at <= seq) {
        let Some(race) = race else { continue };
        if races.len() == RACES_MAX && !races.contains(&race) {
            return Ok((at, races));
        }
        races.insert(race);
    }
    Ok((earliest, races))
}

fn race_of(subject: &str) -> Option<RaceKey> {
    match Subject::parse(subject).ok()? {
        Subject::Race(race) | Subject::Result(race) | Subject::Odds(race) => Some(race),
        Subject::Horse(_) => None,
    }
}

fn place(identity: &LogIdentity, seq: u64) -> ReadPosition {
    ReadPosition {
        log: identity.clone(),
        seq,
        recorded_at: None,
    }
}
