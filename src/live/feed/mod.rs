//! [`Feed`]: what changed, encoded once, for all who listen.
//!
//! Messages lie in a ring in the order of the log. A listener has a place in it, and takes what stands behind that place. Who
//! has fallen too far behind takes the latest image of each race instead: for each race the feed knows which messages made
//! it, so it can say how many one image stands for.

pub mod frame;
mod race;
pub mod replay;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use events::RaceKey;
use projections::{LiveKind, LiveUpdate, LogIdentity};
use tokio::sync::watch;
use tokio::time::timeout;

use race::RaceFeed;
pub use race::{ConflatedBy, Topic};

/// Messages that are kept for those who come back: some minutes of a busy day.
pub const MESSAGES_MAX: usize = 32_768;
/// Their bytes at most.
const MESSAGES_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Status, runner and result messages that are kept for those who are far behind: they are never conflated.
const FACTS_MAX: usize = 4_096;
/// Races that are over and kept for those who are behind.
const CLOSED_RACES_MAX: usize = 256;

/// How much is kept.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    messages: usize,
    bytes: usize,
    facts: usize,
    closed_races: usize,
}

const BOUNDS: Bounds = Bounds {
    messages: MESSAGES_MAX,
    bytes: MESSAGES_BYTES_MAX,
    facts: FACTS_MAX,
    closed_races: CLOSED_RACES_MAX,
};

/// A message of the live channel.
#[derive(Debug)]
pub struct Message {
    /// Its number in this process, from 0, without holes.
    pub index: u64,
    /// The event that it is of.
    pub seq: u64,
    prev_seq: u64,
    /// What it tells.
    pub kind: LiveKind,
    /// The race that it is about.
    pub topic: Arc<Topic>,
    /// The message as a WebSocket frame.
    pub frame: Bytes,
}

/// How far the feed is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// Counts how often the views were begun anew: what was said before may not hold.
    pub generation: u64,
    /// Names the log.
    pub epoch: Arc<str>,
    /// The number of the next message.
    pub head: u64,
    /// The place in the log that all messages so far reflect.
    pub seq: u64,
}

/// Messages behind a place, and how far the feed was when they were taken.
#[derive(Debug)]
pub struct Tail {
    /// The messages.
    pub messages: Vec<Arc<Message>>,
    /// The position behind the last message of the feed.
    pub position: Position,
}

/// Images of open races, and how far the feed was when they were taken.
#[derive(Debug)]
pub struct Snapshots {
    /// The images, as messages.
    pub images: Vec<Bytes>,
    /// The position that they reflect.
    pub position: Position,
}

/// Why a client cannot go on where it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotRecovered {
    /// The log is another one.
    OtherEpoch,
    /// More was missed than is kept.
    TooFarBehind,
    /// The place is beyond what the views reflect.
    Ahead,
}

impl NotRecovered {
    /// The word in messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OtherEpoch => "other_epoch",
            Self::TooFarBehind => "too_far_behind",
            Self::Ahead => "ahead",
        }
    }
}

/// What is said again of the time before this process followed the log.
#[derive(Debug, Default)]
pub struct Replayed {
    /// Every message of events from this place on is among the updates.
    pub complete_from: u64,
    /// What the events did.
    pub updates: Vec<LiveUpdate>,
}

/// Fans messages out. Clones share it.
#[derive(Debug, Clone)]
pub struct Feed {
    state: Arc<Mutex<State>>,
    position: watch::Sender<Position>,
}

#[derive(Debug)]
struct State {
    bounds: Bounds,
    position: Position,
    /// Every message of events from this place on is in the ring.
    complete_from: u64,
    ring: VecDeque<Arc<Message>>,
    ring_bytes: usize,
    facts: VecDeque<Arc<Message>>,
    races: BTreeMap<RaceKey, RaceFeed>,
    closed: VecDeque<RaceKey>,
    /// From this number on, marks and facts are whole.
    conflatable_from: u64,
}

impl Default for Feed {
    fn default() -> Self {
        Self::bounded(BOUNDS)
    }
}

impl Feed {
    fn bounded(bounds: Bounds) -> Self {
        let position = Position {
            generation: 0,
            epoch: Arc::from(""),
            head: 0,
            seq: 0,
        };
        let state = State {
            bounds,
            position: position.clone(),
            complete_from: 1,
            ring: VecDeque::new(),
            ring_bytes: 0,
            facts: VecDeque::new(),
            races: BTreeMap::new(),
            closed: VecDeque::new(),
            conflatable_from: 0,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            position: watch::Sender::new(position),
        }
    }

