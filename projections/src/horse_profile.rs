//! A horse's profile: its identity and its career.

use std::collections::BTreeMap;
use std::iter;

use events::{Career, HorseNo, HorseRegistered, RacingDate, Recorded, Text};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::horse_form::{self, Appearance, RowKind};
use crate::json::{self, JsonObject};
use crate::newest::{Newest, Order};
use crate::official_age::OfficialAge;
use crate::{LogClock, keys};

/// The state of a horse beyond its form rows.
#[serde_with::apply(_ => #[serde(skip_serializing_if = "json::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Horse {
    /// The registration in force.
    pub(crate) registration: Option<HorseRegistered>,
    /// The sum over the races in this log, by the currency of the stakes in the race; empty if that is not stated.
    careers: BTreeMap<String, Career>,
    registrations: Newest,
    /// The names with which it is in the index of names, first that of its key; empty if it is not there.
    pub(crate) indexed_names: Vec<String>,
}

impl Horse {
    /// Folds a registration, unless it was folded before or is older than the one in force.
    pub(crate) fn register(
        &mut self,
        recorded: &Recorded,
        registration: &HorseRegistered,
        clock: &LogClock,
    ) -> Order {
        let order = self.registrations.take(recorded, clock);
        if order == Order::New {
            let mut registration = registration.clone();
            registration.merge_names(self.registration.as_ref());
            self.registration = Some(registration);
        }
        order
    }

    /// Whether it may have a name or a trainer of its form rows.
    pub(crate) fn needs_form(&self) -> bool {
        let registration = self.registration.as_ref();
        registration
            .is_none_or(|r| r.horse_name.is_empty() || r.names.is_empty() || r.trainer.is_empty())
    }

    /// The name in its profile, and those in other languages; none if the first is unknown.
    pub(crate) fn current_names(&self, form: Option<&FormNames>) -> Vec<String> {
        let registration = self.registration.as_ref();
        let registered = registration.map_or("", |r| r.horse_name.as_str());
        let name = either(registered, form.map_or("", |form| &form.horse_name));
        if name.is_empty() {
            return Vec::new();
        }
        let others = registration.into_iter().flat_map(|r| r.names.all());
        let in_form = form.into_iter().flat_map(|form| &form.other_names);
        let names = iter::once(name).chain(others.map(Text::as_str));
        let names = names.chain(in_form.map(String::as_str));
        names.map(keys::folded).collect()
    }

    /// Replaces what a race added to the career.
    pub(crate) fn recount(&mut self, before: Option<&Appearance>, now: Option<&Appearance>) {
        let mut sum = |appearance: Option<&Appearance>, count: Count, stakes: Stakes| {
            if let Some(it) = appearance {
                let total = self.careers.entry(it.currency.clone()).or_default();
                *total = combine(*total, it.career, count, stakes);
            }
        };
        sum(before, u32::saturating_sub, u64::saturating_sub);
        sum(now, u32::saturating_add, u64::saturating_add);
        (self.careers).retain(|_, career| *career != Career::default());
    }

    /// The registered career and that in this log. The stakes are those in the first of the currencies.
    fn career(&self) -> Career {
        let registered = self.registration.as_ref().and_then(|r| r.career);
        let (count, ignore) = (u32::saturating_add, |_, _| 0);
        let races = self.careers.values();
        races.fold(registered.unwrap_or_default(), |sum, career| {
            combine(sum, *career, count, ignore)
        })
    }

    /// The stakes in each currency, and first those in the currency of the profile: the registered one, else that of
    /// the most races with stakes, of equals the first by its code. Stakes without a currency, and those of the
    /// registered career, are in the registered one.
    fn stakes(&self) -> Vec<StakesTotal<'_>> {
        let registration = self.registration.as_ref();
        let registered = registration.and_then(|r| r.stakes_currency.as_ref());
        let registered = registered.map_or("", Text::as_str);
        let before = registration.and_then(|r| r.career).unwrap_or_default();
        let mut totals = BTreeMap::from([(registered, before.total_stakes)]);
        for (stated, career) in &self.careers {
            let total = totals.entry(either(stated, registered)).or_default();
            *total = total.saturating_add(career.total_stakes);
        }
        let with_stakes = self.careers.iter().filter(|(_, c)| c.total_stakes > 0);
        let most = with_stakes.rev().max_by_key(|(_, career)| career.starts);
        let first = match most {
            Some((currency, _)) if registered.is_empty() => currency.as_str(),
            _ => registered,
        };
        let total = totals.remove(first).unwrap_or_default();
        let others = totals.into_iter().filter(|(_, total)| *total > 0);
        let all = std::iter::once((first, total)).chain(others);
        Vec::from_iter(all.map(|(currency, total)| StakesTotal { currency, total }))
    }
}

type Count = fn(u32, u32) -> u32;
type Stakes = fn(u64, u64) -> u64;

fn combine(a: Career, b: Career, count: Count, stakes: Stakes) -> Career {
    Career {
        starts: count(a.starts, b.starts),
        wins: count(a.wins, b.wins),
        places: count(a.places, b.places),
        total_stakes: stakes(a.total_stakes, b.total_stakes),
    }
}

