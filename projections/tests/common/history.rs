//! Random logs: facts about a few horses and races, with some repeated and some damaged.

use std::collections::{BTreeMap, HashSet};

use jiff::ToSpan;
use projections::Projection;
use proptest::prelude::*;
use proptest::sample::subsequence;
use serde_json::{Value, json};

use super::{
    Fact, OwnedMessage, Race, card, dividends, going, invested, market, odds, open, ranked,
    registered, reinstated, result, rider, status, void, withdrawn,
};

pub(crate) const HORSES: [&str; 6] = ["A", "B", "C", "D", "E", "F"];

/// Three days, three venues, and two races that differ only in the number.
pub(crate) const RACES: [Race; 5] = [
    ("2026-11-20", "HV", 1),
    ("2026-11-21", "ST", 1),
    ("2026-11-21", "ST", 2),
    ("2026-11-21", "S1", 1),
    ("2026-11-22", "ST", 1),
];

pub(crate) const GARBAGE: &str = "racing.garbage";

const OUTCOMES: [&str; 14] = [
    "PU", "UR", "FE", "DNF", "TNP", "DISQ", "WV", "WV-A", "WX", "WX-A", "WXNR", "SCR", "VOID",
    "XYZ",
];

/// A message of a log: a fact, a damaged message, or an earlier message again.
#[derive(Debug, Clone)]
enum Entry {
    Fact(Fact),
    Garbage,
    Again(prop::sample::Index),
}

fn race() -> impl Strategy<Value = Race> {
    prop::sample::select(&RACES[..])
}

fn horse() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&HORSES[..])
}

fn some_horses() -> impl Strategy<Value = Vec<&'static str>> {
    subsequence(HORSES.to_vec(), 1..=HORSES.len()).prop_shuffle()
}

/// Horses in the order of their finish. Some share a position with the one before, some have an outcome instead.
fn placings() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let fate = prop_oneof![6 => Just(None), 1 => Just(Some("dead heat")), 2 => prop::sample::select(&OUTCOMES[..]).prop_map(Some)];
    (some_horses(), prop::collection::vec(fate, HORSES.len())).prop_map(|(horses, fates)| {
        let (mut placed, mut position) = (0, 0);
        let place = |(horse, fate): (&'static str, Option<&str>)| match fate {
            None | Some("dead heat") => {
                placed += 1;
                position = if fate.is_some() && position > 0 {
                    position
                } else {
                    placed
                };
                (horse, position.to_string())
            }
            Some(outcome) => (horse, outcome.to_owned()),
        };
        horses.into_iter().zip(fates).map(place).collect()
    })
}

fn registration() -> impl Strategy<Value = Fact> {
    (horse(), prop::option::of(0..20_u32), 0..3_u32).prop_map(|(horse, starts, name)| {
        let career = starts.map(
            |n| json!({ "starts": n, "wins": n / 5, "places": n / 4, "total_stakes": n * 100 }),
        );
        registered(horse)
            .with("/horse_name", json!(format!("NAME {name}")))
            .with("/career", career.unwrap_or(Value::Null))
    })
}

fn quote() -> impl Strategy<Value = Fact> {
    let price = prop_oneof![1 => Just(Value::Null), 5 => (1_000..50_000_u32).prop_map(|n| json!(f64::from(n) / 1000.0))];
    (
        race(),
        some_horses(),
        prop::collection::vec(price, HORSES.len()),
        0..20_u32,
    )
        .prop_map(|(race, horses, prices, second)| {
            let prices: Vec<_> = horses.into_iter().zip(prices).collect();
            odds(race, &prices).at(&format!("06:00:{second:02}.{second}5000019"))
        })
}

fn statement() -> impl Strategy<Value = Fact> {
    let declared =
        (race(), 0..4_u32, placings(), 0..5_u32).prop_map(|(race, revision, placings, variant)| {
            let placings: Vec<_> = placings
                .iter()
                .map(|(horse, placing)| (*horse, placing.as_str()))
                .collect();
            let message = result(race, revision, &placings);
            match variant {
                0 => message,
                1 => message
                    .with("/venue_name", json!("Elsewhere Park"))
                    .with("/runners/0/jockey", json!("")),
                2 => message
                    .with("/runners/0/horse_name", json!("OTHER NAME"))
                    .with("/going", json!("SOFT")),
                3 => message
                    .with("/runners/0/horse_name", json!(""))
                    .with("/runners/0/trainer", json!("")),
                _ => message
                    .with("/runners/0/stakes", json!(777))
                    .with("/runners/0/stakes_currency", json!("EUR"))
                    .with("/race_name", json!("THE CUP"))
                    .with("/distance", json!(0)),
            }
        });
    let paid = (race(), 0..4_u32, 0..3_u32).prop_map(|(race, revision, variant)| {
        dividends(race, revision).with("/dividends/0/dividend", json!(10 + variant))
    });
    prop_oneof![4 => declared, 2 => paid, 1 => (race(), 0..4_u32).prop_map(|(race, revision)| void(race, revision))]
}

