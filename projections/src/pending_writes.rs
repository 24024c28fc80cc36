//! [`PendingWrites`]: the races and horses that are folded in memory, and the writes that bring the store up to date.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use events::{
    Event, HorseNo, HorseRegistered, MarketQuoted, OddsQuoted, RaceKey, RacingDate, Recorded,
};

use crate::effect::Effect;
use crate::horse_form::{self, Appearance, RowKind};
use crate::horse_profile::{self, FormNames, Horse};
use crate::live::{LiveRace, LiveUpdate, races_open_between, render_replay_state, replay_period};
use crate::log_clock::LogClock;
use crate::markets::{self, MarketKey};
use crate::meetings::{self, Meeting};
use crate::newest::{Order, identity};
use crate::store::{Checkpoint, Store, StoreResult, Writes};
use crate::{json, keys, odds_board, odds_history, race_card, race_dividends, race_result};

/// A value counts as one more key for each so many bytes.
const BYTES_PER_KEY: usize = 1024;
/// The form row, the profile and the state of a runner, and its four rides.
const KEYS_PER_RUNNER: usize = 7;
/// About the size of a price of a market as it is stored.
const BYTES_PER_PRICE: usize = 32;

/// The number of the latest rejections that are stored: at most about 750 MB. The log has all rejected messages.
const REJECTIONS_MAX: u64 = 100_000;

/// The numbers of races and horses that stay in memory between commits: a few days of racing.
const RACES_CACHED_MAX: usize = 1_000;
const HORSES_CACHED_MAX: usize = 10_000;

/// The number of identities of quotes that stay in memory between commits: about 16 MB.
const QUOTE_IDS_CACHED_MAX: usize = 1_000_000;

/// The state of races and horses after the events since the last commit. Each view that the events touched is written
/// once in a commit, however many events touched it.
#[derive(Debug)]
pub(crate) struct PendingWrites {
    store: Arc<Store>,
    races: HashMap<RaceKey, RaceEntry>,
    horses: HashMap<HorseNo, Horse>,
    /// The identities of all quotes in the histories of the races that were sent an old one: it may be a repeated one.
    quote_ids: HashMap<RaceKey, HashSet<u64>>,
    dirty_races: HashSet<RaceKey>,
    dirty_horses: HashSet<HorseNo>,
    writes: Writes,
    /// About how many keys the next commit writes. A large value counts as several keys.
    pub(crate) keys: usize,
    /// Messages that were rejected since the last commit.
    rejected: u64,
}

#[derive(Debug, Default)]
struct RaceEntry {
    live: LiveRace,
    /// The last chunk of the odds history, as far as it is not full.
    ticks: Vec<u8>,
    /// The appearances of horses in the race, as they are stored or among the writes.
    appearances: BTreeMap<HorseNo, Appearance>,
    /// The horses that were in the race at any time since it was last written.
    horses: BTreeSet<HorseNo>,
    /// The markets whose states differ from the stored ones.
    changed_markets: BTreeSet<MarketKey>,
    /// The state differs from the stored one.
    state_changed: bool,
    /// The facts that views are made of differ from the stored ones.
    facts_changed: bool,
    /// The period whose replay state is kept.
    period: Option<u64>,
}

/// Whether an event is older than the facts in force, and what it changed in the live view, if that was asked for.
pub(crate) type Folded = (bool, Option<LiveUpdate>);

