//! Whatever was message, in whatever order: results, form and profiles are what anybody can count over the final
//! statements.
//!
//! The count is made from the raw JSON, by the rules in docs/feeding.md and docs/api.md, and by nothing of the code:
//! each race is looked at once, at the end.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::history::{HORSES, RACES, fold, history, newer, step};
use common::{OwnedMessage, Race};
use projections::horse_form::RowKind;
use projections::{Store, horse_profile, keys};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The events about one race or horse that were newer than those before, in the order of the log: the type and the
/// data.
type Story = Vec<(String, Value)>;

/// The stories of all races and horses, by the end of their subjects: `2026-11-21.ST.3`, `A`.
fn stories(log: &[OwnedMessage]) -> BTreeMap<String, Story> {
    let (mut stories, newer) = (BTreeMap::<String, Story>::new(), newer(log));
    for message in log {
        let Some((_, about)) = message.subject["racing.".len()..].split_once('.') else {
            continue;
        };
        let event: Value = serde_json::from_slice(&message.payload).expect("JSON");
        if newer.contains(&message.seq) {
            let kind = event["type"].as_str().expect("a type").to_owned();
            let story = stories.entry(about.to_owned()).or_default();
            story.push((kind, event["data"].clone()));
        }
    }
    stories
}

/// The last fact of some types of each horse.
fn last_of_each(story: &[(String, Value)], kinds: &[&str]) -> BTreeMap<String, (String, Value)> {
    let facts = story
        .iter()
        .filter(|(kind, _)| kinds.contains(&kind.as_str()));
    facts
        .map(|(kind, data)| (text(&data["horse_no"]), (kind.clone(), data.clone())))
        .collect()
}

/// The result of a race, and the last card.
#[derive(Default)]
struct Ending {
    /// provisional, official, void or abandoned; empty without a result.
    status: String,
    revision: u64,
    reason: String,
    name: String,
    distance: u64,
    going: String,
    class: String,
    venue: String,
    /// Whether an official result was replaced.
    amended: bool,
    /// The runners of the result, then those of the card alone.
    parts: Vec<Part>,
}

