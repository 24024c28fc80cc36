//! [`Translation`]: the names in a language, which an answer has instead of those of the contract.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use events::{HorseNo, LanguageTag, Names, RaceKey};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::horse_form::is_current;
use crate::horse_profile::Horse;
use crate::live::LiveRace;
use crate::store::{Store, StoreResult};
use crate::{keys, race_result};

/// The names in a language of what an answer is about, by field and by the name that the field has in the views.
///
/// Views have one language, so that they stay small and are served as they are stored. The names in other languages are
/// in the state of races and horses.
#[derive(Debug)]
pub struct Translation<'a> {
    language: &'a LanguageTag,
    store: &'a Store,
    /// By a rendered field such as `"jockey":"Z Purton"`, the same one in the language.
    fields: BTreeMap<String, String>,
}

impl<'a> Translation<'a> {
    /// Reads the names of the races and horses that an answer names.
    ///
    /// # Errors
    /// Returns a [`StoreError`](crate::StoreError) if a state cannot be read.
    pub fn of(json: &[u8], language: &'a LanguageTag, store: &'a Store) -> StoreResult<Self> {
        let fields = BTreeMap::new();
        let mut names = Self {
            language,
            store,
            fields,
        };
        let answer: Value = serde_json::from_slice(json).unwrap_or_default();
        let mut subjects = AnswerSubjects::default();
        subjects.find(&answer, &Value::Null, &Value::Null);
        // Of two races of one name and number, the later one comes first.
        for race in subjects.races.iter().rev() {
            names.add_race(race)?;
        }
        for horse_no in &subjects.horses {
            names.add_horse(horse_no)?;
            // A profile may have a name or a trainer of the latest race.
            let mut form = store.scan(&keys::form(horse_no)).rev();
            let latest = form.find(|row| row.as_ref().map_or(true, |(_, row)| is_current(row)));
            if let (true, Some(row)) = (subjects.races.is_empty(), latest.transpose()?) {
                keys::parse_race(&row.0).map_or(Ok(()), |race| names.add_race(&race))?;
            }
        }
        Ok(names)
    }

    fn add_race(&mut self, key: &RaceKey) -> StoreResult<()> {
        let state: Option<LiveRace> = self.store.read(&keys::race_state(key))?;
        let LiveRace { race, .. } = state.unwrap_or_default();
        // A meeting may have two races of one name.
        let race_name = format!("race_number\":{},\"race_name", key.race_number);
        if let Some(result) = race.declared() {
            self.add(&race_name, race.name(), &result.names);
            self.add("venue", race.venue_name(key), &result.venue_names);
            for runner in &result.runners {
                let shown = race_result::runner_fields(&race, runner);
                self.add("horse_name", shown.horse_name, &runner.names);
                self.add("jockey", shown.jockey, &runner.jockey_names);
                self.add("trainer", shown.trainer, &runner.trainer_names);
            }
        }
        if let Some(card) = &race.card {
            self.add(&race_name, race.name(), &card.names);
            self.add("venue", race.venue_name(key), &card.venue_names);
            for runner in &card.runners {
                self.add("horse_name", &runner.horse_name, &runner.names);
                self.add("jockey", &runner.jockey, &runner.jockey_names);
                self.add("trainer", &runner.trainer, &runner.trainer_names);
            }
        }
        Ok(())
    }

    fn add_horse(&mut self, horse_no: &HorseNo) -> StoreResult<()> {
        let horse: Option<Horse> = self.store.read(&keys::horse_state(horse_no))?;
        if let Some(horse) = horse.and_then(|horse| horse.registration) {
            self.add("horse_name", &horse.horse_name, &horse.names);
            self.add("trainer", &horse.trainer, &horse.trainer_names);
            self.add("owner", &horse.owner, &horse.owner_names);
        }
        Ok(())
    }

    /// Adds a name, unless a better source has added one.
    fn add(&mut self, field: &str, name: impl Display, names: &Names) {
        if let Some(translated) = names.get(self.language) {
            let of = |name: &str| format!("\"{field}\":{}", json!(name));
            let field = self.fields.entry(of(&name.to_string()));
            field.or_insert_with(|| of(translated.as_str()));
        }
    }

    /// Rendered JSON with the names of this language. Other values and the order of fields stay as they are.
    pub fn apply(&self, json: &[u8]) -> Vec<u8> {
        let mut translated = Vec::with_capacity(json.len() + json.len() / 8);
        let mut rest = json;
        while let Some(at) = rest.iter().position(|byte| *byte == b'"') {
            let (before, field) = rest.split_at(at);
            translated.extend_from_slice(before);
            // A string never has a field in it, because its quotes are escaped.
            let mut fields = self.fields.iter();
            let known = fields.find(|(known, _)| field.starts_with(known.as_bytes()));
            let (length, text) = known.map_or((1, "\""), |(known, text)| (known.len(), text));
            translated.extend_from_slice(text.as_bytes());
            rest = &field[length..];
        }
        translated.extend_from_slice(rest);
        translated
    }
}

/// The races and horses that an answer names.
#[derive(Debug, Default)]
struct AnswerSubjects {
    races: BTreeSet<RaceKey>,
    horses: BTreeSet<HorseNo>,
}

impl AnswerSubjects {
    /// Adds those of a value. A race is of the meeting that its object or one around it names, and a meeting has the
    /// names of its first race.
    fn find(&mut self, value: &Value, date: &Value, venue: &Value) {
        let date = value.get("date").unwrap_or(date);
        let venue = value.get("venue_code").unwrap_or(venue);
        let race_number = value["race_number"].as_u64().unwrap_or(1);
        let race = json!({ "date": date, "venue": venue, "race_number": race_number });
        self.races.extend(RaceKey::deserialize(race));
        self.horses.extend(HorseNo::deserialize(&value["horse_no"]));
        let rows = value.as_array().into_iter().flatten();
        let fields = value.as_object().into_iter().flat_map(Map::values);
        (rows.chain(fields)).for_each(|value| self.find(value, date, venue));
    }
}
