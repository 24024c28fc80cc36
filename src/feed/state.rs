//! [`FeedState`]: the ring of the latest messages, and what is kept of each race.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use events::{Moment, RaceKey, RacingDate, VenueCode};
use jiff::{SignedDuration, Timestamp};
use projections::{LiveUpdate, REPLAY_MESSAGES_MAX};

use super::Feed;
use super::frame::Frame;
use super::message::{
    ConflatedBy, Content, EventTime, FeedMessage, FeedTail, NotRecovered, Position, Snapshots,
    Topic,
};
use super::race::RaceFeed;
use crate::metrics;

/// How much is kept.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bounds {
    pub(super) messages: usize,
    /// The bytes of these messages.
    pub(super) bytes: usize,
    /// Events whose times prove where a client resumes. A client that has missed more cannot.
    pub(super) events: usize,
    /// Messages that are never conflated: status, runner and result, and quotes of races whose prices are not kept.
    pub(super) facts: usize,
    /// Races whose images new clients are sent. Of more, the last ones by [`FeedState::rank`] are left out.
    pub(super) open_races: usize,
    /// Those of one meeting.
    pub(super) open_races_of_meeting: usize,
    /// Races that are over, for clients that are behind.
    pub(super) closed_races: usize,
    /// The latest messages that a client may have missed and still take as images, with their number.
    pub(super) conflatable: usize,
    /// The prices of the markets of all races. A race that exceeds it has no images of its markets from then on.
    pub(super) prices: usize,
}

/// The messages are some minutes of a busy day: a quote of win and place makes two. Some events make none, so more of
/// them are kept, in at most 6 MiB. The open races are all of the world on three days. An image has at most 40 KB, and
/// a price of a market takes about 200 bytes, so the feed takes less than 300 MB however long it runs.
pub(super) const BOUNDS: Bounds = Bounds {
    messages: 65_536,
    bytes: 64 * 1024 * 1024,
    events: 131_072,
    facts: 4_096,
    open_races: 1_024,
    open_races_of_meeting: 64,
    closed_races: 256,
    conflatable: 524_288,
    prices: 524_288,
};

/// Everything that is read again at the start is kept.
const _: () = assert!(BOUNDS.messages as u64 == 2 * REPLAY_MESSAGES_MAX);

/// Days after the log's date on which races are open for images. Fixtures are known a year ahead.
const DAYS_AHEAD_MAX: i32 = 366;
/// The time before its scheduled off, and after it, in which an open race should have quotes.
const DUE_BEFORE_OFF: SignedDuration = SignedDuration::from_mins(10);
const DUE_AFTER_OFF: SignedDuration = SignedDuration::from_mins(60);

#[derive(Debug, Default)]
pub(super) struct FeedState {
    bounds: Bounds,
    pub(super) position: Position,
    /// The latest events.
    pub(super) events: VecDeque<EventTime>,
    /// The ring holds every message of events from this sequence on.
    pub(super) complete_from: u64,
    pub(super) ring: VecDeque<Arc<FeedMessage>>,
    pub(super) ring_bytes: usize,
    /// The latest status, runner and result messages.
    facts: VecDeque<Arc<FeedMessage>>,
    pub(super) races: BTreeMap<RaceKey, RaceFeed>,
    /// The open ones of them.
    pub(super) open: BTreeSet<RaceKey>,
    /// Races before this date are closed.
    open_from: Option<RacingDate>,
    /// The date of the log, in UTC.
    today: Option<RacingDate>,
    /// How often an open race was left out because there are too many.
    pub(super) left_out: u64,
    /// Races that are over, oldest first.
    closed: VecDeque<RaceKey>,
    /// Facts and odds marks are complete from this index on.
    conflatable_from: u64,
    /// The odds marks of earlier messages were dropped.
    marks_from: u64,
    /// The number of prices of the markets of all races.
    pub(super) prices: usize,
}