/// What a horse has won in one currency.
#[derive(Debug, Serialize, JsonSchema)]
struct StakesTotal<'a> {
    /// Such as `HKD`; empty if unknown.
    currency: &'a str,
    /// Whole units of it.
    total: u64,
}

/// A horse's profile as it is stored. [`serve`] adds the age, which depends on the day of the request.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct HorseProfile<'a> {
    /// The horse.
    #[schemars(with = "HorseNo")]
    horse_no: &'a str,
    /// Its name; empty if unknown.
    horse_name: &'a str,
    /// A short code, such as `AUS`; empty if unknown.
    country_of_origin: &'a str,
    /// Empty if unknown.
    colour: &'a str,
    /// Empty if unknown.
    sex: &'a str,
    /// Its trainer; empty if unknown.
    trainer: &'a str,
    /// Its owner; empty if unknown.
    owner: &'a str,
    /// Stakes won in `stakes_currency`, in whole units.
    total_stakes: u64,
    /// Races that it started in.
    starts: u32,
    /// Races that it won, including dead heats for first place.
    wins: u32,
    /// Second and third places.
    places: u32,
    /// Such as `HKD`; empty if unknown.
    stakes_currency: &'a str,
    /// Stakes won in each currency; first those in `stakes_currency`.
    stakes: Vec<StakesTotal<'a>>,
    /// False if the horse is known from cards and results only.
    registered: bool,
}

/// Renders the profile of a horse. The names in its form rows stand in for those that the registration leaves empty, or
/// that is not there. A horse with neither has no profile.
pub(crate) fn render(
    horse_no: &HorseNo,
    horse: &Horse,
    names: Option<&FormNames>,
) -> Option<Vec<u8>> {
    let registration = horse.registration.as_ref();
    if registration.is_none() && names.is_none() {
        return None;
    }
    let registered = |field: fn(&HorseRegistered) -> &Text| {
        registration.map_or("", |registration| field(registration).as_str())
    };
    let in_form = |field: fn(&FormNames) -> &String| names.map_or("", |names| field(names));
    let stakes = horse.stakes();
    let career = horse.career();
    let profile = HorseProfile {
        horse_no: horse_no.as_str(),
        horse_name: either(registered(|r| &r.horse_name), in_form(|n| &n.horse_name)),
        country_of_origin: registered(|r| &r.country_of_origin),
        colour: registered(|r| &r.colour),
        sex: registered(|r| &r.sex),
        trainer: either(registered(|r| &r.trainer), in_form(|n| &n.trainer)),
        owner: registered(|r| &r.owner),
        total_stakes: stakes[0].total,
        starts: career.starts,
        wins: career.wins,
        places: career.places,
        stakes_currency: stakes[0].currency,
        stakes,
        registered: registration.is_some(),
    };
    Some(with_age(registration.and_then(OfficialAge::of), &profile))
}

/// A text, or the other one if that is empty.
fn either<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}

/// The name and the trainer of a horse by its form rows: the latest of each, as a row may leave one out.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct FormNames {
    horse_name: String,
    #[serde(skip)]
    other_names: Vec<String>,
    trainer: String,
}

impl FormNames {
    /// Adds a row that is older than those before.
    pub(crate) fn add_older(&mut self, row: &[u8]) {
        let older: Self = RowKind::split(row)
            .and_then(|(_, json)| serde_json::from_slice(json).ok())
            .unwrap_or_default();
        if self.horse_name.is_empty() {
            self.horse_name = older.horse_name;
            self.other_names = horse_form::other_names(row);
        }
        if self.trainer.is_empty() {
            self.trainer = older.trainer;
        }
    }

    /// Whether older rows can add nothing.
    pub(crate) fn is_complete(&self) -> bool {
        !self.horse_name.is_empty() && !self.trainer.is_empty()
    }
}

/// The bytes before the JSON: the official birth year (two bytes, big endian) and the hemisphere; all zero if unknown.
const AGE_BYTES: usize = 3;

fn with_age(age: Option<OfficialAge>, profile: &HorseProfile<'_>) -> Vec<u8> {
    let [high, low] = age.map_or(0, |age| age.year).to_be_bytes();
    let mut value = vec![high, low, u8::from(age.is_some_and(|age| age.southern))];
    value.extend(json::render(profile));
    value
}

/// A stored profile as it is served on a day, with the age. `None` if the value is not a profile.
pub fn serve(value: &[u8], today: RacingDate) -> Option<Vec<u8>> {
    let (&[high, low, southern], profile) = value.split_first_chunk::<AGE_BYTES>()?;
    if json::fields(profile).is_empty() {
        return None;
    }
    let year = i16::from_be_bytes([high, low]);
    let southern = southern == 1;
    let age = (year != 0).then(|| OfficialAge { year, southern }.on(today));
    let served = JsonObject::new().fields_of(profile);
    Some(served.field("age", &age.unwrap_or(0)).finish())
}
