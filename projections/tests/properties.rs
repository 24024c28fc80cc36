//! What holds for every history: generated facts about a few horses and races, folded in many ways.

mod common;

use std::collections::{BTreeMap, HashSet};

use common::{
    Fact, Race, Said, card, dump, going, odds, open, registered, reinstated, result, rider, status,
    void, withdrawn,
};
use projections::{LiveKind, LiveUpdate, Projection, Recall, keys, open_races};
use proptest::prelude::*;
use proptest::sample::subsequence;
use serde_json::{Value, json};

const HORSES: [&str; 6] = ["A", "B", "C", "D", "E", "F"];

/// Two days, two venues, and two races that share all but the number.
const RACES: [Race; 5] = [
    ("2026-11-20", "HV", 1),
    ("2026-11-21", "ST", 1),
    ("2026-11-21", "ST", 2),
    ("2026-11-21", "S1", 1),
    ("2026-11-22", "ST", 1),
];

const GARBAGE: &str = "racing.garbage";

const OUTCOMES: [&str; 5] = ["PU", "DISQ", "WV", "SCR", "VOID"];

/// What comes to a message on its way: nothing, or it is damaged, or it is one that was said before.
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

/// Horses in the order of their finish: some share a position with the one before, some have none.
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
        (race(), 0..4_u32, placings(), 0..3_u32).prop_map(|(race, revision, placings, variant)| {
            let placings: Vec<_> = placings
                .iter()
                .map(|(horse, placing)| (*horse, placing.as_str()))
                .collect();
            let said = result(race, revision, &placings);
            match variant {
                0 => said,
                1 => said
                    .with("/venue_name", json!("Elsewhere Park"))
                    .with("/runners/0/jockey", json!("")),
                _ => said
                    .with("/runners/0/horse_name", json!("OTHER NAME"))
                    .with("/going", json!("SOFT")),
            }
        });
    prop_oneof![4 => declared, 1 => (race(), 0..4_u32).prop_map(|(race, revision)| void(race, revision))]
}

fn before_the_race() -> impl Strategy<Value = Fact> {
    const WORDS: [&str; 5] = ["open", "closed", "off", "finished", "abandoned"];
    prop_oneof![
        4 => (race(), some_horses()).prop_map(|(race, horses)| card(race, &horses)),
        2 => (race(), horse()).prop_map(|(race, horse)| withdrawn(race, horse)),
        1 => (race(), horse()).prop_map(|(race, horse)| reinstated(race, horse)),
        1 => (race(), horse(), 0..3_u32).prop_map(|(race, horse, n)| rider(race, horse, &format!("Rider {n}"))),
        1 => (race(), 0..3_u32).prop_map(|(race, n)| going(race, &format!("GOING {n}"))),
        3 => (race(), prop::sample::select(&WORDS[..]), prop::option::of(0..2_u32)).prop_map(|(race, word, why)| {
            status(race, word).with("/reason", why.map_or(Value::Null, |n| json!(format!("Reason {n}"))))
        }),
    ]
}

/// A log: facts, with some repeated and some broken.
fn history() -> impl Strategy<Value = Vec<Said>> {
    let entry = prop_oneof![
        3 => registration().prop_map(Entry::Fact),
        8 => before_the_race().prop_map(Entry::Fact),
        8 => statement().prop_map(Entry::Fact),
        8 => quote().prop_map(Entry::Fact),
        1 => Just(Entry::Garbage),
        3 => any::<prop::sample::Index>().prop_map(Entry::Again),
    ];
    prop::collection::vec(entry, 1..100).prop_map(|entries| {
        let mut log: Vec<Said> = Vec::new();
        for (entry, seq) in entries.into_iter().zip(1..) {
            let (subject, payload) = match entry {
                Entry::Fact(fact) => (fact.subject(), fact.payload(seq)),
                Entry::Again(index) if !log.is_empty() => {
                    let said = index.get(&log);
                    (said.subject.clone(), said.payload.clone())
                }
                Entry::Garbage | Entry::Again(_) => (GARBAGE.to_owned(), b"{}".to_vec()),
            };
            log.push(Said {
                seq,
                subject,
                payload,
            });
        }
        log
    })
}

/// Folds a log in one step.
fn fold(log: &[Said]) -> (tempfile::TempDir, Projection) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut projection = open(folder.path());
    step(&mut projection, log);
    (folder, projection)
}

fn step(projection: &mut Projection, log: &[Said]) -> projections::Step {
    projection
        .step(log.iter().map(Said::message), true)
        .expect("a healthy store")
}

/// What is told of a whole log.
fn told(log: &[Said]) -> Vec<LiveUpdate> {
    let (_folder, mut projection) = fold(&[]);
    step(&mut projection, log).updates
}