impl FeedState {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            complete_from: 1,
            ..Self::default()
        }
    }

    /// The index of the first message in the ring.
    fn first_index(&self) -> u64 {
        self.position.head - self.ring.len() as u64
    }

    pub(super) fn tail(&self, from: u64, max: usize) -> Option<FeedTail> {
        let skip = from.checked_sub(self.first_index())?;
        let skip = usize::try_from(skip).ok()?.min(self.ring.len());
        Some(FeedTail {
            messages: self.ring.range(skip..).take(max).cloned().collect(),
            position: self.position.clone(),
        })
    }

    pub(super) fn snapshots(&self, wants: impl Fn(&Topic, &Content) -> bool) -> Snapshots {
        let open = self.races.values().filter(|race| race.open);
        Snapshots {
            images: open.flat_map(|race| race.images(&wants)).collect(),
            position: self.position.clone(),
        }
    }

    /// When the event at a sequence was recorded, or the last one before it; `None` if that is not kept.
    pub(super) fn recorded_at(&self, seq: u64) -> Option<Moment> {
        let after = self.events.partition_point(|event| event.seq <= seq);
        Some(self.events.get(after.checked_sub(1)?)?.recorded_at)
    }

    /// Moves on to the last of these events. Those at or below the position were passed before.
    pub(super) fn pass(&mut self, events: &[EventTime]) {
        let passed = self.position.seq;
        let new = events.partition_point(|event| event.seq <= passed);
        let new = events.get(new..).unwrap_or_default();
        self.events.extend(new);
        let excess = self.events.len().saturating_sub(self.bounds.events);
        self.events.drain(..excess);
        if let Some(last) = new.last() {
            self.position.seq = last.seq;
        }
    }

    /// Drops everything, but counts indexes on.
    pub(super) fn clear(&mut self) {
        self.events.clear();
        self.position.seq = 0;
        self.ring.clear();
        self.ring_bytes = 0;
        self.facts.clear();
        self.races.clear();
        self.prices = 0;
        self.open.clear();
        self.open_from = None;
        self.today = None;
        self.closed.clear();
        self.conflatable_from = self.position.head;
    }

    pub(super) fn append(&mut self, mut update: LiveUpdate) {
        let was_open = self.open.contains(&update.race);
        let is_due = update.open && Some(update.race.date) >= self.open_from;
        let is_open = is_due && (was_open || self.make_room(&update.race, update.on_card));
        let race = self.races.entry(update.race.clone());
        let race = race.or_insert_with(|| RaceFeed::new(update.race.clone()));
        race.update(&mut update);
        race.open = is_open;
        match (was_open, race.open) {
            (false, true) => drop(self.open.insert(update.race.clone())),
            (true, false) => drop(self.open.remove(&update.race)),
            _ => {}
        }
        let topic = Arc::clone(&race.topic);
        let closes = !race.open && (was_open || race.last_index().is_none());
        for message in update.messages {
            self.push(FeedMessage {
                index: self.position.head,
                seq: update.seq,
                prev_seq: message.prev_seq,
                content: Content::Kind(message.kind),
                topic: Arc::clone(&topic),
                frame: Frame::text(&[&message.json]),
            });
        }
        if let Some(markets) = update.markets {
            self.take_prices(&update.race, |race| race.begin_markets(markets));
        }
        if let Some(quote) = update.quote {
            let message = FeedMessage {
                index: self.position.head,
                seq: update.seq,
                prev_seq: quote.prev_seq,
                content: Content::Quote(quote.market.clone()),
                topic,
                frame: Frame::text(&[&quote.message()]),
            };
            self.take_prices(&update.race, |race| race.quote(quote));
            self.push(message);
        }
        if closes {
            self.close(update.race);
        }
        self.evict();
    }

    /// Has a race take prices of its markets, unless there are too many.
    fn take_prices(&mut self, race: &RaceKey, take: impl FnOnce(&mut RaceFeed)) {
        let Some(race) = self.races.get_mut(race) else {
            return;
        };
        let before = race.prices();
        take(race);
        self.prices += race.prices() - before;
        if self.prices > self.bounds.prices {
            self.prices -= race.prices();
            race.drop_markets();
            // Images of earlier quotes are gone.
            self.conflatable_from = self.position.head;
            let race = &race.topic.race;
            tracing::warn!(%race, "new clients get no images of its markets: there are too many prices");
        }
    }

    /// Makes room for another open race: it takes that of the last one by [`Self::rank`], of its meeting if that has
    /// too many, else of all. False if all are before it, or if its date is too far ahead.
    fn make_room(&mut self, race: &RaceKey, on_card: bool) -> bool {
        let meeting = (race.date, &race.venue);
        let open = || self.races.values().filter(|race| race.open);
        let of_meeting = open().filter(|open| open.meeting() == meeting).count();
        let is_full_meeting = of_meeting >= self.bounds.open_races_of_meeting;
        let is_full = is_full_meeting || self.open.len() >= self.bounds.open_races;
        let is_near = self.days_ahead(race.date) <= DAYS_AHEAD_MAX;
        if is_near && !is_full {
            return true;
        }
        let rivals = open().filter(|open| !is_full_meeting || open.meeting() == meeting);
        let ranks = rivals.map(|open| self.rank(&open.topic.race, open.on_card));
        let last = ranks.max();
        let last = last.filter(|last| is_near && self.rank(race, on_card) < *last);
        let last = last.map(|(_, _, race)| race.clone());
        self.note_left_out(race);
        let Some(last) = last else { return false };
        self.close_open(last);
        true
    }

    fn note_left_out(&mut self, race: &RaceKey) {
        self.left_out += 1;
        metrics::count("railbird_feed_open_races_left_out_total");
        if self.left_out.is_power_of_two() {
            let left_out = self.left_out;
            tracing::warn!(%race, left_out, "a race has no image for new clients: too many are open, or it is too far ahead");
        }
    }

    /// The order in which races have images. Those on a card are first: a feeder that may only quote cannot declare
    /// one. Then the nearest to the date of the log, in either direction. The key decides between equals, so that the
    /// same races have images on every replica, and after a restart.
    fn rank<'a>(&self, race: &'a RaceKey, on_card: bool) -> (bool, u32, &'a RaceKey) {
        (!on_card, self.days_ahead(race.date).unsigned_abs(), race)
    }

    /// The days from the date of the log to another one; 0 before the log has one.
    fn days_ahead(&self, date: RacingDate) -> i32 {
        let days = |today: RacingDate| (date.civil() - today.civil()).get_days();
        self.today.map_or(0, days)
    }

    /// Takes the time of the log, and closes the races whose date has ended everywhere. A time that is earlier than the
    /// last one opens none.
    pub(super) fn pass_time(&mut self, log_time: Option<Moment>) {
        self.open_from = log_time.map(RacingDate::earliest_at);
        self.today = log_time.map(RacingDate::at);
        let open_from = self.open_from;
        let is_over = |race: &&RaceKey| Some(race.date) < open_from;
        while let Some(race) = self.open.first().filter(is_over).cloned() {
            self.close_open(race);
        }
    }

    /// Closes a race that was open.
    fn close_open(&mut self, key: RaceKey) {
        self.open.remove(&key);
        if let Some(race) = self.races.get_mut(&key) {
            race.open = false;
        }
        self.close(key);
    }

    fn push(&mut self, message: FeedMessage) {
        let message = Arc::new(message);
        self.position.head += 1;
        let race = self.races.get_mut(&message.topic.race);
        let race = race.filter(|_| message.content.is_conflated());
        if !race.is_some_and(|race| race.mark(&message)) {
            self.facts.push_back(Arc::clone(&message));
            let full = self.facts.len() > self.bounds.facts;
            let dropped = full.then(|| self.facts.pop_front()).flatten();
            self.note_dropped(dropped.map(|fact| fact.index));
        }
        self.drop_old_marks();
        self.ring_bytes += message.frame.len();
        self.ring.push_back(message);
    }

    /// Drops the marks of messages before the latest ones, those of all races at a time.
    fn drop_old_marks(&mut self) {
        let conflatable = self.bounds.conflatable as u64;
        let from = self.position.head.saturating_sub(conflatable);
        if from > self.marks_from + conflatable / 8 {
            self.marks_from = from;
            self.conflatable_from = self.conflatable_from.max(from);
            for race in self.races.values_mut() {
                race.drop_marks_before(from);
            }
        }
    }

    fn note_dropped(&mut self, index: Option<u64>) {
        let from = index.map_or(0, |index| index + 1);
        self.conflatable_from = self.conflatable_from.max(from);
    }

    /// Notes that a race is over, and drops the one that has been over for longest.
    fn close(&mut self, race: RaceKey) {
        self.closed.retain(|closed| *closed != race);
        self.closed.push_back(race);
        if self.closed.len() > self.bounds.closed_races
            && let Some(oldest) = self.closed.pop_front()
            && self.races.get(&oldest).is_some_and(|race| !race.open)
            && let Some(race) = self.races.remove(&oldest)
        {
            self.prices -= race.prices();
            self.note_dropped(race.last_index());
        }
    }

    /// Keeps the ring within its bounds. The messages of one event are dropped together.
    fn evict(&mut self) {
        while let Some(oldest) = self.ring.front() {
            let bounds = &self.bounds;
            let full = self.ring.len() > bounds.messages || self.ring_bytes > bounds.bytes;
            if !full && oldest.seq >= self.complete_from {
                return;
            }
            self.complete_from = oldest.seq + 1;
            self.ring_bytes -= oldest.frame.len();
            self.ring.pop_front();
        }
    }
}

