//! A horse's profile: who it is, and what it has done.

use events::{Career, HorseNo, HorseRegistered, RacingDate, Text};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Birth;
use crate::horse_form::RowKind;
use crate::json::{self, JsonObject};
use crate::seen_ids::SeenIds;

/// What is known of a horse beyond its form rows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Horse {
    /// The registration in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) registration: Option<HorseRegistered>,
    /// The sum of what the races in this log add.
    pub(crate) career: Career,
    #[serde(default, skip_serializing_if = "SeenIds::is_empty")]
    seen: SeenIds<REGISTRATION_IDS_MAX>,
}

/// A horse changes hands a few times in its life.
const REGISTRATION_IDS_MAX: usize = 16;

impl Horse {
    /// Takes in a registration, unless it was taken in before. Returns whether it was not.
    pub(crate) fn register(&mut self, event_id: &str, registration: &HorseRegistered) -> bool {
        let new = self.seen.is_new(event_id);
        if new {
            self.registration = Some(registration.clone());
        }
        new
    }

    /// Takes back what a race added before and adds what it adds now.
    pub(crate) fn recount(&mut self, before: Career, now: Career) {
        let count =
            |total: u32, before: u32, now: u32| total.saturating_sub(before).saturating_add(now);
        self.career = Career {
            starts: count(self.career.starts, before.starts, now.starts),
            wins: count(self.career.wins, before.wins, now.wins),
            places: count(self.career.places, before.places, now.places),
            total_stakes: self
                .career
                .total_stakes
                .saturating_sub(before.total_stakes)
                .saturating_add(now.total_stakes),
        };
    }
}

/// A horse's profile. The age, which depends on the day of the request, is added when it is served.
#[derive(Debug, Serialize, JsonSchema)]
struct HorseProfile<'a> {
    horse_no: &'a str,
    horse_name: &'a str,
    country_of_origin: &'a str,
    colour: &'a str,
    sex: &'a str,
    trainer: &'a str,
    owner: &'a str,
    total_stakes: u64,
    starts: u32,
    wins: u32,
    /// Second and third places.
    places: u32,
    stakes_currency: &'a str,
    /// False where the horse is known from cards and results alone.
    registered: bool,
}

/// The profile of a horse, if anything is known of it. `seen` is what its form rows tell, where nobody registered it.
pub(crate) fn render(horse_no: &HorseNo, horse: &Horse, seen: Option<&Seen>) -> Option<Vec<u8>> {
    let career = horse.career;
    if let Some(said) = &horse.registration {
        let earlier = said.career.unwrap_or_default();
        let profile = HorseProfile {
            horse_no: horse_no.as_str(),
            horse_name: said.horse_name.as_str(),
            country_of_origin: said.country_of_origin.as_str(),
            colour: said.colour.as_str(),
            sex: said.sex.as_str(),
            trainer: said.trainer.as_str(),
            owner: said.owner.as_str(),
            total_stakes: earlier.total_stakes.saturating_add(career.total_stakes),
            starts: earlier.starts.saturating_add(career.starts),
            wins: earlier.wins.saturating_add(career.wins),
            places: earlier.places.saturating_add(career.places),
            stakes_currency: said.stakes_currency.as_ref().map_or("", Text::as_str),
            registered: true,
        };
        return Some(with_birth(Birth::of(said), &profile));
    }
    let seen = seen?;
    let profile = HorseProfile {
        horse_no: horse_no.as_str(),
        horse_name: &seen.horse_name,
        country_of_origin: "",
        colour: "",
        sex: "",
        trainer: &seen.trainer,
        owner: "",
        total_stakes: career.total_stakes,
        starts: career.starts,
        wins: career.wins,
        places: career.places,
        stakes_currency: "",
        registered: false,
    };
    Some(with_birth(None, &profile))
}

/// What form rows tell of the horse itself: of each the latest word, as a row may leave it out.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Seen {
    horse_name: String,
    trainer: String,
}

impl Seen {
    /// Takes in a row that is older than those before.
    pub(crate) fn take(&mut self, row: &[u8]) {
        let older: Self = RowKind::split(row)
            .and_then(|(_, json)| serde_json::from_slice(json).ok())
            .unwrap_or_default();
        for (word, older) in [
            (&mut self.horse_name, older.horse_name),
            (&mut self.trainer, older.trainer),
        ] {
            if word.is_empty() {
                *word = older;
            }
        }
    }

    /// Whether no older row can add to it.
    pub(crate) fn is_complete(&self) -> bool {
        !self.horse_name.is_empty() && !self.trainer.is_empty()
    }
}

/// The bytes before the JSON: birth year (two bytes, big endian) and hemisphere; all zero where it is not known.
const BIRTH_BYTES: usize = 3;

fn with_birth(birth: Option<Birth>, profile: &HorseProfile<'_>) -> Vec<u8> {
    let [high, low] = birth.map_or(0, |b| b.year).to_be_bytes();
    let mut value = vec![high, low, u8::from(birth.is_some_and(|b| b.southern))];
    value.extend(json::render(profile));
    value
}

/// The profile as it is served on a day. `None` if the value is no profile.
#[must_use]
pub fn serve(value: &[u8], today: RacingDate) -> Option<Vec<u8>> {
    let (&[high, low, southern], json) = value.split_first_chunk::<BIRTH_BYTES>()?;
    let year = i16::from_be_bytes([high, low]);
    let age = if year == 0 {
        0
    } else {
        Birth {
            year,
            southern: southern == 1,
        }
        .age_on(today)
    };
    let profile = JsonObject::new().fields_of(json);
    Some(profile.field("age", &age).finish())
}

pub(crate) fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let mut schema = HorseProfile::<'_>::json_schema(generator);
    schema.pointer_mut("/properties").and_then(|p| p.as_object_mut()).map(|properties| {
        properties.insert(
            "age".into(),
            serde_json::json!({ "type": "integer", "minimum": 0, "description": "The official age in years on the day of the request." }),
        )
    });
    if let Some(required) = schema
        .pointer_mut("/required")
        .and_then(|r| r.as_array_mut())
    {
        required.push("age".into());
    }
    schema
}
