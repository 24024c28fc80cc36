//! The rides: an index of the starts of horses by jockey, trainer, owner and venue, and what they add up to.
//!
//! A ride is in the index as long as the result in force has it. So an amended or voided result needs no second count.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::iter;

use events::{Names, RaceKey, RacingDate, ResultRunner, Text};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::json;
use crate::keys::{self, RidesOf};
use crate::race::Race;
use crate::race_result::RunnerFields;

/// Whose ride it is: the value of an entry in the index.
#[derive(Debug, Serialize, Deserialize)]
pub struct RideName<'a> {
    /// The name as of the race, and those in other languages.
    pub names: Vec<Cow<'a, str>>,
    /// The time zone of the racecourse, which stands for its authority; empty if unknown.
    #[serde(borrow)]
    pub area: Cow<'a, str>,
}

/// The entries of a runner in the index, each a rendered [`RideName`] by its key.
pub(crate) type RideEntries = BTreeMap<String, Vec<u8>>;

/// The key of a person: one with an identifier is one by that, else by the name, both within the area of a time zone,
/// such as `Asia-Hong_Kong;QA` and `Asia-Hong_Kong:A. Quill`.
fn person_key(area: &str, id: Option<&Text>, name: &str) -> String {
    let area = area.replace(['/', ':', ';'], "-");
    match id.filter(|id| !id.is_empty()) {
        Some(id) => format!("{area};{id}"),
        None => format!("{area}:{name}"),
    }
}

/// The identifier in the key of a person; empty if it has none.
pub fn person_id(key: &str) -> &str {
    let end = key.find([':', ';']);
    let id = end.and_then(|end| key[end..].strip_prefix(';'));
    id.unwrap_or_default()
}

/// The entries of a runner of the result in force, with its fields in the result.
pub(crate) fn entries(
    key: &RaceKey,
    race: &Race,
    runner: &ResultRunner,
    shown: &RunnerFields<'_>,
) -> RideEntries {
    let area = race.time_zone(key);
    let mut entries = RideEntries::new();
    let mut add = |of: RidesOf, whose: &str, name: &str, names: &[Option<&Names>]| {
        if !name.is_empty() {
            let others = names.iter().flatten().flat_map(|names| names.all());
            let names = iter::once(name).chain(others.map(Text::as_str));
            let names = names.map(Cow::from);
            let names = RideName {
                names: names.collect(),
                area: area.into(),
            };
            let entry = keys::ride(of, whose, key, &runner.horse_no);
            entries.insert(entry, json::render(&names));
        }
    };
    let card = race.declared_runner(&runner.horse_no);
    let jockey = card.filter(|card| card.jockey.as_str() == shown.jockey);
    let id = jockey.and_then(|card| card.jockey_id.as_ref());
    let on_card = jockey.map(|card| &card.jockey_names);
    let whose = person_key(area, id, shown.jockey);
    let names = [Some(&runner.jockey_names), on_card];
    add(RidesOf::Jockey, &whose, shown.jockey, &names);
    let trainer = card.filter(|card| card.trainer.as_str() == shown.trainer);
    let id = trainer.and_then(|card| card.trainer_id.as_ref());
    let on_card = trainer.map(|card| &card.trainer_names);
    let whose = person_key(area, id, shown.trainer);
    let names = [Some(&runner.trainer_names), on_card];
    add(RidesOf::Trainer, &whose, shown.trainer, &names);
    let owner = json::known(card.and_then(|card| card.owner.as_ref())).unwrap_or_default();
    add(RidesOf::Owner, &person_key(area, None, owner), owner, &[]);
    let names = race.declared().map(|result| &result.venue_names);
    add(
        RidesOf::Venue,
        key.venue.as_str(),
        race.venue_name(key),
        &[names],
    );
    entries
}

/// What the rides of a list are grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, strum::EnumString)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
#[derive(Serialize, strum::VariantNames)]
pub enum RidesBy {
    Season,
    Venue,
    Distance,
    Going,
    Class,
    Draw,
    Jockey,
    Trainer,
}

/// A ride: what is counted of a form row.
#[derive(Debug, Deserialize)]
struct Ride<'a> {
    date: RacingDate,
    #[serde(borrow)]
    venue_code: Cow<'a, str>,
    distance: u32,
    #[serde(borrow)]
    class: Cow<'a, str>,
    #[serde(borrow)]
    going: Cow<'a, str>,
    /// 0 without an official placing.
    #[serde(default)]
    position: u16,
    /// The number of horses with this position, if there are several.
    dead_heat: Option<u16>,
    /// 0 if unknown.
    win_odds: f64,
    draw: u16,
    #[serde(borrow)]
    jockey: Cow<'a, str>,
    #[serde(borrow)]
    trainer: Cow<'a, str>,
}