fn before_the_race() -> impl Strategy<Value = Fact> {
    const WORDS: [&str; 5] = ["open", "closed", "off", "finished", "abandoned"];
    prop_oneof![
        3 => (race(), some_horses()).prop_map(|(race, horses)| card(race, &horses)),
        1 => (race(), some_horses()).prop_map(|(race, horses)| card(race, &horses).with("/runners/0/horse_name", json!(""))),
        2 => (race(), horse()).prop_map(|(race, horse)| withdrawn(race, horse)),
        1 => (race(), horse()).prop_map(|(race, horse)| reinstated(race, horse)),
        1 => (race(), horse(), 0..3_u32).prop_map(|(race, horse, n)| rider(race, horse, &format!("Rider {n}"))),
        1 => (race(), 0..3_u32).prop_map(|(race, n)| going(race, &format!("GOING {n}"))),
        3 => (race(), prop::sample::select(&WORDS[..]), prop::option::of(0..2_u32)).prop_map(|(race, word, why)| {
            status(race, word).with("/reason", why.map_or(Value::Null, |n| json!(format!("Reason {n}"))))
        }),
    ]
}

/// A fact of one of two feeders: with its time, or with any other, of which some are equal and some are ahead of the
/// log's clock.
fn of_a_feeder(fact: impl Strategy<Value = Fact>) -> impl Strategy<Value = Entry> {
    let time = prop_oneof![
        3 => Just(None),
        3 => (0..10_u32).prop_map(|second| Some(format!("06:00:{second:02}"))),
        1 => (0..60_u32).prop_map(|second| Some(format!("09:00:{second:02}"))),
        1 => (0..10_u32).prop_map(|second| Some(format!("20:00:{second:02}"))),
    ];
    let source = prop_oneof![4 => Just("test"), 1 => Just("other")];
    (fact, time, source).prop_map(|(fact, time, source)| {
        let fact = fact.from(source);
        Entry::Fact(match time {
            Some(time) => fact.at(&time),
            None => fact,
        })
    })
}

/// A log: facts, with some repeated and some damaged.
pub(crate) fn history() -> impl Strategy<Value = Vec<OwnedMessage>> {
    let entry = prop_oneof![
        3 => of_a_feeder(registration()),
        8 => of_a_feeder(before_the_race()),
        8 => of_a_feeder(statement()),
        8 => of_a_feeder(quote()),
        1 => Just(Entry::Garbage),
        3 => any::<prop::sample::Index>().prop_map(Entry::Again),
    ];
    prop::collection::vec(entry, 1..100).prop_map(|entries| {
        let mut log: Vec<OwnedMessage> = Vec::new();
        for (entry, seq) in entries.into_iter().zip(1..) {
            let (subject, payload) = match entry {
                Entry::Fact(fact) => (fact.subject(), fact.payload(seq)),
                Entry::Again(index) if !log.is_empty() => {
                    let message = index.get(&log);
                    (message.subject.clone(), message.payload.clone())
                }
                Entry::Garbage | Entry::Again(_) => (GARBAGE.to_owned(), b"{}".to_vec()),
            };
            log.push(OwnedMessage {
                seq,
                stored: seq,
                subject,
                payload,
            });
        }
        log
    })
}

/// A log in which sources are ranked now and then.
pub(crate) fn history_with_rankings() -> impl Strategy<Value = Vec<OwnedMessage>> {
    let sources = subsequence(vec!["test", "other", "nobody"], 0..=3).prop_shuffle();
    let rankings = prop::collection::vec((any::<prop::sample::Index>(), sources), 0..4);
    (history(), rankings).prop_map(|(log, rankings)| {
        let rankings = rankings.into_iter().zip(1_000..);
        with(
            log,
            rankings.map(|((at, sources), id)| (at, ranked(&sources), id)),
        )
    })
}

/// A log with these facts, each somewhere, and numbered for its id.
fn with(
    mut log: Vec<OwnedMessage>,
    facts: impl Iterator<Item = (prop::sample::Index, Fact, u64)>,
) -> Vec<OwnedMessage> {
    for (at, fact, id) in facts {
        let message = OwnedMessage {
            seq: 0,
            stored: 0,
            subject: fact.subject(),
            payload: fact.payload(id),
        };
        log.insert(at.index(log.len()), message);
    }
    for (message, seq) in log.iter_mut().zip(1..) {
        (message.seq, message.stored) = (seq, seq);
    }
    log
}

pub(crate) const MARKETS: [&str; 3] = ["quinella", "trio", "place_range"];

/// A log in which markets are quoted, some quotes twice.
pub(crate) fn history_with_markets() -> impl Strategy<Value = Vec<OwnedMessage>> {
    let odds = prop_oneof![1 => Just(None), 4 => (1..5_u32).prop_map(Some)];
    let prices = prop::collection::btree_map(1..6_u32, odds, 1..4);
    let quote =
        (race(), prop::sample::select(&MARKETS[..]), prices).prop_map(|(race, pool, prices)| {
            let line = |(number, odds): (u32, Option<u32>)| match odds {
                Some(odds) => json!({ "combination": [number, 9], "odds": f64::from(odds) }),
                None => json!({ "combination": [number, 9], "state": "suspended" }),
            };
            let prices: Vec<Value> = prices.into_iter().map(line).collect();
            market(race, pool, &json!(prices))
        });
    history_with_quotes(quote)
}

