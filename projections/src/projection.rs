//! [`Projection`]: folds a batch of the log in memory and writes each touched view once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use events::{DecodeError, Event, HorseNo, OddsQuoted, RaceKey, RacingDate, Recorded, VenueCode};

use crate::horse_form::{self, Appearance};
use crate::horse_profile::{self, Horse, Seen};
use crate::live_race::LiveRace;
use crate::meetings::{self, Meeting};
use crate::odds_board::{self, Board, Quote, TICKS_PER_CHUNK};
use crate::race::Effect;
use crate::rejections::{self, Announcement};
use crate::store::Writes;
use crate::{
    Checkpoint, Digest, LiveUpdate, LogIdentity, Race, Store, StoreError, StoredMessage, json,
    keys, race_card, race_result,
};

/// Messages in one step at most: folding them takes some milliseconds, and a step holds them all in memory.
pub const BATCH_MESSAGES_MAX: usize = 5_000;

/// A commit is made once about so many keys are touched: sled holds up every reader while it writes them.
const KEYS_PER_COMMIT: usize = 500;

/// The same while the views are served that are folded into. Readers wait for a fraction of a millisecond, and then have their turn.
const KEYS_PER_LIVE_COMMIT: usize = 64;

/// A value counts as one key more for each so many bytes.
const BYTES_PER_KEY: usize = 1024;

/// Of refused messages, so many of the latest are kept: some 700 MB at the most. The log has all of them.
const REJECTIONS_KEPT: u64 = 100_000;

/// Races and horses whose state is kept in memory between steps: a few days of racing.
const RACES_CACHED_MAX: usize = 1_000;
const HORSES_CACHED_MAX: usize = 10_000;

/// What a step did.
#[derive(Debug, Default)]
pub struct Step {
    /// What each event changed of what is live, in the order of the log.
    pub updates: Vec<LiveUpdate>,
    /// What feeders are told of the messages that were refused, in the order of the log.
    pub announcements: Vec<Announcement>,
    /// What became of the messages.
    pub tally: Tally,
}

/// What became of messages.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Tally {
    /// Folded into views.
    pub folded: u64,
    /// Already in the views: at or below the checkpoint.
    pub skipped: u64,
    /// Older than what is in force.
    pub stale: u64,
    /// Refused, by [`DecodeError::code`].
    pub rejected: BTreeMap<&'static str, u64>,
}

/// Folds the log into a store.
#[derive(Debug)]
pub struct Projection {
    store: Arc<Store>,
    checkpoint: Checkpoint,
    races: HashMap<RaceKey, RaceEntry>,
    horses: HashMap<HorseNo, Horse>,
    dirty_races: HashSet<RaceKey>,
    dirty_horses: HashSet<HorseNo>,
    writes: Writes,
    weight: usize,
    /// Messages that were refused since the last commit.
    refused: u64,
    rest: fn(),
}

#[derive(Debug, Default)]
struct RaceEntry {
    live: LiveRace,
    /// The chunk of the history that is not full yet.
    ticks: Vec<u8>,
    /// What the race means for its horses, as it is in the store or among the writes.
    appearances: BTreeMap<HorseNo, Appearance>,
    /// The state is not what is in the store.
    state_changed: bool,
    /// Nor are the views.
    facts_changed: bool,
}

impl Projection {
    /// Goes on where a store stopped; from the beginning if its checkpoint is of another log.
    ///
    /// # Panics
    /// If the store holds views of another log: the caller opens a fresh one for that.
    #[must_use]
    pub fn new(store: Arc<Store>, log: LogIdentity) -> Self {
        let fresh = Checkpoint {
            log: log.clone(),
            seq: 0,
            recorded_at: None,
            digest: Digest::default(),
        };
        let checkpoint = store.checkpoint().unwrap_or(fresh);
        assert!(checkpoint.log == log, "a store is folded from one log");
        Self {
            store,
            checkpoint,
            races: HashMap::new(),
            horses: HashMap::new(),
            dirty_races: HashSet::new(),
            dirty_horses: HashSet::new(),
            writes: Writes::new(),
            weight: 0,
            refused: 0,
            rest: || {},
        }
    }

    /// Has something called between two commits of a live step: there the readers of the store have their turn.
    #[must_use]
    pub fn with_yield(self, rest: fn()) -> Self {
        Self { rest, ..self }
    }