impl Ride<'_> {
    fn value(&self, by: RidesBy, season_month: i8) -> String {
        match by {
            RidesBy::Season => season(self.date, season_month),
            RidesBy::Venue => self.venue_code.to_string(),
            RidesBy::Distance => self.distance.to_string(),
            RidesBy::Going => self.going.to_string(),
            RidesBy::Class => self.class.to_string(),
            RidesBy::Draw => self.draw.to_string(),
            RidesBy::Jockey => self.jockey.to_string(),
            RidesBy::Trainer => self.trainer.to_string(),
        }
    }
}

/// The month in which the season begins in a time zone: Hong Kong's in September, those of Australia and New Zealand
/// in August, any other with the year.
pub fn season_month(time_zone: &str) -> i8 {
    let is_in = |areas: &[&str]| areas.iter().any(|area| time_zone.starts_with(area));
    if is_in(&["Asia/Hong_Kong", "Asia/Shanghai"]) {
        9
    } else if is_in(&["Australia/", "Pacific/Auckland"]) {
        8
    } else {
        1
    }
}

/// The season of a day: `2026`, or `2026/27` if it does not begin with the year.
fn season(date: RacingDate, first_month: i8) -> String {
    let date = date.civil();
    let year = date.year() - i16::from(date.month() < first_month);
    match first_month {
        1 => year.to_string(),
        _ => format!("{year}/{:02}", (year + 1) % 100),
    }
}

/// What rides add up to.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct RideSum {
    starts: u32,
    wins: u32,
    places: u32,
    priced_starts: u32,
    /// Thousandths of a stake.
    profit: i64,
}

impl RideSum {
    fn add(&mut self, ride: &Ride<'_>) {
        self.starts += 1;
        self.wins += u32::from(ride.position == 1);
        self.places += u32::from(matches!(ride.position, 2 | 3));
        let odds = (ride.win_odds * 1000.0).round() as i64;
        if odds > 0 {
            self.priced_starts += 1;
            let shared_by = i64::from(ride.dead_heat.unwrap_or(1));
            let wins = i64::from(ride.position == 1);
            self.profit += wins * (odds / shared_by) - 1000;
        }
    }

    fn figures(&self) -> RideFigures {
        let rate = f64::from(self.wins) / f64::from(self.starts.max(1));
        RideFigures {
            starts: self.starts,
            wins: self.wins,
            places: self.places,
            strike_rate: (rate * 10_000.0).round() / 10_000.0,
            priced_starts: self.priced_starts,
            profit: self.profit as f64 / 1000.0,
        }
    }
}

/// The figures of some rides.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RideFigures {
    /// Rides of horses that started.
    starts: u32,
    /// Those that won, including dead heats for first place.
    wins: u32,
    /// Second and third places.
    places: u32,
    /// Wins by starts.
    strike_rate: f64,
    /// Starts with a starting price.
    priced_starts: u32,
    /// The profit of a stake of 1 on each of these, in stakes. A dead heat for first place divides the return.
    profit: f64,
}

/// The figures of the rides with one value of what they are grouped by.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RideGroup {
    /// Such as `HV` or `1200`; empty, or 0 for a number, if unknown.
    value: String,
    #[serde(flatten)]
    figures: RideFigures,
}

/// Counts rides, all and by groups.
#[derive(Debug, Default)]
pub struct RideCounter {
    by: Option<RidesBy>,
    season_month: i8,
    all: RideSum,
    groups: BTreeMap<String, RideSum>,
}

impl RideCounter {
    /// Counts nothing yet. `season_month` is that of [`season_month`].
    pub fn new(by: Option<RidesBy>, season_month: i8) -> Self {
        Self {
            by,
            season_month,
            ..Self::default()
        }
    }

    /// Counts a ride by the JSON of its form row.
    ///
    /// # Errors
    /// Returns an error if it is not the JSON of a form row.
    pub fn add(&mut self, row: &[u8]) -> serde_json::Result<()> {
        let ride: Ride<'_> = serde_json::from_slice(row)?;
        self.all.add(&ride);
        if let Some(by) = self.by {
            let group = self.groups.entry(ride.value(by, self.season_month));
            group.or_default().add(&ride);
        }
        Ok(())
    }

    /// The figures of all rides, and those of the groups with the most starts first.
    pub fn finish(self) -> (RideFigures, Vec<RideGroup>) {
        let mut groups: Vec<_> = self.groups.into_iter().collect();
        groups.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.starts));
        let groups = groups.into_iter().map(|(value, sum)| RideGroup {
            value,
            figures: sum.figures(),
        });
        (self.all.figures(), groups.collect())
    }
}
