//! [`Filter`]: which messages a client is sent.

use events::{HorseNo, ParseError, PoolCode, RaceKey, RaceNumber, RacingDate};
use projections::LiveKind;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::json;

use crate::feed::Topic;

/// Values in all lists of a filter together, and markets. Each message is compared with each of them.
pub(super) const VALUES_MAX: usize = 1_000;
/// Bytes of a venue's code or name.
const VENUE_BYTES_MAX: usize = 256;
/// Characters of an unknown name that an error message repeats: too few to repeat a key that is in its place.
const NAME_CHARS_MAX: usize = 16;
/// A list of a query without values.
const EMPTY_LIST: &str = "none";

/// Selects races: a race must match at least one value of each list that is given. All lists together have at most
/// 1,000 values.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Filter {
    /// Dates of meetings.
    #[schemars(length(max = VALUES_MAX))]
    pub(crate) dates: Option<Vec<RacingDate>>,
    /// Codes or names of venues; case is ignored.
    #[schemars(length(max = VALUES_MAX), inner(length(max = VENUE_BYTES_MAX)))]
    pub(crate) venues: Option<Vec<String>>,
    /// Races.
    #[schemars(length(max = VALUES_MAX))]
    pub(crate) races: Option<Vec<RacePattern>>,
    /// Horses on the card or the board of a race.
    #[schemars(length(max = VALUES_MAX))]
    pub(crate) horses: Option<Vec<HorseNo>>,
}

/// A race; on any date if `date` is left out, at any venue if `venue` is.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct RacePattern {
    /// The meeting's date.
    pub(crate) date: Option<RacingDate>,
    /// The venue's code or name; case is ignored.
    #[schemars(length(max = VENUE_BYTES_MAX))]
    pub(crate) venue: Option<String>,
    /// The race's number.
    pub(crate) race_number: RaceNumber,
}

/// How many races a client follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Follows {
    /// Every race.
    All,
    /// Races that match the filter.
    Some,
    /// No race, because a list in force is empty.
    None,
}

impl Filter {
    /// The filter of a query, which `get` returns the parameters of. Each is a comma-separated list, or `none` for an
    /// empty one.
    ///
    /// # Errors
    /// Returns the reason if a value cannot be parsed, or a bound is exceeded.
    pub(crate) fn from_query<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Result<Self, String> {
        let [dates, venues, races, horses] = ["date", "venue", "race", "horse"].map(get);
        let lists = [dates, venues, races, horses].into_iter().flatten();
        Self::check_count(lists.flat_map(values_of).count())?;
        let filter = Self {
            dates: list(dates, RacingDate::parse)?,
            venues: list(venues, |venue| Ok(venue.to_owned()))?,
            races: list(races, RacePattern::parse)?,
            horses: list(horses, HorseNo::parse)?,
        };
        filter.check_venues()?;
        Ok(filter)
    }

    /// The filter that selects one race.
    pub(crate) fn of_race(race: &RaceKey) -> Self {
        let pattern = RacePattern {
            date: Some(race.date),
            venue: Some(race.venue.to_string()),
            race_number: race.race_number,
        };
        Self {
            races: Some(vec![pattern]),
            ..Self::default()
        }
    }

    /// Checks the number of values, before they are parsed.
    ///
    /// # Errors
    /// Returns the reason if there are too many.
    pub(super) fn check_count(values: usize) -> Result<(), String> {
        let too_many = || format!("A filter has at most {VALUES_MAX} values, not {values}");
        (values <= VALUES_MAX).then_some(()).ok_or_else(too_many)
    }

    /// Checks the length of venues.
    ///
    /// # Errors
    /// Returns the reason if one is too long.
    pub(super) fn check_venues(&self) -> Result<(), String> {
        let races = self.races.iter().flatten();
        let of_races = races.filter_map(|race| race.venue.as_ref());
        let mut venues = self.venues.iter().flatten().chain(of_races);
        let too_long = || format!("A venue has at most {VENUE_BYTES_MAX} bytes");
        let are_allowed = venues.all(|venue| venue.len() <= VENUE_BYTES_MAX);
        are_allowed.then_some(()).ok_or_else(too_long)
    }

