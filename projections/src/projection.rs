//! [`Projection`]: folds batches of the log and commits the views that they change.

use std::collections::BTreeMap;
use std::sync::Arc;

use events::{Event, Moment, VenueCode};

use crate::live::{LiveUpdate, replay_period};
use crate::newest::Order;
use crate::pending_writes::PendingWrites;
use crate::rejections::{self};
use crate::store::StoreResult;
use crate::{Announcement, Checkpoint, ClockStep, LogIdentity, Store, StoredMessage};

/// The largest number of messages in one step. A step keeps them all in memory, and folds them in a few milliseconds.
pub const BATCH_MESSAGES_MAX: usize = 5_000;

/// The size of a commit, in keys, while nobody reads the views. The facts of a race are written once for many of them:
/// eighteen seasons of results are folded in three quarters of the time that commits of 500 keys take.
const UNREAD_COMMIT_KEYS: usize = 10_000;

/// The size of a commit, in keys, while older views are served. sled blocks all readers while it writes a batch.
const COMMIT_KEYS: usize = 500;

/// The size of a commit, in keys, while live views are served. It blocks readers for a fraction of a millisecond.
const LIVE_COMMIT_KEYS: usize = 64;

/// The effects of a step.
#[derive(Debug, Default)]
pub struct Step {
    /// The live updates, in the order of the log.
    pub updates: Vec<LiveUpdate>,
    /// The announcements of rejected messages, in the order of the log.
    pub announcements: Vec<Announcement>,
    /// The corrections of the log's clock.
    pub corrections: Vec<ClockStep>,
    /// The counts of messages.
    pub tally: Tally,
    /// What each source sent.
    pub sources: SourceActivity,
}

/// What sources sent in a step.
#[derive(Debug, Default)]
pub struct SourceActivity {
    /// When the log stored the last quote of each source and venue.
    pub quoted_at: BTreeMap<(String, VenueCode), Moment>,
    /// Rejected messages by the source that they name; "" if they name none.
    pub rejected: BTreeMap<String, u64>,
}

/// Counts of messages by what became of them.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Tally {
    /// Folded into views.
    pub folded: u64,
    /// Skipped, because the views reflect them: at or below the checkpoint.
    pub skipped: u64,
    /// Folded, but older than the facts in force.
    pub stale: u64,
    /// Rejected, by [`DecodeError::code`](events::DecodeError::code).
    pub rejected: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// Adds the counts of further messages.
    pub fn add(&mut self, more: &Self) {
        self.folded += more.folded;
        self.skipped += more.skipped;
        self.stale += more.stale;
        for (code, count) in &more.rejected {
            *self.rejected.entry(code).or_default() += count;
        }
    }
}

/// Folds the log into a store.
#[derive(Debug)]
pub struct Projection {
    store: Arc<Store>,
    checkpoint: Checkpoint,
    changes: PendingWrites,
    /// Gives the readers of the store time; `None` while it has none.
    yield_to_readers: Option<fn()>,
    /// The checkpoint has the clock and the rankings of the whole log, of which a part is folded.
    is_part: bool,
}

impl Projection {
    /// Resumes at the checkpoint of a store; at the beginning of the log if it has none.
    ///
    /// # Panics
    /// If the store holds views of another log. The caller opens a fresh store for another log.
    pub fn new(store: Arc<Store>, log: LogIdentity) -> Self {
        let fresh = Checkpoint {
            log: log.clone(),
            ..Checkpoint::default()
        };
        let checkpoint = store.checkpoint().unwrap_or(fresh);
        assert!(checkpoint.log == log, "a store is folded from one log");
        Self {
            changes: PendingWrites::new(Arc::clone(&store)),
            store,
            checkpoint,
            yield_to_readers: None,
            is_part: false,
        }
    }

    /// Folds all messages about some races and horses alone into a fresh store, as a fold of the whole log does.
    /// `whole` is a later checkpoint of that, which [can fold](Checkpoint::can_fold_after) the first of the messages.
    pub fn of_part(store: Arc<Store>, whole: &Checkpoint) -> Self {
        let mut part = Self::new(store, whole.log.clone());
        part.checkpoint.clock = whole.clock.of_part();
        part.checkpoint.rankings = whole.rankings.clone();
        part.is_part = true;
        part
    }

    /// Makes smaller commits from now on, because the store has readers. The function is called between two commits of
    /// a live step, to give them time.
    pub fn with_readers(mut self, yield_to_readers: fn()) -> Self {
        self.yield_to_readers = Some(yield_to_readers);
        self
    }