/// A horse in a race. One that is on the card alone has neither position nor outcome.
#[derive(Clone)]
struct Part {
    horse: String,
    name: String,
    jockey: String,
    trainer: String,
    draw: u64,
    weight: u64,
    position: Option<u64>,
    outcome: Option<String>,
    stakes: u64,
    currency: String,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The first text that is not empty.
fn first_known(words: [String; 2]) -> String {
    let [message, otherwise] = words;
    if message.is_empty() {
        otherwise
    } else {
        message
    }
}

fn venue_of(code: &str) -> String {
    let names = [("ST", "Sha Tin"), ("HV", "Happy Valley")];
    let known = names.iter().find(|(known, _)| *known == code);
    known.map_or(code, |(_, name)| name).to_owned()
}

fn ending((_, venue, _): Race, story: &Story) -> Ending {
    let is = |wanted: &'static str| move |(kind, _): &&(String, Value)| kind == wanted;
    let statements = story
        .iter()
        .filter(|(kind, _)| kind.starts_with("racing.result."));
    // Of equals, this is the last.
    let statement = statements.max_by_key(|(_, data)| data["revision"].as_u64());
    let declared = statement
        .filter(is("racing.result.declared.v1"))
        .map(|(_, data)| data);
    // A card that equals the one before it is not a new card.
    let cards: Vec<usize> = (0..story.len())
        .filter(|n| story[*n].0 == "racing.race.declared.v1")
        .collect();
    let new = |n: &usize| {
        cards
            .iter()
            .rev()
            .find(|m| *m < n)
            .is_none_or(|m| story[*m].1 != story[*n].1)
    };
    let last_card = cards.iter().rev().find(|n| new(n)).copied();
    let since_card = &story[last_card.unwrap_or(0)..];
    let card = last_card.map_or(Value::Null, |n| story[n].1.clone());
    let status = story
        .iter()
        .rfind(is("racing.race.status_changed.v1"))
        .map(|(_, data)| data);
    let going = since_card.iter().rfind(is("racing.going.changed.v1"));
    let going = going.map(|(_, data)| text(&data["going"]));

    let known = |field: &str| declared.map_or_else(String::new, |data| text(&data[field]));
    let mut ending = Ending {
        name: first_known([known("race_name"), text(&card["race_name"])]),
        going: first_known([
            known("going"),
            going.unwrap_or_else(|| text(&card["going"])),
        ]),
        distance: declared
            .and_then(|data| data["distance"].as_u64())
            .filter(|n| *n > 0)
            .or(card["distance"].as_u64())
            .unwrap_or(0),
        class: text(&card["class"]),
        venue: first_known([known("venue_name"), venue_of(venue)]),
        amended: is_amended(story),
        parts: parts(story, since_card, declared, &card),
        ..Ending::default()
    };
    match (statement, status) {
        (Some((_, message)), _) => {
            ending.status =
                declared.map_or_else(|| "void".to_owned(), |data| text(&data["status"]));
            ending.revision = message["revision"].as_u64().expect("a revision");
            ending.reason = text(&message["reason"]);
        }
        (None, Some(status)) if status["status"] == "abandoned" => {
            ending.status = "abandoned".to_owned();
            ending.reason = text(&status["reason"]);
        }
        (None, _) => {}
    }
    ending
}

/// Whether a statement came into force after an official one.
fn is_amended(story: &Story) -> bool {
    let mut in_force: Option<&(String, Value)> = None;
    let (mut was_official, mut amended) = (false, false);
    for statement in story
        .iter()
        .filter(|(kind, _)| kind.starts_with("racing.result."))
    {
        let revision = |(_, data): &(String, Value)| data["revision"].as_u64();
        let is_lower = in_force.is_some_and(|before| revision(statement) < revision(before));
        if is_lower || in_force == Some(statement) {
            continue;
        }
        amended |= was_official;
        was_official |= statement.1["status"] == "official";
        in_force = Some(statement);
    }
    amended
}

const MOVES: [&str; 2] = ["racing.runner.withdrawn.v1", "racing.runner.reinstated.v1"];

/// The runners of the result, then those of the card that it leaves out.
fn parts(
    story: &Story,
    since_card: &[(String, Value)],
    declared: Option<&Value>,
    card: &Value,
) -> Vec<Part> {
    let riders = last_of_each(since_card, &["racing.rider.changed.v1"]);
    let moves = last_of_each(story, &MOVES);
    let weight_of = |horse: &str| riders.get(horse)?.1["weight"].as_u64();
    let on_card: Vec<Part> = card["runners"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|runner| {
            let horse = text(&runner["horse_no"]);
            let rider = riders
                .get(&horse)
                .map_or(&runner["jockey"], |(_, data)| &data["jockey"]);
            let scratched = moves.get(&horse).is_some_and(|(kind, _)| kind == MOVES[0]);
            Part {
                name: text(&runner["horse_name"]),
                jockey: text(rider),
                trainer: text(&runner["trainer"]),
                draw: runner["draw"].as_u64().unwrap_or(0),
                weight: weight_of(&horse).or(runner["weight"].as_u64()).unwrap_or(0),
                position: None,
                outcome: (scratched && declared.is_some()).then(|| "SCR".to_owned()),
                stakes: 0,
                currency: String::new(),
                horse,
            }
        })
        .collect();
    let card_of = |horse: &str| on_card.iter().find(|part| part.horse == horse);
    let mut parts = Vec::new();
    for runner in declared
        .and_then(|data| data["runners"].as_array())
        .into_iter()
        .flatten()
    {
        let horse = text(&runner["horse_no"]);
        let from = |field: &str, on_card: fn(&Part) -> &String| {
            first_known([
                text(&runner[field]),
                card_of(&horse).map(on_card).cloned().unwrap_or_default(),
            ])
        };
        let weight = card_of(&horse).map(|part| part.weight);
        parts.push(Part {
            name: from("horse_name", |part| &part.name),
            jockey: from("jockey", |part| &part.jockey),
            trainer: from("trainer", |part| &part.trainer),
            draw: card_of(&horse).map_or(0, |part| part.draw),
            weight: weight.or(weight_of(&horse)).unwrap_or(0),
            position: runner["position"].as_u64(),
            outcome: runner["outcome"].as_str().map(str::to_owned),
            stakes: runner["stakes"].as_u64().unwrap_or(0),
            currency: text(&runner["stakes_currency"]),
            horse,
        });
    }
    let ran: BTreeSet<String> = parts.iter().map(|part| part.horse.clone()).collect();
    parts.extend(
        on_card
            .into_iter()
            .filter(|part| !ran.contains(&part.horse)),
    );
    parts
}

/// Placed runners by position, then the others, each as `A 1` or `B PU`.
fn placings(ending: &Ending) -> Vec<String> {
    let placed = (1..=HORSES.len() as u64).flat_map(|n| {
        ending
            .parts
            .iter()
            .filter(move |part| part.position == Some(n))
    });
    let placed = placed.map(|part| format!("{} {}", part.horse, part.position.unwrap_or(0)));
    let unplaced = ending
        .parts
        .iter()
        .filter_map(|part| Some(format!("{} {}", part.horse, part.outcome.as_ref()?)));
    placed.chain(unplaced).collect()
}

fn result_is_as_counted(store: &Store, race: Race, ending: &Ending) -> Result<(), TestCaseError> {
    let view = store
        .get(&keys::result(&common::key(race)))
        .expect("a healthy store");
    let Some(view) = view else {
        prop_assert_eq!(&ending.status, "", "{:?}", race);
        return Ok(());
    };
    let view: Value = serde_json::from_slice(&view).expect("JSON");
    for row in ["runners", "unplaced"]
        .into_iter()
        .flat_map(|list| view[list].as_array())
        .flatten()
    {
        let part = ending
            .parts
            .iter()
            .find(|part| row["horse_no"] == part.horse.as_str());
        let part = part.expect("a runner of the result or the card");
        prop_assert_eq!(
            [&row["draw"], &row["weight"]],
            [&json!(part.draw), &json!(part.weight)]
        );
    }
    let row = |row: &Value| match (&row["position"], &row["outcome"]) {
        (Value::Null, outcome) => format!("{} {}", text(&row["horse_no"]), text(outcome)),
        (position, _) => format!("{} {position}", text(&row["horse_no"])),
    };
    let rows =
        ["runners", "unplaced"].map(|list| view[list].as_array().expect("a list").iter().map(row));
    prop_assert_eq!(
        rows.into_iter().flatten().collect::<Vec<_>>(),
        placings(ending),
        "{:?}",
        race
    );
    prop_assert_eq!(text(&view["class"]), ending.class.clone());
    let head = ["status", "reason", "race_name", "going"].map(|field| text(&view[field]));
    prop_assert_eq!(
        head,
        [&ending.status, &ending.reason, &ending.name, &ending.going].map(Clone::clone)
    );
    prop_assert_eq!(
        [&view["revision"], &view["distance"]],
        [&json!(ending.revision), &json!(ending.distance)]
    );
    Ok(())
}

/// A horse's races, newest first, and its part in each.
type Races<'a> = Vec<(Race, &'a Ending, &'a Part)>;

fn races_of<'a>(horse: &str, endings: &'a BTreeMap<Race, Ending>) -> Races<'a> {
    let races = endings.iter().rev();
    races
        .filter_map(|(race, ending)| {
            Some((
                *race,
                ending,
                ending.parts.iter().find(|part| part.horse == horse)?,
            ))
        })
        .collect()
}