    pub(crate) fn follows(&self) -> Follows {
        let lengths = [
            self.dates.as_ref().map(Vec::len),
            self.venues.as_ref().map(Vec::len),
            self.races.as_ref().map(Vec::len),
            self.horses.as_ref().map(Vec::len),
        ];
        if lengths == [None; 4] {
            Follows::All
        } else if lengths.contains(&Some(0)) {
            Follows::None
        } else {
            Follows::Some
        }
    }

    /// A filter that selects no race.
    pub(crate) fn nothing() -> Self {
        Self {
            races: Some(Vec::new()),
            ..Self::default()
        }
    }

    /// Removes values from the lists in force.
    ///
    /// # Errors
    /// Returns the name of a list that is not in force.
    pub(crate) fn remove(&mut self, values: &Self) -> Result<(), &'static str> {
        remove_values(&mut self.dates, values.dates.as_ref(), PartialEq::eq).ok_or("dates")?;
        let same_venue = |one: &String, other: &String| one.eq_ignore_ascii_case(other);
        remove_values(&mut self.venues, values.venues.as_ref(), same_venue).ok_or("venues")?;
        remove_values(&mut self.races, values.races.as_ref(), RacePattern::same).ok_or("races")?;
        remove_values(&mut self.horses, values.horses.as_ref(), PartialEq::eq).ok_or("horses")
    }

    pub(crate) fn matches(&self, topic: &Topic) -> bool {
        let race = &topic.race;
        let runs = |horse: &HorseNo| topic.runners.binary_search(horse).is_ok();
        any_matches(self.dates.as_ref(), |date| *date == race.date)
            && any_matches(self.venues.as_ref(), |venue| is_at(topic, venue))
            && any_matches(self.races.as_ref(), |pattern| pattern.matches(topic))
            && any_matches(self.horses.as_ref(), runs)
    }
}

impl RacePattern {
    /// Parses a race of a query: `3`, `ST/3`, `2026-11-21/3` or `2026-11-21/ST/3`. A venue does not begin with a digit,
    /// if it stands without a date.
    fn parse(text: &str) -> Result<Self, ParseError> {
        let (meeting, number) = text.rsplit_once('/').unwrap_or(("", text));
        let (date, venue) = match meeting.split_once('/') {
            Some((date, venue)) => (date, venue),
            None if meeting.starts_with(|c: char| c.is_ascii_digit()) => (meeting, ""),
            None => ("", meeting),
        };
        let date = (!date.is_empty()).then(|| RacingDate::parse(date));
        Ok(Self {
            date: date.transpose()?,
            venue: (!venue.is_empty()).then(|| venue.to_owned()),
            race_number: RaceNumber::parse(number)?,
        })
    }

    fn same(&self, other: &Self) -> bool {
        let venue = |race: &Self| race.venue.as_ref().map(|venue| venue.to_ascii_lowercase());
        (self.date, self.race_number) == (other.date, other.race_number)
            && venue(self) == venue(other)
    }

    fn matches(&self, topic: &Topic) -> bool {
        self.race_number == topic.race.race_number
            && self.date.is_none_or(|date| date == topic.race.date)
            && self.venue.as_ref().is_none_or(|venue| is_at(topic, venue))
    }
}

fn any_matches<T>(list: Option<&Vec<T>>, matches: impl FnMut(&T) -> bool) -> bool {
    list.is_none_or(|list| list.iter().any(matches))
}

/// Removes values from a list; `None` if there is no list to remove them from.
fn remove_values<T>(
    list: &mut Option<Vec<T>>,
    values: Option<&Vec<T>>,
    same: impl Fn(&T, &T) -> bool,
) -> Option<()> {
    if let Some(values) = values {
        let list = list.as_mut()?;
        list.retain(|value| !values.iter().any(|removed| same(removed, value)));
    }
    Some(())
}

fn is_at(topic: &Topic, venue: &str) -> bool {
    topic.race.venue.as_str().eq_ignore_ascii_case(venue) || topic.venue.eq_ignore_ascii_case(venue)
}

fn list<T>(
    values: Option<&str>,
    parse: impl Fn(&str) -> Result<T, ParseError>,
) -> Result<Option<Vec<T>>, String> {
    let parse = |value: &str| parse(value).map_err(|error| error.to_string());
    let values = values.map(values_of);
    values.map(|values| values.map(parse).collect()).transpose()
}