    /// The store that is folded into.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The checkpoint of the views.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// The number of races and horses in memory.
    pub fn in_memory(&self) -> usize {
        self.changes.in_memory()
    }

    /// Folds messages in the order of the log, and commits. With `live`, the step has the live updates; the views and
    /// all later updates are the same without.
    ///
    /// # Errors
    /// Returns a [`StoreError`](crate::StoreError) if the store fails or is damaged. What was not committed is lost,
    /// and the caller rebuilds the views.
    pub fn step<'a>(
        &mut self,
        messages: impl IntoIterator<Item = StoredMessage<'a>>,
        live: bool,
    ) -> StoreResult<Step> {
        let mut step = Step::default();
        let keys_per_commit = match self.yield_to_readers {
            _ if live => LIVE_COMMIT_KEYS,
            Some(_) => COMMIT_KEYS,
            None => UNREAD_COMMIT_KEYS,
        };
        for message in messages {
            if message.seq <= self.checkpoint.seq {
                step.tally.skipped += 1;
                continue;
            }
            let [last, period] = [self.checkpoint.seq, message.seq].map(replay_period);
            if last < period {
                self.commit()?;
                self.changes.begin_period(last, period)?;
            }
            if !self.is_part {
                let clock = &mut self.checkpoint.clock;
                let clock_step = clock.record(message.seq, message.recorded_at);
                let correction = clock_step.filter(|step| step.is_correction());
                step.corrections.extend(correction.cloned());
            }
            self.fold(message, live, &mut step)?;
            let last = std::mem::replace(&mut self.checkpoint.seq, message.seq);
            (self.checkpoint.history).add(last, message.seq, message.recorded_at);
            self.checkpoint.recorded_at = Some(message.recorded_at);
            if self.changes.keys >= keys_per_commit {
                self.commit()?;
                if live && let Some(yield_to_readers) = self.yield_to_readers {
                    yield_to_readers();
                }
            }
        }
        self.commit()?;
        Ok(step)
    }

    fn fold(&mut self, message: StoredMessage<'_>, live: bool, step: &mut Step) -> StoreResult<()> {
        let recorded = match message.decode() {
            Ok(recorded) => recorded,
            Err(error) => {
                let (rejection, announcement) = rejections::render(message, &error);
                self.changes.reject(message.seq, rejection);
                let rejected = &mut step.sources.rejected;
                *rejected.entry(announcement.source.clone()).or_default() += 1;
                step.announcements.push(announcement);
                *step.tally.rejected.entry(error.code()).or_default() += 1;
                return Ok(());
            }
        };
        step.tally.folded += 1;
        let time = recorded.envelope.time.min(recorded.recorded_at);
        self.checkpoint.clock.pass(time);
        let clock = &self.checkpoint.clock;
        let event = &recorded.envelope.event;
        if let (Event::OddsQuoted(_) | Event::MarketQuoted(_), Some(race)) = (event, event.race()) {
            let source = (recorded.envelope.source.clone(), race.venue);
            (step.sources.quoted_at).insert(source, recorded.recorded_at);
        }
        let changes = &mut self.changes;
        let (stale, update) = match (event, event.race()) {
            (Event::HorseRegistered(horse), _) => changes.register(&recorded, horse, clock)?,
            (Event::OddsQuoted(quote), Some(race)) => {
                changes.quote(race, &recorded, quote, &self.checkpoint, live)?
            }
            (Event::MarketQuoted(quote), Some(race)) => {
                changes.quote_market(race, &recorded, quote, clock, live)?
            }
            (Event::SourcesRanked(ranked), _) => {
                let order = (self.checkpoint.rankings).take(&recorded, ranked, clock);
                (order == Order::Stale, None)
            }
            (_, Some(race)) => changes.fact(race, &recorded, clock, live)?,
            (_, None) => return Ok(()),
        };
        step.tally.stale += u64::from(stale);
        step.updates.extend(update);
        Ok(())
    }

    fn commit(&mut self) -> StoreResult<()> {
        let writes = self.changes.take_writes(self.checkpoint.open_from())?;
        let committed = self.store.checkpoint();
        if committed.is_some_and(|c| c.seq == self.checkpoint.seq) && writes.is_empty() {
            return Ok(());
        }
        self.checkpoint = self.store.commit(&writes, self.checkpoint.clone())?;
        self.changes.trim_cache();
        Ok(())
    }
}