    /// The store that is folded into.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// How far the views are.
    #[must_use]
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// Folds messages, in the order of the log, and commits. With `live`, renders what each event changed of what
    /// is live; without, the views and all later updates are the same.
    ///
    /// # Errors
    /// The store failed or is damaged. What was not committed is forgotten; the caller rebuilds.
    pub fn step<'a>(
        &mut self,
        messages: impl IntoIterator<Item = StoredMessage<'a>>,
        live: bool,
    ) -> Result<Step, StoreError> {
        let mut step = Step::default();
        let enough = if live {
            KEYS_PER_LIVE_COMMIT
        } else {
            KEYS_PER_COMMIT
        };
        for message in messages {
            if message.seq <= self.checkpoint.seq {
                step.tally.skipped += 1;
                continue;
            }
            self.fold(message, live, &mut step)?;
            self.checkpoint.seq = message.seq;
            self.checkpoint.recorded_at = Some(message.recorded_at);
            if self.weight >= enough {
                self.commit()?;
                if live {
                    (self.rest)();
                }
            }
        }
        self.commit()?;
        Ok(step)
    }

    fn fold(
        &mut self,
        message: StoredMessage<'_>,
        live: bool,
        step: &mut Step,
    ) -> Result<(), StoreError> {
        let recorded = match message.decode() {
            Ok(recorded) => recorded,
            Err(error) => {
                let announcement = self.reject(message, &error);
                step.announcements.push(announcement);
                *step.tally.rejected.entry(error.code()).or_default() += 1;
                return Ok(());
            }
        };
        step.tally.folded += 1;
        match &recorded.envelope.event {
            Event::HorseRegistered(registration) => {
                let horse = self.horse(&registration.horse_no)?;
                if horse.register(&recorded.envelope.id, registration) {
                    self.dirty_horses.insert(registration.horse_no.clone());
                    self.weight += 2;
                }
            }
            Event::OddsQuoted(quote) => {
                let race = RaceKey {
                    date: quote.date,
                    venue: quote.venue.clone(),
                    race_number: quote.race_number,
                };
                self.quote(race, &recorded, quote, live, step)?;
            }
            fact => {
                let (events::Subject::Race(race) | events::Subject::Result(race)) = fact.subject()
                else {
                    return Ok(());
                };
                self.fact(race, &recorded, live, step)?;
            }
        }
        Ok(())
    }

    fn reject(&mut self, message: StoredMessage<'_>, error: &DecodeError) -> Announcement {
        let (rejection, announcement) = rejections::render(message, error);
        self.weight += 2 + rejection.len() / BYTES_PER_KEY;
        self.refused += 1;
        self.writes
            .insert(keys::rejection(message.seq), Some(rejection));
        announcement
    }

    fn quote(
        &mut self,
        key: RaceKey,
        recorded: &Recorded,
        quote: &OddsQuoted,
        live: bool,
        step: &mut Step,
    ) -> Result<(), StoreError> {
        let entry = self.race(&key)?;
        let (outcome, due) = entry.live.quote(recorded, quote);
        if let Some(due) = due.filter(|_| live) {
            step.updates
                .push(entry.live.render_update(&key, recorded, &due));
        }
        if outcome == Quote::Repeated {
            return Ok(());
        }
        odds_board::append_tick(&mut entry.ticks, recorded, quote, outcome == Quote::Stale);
        let full = entry.live.board.ticks.is_multiple_of(TICKS_PER_CHUNK);
        let chunk = full.then(|| {
            (
                keys::tick_chunk(&key, last_chunk(&entry.live.board)),
                std::mem::take(&mut entry.ticks),
            )
        });
        if outcome == Quote::Stale {
            step.tally.stale += 1;
        }
        if let Some((chunk, ticks)) = chunk {
            self.writes.insert(chunk, Some(ticks));
            self.weight += 1;
        }
        if self.dirty_races.insert(key) {
            self.weight += 4;
        }
        Ok(())
    }

    fn fact(
        &mut self,
        key: RaceKey,
        recorded: &Recorded,
        live: bool,
        step: &mut Step,
    ) -> Result<(), StoreError> {
        let entry = self.race(&key)?;
        let (effect, due) = entry.live.fact(recorded);
        if let Some(due) = due.filter(|_| live) {
            step.updates
                .push(entry.live.render_update(&key, recorded, &due));
        }
        match effect {
            Effect::None => return Ok(()),
            Effect::Noted => {
                entry.state_changed = true;
                self.dirty_races.insert(key);
                self.weight += 1;
                return Ok(());
            }
            Effect::Changed | Effect::Stated { .. } => {}
        }
        (entry.state_changed, entry.facts_changed) = (true, true);
        if let Effect::Stated { index, in_force } = effect {
            step.tally.stale += u64::from(!in_force);
            let revision = race_result::render_revision(&recorded.envelope, in_force);
            self.writes
                .insert(keys::revision(&key, index), Some(revision));
        }
        let runners = match &recorded.envelope.event {
            Event::RaceDeclared(card) => card.runners.len(),
            Event::ResultDeclared(result) => result.runners.len(),
            _ => 0,
        };
        self.weight += 5 + 3 * runners;
        self.dirty_races.insert(key);
        Ok(())
    }

    fn race(&mut self, key: &RaceKey) -> Result<&mut RaceEntry, StoreError> {
        if !self.races.contains_key(key) {
            let race: Race = self.store.read(&keys::race_state(key))?.unwrap_or_default();
            let board: Board = self
                .store
                .read(&keys::board_state(key))?
                .unwrap_or_default();
            let mut ticks = Vec::new();
            if !board.ticks.is_multiple_of(TICKS_PER_CHUNK) {
                let chunk = self.store.get(&keys::tick_chunk(key, last_chunk(&board)))?;
                ticks.extend_from_slice(chunk.as_deref().unwrap_or_default());
            }
            let appearances = horse_form::appearances(key, &race);
            self.races.insert(
                key.clone(),
                RaceEntry {
                    live: LiveRace { race, board },
                    ticks,
                    appearances,
                    state_changed: false,
                    facts_changed: false,
                },
            );
        }
        Ok(self.races.get_mut(key).expect("just put there"))
    }

    fn horse(&mut self, horse_no: &HorseNo) -> Result<&mut Horse, StoreError> {
        if !self.horses.contains_key(horse_no) {
            let horse = self
                .store
                .read(&keys::horse_state(horse_no))?
                .unwrap_or_default();
            self.horses.insert(horse_no.clone(), horse);
        }
        Ok(self.horses.get_mut(horse_no).expect("just put there"))
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        self.collect_writes()?;
        let writes = std::mem::take(&mut self.writes);
        self.weight = 0;
        if self
            .store
            .checkpoint()
            .is_some_and(|c| c.seq == self.checkpoint.seq)
            && writes.is_empty()
        {
            return Ok(());
        }
        self.store.commit(&writes, self.checkpoint.clone())?;
        self.checkpoint = self.store.checkpoint().expect("just committed");
        if self.races.len() > RACES_CACHED_MAX {
            self.races.clear();
        }
        if self.horses.len() > HORSES_CACHED_MAX {
            self.horses.clear();
        }
        Ok(())
    }

    /// Turns what the events changed into writes of views and state.
    fn collect_writes(&mut self) -> Result<(), StoreError> {
        let mut meetings: BTreeMap<(RacingDate, VenueCode), Meeting> = BTreeMap::new();
        for key in std::mem::take(&mut self.dirty_races) {
            let mut entry = self.races.remove(&key).expect("a dirty race is in memory");
            self.write_board(&key, &entry);
            if std::mem::take(&mut entry.state_changed) {
                self.writes
                    .insert(keys::race_state(&key), Some(json::render(&entry.live.race)));
            }
            if std::mem::take(&mut entry.facts_changed) {
                let now = horse_form::appearances(&key, &entry.live.race);
                self.recount(&key, &entry.appearances, &now)?;
                entry.appearances = now;
                self.writes
                    .insert(keys::card(&key), race_card::render(&key, &entry.live.race));
                self.writes.insert(
                    keys::result(&key),
                    race_result::render(&key, &entry.live.race),
                );
                let day = (key.date, key.venue.clone());
                if !meetings.contains_key(&day) {
                    let meeting = self
                        .store
                        .read(&keys::meeting_state(day.0, &day.1))?
                        .unwrap_or_default();
                    meetings.insert(day.clone(), meeting);
                }
                meetings
                    .entry(day)
                    .or_default()
                    .note(&key, &entry.live.race);
            }
            self.races.insert(key, entry);
        }
        for ((date, venue), meeting) in meetings {
            self.writes.insert(
                keys::meeting_state(date, &venue),
                Some(json::render(&meeting)),
            );
            self.writes.insert(
                keys::meeting_view(date, &venue),
                Some(meetings::render(date, &venue, &meeting)),
            );
        }
        for horse_no in std::mem::take(&mut self.dirty_horses) {
            self.write_horse(&horse_no)?;
        }
        self.forget_rejections()
    }

    /// Makes room for those that are written now.
    fn forget_rejections(&mut self) -> Result<(), StoreError> {
        let newly = std::mem::take(&mut self.refused);
        if newly == 0 {
            return Ok(());
        }
        let before: u64 = self.store.read(keys::REFUSED)?.unwrap_or_default();
        let refused = before + newly;
        self.writes
            .insert(keys::REFUSED.to_owned(), Some(json::render(&refused)));
        let forgotten = |refused: u64| refused.saturating_sub(REJECTIONS_KEPT);
        let oldest = self.store.scan(keys::REJECTIONS);
        for (_, entry) in (forgotten(before)..forgotten(refused)).zip(oldest) {
            self.writes.insert(entry?.0, None);
        }
        Ok(())
    }

    fn write_board(&mut self, key: &RaceKey, entry: &RaceEntry) {
        let RaceEntry { live, ticks, .. } = entry;
        let LiveRace { race, board } = live;
        if board.seq == 0 {
            return;
        }
        self.writes
            .insert(keys::board_state(key), Some(json::render(board)));
        self.writes
            .insert(keys::board(key), Some(odds_board::render(key, race, board)));
        self.writes
            .insert(keys::open_race(key), live.is_open().then(Vec::new));
        if !ticks.is_empty() {
            self.writes.insert(
                keys::tick_chunk(key, last_chunk(board)),
                Some(ticks.clone()),
            );
        }
    }

    /// Takes back what a race meant for its horses, and puts in what it means now.
    fn recount(
        &mut self,
        key: &RaceKey,
        before: &BTreeMap<HorseNo, Appearance>,
        now: &BTreeMap<HorseNo, Appearance>,
    ) -> Result<(), StoreError> {
        let horses: HashSet<&HorseNo> = before.keys().chain(now.keys()).collect();
        for horse_no in horses {
            let (before, now) = (before.get(horse_no), now.get(horse_no));
            if before == now {
                continue;
            }
            self.writes
                .insert(keys::form_row(horse_no, key), now.map(|a| a.row.clone()));
            let career =
                |appearance: Option<&Appearance>| appearance.map(|a| a.career).unwrap_or_default();
            self.horse(horse_no)?.recount(career(before), career(now));
            self.dirty_horses.insert(horse_no.clone());
        }
        Ok(())
    }

    fn write_horse(&mut self, horse_no: &HorseNo) -> Result<(), StoreError> {
        let horse = self.horse(horse_no)?.clone();
        let seen = match horse.registration {
            Some(_) => None,
            None => self.seen(horse_no)?,
        };
        let profile = horse_profile::render(horse_no, &horse, seen.as_ref());
        let known = profile.is_some();
        self.writes.insert(keys::profile(horse_no), profile);
        self.writes.insert(
            keys::horse_state(horse_no),
            known.then(|| json::render(&horse)),
        );
        Ok(())
    }

    /// What the form rows of a horse tell of it, newest first by the date of the race, as they will be after this commit.
    fn seen(&self, horse_no: &HorseNo) -> Result<Option<Seen>, StoreError> {
        let (first, end) = (keys::form(horse_no), keys::form_end(horse_no));
        let written = self.writes.range(first.clone()..end.clone()).rev();
        let mut written = written
            .filter_map(|(key, row)| Some((key, row.as_ref()?)))
            .peekable();
        let mut seen: Option<Seen> = None;
        for stored in self.store.range(&first, &end).rev() {
            let (key, row) = stored?;
            while let Some((_, newer)) = written.next_if(|(newer, _)| **newer > key) {
                seen.get_or_insert_default().take(newer);
            }
            if !self.writes.contains_key(&key) {
                seen.get_or_insert_default().take(&row);
            }
            if seen.as_ref().is_some_and(Seen::is_complete) {
                return Ok(seen);
            }
        }
        for (_, row) in written {
            seen.get_or_insert_default().take(row);
        }
        Ok(seen)
    }
}

/// The chunk that holds the latest tick of a board.
fn last_chunk(board: &Board) -> u32 {
    board.ticks.saturating_sub(1) / TICKS_PER_CHUNK
}