/// The markets of a query.
///
/// # Errors
/// Returns the reason if one is no code, or there are too many.
pub(crate) fn markets(names: &str) -> Result<Vec<PoolCode>, String> {
    Filter::check_count(values_of(names).count())?;
    list(Some(names), PoolCode::parse).map(Option::unwrap_or_default)
}

/// The values of a list in a query.
pub(crate) fn values_of(list: &str) -> impl Iterator<Item = &str> {
    let list = (list != EMPTY_LIST).then_some(list);
    let values = list.into_iter().flat_map(|list| list.split(','));
    values.map(str::trim)
}

/// The beginning of an unknown name.
pub(super) fn cut_name(name: &str) -> String {
    name.chars().take(NAME_CHARS_MAX).collect()
}

/// The kinds of messages about races that a client is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(inline, extend("items" = json!({ "type": "string", "enum": LiveKind::ALL })))]
pub(crate) struct Kinds(#[schemars(with = "Vec<String>")] [bool; LiveKind::ALL.len()]);

impl Kinds {
    pub(crate) const ALL: Self = Self([true; LiveKind::ALL.len()]);

    pub(crate) fn contains(self, kind: LiveKind) -> bool {
        self.0[kind as usize]
    }

    pub(crate) fn without(self, others: Self) -> Self {
        Self(LiveKind::ALL.map(|kind| self.contains(kind) && !others.contains(kind)))
    }

    /// The kinds with these names.
    ///
    /// # Errors
    /// Returns the reason if there is no kind of a name.
    pub(crate) fn parse<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut kinds = Self([false; LiveKind::ALL.len()]);
        for name in names {
            let all = LiveKind::ALL.map(LiveKind::as_str);
            let Some(kind) = all.iter().position(|known| *known == name) else {
                let (all, name) = (all.join(", "), cut_name(name));
                return Err(format!("events are {all}, not {name:?}"));
            };
            kinds.0[kind] = true;
        }
        Ok(kinds)
    }
}

impl Serialize for Kinds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let kinds = LiveKind::ALL.into_iter();
        serializer.collect_seq(kinds.filter(|kind| self.contains(*kind)))
    }
}