impl PendingWrites {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            races: HashMap::new(),
            horses: HashMap::new(),
            quote_ids: HashMap::new(),
            dirty_races: HashSet::new(),
            dirty_horses: HashSet::new(),
            writes: Writes::new(),
            keys: 0,
            rejected: 0,
        }
    }

    pub(crate) fn reject(&mut self, seq: u64, rejection: Vec<u8>) {
        self.keys += 2 + rejection.len() / BYTES_PER_KEY;
        self.rejected += 1;
        self.writes.insert(keys::rejection(seq), Some(rejection));
    }

    pub(crate) fn register(
        &mut self,
        recorded: &Recorded,
        registration: &HorseRegistered,
        clock: &LogClock,
    ) -> StoreResult<Folded> {
        let horse_no = &registration.horse_no;
        let horse = self.horse(horse_no)?;
        let order = horse.register(recorded, registration, clock);
        if order == Order::New {
            self.dirty_horses.insert(horse_no.clone());
            self.keys += 2;
        }
        Ok((order == Order::Stale, None))
    }

    pub(crate) fn quote(
        &mut self,
        key: RaceKey,
        recorded: &Recorded,
        quote: &OddsQuoted,
        whole: &Checkpoint,
        live: bool,
    ) -> StoreResult<Folded> {
        let entry = self.race(&key, recorded.seq)?;
        let ranking = whole.rankings.at(recorded.seq);
        let (order, update) =
            (entry.live).quote(&key, recorded, quote, &whole.clock, ranking, live);
        let is_listed = match order {
            Order::Repeated => true,
            Order::Stale => {
                let ids = self.quote_ids(&key, recorded.seq)?;
                !ids.insert(identity(&recorded.envelope))
            }
            Order::New => {
                if let Some(ids) = self.quote_ids.get_mut(&key) {
                    ids.insert(identity(&recorded.envelope));
                }
                false
            }
        };
        let stale = order == Order::Stale && !is_listed;
        if is_listed {
            return Ok((stale, update));
        }
        let entry = self.races.get_mut(&key).expect("its quote is folded");
        entry.live.board.ticks += 1;
        odds_history::append_tick(&mut entry.ticks, recorded, quote, stale);
        if entry.live.board.is_last_chunk_full() {
            let chunk = keys::tick_chunk(&key, entry.live.board.last_chunk());
            let ticks = std::mem::take(&mut entry.ticks);
            self.writes.insert(chunk, Some(ticks));
            self.keys += 1;
        }
        if self.dirty_races.insert(key) {
            self.keys += 4;
        }
        Ok((stale, update))
    }

    /// Folds a quote of another market than win and place.
    pub(crate) fn quote_market(
        &mut self,
        key: RaceKey,
        recorded: &Recorded,
        quote: &MarketQuoted,
        clock: &LogClock,
        live: bool,
    ) -> StoreResult<Folded> {
        let market = MarketKey::of(quote, recorded);
        let entry = self.race(&key, recorded.seq)?;
        let (order, update) = (entry.live).quote_market(&key, recorded, quote, clock, live);
        if order == Order::New {
            let markets = &entry.live.markets.0;
            let prices = markets.get(&market).map_or(0, |market| market.prices.len());
            if entry.changed_markets.insert(market) {
                self.keys += 1 + prices * BYTES_PER_PRICE / BYTES_PER_KEY;
            }
            self.dirty_races.insert(key);
        }
        Ok((order == Order::Stale, update))
    }

    /// The identities of the quotes in the history of a race.
    fn quote_ids(&mut self, key: &RaceKey, seq: u64) -> StoreResult<&mut HashSet<u64>> {
        if !self.quote_ids.contains_key(key) {
            let first = keys::ticks(key);
            let end = keys::ticks(key) + "~";
            let last = &self.race(key, seq)?.ticks;
            let mut ids: HashSet<u64> = odds_history::identities(&end, last)?.collect();
            for chunk in self.store.range(&first, &end) {
                let (key, chunk) = chunk?;
                ids.extend(odds_history::identities(&key, &chunk)?);
            }
            for (key, chunk) in self.writes.range(first..end) {
                let Some(chunk) = chunk else { continue };
                ids.extend(odds_history::identities(key, chunk)?);
            }
            self.quote_ids.insert(key.clone(), ids);
        }
        Ok(self.quote_ids.get_mut(key).expect("just inserted"))
    }

    /// Folds any other event about a race.
    pub(crate) fn fact(
        &mut self,
        key: RaceKey,
        recorded: &Recorded,
        clock: &LogClock,
        live: bool,
    ) -> StoreResult<Folded> {
        let entry = self.race(&key, recorded.seq)?;
        let (effect, update) = entry.live.fact(&key, recorded, clock, live);
        let folded = (effect.is_stale(), update);
        match effect {
            Effect::Repeated | Effect::Stale => return Ok(folded),
            Effect::Unchanged => {
                entry.state_changed = true;
                self.keys += 1;
            }
            Effect::Changed | Effect::Stated { .. } => {
                (entry.state_changed, entry.facts_changed) = (true, true);
                let horses = horse_form::horses(&entry.live.race);
                entry.horses.extend(horses.cloned());
                self.keys += 7 + KEYS_PER_RUNNER * runner_count(&recorded.envelope.event);
            }
        }
        if let Effect::Stated { index, in_force } = effect
            && let Some(revision) = race_result::render_revision(&recorded.envelope, in_force)
        {
            let key = keys::revision(&key, index);
            self.writes.insert(key, Some(revision));
        }
        self.dirty_races.insert(key);
        Ok(folded)
    }

    /// The race before its message at a sequence.
    fn race(&mut self, key: &RaceKey, seq: u64) -> StoreResult<&mut RaceEntry> {
        let entry = match self.races.entry(key.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(load_race(&self.store, key)?),
        };
        let period = replay_period(seq);
        if entry.period.replace(period) != Some(period) {
            let state_key = keys::replay_state(period, key);
            let is_kept = match self.writes.get(&state_key) {
                Some(written) => written.is_some(),
                None => self.store.get(&state_key)?.is_some(),
            };
            if !is_kept {
                let state = render_replay_state(&entry.live);
                self.keys += 1 + state.len() / BYTES_PER_KEY;
                self.writes.insert(state_key, Some(state));
            }
        }
        Ok(entry)
    }

    /// Drops the replay states of periods before the last two. All changes are committed.
    pub(crate) fn begin_period(&mut self, last: u64, period: u64) -> StoreResult<()> {
        for begun in (last + 1..=period).rev().take(2) {
            for state in self.store.scan(&keys::replay_states(begun)) {
                self.writes.insert(state?.0, None);
                self.keys += 1;
            }
        }
        Ok(())
    }

    fn horse(&mut self, horse_no: &HorseNo) -> StoreResult<&mut Horse> {
        if !self.horses.contains_key(horse_no) {
            let state = self.store.read(&keys::horse_state(horse_no))?;
            (self.horses).insert(horse_no.clone(), state.unwrap_or_default());
        }
        Ok(self.horses.get_mut(horse_no).expect("just inserted"))
    }

    /// Takes the writes of all views and state that changed since the last commit. Races before `open_from` are closed.
    pub(crate) fn take_writes(&mut self, open_from: Option<RacingDate>) -> StoreResult<Writes> {
        let races = self.write_races(open_from)?;
        self.move_open_marks(open_from)?;
        self.write_meetings(&races)?;
        self.write_horses()?;
        self.write_rejections()?;
        self.keys = 0;
        Ok(std::mem::take(&mut self.writes))
    }

    /// Drops the state in memory once it is large. The store has all of it after a commit.
    pub(crate) fn trim_cache(&mut self) {
        if self.races.len() > RACES_CACHED_MAX {
            self.races.clear();
        }
        if self.horses.len() > HORSES_CACHED_MAX {
            self.horses.clear();
        }
        if self.quote_ids.values().map(HashSet::len).sum::<usize>() > QUOTE_IDS_CACHED_MAX {
            self.quote_ids.clear();
        }
    }

    /// The number of races and horses in memory.
    pub(crate) fn in_memory(&self) -> usize {
        self.races.len() + self.horses.len()
    }

    /// Removes the marks of open races before a date, and restores those from it on if it is earlier than before.
    fn move_open_marks(&mut self, open_from: Option<RacingDate>) -> StoreResult<()> {
        let stored = self.store.checkpoint().and_then(|c| c.open_from());
        if open_from == stored {
            return Ok(());
        }
        for mark in self.store.scan(keys::OPEN_RACES) {
            let (mark, _) = mark?;
            if keys::parse_race(&mark).is_none_or(|race| Some(race.date) >= open_from) {
                break;
            }
            self.writes.insert(mark, None);
        }
        if let (Some(from), Some(to)) = (open_from, stored) {
            for race in races_open_between(&self.store, from, to)? {
                // The marks of the races that changed since are written already.
                let mark = self.writes.entry(keys::open_race(&race));
                mark.or_insert_with(|| Some(Vec::new()));
            }
        }
        Ok(())
    }

    /// Writes all dirty races. Returns those whose facts changed.
    fn write_races(&mut self, open_from: Option<RacingDate>) -> StoreResult<Vec<RaceKey>> {
        let mut changed = Vec::new();
        for key in std::mem::take(&mut self.dirty_races) {
            let mut entry = self.races.remove(&key).expect("a dirty race is in memory");
            self.write_board(&key, &entry, open_from);
            for market in std::mem::take(&mut entry.changed_markets) {
                let state = entry.live.markets.0.get(&market).map(json::render);
                self.writes.insert(markets::state_key(&key, &market), state);
            }
            if std::mem::take(&mut entry.state_changed) {
                let state = json::render(&entry.live);
                self.writes.insert(keys::race_state(&key), Some(state));
            }
            if std::mem::take(&mut entry.facts_changed) {
                self.write_facts(&key, &mut entry)?;
                changed.push(key.clone());
            }
            self.races.insert(key, entry);
        }
        Ok(changed)
    }

    fn write_board(&mut self, key: &RaceKey, entry: &RaceEntry, open_from: Option<RacingDate>) {
        let LiveRace { race, board, .. } = &entry.live;
        let writes = &mut self.writes;
        let view = odds_board::render(key, race, board);
        writes.insert(keys::board(key), Some(view));
        if board.seq == 0 {
            return;
        }
        let open = entry.live.is_open() && Some(key.date) >= open_from;
        let mark = open.then(Vec::new);
        writes.insert(keys::board_state(key), Some(json::render(board)));
        writes.insert(keys::open_race(key), mark);
        if !entry.ticks.is_empty() {
            let chunk = keys::tick_chunk(key, board.last_chunk());
            writes.insert(chunk, Some(entry.ticks.clone()));
        }
    }

    /// Writes the card and the result of a race, and its part in the form and the careers of its horses.
    fn write_facts(&mut self, key: &RaceKey, entry: &mut RaceEntry) -> StoreResult<()> {
        let race = &entry.live.race;
        let writes = &mut self.writes;
        writes.insert(keys::card(key), race_card::render(key, race));
        writes.insert(keys::result(key), race_result::render(key, race));
        writes.insert(keys::dividends(key), race_dividends::render(key, race));
        let appearances = horse_form::appearances(key, race);
        let earlier = std::mem::replace(&mut entry.appearances, appearances);
        let mut horses = std::mem::take(&mut entry.horses);
        horses.extend(earlier.keys().chain(entry.appearances.keys()).cloned());
        for horse_no in horses {
            let before = earlier.get(&horse_no);
            let now = entry.appearances.get(&horse_no);
            if now.is_some() && before == now {
                continue;
            }
            let row = now.map_or_else(|| vec![RowKind::Former as u8], |now| now.row.clone());
            (self.writes).insert(keys::form_row(&horse_no, key), Some(row));
            let former = before.iter().flat_map(|before| before.rides.keys());
            (self.writes).extend(former.map(|ride| (ride.clone(), None)));
            let rides = now.iter().flat_map(|now| now.rides.clone());
            (self.writes).extend(rides.map(|(ride, names)| (ride, Some(names))));
            self.horse(&horse_no)?.recount(before, now);
            self.dirty_horses.insert(horse_no);
        }
        Ok(())
    }

    /// Writes the meetings of races whose facts changed.
    fn write_meetings(&mut self, races: &[RaceKey]) -> StoreResult<()> {
        let mut meetings: BTreeMap<_, Vec<&RaceKey>> = BTreeMap::new();
        for key in races {
            let races = meetings.entry((key.date, &key.venue)).or_default();
            races.push(key);
        }
        for ((date, venue), races) in meetings {
            let state_key = keys::meeting_state(date, venue);
            let mut meeting: Meeting = self.store.read(&state_key)?.unwrap_or_default();
            for key in races {
                meeting.update(key, &self.races[key].live.race);
            }
            let view = meetings::render(date, venue, &meeting);
            self.writes.insert(state_key, Some(json::render(&meeting)));
            (self.writes).insert(keys::meeting_view(date, venue), Some(view));
        }
        Ok(())
    }

    /// Writes all dirty horses. Their form rows are among the writes already.
    fn write_horses(&mut self) -> StoreResult<()> {
        for horse_no in std::mem::take(&mut self.dirty_horses) {
            let horse = self.horse(&horse_no)?.clone();
            let names = horse.needs_form().then(|| self.form_names(&horse_no));
            let names = names.transpose()?.flatten();
            let profile = horse_profile::render(&horse_no, &horse, names.as_ref());
            let horse = self.write_name(&horse_no, horse, names.as_ref())?;
            let state = profile.is_some().then(|| json::render(&horse));
            self.writes.insert(keys::profile(&horse_no), profile);
            self.writes.insert(keys::horse_state(&horse_no), state);
        }
        Ok(())
    }

    /// Replaces the entry of a horse in the index of names, if it has other names. Returns the horse with these.
    fn write_name(
        &mut self,
        horse_no: &HorseNo,
        mut horse: Horse,
        names: Option<&FormNames>,
    ) -> StoreResult<Horse> {
        let names = horse.current_names(names);
        if names != horse.indexed_names {
            let entry = Some(names.join("\n").into_bytes());
            let indexed = std::mem::replace(&mut horse.indexed_names, names.clone());
            for (names, entry) in [(indexed, None), (names, entry)] {
                let name = names.first();
                let key = name.map(|name| keys::horse_name(name, horse_no));
                (self.writes).extend(key.map(|key| (key, entry)));
            }
            *self.horse(horse_no)? = horse.clone();
        }
        Ok(horse)
    }

    /// The name and the trainer of a horse by its form rows as they will be after this commit. The race with the latest
    /// date comes first. `None` if there are no rows.
    fn form_names(&self, horse_no: &HorseNo) -> StoreResult<Option<FormNames>> {
        let first = keys::form(horse_no);
        let end = keys::form_end(horse_no);
        let written = self.writes.range(first.clone()..end.clone()).rev();
        let mut written = written
            .filter_map(|(key, row)| Some((key, row.as_ref()?)))
            .filter(|(_, row)| horse_form::is_current(row))
            .peekable();
        let mut names: Option<FormNames> = None;
        for stored in self.store.range(&first, &end).rev() {
            let (key, row) = stored?;
            while let Some((_, newer)) = written.next_if(|(newer, _)| **newer > key) {
                names.get_or_insert_default().add_older(newer);
            }
            if horse_form::is_current(&row) && !self.writes.contains_key(&key) {
                names.get_or_insert_default().add_older(&row);
            }
            if names.as_ref().is_some_and(FormNames::is_complete) {
                return Ok(names);
            }
        }
        for (_, row) in written {
            names.get_or_insert_default().add_older(row);
        }
        Ok(names)
    }

    /// Counts the new rejections, and removes as many of the oldest as are too many.
    fn write_rejections(&mut self) -> StoreResult<()> {
        let new = std::mem::take(&mut self.rejected);
        if new == 0 {
            return Ok(());
        }
        let before: u64 = self.store.read(keys::REJECTION_COUNT)?.unwrap_or_default();
        let count = before + new;
        self.writes
            .insert(keys::REJECTION_COUNT.to_owned(), Some(json::render(&count)));
        let removed = |count: u64| count.saturating_sub(REJECTIONS_MAX);
        let oldest = self.store.scan(keys::REJECTIONS);
        for (_, entry) in (removed(before)..removed(count)).zip(oldest) {
            self.writes.insert(entry?.0, None);
        }
        Ok(())
    }
}

fn load_race(store: &Store, key: &RaceKey) -> StoreResult<RaceEntry> {
    let mut live: LiveRace = store.read(&keys::race_state(key))?.unwrap_or_default();
    live.board = store.read(&keys::board_state(key))?.unwrap_or_default();
    let mut ticks = Vec::new();
    if !live.board.is_last_chunk_full() {
        let chunk = store.get(&keys::tick_chunk(key, live.board.last_chunk()))?;
        ticks = chunk.map_or(ticks, |chunk| chunk.to_vec());
    }
    live.markets = markets::read(store, key, None)?;
    Ok(RaceEntry {
        appearances: horse_form::appearances(key, &live.race),
        live,
        ticks,
        ..RaceEntry::default()
    })
}

fn runner_count(event: &Event) -> usize {
    match event {
        Event::RaceDeclared(card) => card.runners.len(),
        Event::ResultDeclared(result) => result.runners.len(),
        _ => 0,
    }
}