/// What clients are sent that have missed messages.
impl Feed {
    /// Replaces the messages from an index on: status, runner and result messages as they are, one odds message a race,
    /// and an image of each market, in the order of the log. `None` if too little is kept to do so.
    ///
    /// An odds message merges earlier ones, which may belong before a message of another race. So all but the last have
    /// `"more":true`: only after the last is the client's picture consistent.
    pub fn conflated(
        &self,
        from: u64,
        by: ConflatedBy,
        wants: impl Fn(&Topic, &Content) -> bool,
    ) -> Option<(Vec<Frame>, Position)> {
        let state = self.state.lock();
        if from < state.conflatable_from {
            return None;
        }
        let start = state.facts.partition_point(|fact| fact.index < from);
        let facts = state.facts.range(start..);
        let facts = facts.filter(|fact| wants(&fact.topic, &fact.content));
        let mut frames: Vec<(u64, Frame)> =
            facts.map(|fact| (fact.index, fact.frame.clone())).collect();
        let races = state.races.values();
        frames.extend(races.flat_map(|race| race.conflated(from, by, &wants)));
        frames.sort_unstable_by_key(|(index, _)| *index);
        let mut frames: Vec<Frame> = frames.into_iter().map(|(_, frame)| frame).collect();
        if let Some((_, others)) = frames.split_last_mut() {
            for frame in others {
                *frame = frame.with_more();
            }
        }
        Some((frames, state.position.clone()))
    }

