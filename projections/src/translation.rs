//! [`Translation`]: the names in a language, which an answer has instead of those of the contract.

use std::collections::BTreeMap;

use events::{HorseNo, LanguageTag, Names, RaceKey, RacingDate, VenueCode};

use crate::horse_profile::Horse;
use crate::live::LiveRace;
use crate::meetings::Meeting;
use crate::race::Race;
use crate::store::{Store, StoreError};
use crate::{json, keys, race_result};

/// The names of some races and horses in a language, by field and by the name that the field has in the views.
///
/// Views have one language, so that they stay small and are served as they are stored. The names in other languages are
/// in the state of races and horses; a request for a language reads them there, and puts them into the rendered JSON.
#[derive(Debug, Clone)]
pub struct Translation {
    language: LanguageTag,
    /// By a rendered field such as `"jockey":"Z Purton"`: the same field in the language.
    fields: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// The fields with names, as they are rendered.
const FIELDS: [&[u8]; 6] = [
    b"\"horse_name\"",
    b"\"jockey\"",
    b"\"trainer\"",
    b"\"owner\"",
    b"\"race_name\"",
    b"\"venue\"",
];

impl Translation {
    /// A translation without any names.
    pub fn to(language: LanguageTag) -> Self {
        let fields = BTreeMap::new();
        Self { language, fields }
    }

    /// Adds the names of a race, and those in the registrations of its horses.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if a state cannot be read.
    pub fn add_race_with_horses(&mut self, store: &Store, key: &RaceKey) -> Result<(), StoreError> {
        if let Some(race) = self.add_race(store, key)? {
            let in_result = race.declared().into_iter().flat_map(|r| &r.runners);
            for horse_no in race.horses(in_result.map(|runner| &runner.horse_no)) {
                self.add_horse(store, &horse_no)?;
            }
        }
        self.add_meeting(store, key.date, &key.venue)
    }

    /// Adds the names of a form row: those of its race, and those in the registration of the horse.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if a state cannot be read.
    pub fn add_form_row(
        &mut self,
        store: &Store,
        horse_no: &HorseNo,
        key: &RaceKey,
    ) -> Result<(), StoreError> {
        self.add_race(store, key)?;
        self.add_horse(store, horse_no)
    }

    /// Adds the names of a profile: those in the registration of the horse, and those of its latest race.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if a state cannot be read.
    pub fn add_profile(&mut self, store: &Store, horse_no: &HorseNo) -> Result<(), StoreError> {
        self.add_horse(store, horse_no)?;
        let mut rows = store.scan(&keys::form(horse_no)).rev();
        let latest = rows.next().transpose()?;
        if let Some((_, race)) = latest.and_then(|(key, _)| keys::parse_form_row(&key)) {
            self.add_race(store, &race)?;
        }
        Ok(())
    }

    fn add_race(&mut self, store: &Store, key: &RaceKey) -> Result<Option<Race>, StoreError> {
        let state: Option<LiveRace> = store.read(&keys::race_state(key))?;
        let Some(LiveRace { race, .. }) = state else {
            return Ok(None);
        };
        if let Some(names) = race.venue_names() {
            self.add("venue", race.venue_name(key), names);
        }
        if let Some(result) = race.declared() {
            self.add("race_name", race.name(), &result.names);
            for runner in &result.runners {
                let shown = race_result::runner_fields(&race, runner);
                self.add("horse_name", shown.horse_name, &runner.names);
                self.add("jockey", shown.jockey, &runner.jockey_names);
                self.add("trainer", shown.trainer, &runner.trainer_names);
            }
        }
        if let Some(card) = &race.card {
            self.add("race_name", race.name(), &card.names);
            for runner in &card.runners {
                self.add("horse_name", runner.horse_name.as_str(), &runner.names);
                self.add("jockey", runner.jockey.as_str(), &runner.jockey_names);
                self.add("trainer", runner.trainer.as_str(), &runner.trainer_names);
            }
        }
        Ok(Some(race))
    }

    /// Adds the names in the registration of a horse.
    fn add_horse(&mut self, store: &Store, horse_no: &HorseNo) -> Result<(), StoreError> {
        let horse: Option<Horse> = store.read(&keys::horse_state(horse_no))?;
        if let Some(horse) = horse.and_then(|horse| horse.registration) {
            self.add("horse_name", horse.horse_name.as_str(), &horse.names);
            self.add("trainer", horse.trainer.as_str(), &horse.trainer_names);
            self.add("owner", horse.owner.as_str(), &horse.owner_names);
        }
        Ok(())
    }

    /// Adds the names of the venue of a meeting.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the state cannot be read.
    pub fn add_meeting(
        &mut self,
        store: &Store,
        date: RacingDate,
        venue: &VenueCode,
    ) -> Result<(), StoreError> {
        let meeting: Option<Meeting> = store.read(&keys::meeting_state(date, venue))?;
        if let Some(meeting) = &meeting
            && let Some(names) = meeting.venue_names()
        {
            self.add("venue", meeting.venue(venue), names);
        }
        Ok(())
    }

    /// Adds a name, unless a better source has added one.
    fn add(&mut self, field: &str, name: &str, names: &Names) {
        if let Some(translated) = names.get(&self.language) {
            let of = |name: &str| rendered(&json::render(field), &json::render(name));
            let fields = self.fields.entry(of(name));
            fields.or_insert_with(|| of(translated.as_str()));
        }
    }

    /// Rendered JSON with the names of this language. Other values and the order of fields stay as they are.
    pub fn apply(&self, json: &[u8]) -> Vec<u8> {
        let mut translated = Vec::with_capacity(json.len() + json.len() / 8);
        let mut rest = json;
        while let Some((before, text, after)) = next_string(rest) {
            translated.extend_from_slice(before);
            let value = after.strip_prefix(b":").and_then(next_string);
            rest = match value {
                Some((b"", value, after_value)) if FIELDS.contains(&text) => {
                    let field = rendered(text, value);
                    translated.extend_from_slice(self.fields.get(&field).unwrap_or(&field));
                    after_value
                }
                _ => {
                    translated.extend_from_slice(text);
                    after
                }
            };
        }
        translated.extend_from_slice(rest);
        translated
    }
}

fn rendered(field: &[u8], value: &[u8]) -> Vec<u8> {
    [field, b":", value].concat()
}

/// Splits rendered JSON around its first string: what is before it, the string with its quotes, and what is after it.
fn next_string(json: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let start = json.iter().position(|byte| *byte == b'"')?;
    let mut is_escaped = false;
    let length = json[start + 1..].iter().position(|byte| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    })?;
    let (text, after) = json[start..].split_at(length + 2);
    Some((&json[..start], text, after))
}
