//! [`replay`]: the live messages from before this process followed the log, so that clients miss nothing after a
//! restart, or on another replica.
//!
//! The messages of a race are a pure function of its events. So the races of the latest events are folded from their
//! first event on, and the messages after some sequence are kept.

use std::collections::HashSet;

use events::{RaceKey, Subject};
use projections::{LogIdentity, RaceReplay};

use super::message::Replayed;
use super::state::BOUNDS;
use crate::log::{Log, LogReplaced, RACING, ReadPosition};

/// Races that are folded again at most: those of some days.
const RACES_MAX: usize = 256;

/// Makes the messages of the latest events up to `seq` again.
///
/// # Errors
/// Returns [`LogReplaced`] if the log is not the one of `identity`.
pub async fn replay(log: &Log, identity: &LogIdentity, seq: u64) -> Result<Replayed, LogReplaced> {
    let earliest = seq.saturating_sub(BOUNDS.messages as u64);
    let (after, races) = latest_races(log, identity, earliest, seq).await?;
    let mut replayed = Replayed {
        complete_from: after + 1,
        updates: Vec::new(),
    };
    if races.is_empty() {
        return Ok(replayed);
    }
    let subject =
        |race: &RaceKey| format!("racing.*.{}.{}.{}", race.date, race.venue, race.race_number);
    let subjects = races.iter().map(subject).collect();
    let mut reader = log.reader_of(RACING, position(identity, 0), subjects);
    let mut fold = RaceReplay::new(after);
    loop {
        let batch = reader.next().await?;
        let messages = batch.messages.iter();
        let messages = messages.take_while(|message| message.seq <= seq);
        let updates = messages.filter_map(|message| fold.fold(message.as_message()));
        replayed.updates.extend(updates);
        if batch.pending == 0 || batch.messages.last().is_some_and(|last| last.seq >= seq) {
            return Ok(replayed);
        }
    }
}

/// The races of the events up to `seq`, back to `earliest` or to where there would be too many races. Returns the
/// sequence after which these are all.
async fn latest_races(
    log: &Log,
    identity: &LogIdentity,
    earliest: u64,
    seq: u64,
) -> Result<(u64, HashSet<RaceKey>), LogReplaced> {
    let mut reader = log.reader(RACING, position(identity, earliest));
    let mut events = Vec::new();
    while events.last().map_or(earliest, |(last, _)| *last) < seq {
        let batch = reader.next().await?;
        let messages = batch.messages.iter();
        events.extend(messages.map(|message| (message.seq, race_of(message.subject()))));
    }
    let mut races = HashSet::new();
    for (event_seq, race) in events.into_iter().rev().filter(|(event, _)| *event <= seq) {
        let Some(race) = race else { continue };
        if races.len() == RACES_MAX && !races.contains(&race) {
            return Ok((event_seq, races));
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

fn position(identity: &LogIdentity, seq: u64) -> ReadPosition {
    ReadPosition {
        log: identity.clone(),
        seq,
        recorded_at: None,
    }
}