/// A row of the form, with its kind.
fn row((race, ending, part): &(Race, &Ending, &Part)) -> Option<(RowKind, Value)> {
    let mut row = json!({
        "date": race.0, "venue_code": race.1, "race_number": race.2, "venue": ending.venue, "race_name": ending.name,
        "distance": ending.distance, "class": ending.class, "going": ending.going, "draw": part.draw,
        "weight": part.weight, "jockey": part.jockey, "horse_name": part.name,
        "trainer": part.trainer, "stakes": part.stakes, "stakes_currency": part.currency, "finish_time": "", "win_odds": 0,
    });
    if let Some(position) = part.position {
        row["position"] = json!(position);
        let shared = (ending.parts.iter()).filter(|other| other.position == Some(position));
        let shared = shared.count();
        if shared > 1 {
            row["dead_heat"] = json!(shared);
        }
        return Some((RowKind::Placed, row));
    }
    row["outcome"] = json!(part.outcome.as_ref()?);
    Some((RowKind::Unplaced, row))
}

fn form_is_as_counted(store: &Store, horse: &str, races: &Races<'_>) -> Result<(), TestCaseError> {
    let rows = store.scan(&keys::form(&common::horse(horse))).rev();
    let rows = rows.filter_map(|entry| {
        let (_, row) = entry.expect("a healthy store");
        let (kind, row) = RowKind::split(&row).expect("a form row");
        let is_served = !matches!(kind, RowKind::Declared | RowKind::Former);
        is_served.then(|| (kind, serde_json::from_slice(row).expect("JSON")))
    });
    let served: Vec<(RowKind, Value)> = rows.collect();
    let expected: Vec<_> = races.iter().filter_map(row).collect();
    prop_assert_eq!(served, expected, "{}", horse);
    Ok(())
}