    /// Tells what was committed, up to `seq`. What was told before is not told again: while views are rebuilt and
    /// swapped, two projections pass the same events.
    pub fn publish(&self, updates: Vec<LiveUpdate>, seq: u64) {
        let position = {
            let mut state = self.state();
            for update in updates {
                if update.seq > state.position.seq {
                    state.append(update);
                }
            }
            state.position.seq = state.position.seq.max(seq);
            state.position.clone()
        };
        self.position.send_replace(position);
    }

    /// Begins with other views, which are at `seq` of a log: their open races, and what can be said again of the time before.
    pub fn reset(&self, log: &LogIdentity, seq: u64, open: Vec<LiveUpdate>, replayed: Replayed) {
        let position = {
            let mut state = self.state();
            state.forget();
            state.position.generation += 1;
            state.position.epoch = epoch(log);
            state.complete_from = replayed.complete_from;
            for update in replayed.updates.into_iter().chain(open) {
                state.append(update);
            }
            state.position.seq = seq;
            state.position.clone()
        };
        self.position.send_replace(position);
    }

    /// How far it is, and how far it comes.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Position> {
        self.position.subscribe()
    }

    /// How far it is.
    #[must_use]
    pub fn position(&self) -> Position {
        self.state().position.clone()
    }

    /// Waits until a place in the log is reached, but not for long.
    pub async fn reached(&self, seq: u64, patience: Duration) {
        let mut position = self.watch();
        // Neither that it is not reached in time nor that the feed ends makes a difference to who asks next.
        let _ = timeout(patience, position.wait_for(|position| position.seq >= seq)).await;
    }

    /// At most `max` messages from a number on; `None` if they are no longer kept.
    #[must_use]
    pub fn tail(&self, from: u64, max: usize) -> Option<Tail> {
        self.state().tail(from, max)
    }

    /// The images of the open races that are wanted, as of now.
    #[must_use]
    pub fn snapshots(&self, wants: impl Fn(&Topic) -> bool) -> Snapshots {
        self.state().snapshots(wants)
    }

    /// The messages from a number on, and the images of the open races that are wanted as of behind them. `None` if the
    /// messages are no longer kept.
    #[must_use]
    pub fn tail_and_snapshots(
        &self,
        from: u64,
        wants: impl Fn(&Topic) -> bool,
    ) -> Option<(Tail, Snapshots)> {
        let state = self.state();
        Some((state.tail(from, usize::MAX)?, state.snapshots(wants)))
    }

    /// What stands for all messages from a number on that are wanted: status, runner and result messages as they are, and
    /// one odds message a race, in order. An odds message stands for earlier ones, of which others may lie behind a message of
    /// another race: so all but the last say that there is more. `None` if it is no longer known what they were.
    #[must_use]
    pub fn conflated(
        &self,
        from: u64,
        by: ConflatedBy,
        wants: impl Fn(&Topic, LiveKind) -> bool,
    ) -> Option<(Vec<Bytes>, Position)> {
        let state = self.state();
        if from < state.conflatable_from {
            return None;
        }
        let behind = state.facts.partition_point(|fact| fact.index < from);
        let facts = state.facts.range(behind..);
        let facts = facts.filter(|fact| wants(&fact.topic, fact.kind));
        let mut frames: Vec<(u64, Bytes)> =
            facts.map(|fact| (fact.index, fact.frame.clone())).collect();
        let moved = state
            .races
            .values()
            .filter(|race| race.latest().is_some_and(|latest| latest >= from));
        let moved = moved.filter(|race| wants(&race.topic, LiveKind::Odds));
        frames.extend(moved.filter_map(|race| race.conflated(from, by)));
        frames.sort_unstable_by_key(|(index, _)| *index);
        let mut frames: Vec<Bytes> = frames.into_iter().map(|(_, frame)| frame).collect();
        if let Some((_, others)) = frames.split_last_mut() {
            for frame in others {
                *frame = frame::with_more(frame);
            }
        }
        Some((frames, state.position.clone()))
    }

    /// The number of the first message that a client has not seen which has seen everything up to the event at `since`. Where that
    /// event made several messages, it may have seen but the first.
    ///
    /// # Errors
    /// What it missed cannot be said again.
    pub fn resume(&self, since: u64, epoch: Option<&str>) -> Result<u64, NotRecovered> {
        let state = self.state();
        if epoch.is_some_and(|epoch| *epoch != *state.position.epoch) {
            return Err(NotRecovered::OtherEpoch);
        }
        if since > state.position.seq {
            return Err(NotRecovered::Ahead);
        }
        if since > 0 && since < state.complete_from || state.complete_from > 1 && since == 0 {
            return Err(NotRecovered::TooFarBehind);
        }
        let first = state.ring.partition_point(|message| message.seq < since);
        let seen = state
            .ring
            .get(first)
            .is_some_and(|message| message.seq == since);
        Ok(state.first() + (first + usize::from(seen)) as u64)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The number of the first message in the ring.
    fn first(&self) -> u64 {
        self.position.head - self.ring.len() as u64
    }

    fn tail(&self, from: u64, max: usize) -> Option<Tail> {
        let skip = from.checked_sub(self.first())?;
        let skip = usize::try_from(skip).ok()?.min(self.ring.len());
        Some(Tail {
            messages: self.ring.range(skip..).take(max).cloned().collect(),
            position: self.position.clone(),
        })
    }

    fn snapshots(&self, wants: impl Fn(&Topic) -> bool) -> Snapshots {
        let open = self.races.values().filter(|race| race.open);
        let wanted = open.filter(|race| wants(&race.topic));
        Snapshots {
            images: wanted.filter_map(RaceFeed::snapshot).collect(),
            position: self.position.clone(),
        }
    }

    fn forget(&mut self) {
        self.ring.clear();
        self.ring_bytes = 0;
        self.facts.clear();
        self.races.clear();
        self.closed.clear();
        self.conflatable_from = self.position.head;
    }

    fn append(&mut self, mut update: LiveUpdate) {
        let race = self.races.entry(update.race.clone());
        let race = race.or_insert_with(|| RaceFeed::new(update.race.clone()));
        let was_open = race.open;
        race.update(&mut update);
        let (topic, closes) = (
            Arc::clone(&race.topic),
            !race.open && (was_open || race.latest().is_none()),
        );
        for message in update.messages {
            let message = Arc::new(Message {
                index: self.position.head,
                seq: update.seq,
                prev_seq: message.prev_seq,
                kind: message.kind,
                topic: Arc::clone(&topic),
                frame: frame::text(&[&message.json]),
            });
            self.position.head += 1;
            self.keep(message);
        }
        if closes {
            self.close(update.race);
        }
        self.evict();
    }

    fn keep(&mut self, message: Arc<Message>) {
        let forgotten = if message.kind == LiveKind::Odds {
            let race = self.races.get_mut(&message.topic.race);
            race.and_then(|race| race.mark(&message, self.bounds.messages))
        } else {
            self.facts.push_back(Arc::clone(&message));
            let full = self.facts.len() > self.bounds.facts;
            full.then(|| self.facts.pop_front())
                .flatten()
                .map(|fact| fact.index)
        };
        self.note_forgotten(forgotten);
        self.ring_bytes += message.frame.len();
        self.ring.push_back(message);
    }

    fn note_forgotten(&mut self, index: Option<u64>) {
        self.conflatable_from = self
            .conflatable_from
            .max(index.map_or(0, |index| index + 1));
    }

    /// Notes that a race is over, and forgets the one that has been over for longest.
    fn close(&mut self, race: RaceKey) {
        self.closed.retain(|closed| *closed != race);
        self.closed.push_back(race);
        if self.closed.len() > self.bounds.closed_races
            && let Some(oldest) = self.closed.pop_front()
            && self.races.get(&oldest).is_some_and(|race| !race.open)
            && let Some(race) = self.races.remove(&oldest)
        {
            self.note_forgotten(race.latest());
        }
    }

    /// Holds the ring to its bounds. The messages of one event go together.
    fn evict(&mut self) {
        while let Some(oldest) = self.ring.front() {
            let full =
                self.ring.len() > self.bounds.messages || self.ring_bytes > self.bounds.bytes;
            if !full && oldest.seq >= self.complete_from {
                return;
            }
            self.complete_from = oldest.seq + 1;
            self.ring_bytes -= oldest.frame.len();
            self.ring.pop_front();
        }
    }
}

/// A name of a log that is the same on every replica.
pub(crate) fn epoch(log: &LogIdentity) -> Arc<str> {
    let hash = blake3::hash(format!("{}\n{}", log.name, log.created).as_bytes());
    let hex = hash.to_hex();
    Arc::from(hex.get(..16).unwrap_or_default())
}