fn views(log: &[Said]) -> Vec<(String, Vec<u8>)> {
    dump(fold(log).1.store())
}

/// The same log in another order, with the places in it as they then are.
fn renumbered(log: Vec<Said>) -> Vec<Said> {
    log.into_iter()
        .zip(1..)
        .map(|(said, seq)| Said { seq, ..said })
        .collect()
}

/// What a fact is about. Of two that are about different things neither knows of the other.
fn topic(said: &Said) -> String {
    let mut tokens: Vec<&str> = said.subject.split('.').collect();
    if tokens.len() > 3 {
        tokens.remove(1);
    }
    tokens.join(".")
}

/// Views that do not tell the place in the log.
fn without_places(views: Vec<(String, Vec<u8>)>) -> Vec<(String, String)> {
    let places = ["odds/", "state/odds/", "tick/", "rejection/"];
    let views = views
        .into_iter()
        .filter(|(key, _)| !places.iter().any(|kind| key.starts_with(kind)));
    views
        .map(|(key, view)| (key, told_nowhere(&view)))
        .collect()
}

/// The state of a race keeps the places of what was told of it. Other views are left as they are.
fn told_nowhere(view: &[u8]) -> String {
    let text = String::from_utf8_lossy(view).into_owned();
    let Ok(Value::Object(mut state)) = serde_json::from_str(&text) else {
        return text;
    };
    match state.remove("told") {
        Some(_) => Value::Object(state).to_string(),
        None => text,
    }
}

fn event(said: &Said) -> Value {
    serde_json::from_slice(&said.payload).expect("JSON")
}

/// By race, the place in the log of the result statement in force: written down anew, from the raw JSON.
fn in_force(log: &[Said]) -> BTreeMap<String, u64> {
    let mut ids = HashSet::new();
    let mut best: BTreeMap<String, (u64, u64, Value)> = BTreeMap::new();
    for said in log
        .iter()
        .filter(|said| said.subject.starts_with("racing.result."))
    {
        let event = event(said);
        let known = best.get(&said.subject);
        let revision = event["data"]["revision"].as_u64().expect("a revision");
        // The very same statement again is the one that stands already.
        let same = known.is_some_and(|(.., data)| *data == event["data"]);
        if !ids.insert(event["id"].to_string())
            || same
            || known.is_some_and(|(best, ..)| revision < *best)
        {
            continue;
        }
        best.insert(
            said.subject.clone(),
            (revision, said.seq, event["data"].clone()),
        );
    }
    best.into_iter()
        .map(|(subject, (_, seq, _))| (subject, seq))
        .collect()
}