/// Starts, wins, places and the stakes in each currency, those of the profile first.
fn career(registration: Option<&Value>, races: &Races<'_>) -> ([u64; 3], Value) {
    let before = registration.map_or(&Value::Null, |data| &data["career"]);
    let registered = registration.map_or("", |data| data["stakes_currency"].as_str().unwrap_or(""));
    let mut career = ["starts", "wins", "places"].map(|field| before[field].as_u64().unwrap_or(0));
    let [starts, wins, places] = &mut career;
    let mut totals = BTreeMap::from([(registered, before["total_stakes"].as_u64().unwrap_or(0))]);
    // The races in each currency, and what was won in them.
    let mut won: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (_, _, part) in races {
        let outcome = part.outcome.as_deref();
        if outcome == Some("VOID") {
            continue;
        }
        let withdrawn = ["WV", "WV-A", "WX", "WX-A", "WXNR", "SCR"];
        let start = u64::from(
            part.position.is_some() || outcome.is_some_and(|code| !withdrawn.contains(&code)),
        );
        *starts += start;
        let in_currency = won.entry(&part.currency).or_default();
        (in_currency.0, in_currency.1) = (in_currency.0 + start, in_currency.1 + part.stakes);
        let currency = if part.currency.is_empty() {
            registered
        } else {
            &part.currency
        };
        *totals.entry(currency).or_default() += part.stakes;
        *wins += u64::from(part.position == Some(1));
        *places += u64::from(part.position == Some(2) || part.position == Some(3));
    }
    let most = won.iter().filter(|(_, (_, stakes))| *stakes > 0);
    let most = most.max_by_key(|(code, (starts, _))| (*starts, std::cmp::Reverse(**code)));
    let first = match (registered, most) {
        ("", Some((code, _))) => *code,
        _ => registered,
    };
    let mut stakes = vec![json!({ "currency": first, "total": totals.remove(first) })];
    let others = totals.iter().filter(|(_, total)| **total > 0);
    stakes.extend(others.map(|(currency, total)| json!({ "currency": currency, "total": total })));
    (career, stakes.into())
}

fn profile_is_as_counted(
    store: &Store,
    horse: &str,
    registration: Option<&Value>,
    races: &Races<'_>,
) -> Result<(), TestCaseError> {
    let view = store
        .get(&keys::profile(&common::horse(horse)))
        .expect("a healthy store");
    prop_assert_eq!(
        view.is_some(),
        registration.is_some() || !races.is_empty(),
        "{}",
        horse
    );
    let Some(view) = view else { return Ok(()) };
    let body = horse_profile::serve(&view, common::day("2026-11-22")).expect("a profile");
    let served: Value = serde_json::from_slice(&body).expect("JSON");
    let counted =
        ["starts", "wins", "places"].map(|field| served[field].as_u64().expect("a count"));
    let first = json!({ "currency": served["stakes_currency"], "total": served["total_stakes"] });
    prop_assert_eq!(&first, &served["stakes"][0], "{}", horse);
    let counted = (counted, served["stakes"].clone());
    prop_assert_eq!(counted, career(registration, races), "{}", horse);
    let latest = |word: fn(&Part) -> &String| {
        races
            .iter()
            .map(|(.., part)| word(part).clone())
            .find(|word| !word.is_empty())
    };
    let message = |field: &str, in_races: Option<String>| {
        registration.map_or(in_races.unwrap_or_default(), |data| text(&data[field]))
    };
    let expected = [
        message("horse_name", latest(|part| &part.name)),
        message("trainer", latest(|part| &part.trainer)),
        message("owner", None),
        message("sex", None),
        message("colour", None),
        message("country_of_origin", None),
    ];
    let fields = [
        "horse_name",
        "trainer",
        "owner",
        "sex",
        "colour",
        "country_of_origin",
    ];
    prop_assert_eq!(
        fields.map(|field| text(&served[field])),
        expected,
        "{}",
        horse
    );
    prop_assert_eq!(&served["registered"], &json!(registration.is_some()));
    Ok(())
}