impl<'de> Deserialize<'de> for Kinds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = Vec::<String>::deserialize(deserializer)?;
        Self::parse(names.iter().map(String::as_str)).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use events::{HorseNo, RaceKey, RaceNumber, RacingDate, VenueCode};
    use projections::LiveKind;
    use serde_json::{Value, json};

    use super::{Filter, Follows, Kinds, VALUES_MAX};
    use crate::feed::Topic;

    fn topic(horses: &[&str]) -> Topic {
        let mut runners: Vec<HorseNo> = horses
            .iter()
            .map(|horse| HorseNo::parse(horse).expect("a horse"))
            .collect();
        runners.sort();
        Topic {
            race: RaceKey {
                date: RacingDate::parse("2026-10-03").expect("a date"),
                venue: VenueCode::parse("ST").expect("a code"),
                race_number: RaceNumber::parse("3").expect("a number"),
            },
            venue: "Sha Tin".to_owned(),
            runners,
        }
    }

    fn filter(lists: Value) -> Filter {
        serde_json::from_value(lists).expect("a filter")
    }

    #[test]
    fn a_race_matches_if_it_matches_each_list() {
        let topic = topic(&["H10", "H1", "H2"]);
        for (lists, matches) in [
            (json!({}), true),
            (json!({ "dates": ["2026-10-04", "2026-10-03"] }), true),
            (json!({ "dates": ["2026-10-04"] }), false),
            (json!({ "venues": ["st"] }), true),
            (json!({ "venues": ["SHA TIN"] }), true),
            (json!({ "venues": ["Sha"] }), false),
            (json!({ "races": [{ "race_number": 3 }] }), true),
            (json!({ "races": [{ "race_number": 4 }] }), false),
            (
                json!({ "races": [{ "race_number": 4 }, { "race_number": 3, "venue": "sha tin" }] }),
                true,
            ),
            (
                json!({ "races": [{ "race_number": 3, "venue": "HV" }] }),
                false,
            ),
            (
                json!({ "races": [{ "race_number": 3, "date": "2026-10-03" }] }),
                true,
            ),
            (
                json!({ "races": [{ "race_number": 3, "date": "2026-10-04" }] }),
                false,
            ),
            (json!({ "horses": ["H2"] }), true),
            (json!({ "horses": ["H10", "H99"] }), true),
            (json!({ "horses": ["H3"] }), false),
            (json!({ "horses": ["H1"], "venues": ["HV"] }), false),
            (
                json!({ "horses": ["H1"], "venues": ["ST"], "dates": [] }),
                false,
            ),
        ] {
            assert_eq!(filter(lists.clone()).matches(&topic), matches, "{lists}");
            assert_eq!(
                serde_json::to_value(filter(lists.clone())).expect("JSON"),
                lists
            );
        }
    }

    #[test]
    fn a_filter_follows_all_some_or_no_races() {
        assert_eq!(Filter::default().follows(), Follows::All);
        assert_eq!(Filter::nothing().follows(), Follows::None);
        assert!(!Filter::nothing().matches(&topic(&[])));
        assert_eq!(filter(json!({ "venues": ["ST"] })).follows(), Follows::Some);
        for list in ["dates", "venues", "races", "horses"] {
            let mut lists = json!({ "venues": ["ST"] });
            lists[list] = json!([]);
            assert_eq!(filter(lists).follows(), Follows::None, "{list}");
        }
    }

    #[test]
    fn values_are_removed_from_lists_in_force() {
        let mut in_force =
            filter(json!({ "venues": ["ST", "HV"], "races": [{ "race_number": 1 }] }));
        let removed = filter(
            json!({ "venues": ["HV", "XX"], "races": [{ "race_number": 1, "venue": "ST" }] }),
        );
        assert_eq!(in_force.remove(&removed), Ok(()));
        assert_eq!(
            in_force,
            filter(json!({ "venues": ["ST"], "races": [{ "race_number": 1 }] }))
        );
        assert_eq!(
            in_force.remove(&filter(json!({ "races": [{ "race_number": 1 }] }))),
            Ok(())
        );
        assert_eq!(in_force.follows(), Follows::None);
        for (list, value) in [("dates", json!("2026-10-03")), ("horses", json!("H1"))] {
            let mut lists = json!({});
            lists[list] = json!([value]);
            assert_eq!(in_force.remove(&filter(lists)), Err(list));
        }
    }

    #[test]
    fn the_number_of_values_and_the_length_of_a_venue_are_bounded() {
        let of = |horses: &str, venues: Option<&str>| {
            let horses = Some(horses);
            Filter::from_query(|name| match name {
                "horse" => horses,
                "venue" => venues,
                _ => None,
            })
        };
        let horses: Vec<String> = (1..=VALUES_MAX).map(|n| format!("H{n}")).collect();
        let horses = horses.join(",");
        assert!(of(&horses, None).is_ok());
        let too_many = Err("A filter has at most 1000 values, not 1001".to_owned());
        assert_eq!(of(&horses, Some("ST")), too_many);
        let venues = Some("x".repeat(257));
        let venues = venues.as_deref();
        let too_long = "A venue has at most 256 bytes".to_owned();
        assert_eq!(of("H1", venues), Err(too_long.clone()));
        let long = filter(json!({ "races": [{ "race_number": 1, "venue": venues }] }));
        assert_eq!(long.check_venues(), Err(too_long));
    }

    #[test]
    fn kinds_are_chosen_by_the_names_of_events() {
        let some = Kinds::parse(["result_update", "odds_update"]).expect("two kinds");
        let chosen = LiveKind::ALL.map(|kind| some.contains(kind));
        assert_eq!(chosen, [true, false, false, true, false, false]);
        assert_eq!(json!(some), json!(["odds_update", "result_update"]));
        assert_eq!(
            json!(Kinds::ALL.without(some)),
            json!([
                "status_update",
                "runner_update",
                "dividends_update",
                "card_update"
            ])
        );
        assert_eq!(some.without(Kinds::ALL), Kinds::parse([]).expect("none"));
        assert!(Kinds::parse(["odds_update", "odds"]).is_err() && Kinds::parse([""]).is_err());
        assert!(serde_json::from_value::<Kinds>(json!(["heartbeat"])).is_err());
    }
}
