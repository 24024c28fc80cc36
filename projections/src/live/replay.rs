//! [`RaceReplay`]: the live updates of races, made again from the log without a store.

use std::collections::HashMap;

use events::{Event, RaceKey};

use super::race::LiveRace;
use super::update::LiveUpdate;
use crate::stored_message::StoredMessage;

/// Makes the live updates after a sequence again, without a store.
///
/// It keeps each race that it has folded a message of until it is dropped. The caller bounds how many those are.
#[derive(Debug)]
pub struct RaceReplay {
    after: u64,
    races: HashMap<RaceKey, LiveRace>,
}

impl RaceReplay {
    /// A replay of the updates after this sequence.
    pub fn new(after: u64) -> Self {
        Self {
            after,
            races: HashMap::new(),
        }
    }

    /// Folds the next message of a race. Returns its update if the message is after the sequence and changed the live
    /// view.
    ///
    /// The caller passes all messages of a race from the first on, in the order of the log, each once. Messages of
    /// different races may come in any order.
    pub fn fold(&mut self, message: StoredMessage<'_>) -> Option<LiveUpdate> {
        let recorded = message.decode().ok()?;
        let event = &recorded.envelope.event;
        let key = event.race()?;
        let race = self.races.entry(key.clone()).or_default();
        let live = recorded.seq > self.after;
        match event {
            Event::OddsQuoted(quote) => race.quote(&key, &recorded, quote, live).1,
            _ => race.fact(&key, &recorded, live).1,
        }
    }
}