/// Each meeting counts its amended races.
fn meetings_are_as_counted(
    store: &Store,
    endings: &BTreeMap<Race, Ending>,
) -> Result<(), TestCaseError> {
    for entry in store.scan(keys::MEETINGS) {
        let view: Value = serde_json::from_slice(&entry.expect("a healthy store").1).expect("JSON");
        let here = endings
            .iter()
            .filter(|((date, venue, _), _)| view["date"] == *date && view["venue_code"] == *venue);
        let amended = here.filter(|(_, ending)| ending.amended).count();
        prop_assert_eq!(&view["amended_count"], &json!(amended));
        prop_assert_eq!(text(&view["amended_at"]).is_empty(), amended == 0);
    }
    Ok(())
}

/// The index has each horse under the name of its profile, and no other.
fn names_are_those_of_the_profiles(store: &Store) -> Result<(), TestCaseError> {
    let named = |(key, view): (String, Vec<u8>)| {
        let horse_no = key.strip_prefix("horse/")?.to_owned();
        let body = horse_profile::serve(&view, common::day("2026-11-22")).expect("a profile");
        let profile: Value = serde_json::from_slice(&body).expect("JSON");
        let name = text(&profile["horse_name"]).to_lowercase();
        (!name.is_empty()).then(|| format!("name/{name}\t{horse_no}"))
    };
    let mut expected: Vec<String> = common::dump(store).into_iter().filter_map(named).collect();
    expected.sort();
    let index = store
        .scan(keys::HORSE_NAMES)
        .map(|entry| entry.expect("a healthy store").0);
    prop_assert_eq!(index.collect::<Vec<_>>(), expected);
    Ok(())
}

/// Each start is under its jockey, its trainer and its venue, and nothing else is.
fn rides_are_as_counted(
    store: &Store,
    endings: &BTreeMap<Race, Ending>,
) -> Result<(), TestCaseError> {
    let mut expected = BTreeSet::new();
    for ((date, venue, number), ending) in endings {
        let known = ["ST", "HV"].contains(venue);
        let area = if known { "Asia-Hong_Kong" } else { "" };
        for part in &ending.parts {
            let outcome = part.outcome.as_deref();
            let other = ["WV", "WV-A", "WX", "WX-A", "WXNR", "SCR", "VOID"];
            let started = outcome.is_some_and(|code| !other.contains(&code));
            if part.position.is_some() || started {
                let ride = format!("\t/{date}/{venue}/{number:03}/{}", part.horse);
                expected.insert(format!("ride/venue/{venue}{ride}"));
                for (of, name) in [("jockey", &part.jockey), ("trainer", &part.trainer)] {
                    if !name.is_empty() {
                        expected.insert(format!("ride/{of}/{area}:{name}{ride}"));
                    }
                }
            }
        }
    }
    let index = store
        .scan("ride/")
        .map(|entry| entry.expect("a healthy store").0);
    prop_assert_eq!(index.collect::<BTreeSet<_>>(), expected);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn results_forms_and_careers_equal_an_independent_count(log in history(), batch in 1..40_usize) {
        let (_folder, mut projection) = fold(&[]);
        for batch in log.chunks(batch) {
            step(&mut projection, batch);
        }
        let (store, stories) = (projection.store(), stories(&log));
        let story = |(date, venue, number): Race| stories.get(&format!("{date}.{venue}.{number}"));
        let endings: BTreeMap<Race, Ending> = RACES.iter().filter_map(|race| Some((*race, ending(*race, story(*race)?)))).collect();
        rides_are_as_counted(store, &endings)?;
        for (race, ending) in &endings {
            result_is_as_counted(store, *race, ending)?;
        }
        meetings_are_as_counted(store, &endings)?;
        for horse in HORSES {
            let registration = stories.get(horse).and_then(|story| story.last()).map(|(_, data)| data);
            let races = races_of(horse, &endings);
            form_is_as_counted(store, horse, &races)?;
            profile_is_as_counted(store, horse, registration, &races)?;
        }
        names_are_those_of_the_profiles(store)?;
    }
}
