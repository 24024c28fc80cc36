//! [`replay`]: the live messages from before this process followed the log, so that clients miss nothing after a
//! restart, or on another replica.
//!
//! The messages of a race are a pure function of its events. So the races of the latest events are folded again from a
//! state that the store keeps of them.

use std::collections::HashSet;
use std::sync::Arc;

use events::{RaceKey, Subject};
use projections::{Checkpoint, LogIdentity, REPLAY_MESSAGES_MAX, RaceReplay, Store, StoreError};

use super::message::{EventTime, Replayed};
use crate::log::{Log, LogMessage, LogReplaced, RACING, ReadPosition};

/// Races that are folded again at most: those of some days.
const RACES_MAX: usize = 256;

/// Makes the messages of the latest events up to the checkpoint of a store again. Without what it needs of the store,
/// it replays nothing.
///
/// # Errors
/// Returns [`LogReplaced`] if the log is not the one of the checkpoint.
pub async fn replay(
    log: &Log,
    store: &Arc<Store>,
    checkpoint: &Checkpoint,
) -> Result<Replayed, LogReplaced> {
    let identity = &checkpoint.log;
    let seq = checkpoint.seq;
    let earliest = seq.saturating_sub(REPLAY_MESSAGES_MAX);
    let latest = latest_events(log, identity, earliest, seq).await?;
    let events: Vec<EventTime> = latest.iter().map(|(event, _)| *event).collect();
    if let (Some(last), Some(expected)) = (events.last(), checkpoint.recorded_at)
        && last.seq == seq
        && last.recorded_at != expected
    {
        return Err(LogReplaced(format!("message {seq} is another one")));
    }
    let last = latest.iter().rev().find(|(_, race)| race.is_some());
    let last_seq = last.map_or(0, |(event, _)| event.seq);
    let (after, races) = latest_races(latest, earliest);
    let mut replayed = Replayed {
        events,
        complete_from: after + 1,
        updates: Vec::new(),
    };
    if races.is_empty() {
        return Ok(replayed);
    }
    let Some(mut fold) = RaceReplay::new(Arc::clone(store), after) else {
        return Ok(Replayed::nothing(checkpoint));
    };
    let before = ReadPosition::at(identity, fold.begins_at().saturating_sub(1));
    let mut reader = log.reader(RACING, before);
    let is_replayed = |message: &&LogMessage| {
        message.seq <= seq && race_of(message.subject()).is_some_and(|race| races.contains(&race))
    };
    loop {
        let batch = reader.next().await?;
        let messages = batch.messages.iter().filter(is_replayed);
        let updates = messages.filter_map(|message| fold.fold(message.as_message()).transpose());
        match updates.collect::<Result<Vec<_>, StoreError>>() {
            Ok(updates) => replayed.updates.extend(updates),
            Err(error) => {
                tracing::warn!(%error, "earlier messages cannot be replayed");
                return Ok(Replayed::nothing(checkpoint));
            }
        }
        // That none is pending proves nothing: the server of the consumer may lack the last ones.
        if (batch.messages.last()).is_some_and(|message| message.seq >= last_seq) {
            return Ok(replayed);
        }
    }
}

/// The events after `earliest` up to `seq`, with the races that they are about.
async fn latest_events(
    log: &Log,
    identity: &LogIdentity,
    earliest: u64,
    seq: u64,
) -> Result<Vec<(EventTime, Option<RaceKey>)>, LogReplaced> {
    let mut reader = log.reader(RACING, ReadPosition::at(identity, earliest));
    let mut events = Vec::new();
    let mut read = earliest;
    while read < seq {
        let batch = reader.next().await?;
        read = batch.messages.last().map_or(read, |last| last.seq);
        let messages = batch.messages.iter().filter(|message| message.seq <= seq);
        events.extend(messages.map(|message| (EventTime::of(message), race_of(message.subject()))));
    }
    Ok(events)
}

/// The races of these events, from the last back to where there would be too many races. Returns the sequence after
/// which these are all: `earliest`, unless there are too many.
fn latest_races(
    events: Vec<(EventTime, Option<RaceKey>)>,
    earliest: u64,
) -> (u64, HashSet<RaceKey>) {
    let mut races = HashSet::new();
    for (event, race) in events.into_iter().rev() {
        let Some(race) = race else { continue };
        if races.len() == RACES_MAX && !races.contains(&race) {
            return (event.seq, races);
        }
        races.insert(race);
    }
    (earliest, races)
}

fn race_of(subject: &str) -> Option<RaceKey> {
    match Subject::parse(subject)? {
        Subject::Race(race) | Subject::Result(race) | Subject::Odds(race) => Some(race),
        Subject::Horse(_) | Subject::Sources => None,
    }
}