/// A log in which totals of pools are stated, some twice.
pub(crate) fn history_with_pools() -> impl Strategy<Value = Vec<OwnedMessage>> {
    let pool = prop::sample::select(&MARKETS[..]);
    let total = (race(), pool, 1..20_u32)
        .prop_map(|(race, pool, amount)| invested(race, pool, f64::from(amount)));
    history_with_quotes(total)
}

fn history_with_quotes(
    quote: impl Strategy<Value = Fact>,
) -> impl Strategy<Value = Vec<OwnedMessage>> {
    let quote = of_a_feeder(quote).prop_map(|entry| match entry {
        Entry::Fact(fact) => fact,
        _ => unreachable!("a feeder states facts"),
    });
    let places = prop::collection::vec(any::<prop::sample::Index>(), 1..3);
    let quotes = prop::collection::vec((places, quote), 0..50);
    (history_with_rankings(), quotes).prop_map(|(log, quotes)| {
        let quotes = quotes
            .into_iter()
            .zip(2_000..)
            .flat_map(|((places, quote), id)| {
                places.into_iter().map(move |at| (at, quote.clone(), id))
            });
        with(log, quotes)
    })
}

/// A log whose sequences have large holes, and whose clock, which is that of its feeders, is ahead now and then.
pub(crate) fn history_with_clock_steps() -> impl Strategy<Value = Vec<OwnedMessage>> {
    const DAY: u64 = 24 * 60 * 60;
    let gap = prop_oneof![8 => Just(1), 1 => 1..20_000_u64];
    let gaps = prop::collection::vec(gap, 110);
    let ahead = prop::sample::select(&[40, 2_000, DAY, 400 * DAY][..]);
    let ahead = prop::collection::vec((any::<prop::sample::Index>(), 1..20_usize, ahead), 0..4);
    (history_with_rankings(), gaps, ahead).prop_map(|(mut log, gaps, ahead)| {
        for (first, length, seconds) in ahead {
            let first = first.index(log.len());
            for message in log.iter_mut().skip(first).take(length) {
                message.stored += seconds;
                if message.subject != GARBAGE {
                    message.payload = ahead_by(seconds, &message.payload);
                }
            }
        }
        let mut last = 0;
        for (message, gap) in log.iter_mut().zip(gaps) {
            last += gap;
            message.seq = last;
        }
        log
    })
}

/// An event of a feeder whose clock is ahead.
fn ahead_by(seconds: u64, payload: &[u8]) -> Vec<u8> {
    let mut event: Value = serde_json::from_slice(payload).expect("JSON");
    let time = moment(event["time"].as_str().expect("a time")).timestamp();
    let seconds = i64::try_from(seconds).expect("small").seconds();
    event["time"] = json!((time + seconds).to_string());
    event.to_string().into_bytes()
}

/// The sequences of the facts that were newer than those before them, and no repetition: computed from the raw JSON by
/// the rules of docs/feeding.md, with all ids and times in memory. Quotes are left out.
pub(crate) fn newer(log: &[OwnedMessage]) -> HashSet<u64> {
    let (mut ids, mut latest, mut newer) = (HashSet::new(), BTreeMap::new(), HashSet::new());
    for message in log.iter().filter(|message| message.subject != GARBAGE) {
        let event: Value = serde_json::from_slice(&message.payload).expect("JSON");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (source, kind, data) = (text(&event["source"]), text(&event["type"]), &event["data"]);
        // A withdrawal and a reinstatement are about the same thing, and so are all statements of one revision.
        let kind = kind.split('.').nth(1).expect("a kind").to_owned()
            + match &kind[..] {
                "racing.runner.withdrawn.v1" | "racing.runner.reinstated.v1" => "",
                "racing.result.declared.v1" | "racing.result.voided.v1" => "",
                other => other,
            };
        let about = format!(
            "{} {kind} {} {} {} {}",
            message.subject, data["horse_no"], data["revision"], data["market"], data["pool"]
        );
        // The time of a result does not matter.
        let time = match data["revision"] {
            Value::Null => moment(&text(&event["time"])),
            _ => moment("2026-11-21T06:00:00Z"),
        };
        let stored = super::recorded_at(message.stored);
        let latest = latest
            .entry((about, source.clone()))
            .or_insert(time.min(stored));
        if ids.insert((source, text(&event["id"]))) && time >= *latest {
            *latest = time.min(stored.max(*latest));
            newer.insert(message.seq);
        }
    }
    newer
}

fn moment(text: &str) -> events::Moment {
    events::Moment::parse(text).expect("a time")
}

/// Folds a log in one step.
pub(crate) fn fold(log: &[OwnedMessage]) -> (tempfile::TempDir, Projection) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut projection = open(folder.path());
    step(&mut projection, log);
    (folder, projection)
}

pub(crate) fn step(projection: &mut Projection, log: &[OwnedMessage]) -> projections::Step {
    projection
        .step(log.iter().map(OwnedMessage::as_stored), true)
        .expect("a healthy store")
}
