//! Properties of every history: generated facts about a few horses and races, folded in many ways.

mod common;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use common::history::{
    GARBAGE, MARKETS, RACES, fold, history, history_with_clock_steps, history_with_markets,
    history_with_pools, history_with_rankings, newer, step,
};
use common::{OwnedMessage, dump, key, market_of, open, recorded_at};
use events::{RaceKey, Subject};
use projections::{
    LiveKind, LiveUpdate, MarketKey, Projection, REPLAY_MESSAGES_MAX, RaceReplay, Row, Store,
    StoreError, StoreImport, board_of_source, keys, odds_history, odds_sources, open_races,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The live updates of a whole log.
fn live_updates(log: &[OwnedMessage]) -> Vec<LiveUpdate> {
    let (_folder, mut projection) = fold(&[]);
    step(&mut projection, log).updates
}

fn views(log: &[OwnedMessage]) -> Views {
    dump(fold(log).1.store())
}

/// A log whose messages are in another order, with new sequences. All are stored at one time.
fn renumbered(log: Vec<OwnedMessage>) -> Vec<OwnedMessage> {
    let mut log = renumbered_from(1, log);
    for message in &mut log {
        message.stored = 30;
    }
    log
}

/// Messages with new sequences, stored when they were.
fn renumbered_from(first: u64, log: Vec<OwnedMessage>) -> Vec<OwnedMessage> {
    let messages = log.into_iter().zip(first..);
    messages
        .map(|(message, seq)| OwnedMessage { seq, ..message })
        .collect()
}

/// The prices of a market, and the sequences of its latest change, the one before, and its latest quote.
type MarketRecount = (BTreeMap<u64, Value>, u64, u64);

type Views = Vec<(String, Vec<u8>)>;

/// Splits the views: those in force, and the counts of equal rows in the histories of odds and results, without their
/// sequences and times. The state has the lengths of the histories, and is left out.
fn histories(views: Views) -> (Views, BTreeMap<String, usize>) {
    let (mut in_force, mut rows) = (Vec::new(), BTreeMap::new());
    for (key, view) in views {
        if let Some((_, race)) = key.split_once("tick/").or(key.split_once("revision/")) {
            let list = match key.starts_with("tick/") {
                true => rendered(&key, &view),
                false => vec![serde_json::from_slice(&view).expect("JSON")],
            };
            for mut row in list {
                let fields = row.as_object_mut().expect("an object");
                fields.retain(|field, _| !["seq", "recorded_at"].contains(&field.as_str()));
                let race = race.split('/').take(3).collect::<Vec<_>>().join("/");
                *rows.entry(format!("{race} {row}")).or_default() += 1;
            }
        } else if !key.starts_with("state/race/") && !key.starts_with("state/odds/") {
            in_force.push((key, view));
        }
    }
    (in_force, rows)
}

/// The race or horse of a fact. Facts with different topics do not affect each other.
fn topic(message: &OwnedMessage) -> String {
    let mut tokens: Vec<&str> = message.subject.split('.').collect();
    if tokens.len() > 3 {
        tokens.remove(1);
    }
    tokens.join(".")
}

/// The views that do not contain a log sequence.
fn without_sequences(views: Views) -> Vec<(String, String)> {
    let with_sequences = ["odds/", "state/odds/", "tick/", "rejection/"];
    let views = views
        .into_iter()
        .filter(|(key, _)| !with_sequences.iter().any(|kind| key.starts_with(kind)));
    views
        .map(|(key, view)| (key, without_last_seq(&view)))
        .collect()
}

/// Removes the sequences of the messages that a race last published from its state. Other views stay as they are.
fn without_last_seq(view: &[u8]) -> String {
    let text = String::from_utf8_lossy(view).into_owned();
    let Ok(Value::Object(mut state)) = serde_json::from_str(&text) else {
        return text;
    };
    match state.remove("last_seq_by_kind") {
        Some(_) => Value::Object(state).to_string(),
        None => text,
    }
}

/// Removes the time of the latest amendment, which tells that there were statements before.
fn without_amendment(view: &str) -> String {
    match view.split_once("\"amended_at\":\"") {
        Some((before, rest)) => {
            let (_, behind) = rest.split_once('"').expect("the end of a time");
            format!("{before}{behind}")
        }
        None => view.to_owned(),
    }
}

fn view(store: &Store, key: &str) -> Value {
    let view = store.get(key).expect("a healthy store");
    view.map_or(Value::Null, |view| {
        serde_json::from_slice(&view).expect("JSON")
    })
}

/// The history of a race's odds.
fn ticks(store: &Store, race: &RaceKey) -> Vec<Value> {
    let chunks = store.scan(&keys::ticks(race));
    let ticks = chunks.flat_map(|chunk| {
        let (key, chunk) = chunk.expect("a healthy store");
        rendered(&key, &chunk)
    });
    ticks.collect()
}

/// The quotes in a chunk of the history.
fn rendered(key: &str, chunk: &[u8]) -> Vec<Value> {
    let ticks = odds_history::ticks(key, chunk).expect("quotes");
    let ticks = ticks.iter().map(serde_json::to_value);
    ticks.collect::<Result<_, _>>().expect("JSON")
}

fn event(message: &OwnedMessage) -> Value {
    serde_json::from_slice(&message.payload).expect("JSON")
}

/// The subject of a statement, and whether it is about dividends.
type About = (String, bool);

fn about(message: &OwnedMessage) -> About {
    let is_of_dividends = event(message)["type"] == "racing.dividends.declared.v1";
    (message.subject.clone(), is_of_dividends)
}

/// The sequence of the statements of result and dividends in force, by race: computed from the raw JSON, independently
/// of the fold.
fn in_force(log: &[OwnedMessage]) -> BTreeMap<About, u64> {
    let newer = newer(log);
    let mut best: BTreeMap<About, (u64, u64, Value)> = BTreeMap::new();
    for message in log
        .iter()
        .filter(|message| message.subject.starts_with("racing.result."))
    {
        let about = about(message);
        let event = event(message);
        let known = best.get(&about);
        let revision = event["data"]["revision"].as_u64().expect("a revision");
        // An equal statement changes nothing.
        let same = known.is_some_and(|(.., data)| *data == event["data"]);
        if !newer.contains(&message.seq) || same || known.is_some_and(|(best, ..)| revision < *best)
        {
            continue;
        }
        best.insert(about, (revision, message.seq, event["data"].clone()));
    }
    best.into_iter()
        .map(|(about, (_, seq, _))| (about, seq))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn folding_the_whole_log_again_changes_no_byte(log in history_with_clock_steps()) {
        let (folder, mut projection) = fold(&log);
        let (first, checkpoint) = (dump(projection.store()), projection.checkpoint().clone());
        let recount = projection.store().recount().expect("a healthy store");
        prop_assert_eq!((recount.count, recount.digest), (first.len() as u64, checkpoint.digest));

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
    fn a_repeated_fact_changes_nothing(log in history()) {
        let mut ids = HashSet::new();
        let once: Vec<OwnedMessage> = log.iter().filter(|message| message.subject == GARBAGE || ids.insert(event(message)["id"].to_string())).cloned().collect();
        prop_assert_eq!(views(&once), views(&log));
    }

    #[test]
    fn events_that_are_repeated_after_the_log_change_no_view(
        log in history(),
        repeats in prop::collection::vec(any::<prop::sample::Index>(), 1..150),
        at in any::<prop::sample::Index>(),
    ) {
        let (before, after) = log.split_at(at.index(log.len()) + 1);
        let facts: Vec<OwnedMessage> = before.iter().filter(|message| message.subject != GARBAGE).cloned().collect();
        let stored = before.len() as u64;
        let repeat = |index: &prop::sample::Index| {
            (!facts.is_empty()).then(|| OwnedMessage { stored, ..index.get(&facts).clone() })
        };
        let repeats: Vec<OwnedMessage> = repeats.iter().filter_map(repeat).collect();
        let repeats = renumbered_from(before.len() as u64 + 1, repeats);

        let (_folder, mut projection) = fold(before);
        let (first, rows) = histories(dump(projection.store()));
        prop_assert_eq!(step(&mut projection, &repeats).updates, vec![]);
        let (again, more_rows) = histories(dump(projection.store()));
        prop_assert_eq!(&again, &first);
        // Only statements about results are listed again, as stale.
        for (row, count) in more_rows {
            let earlier = rows.get(&row).copied().unwrap_or(0);
            let is_stale_statement = row.contains(r#""stale":true"#) && row.contains(r#""revision":"#);
            prop_assert!(count == earlier || is_stale_statement, "{}", row);
        }

        // Nor do they change what later events do.
        let after = renumbered_from(before.len() as u64 + repeats.len() as u64 + 1, after.to_vec());
        step(&mut projection, &after);
        let repeated = histories(dump(projection.store())).0;
        prop_assert_eq!(without_sequences(repeated), without_sequences(histories(views(&log)).0));
    }

    #[test]
    fn the_sizes_of_batches_make_no_difference(log in history_with_clock_steps(), cuts in prop::collection::vec((1..30_usize, any::<bool>()), 100)) {
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
        prop_assert_eq!(projection.store().recount().expect("a healthy store").digest, whole.checkpoint().digest);

        let (_folder, mut other) = fold(&[]);
        let in_one = step(&mut other, &log).updates;
        prop_assert_eq!(updates, in_one);
    }

    #[test]
    fn facts_about_different_things_may_come_in_any_order(log in history(), keys in prop::collection::vec(any::<u32>(), 100)) {
        // Every fact draws a number. Within a topic the numbers are assigned in the order of the log.
        let mut drawn: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for (message, key) in log.iter().zip(&keys) {
            drawn.entry(topic(message)).or_default().push(*key);
        }
        for numbers in drawn.values_mut() {
            numbers.sort_unstable_by(|a, b| b.cmp(a));
        }
        let mut shuffled: Vec<(u32, u64, OwnedMessage)> = log
            .iter()
            .map(|message| {
                let number = drawn.get_mut(&topic(message)).and_then(Vec::pop).expect("one for each");
                (number, message.seq, message.clone())
            })
            .collect();
        shuffled.sort_by_key(|(number, seq, _)| (*number, *seq));
        let shuffled = renumbered(shuffled.into_iter().map(|(.., message)| message).collect());
        prop_assert_eq!(without_sequences(views(&shuffled)), without_sequences(views(&renumbered(log))));
    }

    #[test]
    fn a_race_folded_alone_up_to_a_message_has_the_views_of_then(
        log in prop_oneof![history_with_clock_steps(), history_with_rankings()],
        cut in any::<prop::sample::Index>(),
    ) {
        let race = log.iter().find_map(|message| match Subject::parse(&message.subject) {
            Some(Subject::Race(race) | Subject::Result(race) | Subject::Odds(race)) => Some(race),
            _ => None,
        });
        prop_assume!(race.is_some());
        let race = race.expect("just checked");
        let (_folder, whole) = fold(&log);
        prop_assume!(whole.checkpoint().can_fold_after(0));
        let until = &log[..=cut.index(log.len())];
        let (_folder, then) = fold(until);
        let mut part = Projection::of_part(Arc::new(Store::in_memory()), whole.checkpoint());
        let subject = format!(".{race}");
        let messages: Vec<_> = until.iter().filter(|message| message.subject.ends_with(&subject)).cloned().collect();
        step(&mut part, &messages);
        let of_race = |projection: &Projection| {
            let is_of_race = |(key, _): &(String, Vec<u8>)| {
                let kinds = ["card/", "result/", "dividend/", "odds/", "revision/", "tick/", "form/", "state/market/"];
                kinds.iter().any(|kind| key.starts_with(kind)) && key.contains(&keys::card(&race)[4..])
            };
            let views = dump(projection.store()).into_iter().filter(is_of_race);
            views.map(|(key, view)| (key, String::from_utf8_lossy(&view).into_owned())).collect::<Vec<_>>()
        };
        prop_assert_eq!(of_race(&part), of_race(&then));
    }

    #[test]
    fn only_the_statement_in_force_counts(log in history()) {
        let in_force = in_force(&log);
        let is_in_force = |message: &&OwnedMessage| !message.subject.starts_with("racing.result.") || in_force.get(&about(message)) == Some(&message.seq);
        let short: Vec<OwnedMessage> = log.iter().filter(is_in_force).cloned().collect();
        let served = |log: &[OwnedMessage]| {
            let views = without_sequences(views(log)).into_iter();
            let kinds = ["horse/", "name/", "form/", "result/", "dividend/", "card/", "state/horse/"];
            let views = views.filter(|(key, _)| kinds.iter().any(|kind| key.starts_with(kind)));
            // A horse that was in an earlier statement has such a row.
            let views = views.filter(|(_, view)| view != "F");
            views.map(|(key, view)| (key, without_amendment(&view))).collect::<Vec<_>>()
        };
        prop_assert_eq!(served(&log), served(&short));
    }

    #[test]
    fn results_may_come_before_or_after_all_other_facts_of_their_races(log in history()) {
        let is_result = |message: &OwnedMessage| message.subject.starts_with("racing.result.");
        let served = |mut log: Vec<OwnedMessage>, results_last: bool| {
            log.sort_by_key(|message| is_result(message) == results_last);
            let kinds = ["horse/", "name/", "form/", "result/", "dividend/", "revision/", "card/", "meeting/"];
            let views = views(&renumbered(log)).into_iter();
            views.filter(|(key, _)| kinds.iter().any(|kind| key.starts_with(kind))).collect::<Vec<_>>()
        };
        prop_assert_eq!(served(log.clone(), false), served(log, true));
    }

    #[test]
    fn every_message_has_the_previous_seq_and_comes_in_the_order_of_the_log(log in history_with_rankings()) {
        let (mut last, mut last_seq) = (BTreeMap::new(), 0);
        for update in live_updates(&log) {
            prop_assert!(update.seq > last_seq);
            last_seq = update.seq;
            let rank = |kind| match kind {
                LiveKind::ResultUpdate | LiveKind::DividendsUpdate | LiveKind::RunnerUpdate | LiveKind::CardUpdate => 0,
                LiveKind::StatusUpdate => 1,
                LiveKind::OddsUpdate => 2,
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
    fn the_board_of_an_update_is_the_one_in_the_store(log in history_with_rankings(), sizes in prop::collection::vec(1..30_usize, 100)) {
        let (_folder, mut projection) = fold(&[]);
        let (mut rest, mut boards, mut last_odds) = (&log[..], BTreeMap::new(), BTreeMap::new());
        for size in sizes {
            let (batch, later) = rest.split_at(size.min(rest.len()));
            rest = later;
            for update in step(&mut projection, batch).updates {
                if let Some(odds) = update.messages.iter().find(|message| message.kind == LiveKind::OddsUpdate) {
                    let board = update.board.as_ref().expect("odds are of a board");
                    let message = [&br#"{"event":"odds_update","#[..], &board.json[1..]].concat();
                    prop_assert_eq!(&odds.json, &message);
                    last_odds.insert(update.race.clone(), update.seq);
                }
                let key = keys::board(&update.race);
                let mut update = update;
                if update.quote.is_some() && update.board.is_none() {
                    update.board = boards.get(&key).and_then(|before: &LiveUpdate| before.board.clone());
                }
                prop_assert_eq!(update.board.as_ref().map(|board| board.seq), last_odds.get(&update.race).copied());
                boards.insert(key, update);
            }
            let is_quoted = |(key, view): &(String, Vec<u8>)| key.starts_with("odds/") && !String::from_utf8_lossy(view).contains("\"seq\":0,");
            let stored: BTreeMap<String, Vec<u8>> = dump(projection.store()).into_iter().filter(is_quoted).collect();
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

    /// The recount keeps all prices that were newer, from the raw JSON.
    #[test]
    fn a_market_has_the_latest_prices_of_its_source_and_changes_nothing_else(log in history_with_markets()) {
        let (_folder, projection) = fold(&log);
        let newer = newer(&log);
        let is_market = |message: &&OwnedMessage| message.subject != GARBAGE && event(message)["type"] == "racing.market.quoted.v1";
        let mut expected: BTreeMap<[String; 3], MarketRecount> = BTreeMap::new();
        for message in log.iter().filter(is_market).filter(|message| newer.contains(&message.seq)) {
            let event = event(message);
            let text = |value: &Value| value.as_str().expect("a text").to_owned();
            let about = [message.subject.clone(), text(&event["data"]["market"]), text(&event["source"])];
            let (prices, seq, prev_seq) = expected.entry(about).or_default();
            let before = prices.clone();
            for price in event["data"]["prices"].as_array().expect("a list") {
                prices.insert(price["combination"][0].as_u64().expect("a number"), price.clone());
            }
            if before != *prices {
                (*seq, *prev_seq) = (message.seq, *seq);
            }
        }
        for race in RACES {
            for market in MARKETS {
                for source in ["test", "other"] {
                    let found = market_of(projection.store(), race, market, Some(source));
                    let subject = format!("racing.odds.{}.{}.{}", race.0, race.1, race.2);
                    let expected = expected.get(&[subject, market.to_owned(), source.to_owned()]);
                    let expected = expected.map(|(prices, seq, prev_seq)| {
                        let prices: Vec<&Value> = prices.values().collect();
                        let recorded_at = recorded_at(*seq).to_string();
                        json!([prices, seq, prev_seq, recorded_at])
                    });
                    let found = found.is_object().then(|| json!([found["prices"], found["seq"], found["prev_seq"], found["recorded_at"]]));
                    prop_assert_eq!(found, expected);
                }
            }
        }
        let others: Vec<OwnedMessage> = log.iter().filter(|message| !is_market(message)).cloned().collect();
        let (_folder, without) = fold(&others);
        let with: BTreeMap<String, Vec<u8>> = dump(projection.store()).into_iter().collect();
        for (key, value) in dump(without.store()) {
            prop_assert_eq!(with.get(&key), Some(&value), "{}", key);
        }
    }

    /// The recount keeps the last total that was newer, from the raw JSON.
    #[test]
    fn a_pool_has_the_latest_total_of_its_source_and_changes_no_view(log in history_with_pools()) {
        let (_folder, projection) = fold(&log);
        let newer = newer(&log);
        let is_total = |message: &&OwnedMessage| message.subject != GARBAGE && event(message)["type"] == "racing.pool.invested.v1";
        let mut expected: BTreeMap<String, BTreeMap<[String; 2], Value>> = BTreeMap::new();
        for message in log.iter().filter(is_total).filter(|message| newer.contains(&message.seq)) {
            let event = event(message);
            let text = |value: &Value| value.as_str().expect("a text").to_owned();
            let about = [text(&event["source"]), text(&event["data"]["pool"])];
            let total = json!([event["data"]["invested"], recorded_at(message.seq).to_string()]);
            expected.entry(message.subject.clone()).or_default().insert(about, total);
        }
        for race in RACES {
            let sources = odds_sources(projection.store(), &key(race)).expect("a healthy store");
            let sources: Value = serde_json::from_slice(&sources).expect("JSON");
            let listed = sources["pools"].as_array().expect("a list").iter();
            let found: Vec<Value> = listed.map(|row| json!([row["source"], row["pool"], [row["invested"], row["recorded_at"]]])).collect();
            let subject = format!("racing.odds.{}.{}.{}", race.0, race.1, race.2);
            let expected = expected.remove(&subject).unwrap_or_default().into_iter();
            let expected: Vec<Value> = expected.map(|([source, pool], total)| json!([source, pool, total])).collect();
            prop_assert_eq!(found, expected);
        }
        let others: Vec<OwnedMessage> = log.iter().filter(|message| !is_total(message)).cloned().collect();
        let (_folder, without) = fold(&others);
        let with: BTreeMap<String, Vec<u8>> = dump(projection.store()).into_iter().collect();
        for (key, value) in dump(without.store()).into_iter().filter(|(key, _)| !key.starts_with("state/")) {
            prop_assert_eq!(with.get(&key), Some(&value), "{}", key);
        }
    }

    #[test]
    fn the_quotes_of_a_market_lead_to_its_image_and_each_names_the_one_before(log in history_with_markets()) {
        let (_folder, mut projection) = fold(&[]);
        type Prices = BTreeMap<Vec<u8>, Vec<u8>>;
        let mut markets: BTreeMap<(RaceKey, MarketKey), (u64, Prices)> = BTreeMap::new();
        for update in step(&mut projection, &log).updates {
            let Some(quote) = update.quote else { continue };
            let json: Value = serde_json::from_slice(&quote.message()).expect("JSON");
            let (last, prices) = markets.entry((update.race, quote.market.clone())).or_default();
            prop_assert_eq!(
                json!([json["event"], json["seq"], json["prev_seq"], json["source"], json["market"]]),
                json!(["quote", update.seq, *last, quote.market.source, quote.market.market.as_str()])
            );
            prop_assert_eq!(quote.prev_seq, *last);
            *last = update.seq;
            prices.extend(quote.prices.into_iter().map(|line| (line.of, line.json)));
        }
        for open in open_races(projection.store()).expect("a healthy store") {
            let of_race = markets.iter().filter(|((race, _), _)| *race == open.race);
            let mut merged = Vec::new();
            for ((_, market), (seq, prices)) in of_race {
                merged.push((market.clone(), *seq, prices.clone()));
            }
            let images = open.markets.into_iter().flatten().map(|image| {
                let json: Value = serde_json::from_slice(&image.message()).expect("JSON");
                let prices = image.prices.into_iter().map(|line| (line.of, line.json)).collect();
                (image.market, json["seq"].as_u64().expect("a number"), prices)
            });
            let mut images: Vec<_> = images.collect();
            images.sort();
            prop_assert_eq!(images, merged);
        }
    }

    #[test]
    fn the_book_of_a_source_is_the_board_of_a_log_that_has_its_quotes_alone(log in history_with_rankings()) {
        let (_folder, projection) = fold(&log);
        let is_by = |message: &OwnedMessage, source: &str| !message.subject.starts_with("racing.odds.") || event(message)["source"] == source;
        let mut first_quotes: BTreeMap<RaceKey, Vec<(u64, &str)>> = BTreeMap::new();
        let mut last_quotes: BTreeMap<RaceKey, u64> = BTreeMap::new();
        for source in ["test", "other"] {
            let alone: Vec<OwnedMessage> = log.iter().filter(|message| is_by(message, source)).cloned().collect();
            let (_folder, alone) = fold(&alone);
            for race in RACES.map(key) {
                let board = view(alone.store(), &keys::board(&race));
                let book = board_of_source(projection.store(), &race, source).expect("a healthy store");
                let book: Value = book.map_or(Value::Null, |book| serde_json::from_slice(&book).expect("JSON"));
                prop_assert_eq!(book["runners"].as_array(), board["runners"].as_array().filter(|runners| !runners.is_empty()));
                let in_force = ticks(alone.store(), &race).into_iter().filter(|tick| tick["stale"] == false);
                let seqs: Vec<u64> = in_force.map(|tick| tick["seq"].as_u64().expect("a number")).collect();
                if let (Some(first), Some(last)) = (seqs.first(), seqs.last()) {
                    first_quotes.entry(race.clone()).or_default().push((*first, source));
                    let latest = last_quotes.entry(race).or_default();
                    *latest = (*last).max(*latest);
                }
            }
        }
        for (race, mut sources) in first_quotes {
            sources.sort_unstable();
            let rankings = log.iter().take_while(|message| message.seq <= last_quotes[&race]);
            let ranking = rankings.filter(|message| message.subject == "racing.sources").last();
            let ranking = ranking.map_or(json!([]), |message| event(message)["data"]["sources"].take());
            let ranked = ranking.as_array().expect("a list").iter().filter_map(Value::as_str);
            let quoted: Vec<&str> = sources.iter().map(|(_, source)| *source).collect();
            let primary = ranked.filter(|source| quoted.contains(source)).chain(quoted.iter().copied()).next();
            let board = view(projection.store(), &keys::board(&race));
            prop_assert_eq!(board["source"].as_str(), primary);
        }
    }

    #[test]
    fn live_updates_are_the_same_if_they_are_first_asked_for_later(log in history(), at in any::<prop::sample::Index>(), reopen in any::<bool>()) {
        let (before, after) = log.split_at(at.index(log.len()));
        let folder = tempfile::tempdir().expect("a folder");
        let mut projection = open(folder.path());
        let silent = projection.step(before.iter().map(OwnedMessage::as_stored), false).expect("a healthy store");
        prop_assert_eq!(silent.updates.len(), 0);
        if reopen {
            drop(projection);
            projection = open(folder.path());
        }
        let mut expected = live_updates(&log);
        expected.retain(|update| update.seq > before.len() as u64);
        prop_assert_eq!(step(&mut projection, after).updates, expected);
    }

    #[test]
    fn replayed_updates_equal_the_published_ones(log in history_with_clock_steps(), back in 0..=REPLAY_MESSAGES_MAX, by_race in any::<bool>()) {
        let (_folder, projection) = fold(&log);
        let after = projection.checkpoint().seq.saturating_sub(back);
        let mut replay = RaceReplay::new(Arc::clone(projection.store()), after).expect("few steps of the clock");
        let begins_at = replay.begins_at();
        prop_assert!(begins_at <= after + 1 && begins_at + 2 * REPLAY_MESSAGES_MAX > projection.checkpoint().seq);
        let mut messages: Vec<&OwnedMessage> = log.iter().filter(|message| message.seq >= begins_at).collect();
        if by_race {
            messages.sort_by_key(|message| (topic(message), message.seq));
        }
        let updates = messages.iter().filter_map(|message| replay.fold(message.as_stored()).expect("a healthy store"));
        let mut replayed: Vec<LiveUpdate> = updates.collect();
        replayed.sort_by_key(|update| update.seq);
        let mut expected = live_updates(&log);
        expected.retain(|update| update.seq > after);
        prop_assert_eq!(replayed, expected);
    }

    #[test]
    fn an_export_during_commits_is_a_fold_up_to_its_checkpoint(log in history(), begin in any::<prop::sample::Index>(), pauses in prop::collection::vec(0..20_usize, 1..20)) {
        let begin = begin.index(log.len()) + 1;
        let (_folder, mut projection) = fold(&log[..begin]);
        let store = Arc::clone(projection.store());
        // After some rows, a commit folds the next message, wherever its keys are.
        let (mut rows, mut next, mut pauses) = (Vec::<Row>::new(), begin, pauses.into_iter().cycle());
        let mut pause = pauses.next();
        let checkpoint = store.export(|key, value| {
            rows.push(Row::new(key.to_owned(), value.map(<[u8]>::to_vec)));
            while pause == Some(0) && next < log.len() {
                step(&mut projection, &log[next..=next]);
                next += 1;
                pause = pauses.next();
            }
            pause = pause.map(|rows| rows.saturating_sub(1));
            Ok::<_, StoreError>(())
        }).expect("a healthy store");
        let seq = usize::try_from(checkpoint.seq).expect("a short log");
        prop_assert!((begin..=next).contains(&seq));
        let folder = tempfile::tempdir().expect("a folder");
        let imported = Arc::new(Store::open(folder.path()).expect("an empty store"));
        let mut import = StoreImport::new(Arc::clone(&imported));
        // In parts, as they arrive.
        while !rows.is_empty() {
            let rest = rows.split_off(rows.len().min(7));
            import.add(std::mem::replace(&mut rows, rest)).expect("a healthy store");
        }
        drop(import);
        imported.check().expect("the digest of the checkpoint");
        prop_assert_eq!(imported.checkpoint(), Some(checkpoint));
        prop_assert_eq!(dump(&imported), views(&log[..seq]));
        drop(imported);
        let mut continued = open(folder.path());
        step(&mut continued, &log[seq..]);
        prop_assert_eq!(dump(continued.store()), views(&log));
    }
}
