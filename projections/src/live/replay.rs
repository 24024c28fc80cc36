//! [`RaceReplay`]: the live updates of the latest messages, made again from the log.
//!
//! The log is divided into periods of [`REPLAY_MESSAGES_MAX`] sequences. The store keeps the state of a race before its
//! first message of the last two periods, and a replay begins with the earlier of them. So it folds no more than two
//! periods, however long a race is.

use std::collections::HashMap;
use std::sync::Arc;

use events::{Event, RaceKey};

use super::race::LiveRace;
use super::update::LiveUpdate;
use crate::markets::Markets;
use crate::odds_board::Board;
use crate::store::StoreResult;
use crate::{LogClock, SourceRankings, Store, StoredMessage, json, keys};

/// The latest sequences whose updates can be made again.
pub const REPLAY_MESSAGES_MAX: u64 = 32_768;

/// The period of a sequence.
pub(crate) fn replay_period(seq: u64) -> u64 {
    seq / REPLAY_MESSAGES_MAX
}

/// The first sequence that a replay in a period folds.
fn begin_of(period: u64) -> u64 {
    period.saturating_sub(1) * REPLAY_MESSAGES_MAX
}

/// A race as it is kept before its first message of a period.
pub(crate) fn render_replay_state(race: &LiveRace) -> Vec<u8> {
    let markets: Vec<_> = race.markets.0.iter().collect();
    json::render(&(race, &race.board, markets))
}

/// Makes the live updates after a sequence again.
///
/// It keeps each race that it has folded a message of until it is dropped. The caller bounds how many those are.
#[derive(Debug)]
pub struct RaceReplay {
    store: Arc<Store>,
    /// The period of the checkpoint of the store.
    period: u64,
    clock: LogClock,
    rankings: SourceRankings,
    after: u64,
    races: HashMap<RaceKey, LiveRace>,
}

impl RaceReplay {
    /// A replay of the updates after a sequence, which is at most [`REPLAY_MESSAGES_MAX`] before the checkpoint of the
    /// store. `None` if the log's clock stepped back, or sources were ranked, too often since.
    pub fn new(store: Arc<Store>, after: u64) -> Option<Self> {
        let checkpoint = store.checkpoint()?;
        let period = replay_period(checkpoint.seq);
        checkpoint.can_fold_after(begin_of(period)).then(|| Self {
            store,
            period,
            clock: checkpoint.clock,
            rankings: checkpoint.rankings,
            after,
            races: HashMap::new(),
        })
    }

    /// The sequence of the first message that is to be folded.
    pub fn begins_at(&self) -> u64 {
        begin_of(self.period)
    }

    /// Folds the next message of a race. Returns its update if the message is after the sequence and changed the live
    /// view.
    ///
    /// The caller passes all messages of a race from [`Self::begins_at`] up to the checkpoint, in the order of the log,
    /// each once. Messages of different races may come in any order.
    ///
    /// # Errors
    /// Returns a [`StoreError`](crate::StoreError) if the store fails or is damaged.
    pub fn fold(&mut self, message: StoredMessage<'_>) -> StoreResult<Option<LiveUpdate>> {
        let Ok(recorded) = message.decode() else {
            return Ok(None);
        };
        let event = &recorded.envelope.event;
        let Some(key) = event.race() else {
            return Ok(None);
        };
        if !self.races.contains_key(&key) {
            let race = self.load(&key)?;
            self.races.insert(key.clone(), race);
        }
        let race = self.races.get_mut(&key).expect("just inserted");
        let clock = &self.clock;
        let live = recorded.seq > self.after;
        Ok(match event {
            Event::OddsQuoted(quote) => {
                let ranking = self.rankings.at(recorded.seq);
                race.quote(&key, &recorded, quote, clock, ranking, live).1
            }
            Event::MarketQuoted(quote) => race.quote_market(&key, &recorded, quote, clock, live).1,
            _ => race.fact(&key, &recorded, clock, live).1,
        })
    }

    /// The state of a race before the first message that is to be folded.
    fn load(&self, key: &RaceKey) -> StoreResult<LiveRace> {
        // Without a message in the earlier period, it is that before the later one.
        for period in [self.period.saturating_sub(1), self.period] {
            let state = self.store.read(&keys::replay_state(period, key))?;
            if let Some(state) = state {
                let (mut race, board, markets): (LiveRace, Board, Vec<_>) = state;
                race.board = board;
                race.markets = Markets(markets.into_iter().collect());
                return Ok(race);
            }
        }
        Ok(LiveRace::default())
    }
}
