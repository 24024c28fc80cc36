//! What holds for every history: generated facts about a few horses and races, folded in many ways.

mod common;

use std::collections::{BTreeMap, HashSet};

use common::history::{GARBAGE, fold, history, step};
use common::{Said, dump, open};
use projections::{LiveKind, LiveUpdate, RaceReplay, keys, open_races};
use proptest::prelude::*;
use serde_json::{Value, json};

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
    fn results_may_come_before_or_behind_all_else_of_their_races(log in history()) {
        let is_result = |said: &Said| said.subject.starts_with("racing.result.");
        let served = |mut log: Vec<Said>, results_last: bool| {
            log.sort_by_key(|said| is_result(said) == results_last);
            let kinds = ["horse/", "form/", "result/", "revision/", "card/", "meeting/"];
            let views = views(&renumbered(log)).into_iter();
            views.filter(|(key, _)| kinds.iter().any(|kind| key.starts_with(kind))).collect::<Vec<_>>()
        };
        prop_assert_eq!(served(log.clone(), false), served(log, true));
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
        let mut replay = RaceReplay::new(after);
        let mut replayed: Vec<LiveUpdate> = fed.iter().filter_map(|said| replay.fold(said.message())).collect();
        replayed.sort_by_key(|update| update.seq);
        let mut expected = told(&log);
        expected.retain(|update| update.seq > after);
        prop_assert_eq!(replayed, expected);
    }
}