/// Starts, wins, places and stakes of each horse, by the rules and by nothing of the code.
fn totals(log: &[Said]) -> BTreeMap<String, [u64; 4]> {
    let mut totals: BTreeMap<String, [u64; 4]> = BTreeMap::new();
    let mut registered: BTreeMap<String, Value> = BTreeMap::new();
    let mut ids = HashSet::new();
    for said in log
        .iter()
        .filter(|said| said.subject.starts_with("racing.horse."))
    {
        let event = event(said);
        if ids.insert(event["id"].to_string()) {
            let data = event["data"].clone();
            registered.insert(data["horse_no"].as_str().expect("a horse").to_owned(), data);
        }
    }
    for (horse, data) in registered {
        let count = |field: &str| data["career"][field].as_u64().unwrap_or(0);
        totals.insert(
            horse,
            ["starts", "wins", "places", "total_stakes"].map(count),
        );
    }
    let in_force = in_force(log);
    for said in log
        .iter()
        .filter(|said| in_force.get(&said.subject) == Some(&said.seq))
    {
        for runner in event(said)["data"]["runners"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let [starts, wins, places, stakes] = totals
                .entry(runner["horse_no"].as_str().expect("a horse").to_owned())
                .or_default();
            *stakes += runner["stakes"].as_u64().unwrap_or(0);
            match (runner["position"].as_u64(), runner["outcome"].as_str()) {
                (Some(position), _) => {
                    *starts += 1;
                    *wins += u64::from(position == 1);
                    *places += u64::from(position == 2 || position == 3);
                }
                (None, Some("PU" | "DISQ")) => *starts += 1,
                _ => {}
            }
        }
    }
    totals
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn folding_the_whole_log_again_changes_no_byte(log in history()) {
        let (folder, mut projection) = fold(&log);
        let (first, checkpoint) = (dump(projection.store()), projection.checkpoint().clone());
        prop_assert_eq!(projection.store().recount().expect("a healthy store"), (first.len() as u64, checkpoint.digest));

        let again = step(&mut projection, &log);
        prop_assert_eq!(again.tally.skipped, log.len() as u64);
        prop_assert_eq!(again.updates.len(), 0);
        prop_assert_eq!(&dump(projection.store()), &first);
        drop(projection);

        let mut reopened = open(folder.path());
        step(&mut reopened, &log);
        prop_assert_eq!(&dump(reopened.store()), &first);
        prop_assert_eq!(reopened.checkpoint(), &checkpoint);
    }

    #[test]
    fn a_fact_said_twice_is_said_once(log in history()) {
        let mut ids = HashSet::new();
        let once: Vec<Said> = log.iter().filter(|said| said.subject == GARBAGE || ids.insert(event(said)["id"].to_string())).cloned().collect();
        prop_assert_eq!(views(&once), views(&log));
    }

    #[test]
    fn where_the_log_is_cut_makes_no_difference(log in history(), cuts in prop::collection::vec((1..30_usize, any::<bool>()), 100)) {
        let (_whole_folder, whole) = fold(&log);
        let folder = tempfile::tempdir().expect("a folder");
        let mut projection = open(folder.path());
        let (mut rest, mut updates) = (&log[..], Vec::new());
        for (size, reopen) in cuts {
            let (batch, later) = rest.split_at(size.min(rest.len()));
            updates.extend(step(&mut projection, batch).updates);
            rest = later;
            if rest.is_empty() {
                break;
            }
            if reopen {
                drop(projection);
                projection = open(folder.path());
            }
        }
        prop_assert!(rest.is_empty());
        prop_assert_eq!(dump(projection.store()), dump(whole.store()));
        prop_assert_eq!(projection.checkpoint(), whole.checkpoint());
        prop_assert_eq!(projection.store().recount().expect("a healthy store").1, whole.checkpoint().digest);

        let (_folder, mut other) = fold(&[]);
        let in_one = step(&mut other, &log).updates;
        prop_assert_eq!(updates, in_one);
    }

    #[test]
    fn facts_about_different_things_may_come_in_any_order(log in history(), keys in prop::collection::vec(any::<u32>(), 100)) {
        // Every fact draws a number; within a topic the numbers are dealt out in the order of the log.
        let mut drawn: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for (said, key) in log.iter().zip(&keys) {
            drawn.entry(topic(said)).or_default().push(*key);
        }
        for numbers in drawn.values_mut() {
            numbers.sort_unstable_by(|a, b| b.cmp(a));
        }
        let mut shuffled: Vec<(u32, u64, Said)> = log
            .iter()
            .map(|said| {
                let number = drawn.get_mut(&topic(said)).and_then(Vec::pop).expect("one for each");
                (number, said.seq, said.clone())
            })
            .collect();
        shuffled.sort_by_key(|(number, seq, _)| (*number, *seq));
        let shuffled = renumbered(shuffled.into_iter().map(|(.., said)| said).collect());
        prop_assert_eq!(without_places(views(&shuffled)), without_places(views(&log)));
    }

    #[test]
    fn only_the_statement_in_force_counts(log in history()) {
        let in_force = in_force(&log);
        let stands = |said: &&Said| !said.subject.starts_with("racing.result.") || in_force.get(&said.subject) == Some(&said.seq);
        let short: Vec<Said> = log.iter().filter(stands).cloned().collect();
        let told = |log: &[Said]| {
            let views = without_places(views(log)).into_iter();
            let kinds = ["horse/", "form/", "result/", "card/", "meeting/", "state/horse/"];
            views.filter(|(key, _)| kinds.iter().any(|kind| key.starts_with(kind))).collect::<Vec<_>>()
        };
        prop_assert_eq!(told(&log), told(&short));
    }

    #[test]
    fn careers_are_what_anybody_can_count(log in history()) {
        let (_folder, projection) = fold(&log);
        let expected = totals(&log);
        for horse_no in HORSES {
            let view = projection.store().get(&projections::keys::profile(&common::horse(horse_no))).expect("a healthy store");
            let counted = view.map(|view| {
                let body = projections::horse_profile::serve(&view, common::day("2026-11-22")).expect("a profile");
                let profile: Value = serde_json::from_slice(&body).expect("JSON");
                ["starts", "wins", "places", "total_stakes"].map(|field| profile[field].as_u64().expect("a count"))
            });
            match (counted, expected.get(horse_no)) {
                (Some(counted), expected) => prop_assert_eq!(counted, expected.copied().unwrap_or_default(), "{}", horse_no),
                (None, None) => {}
                (None, Some(expected)) => prop_assert!(false, "{} should have {:?}", horse_no, expected),
            }
        }
    }

    #[test]
    fn every_message_names_the_one_before_and_they_come_in_the_order_of_the_log(log in history()) {
        let (mut last, mut last_seq) = (BTreeMap::new(), 0);
        for update in told(&log) {
            prop_assert!(update.seq > last_seq);
            last_seq = update.seq;
            let rank = |kind| match kind {
                LiveKind::Result | LiveKind::Runner => 0,
                LiveKind::Status => 1,
                LiveKind::Odds => 2,
            };
            let ranks: Vec<u32> = update.messages.iter().map(|message| rank(message.kind)).collect();
            prop_assert!(ranks.is_sorted_by(|a, b| a < b), "{:?}", update);
            for message in &update.messages {
                let json: Value = serde_json::from_slice(&message.json).expect("JSON");
                let before = last.insert((update.race.clone(), message.kind), update.seq).unwrap_or(0);
                prop_assert_eq!(message.prev_seq, before);
                prop_assert_eq!(
                    [&json["event"], &json["seq"], &json["prev_seq"], &json["venue"], &json["venue_code"], &json["race_number"]],
                    [&json!(message.kind.as_str()), &json!(update.seq), &json!(before), &json!(update.venue), &json!(update.race.venue.as_str()), &json!(update.race.race_number.get())]
                );
            }
            prop_assert!(update.runners.is_sorted_by(|a, b| a < b));
        }
    }

    #[test]
    fn the_board_of_an_update_is_the_one_in_the_store(log in history(), sizes in prop::collection::vec(1..30_usize, 100)) {
        let (_folder, mut projection) = fold(&[]);
        let (mut rest, mut boards, mut last_odds) = (&log[..], BTreeMap::new(), BTreeMap::new());
        for size in sizes {
            let (batch, later) = rest.split_at(size.min(rest.len()));
            rest = later;
            for update in step(&mut projection, batch).updates {
                if let Some(odds) = update.messages.iter().find(|message| message.kind == LiveKind::Odds) {
                    let board = update.board.as_ref().expect("odds are of a board");
                    let message = [&br#"{"event":"odds_update","#[..], &board.json[1..]].concat();
                    prop_assert_eq!(&odds.json, &message);
                    last_odds.insert(update.race.clone(), update.seq);
                }
                prop_assert_eq!(update.board.as_ref().map(|board| board.seq), last_odds.get(&update.race).copied());
                boards.insert(keys::board(&update.race), update);
            }
            let stored: BTreeMap<String, Vec<u8>> = dump(projection.store()).into_iter().filter(|(key, _)| key.starts_with("odds/")).collect();
            let live = boards.iter().filter_map(|(key, update)| Some((key.clone(), update.board.as_ref()?.json.clone())));
            prop_assert_eq!(&stored, &live.collect::<BTreeMap<_, _>>());
            let image = |update: &LiveUpdate| (update.race.clone(), update.venue.clone(), update.board.clone(), update.runners.clone());
            let open: Vec<_> = boards.values().filter(|update| update.open).map(image).collect();
            let snapshots = open_races(projection.store()).expect("a healthy store");
            prop_assert_eq!(snapshots.iter().map(image).collect::<Vec<_>>(), open);
            for snapshot in snapshots {
                prop_assert_eq!((Some(snapshot.seq), snapshot.messages.len(), snapshot.open), (snapshot.board.map(|board| board.seq), 0, true));
            }
        }
    }

    #[test]
    fn who_begins_to_listen_later_is_told_the_same(log in history(), at in any::<prop::sample::Index>(), reopen in any::<bool>()) {
        let (unheard, heard) = log.split_at(at.index(log.len()));
        let folder = tempfile::tempdir().expect("a folder");
        let mut projection = open(folder.path());
        let silent = projection.step(unheard.iter().map(Said::message), false).expect("a healthy store");
        prop_assert_eq!(silent.updates.len(), 0);
        if reopen {
            drop(projection);
            projection = open(folder.path());
        }
        let mut expected = told(&log);
        expected.retain(|update| update.seq > unheard.len() as u64);
        prop_assert_eq!(step(&mut projection, heard).updates, expected);
    }

    #[test]
    fn what_is_recalled_is_what_was_said(log in history(), after in 0..100_u64, by_race in any::<bool>()) {
        let mut fed = log.clone();
        if by_race {
            fed.sort_by_key(|said| (topic(said), said.seq));
        }
        let mut recall = Recall::new(after);
        let mut recalled: Vec<LiveUpdate> = fed.iter().filter_map(|said| recall.fold(said.message())).collect();
        recalled.sort_by_key(|update| update.seq);
        let mut expected = told(&log);
        expected.retain(|update| update.seq > after);
        prop_assert_eq!(recalled, expected);
    }
}