    /// The index of the first message for a client that has received everything up to the event at `since`, which was
    /// recorded at a time. If that event made several messages, the client may have received only the first, so the
    /// others are sent again.
    ///
    /// # Errors
    /// Returns [`NotRecovered`] if the messages after `since` are not kept, or the client does not prove that its
    /// event at `since` is the one of this log.
    pub fn resume(
        &self,
        since: u64,
        epoch: Option<&str>,
        recorded_at: Option<Moment>,
    ) -> Result<u64, NotRecovered> {
        let state = self.state.lock();
        if !state.position.is_of(epoch) {
            return Err(NotRecovered::OtherEpoch);
        }
        if since > state.position.seq {
            return Err(NotRecovered::Ahead);
        }
        if since > 0 && since < state.complete_from || state.complete_from > 1 && since == 0 {
            return Err(NotRecovered::TooFarBehind);
        }
        if since > 0 {
            let expected = state.recorded_at(since).ok_or(NotRecovered::TooFarBehind)?;
            if recorded_at.ok_or(NotRecovered::Unproven)? != expected {
                return Err(NotRecovered::OtherHistory);
            }
        }
        let first = state.ring.partition_point(|message| message.seq < since);
        let next = state.ring.get(first);
        let received = next.is_some_and(|message| message.seq == since);
        Ok(state.first_index() + (first + usize::from(received)) as u64)
    }

    /// The venues with open races, and how many of these start now.
    pub(crate) fn races_due(&self, now: Timestamp) -> BTreeMap<VenueCode, u64> {
        let state = self.state.lock();
        let mut due = BTreeMap::new();
        for race in &state.open {
            let off_time = state.races.get(race).and_then(|race| race.off_time);
            let is_due = off_time.is_some_and(|off_time| {
                let since = now.duration_since(off_time.timestamp());
                -DUE_BEFORE_OFF <= since && since <= DUE_AFTER_OFF
            });
            *due.entry(race.venue.clone()).or_default() += u64::from(is_due);
        }
        due
    }
}
