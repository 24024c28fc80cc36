//! Which messages a client is sent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use railbird::log::Log;
use serde_json::{Value, json};

use super::{Proof, Race, event_of, events, race_of, races, seq_of};
use crate::support::*;

const NEXT_DAY: &str = "2026-10-04";

fn quote(date: &str, venue: &str, race_number: u16, n: u64, horse_no: &str) -> Value {
    let runners = json!([{ "horse_no": horse_no, "number": 1, "win": 2.5 }]);
    let data = of_race(date, venue, race_number, json!({ "runners": runners }));
    event("odds.quoted", &second(n), data)
}

fn card_of(date: &str, venue: &str, race_number: u16, horse_no: &str) -> Value {
    let mut card = card(date, venue, race_number, 1);
    card["data"]["runners"][0]["horse_no"] = json!(horse_no);
    card
}

/// Three races: `CARDED` is on a card and on no board, each of the others on a board and on no card.
fn three_races(n: u64) -> [Value; 3] {
    [
        quote(DAY, "ST", 1, n, "BOARD_1"),
        quote(DAY, "ST", 2, n, "BOARD_2"),
        quote(NEXT_DAY, "HV", 1, n, "BOARD_3"),
    ]
}

/// Filters in a URL (if possible there) and in a message, with the races that they select.
#[rustfmt::skip]
fn filters() -> Vec<(Option<&'static str>, Value, &'static [&'static str])> {
    let all: &[&str] = &["ST 1", "ST 2", "HV 1"];
    vec![
        (Some(""), json!({}), all),
        (Some("date=2026-10-03"), json!({ "dates": [DAY] }), &["ST 1", "ST 2"]),
        (Some("date=2026-10-04,2026-10-03"), json!({ "dates": [NEXT_DAY, DAY] }), all),
        (Some("date=2031-01-01"), json!({ "dates": ["2031-01-01"] }), &[]),
        (Some("venue=ST"), json!({ "venues": ["ST"] }), &["ST 1", "ST 2"]),
        (Some("venue=st"), json!({ "venues": ["st"] }), &["ST 1", "ST 2"]),
        (Some("venue=Sha%20Tin"), json!({ "venues": ["Sha Tin"] }), &["ST 1", "ST 2"]),
        (Some("venue=HAPPY+valley,XX"), json!({ "venues": ["HAPPY valley", "XX"] }), &["HV 1"]),
        (Some("venue=XX"), json!({ "venues": ["XX"] }), &[]),
        (Some("venue="), json!({ "venues": [""] }), &[]),
        (Some("race=1"), json!({ "races": [{ "race_number": 1 }] }), &["ST 1", "HV 1"]),
        (Some("race=2,%201"), json!({ "races": [{ "race_number": 2 }, { "race_number": 1 }] }), all),
        (Some("race=1&venue=ST"), json!({ "races": [{ "race_number": 1, "venue": "sha tin" }] }), &["ST 1"]),
        (Some("race=1&date=2026-10-04"), json!({ "races": [{ "race_number": 1, "date": NEXT_DAY }] }), &["HV 1"]),
        (None, json!({ "races": [{ "race_number": 1, "date": DAY, "venue": "HV" }] }), &[]),
        (None, json!({ "races": [{ "race_number": 1, "date": DAY, "venue": "ST" }, { "race_number": 1, "venue": "HV" }] }),
            &["ST 1", "HV 1"]),
        (Some("race=HV/1"), json!({ "races": [{ "race_number": 1, "venue": "HV" }] }), &["HV 1"]),
        (Some("race=2026-10-04/1,sha%20tin/2"),
            json!({ "races": [{ "race_number": 1, "date": NEXT_DAY }, { "race_number": 2, "venue": "sha tin" }] }),
            &["ST 2", "HV 1"]),
        (Some("race=2026-10-03/ST/1,2026-10-03/HV/1"),
            json!({ "races": [{ "race_number": 1, "date": DAY, "venue": "ST" }, { "race_number": 1, "date": DAY, "venue": "HV" }] }),
            &["ST 1"]),
        (Some("horse=CARDED"), json!({ "horses": ["CARDED"] }), &["ST 1"]),
        (Some("horse=BOARD_2,BOARD_3"), json!({ "horses": ["BOARD_2", "BOARD_3"] }), &["ST 2", "HV 1"]),
        (Some("horse=CARDED,BOARD_3&venue=HV"), json!({ "horses": ["CARDED", "BOARD_3"], "venues": ["HV"] }), &["HV 1"]),
        (Some("horse=CARDED&race=2"), json!({ "horses": ["CARDED"], "races": [{ "race_number": 2 }] }), &[]),
        (Some("horse=NOBODY"), json!({ "horses": ["NOBODY"] }), &[]),
        (Some("date=none"), json!({ "dates": [] }), &[]),
        (Some("venue=none"), json!({ "venues": [] }), &[]),
        (Some("race=none"), json!({ "races": [] }), &[]),
        (Some("horse=none&venue=ST"), json!({ "horses": [], "venues": ["ST"] }), &[]),
        (None, json!({ "dates": null, "venues": ["ST"], "races": null }), &["ST 1", "ST 2"]),
    ]
}

#[tokio::test]
async fn filters_select_races_in_the_url_and_in_a_message() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    nats.publish([card_of(DAY, "ST", 1, "CARDED")]).await;
    let seq = nats.publish(three_races(0)).await;
    railbird.until_published(seq).await;
    let mut listening = Vec::new();
    for (query, lists, passing) in filters() {
        let passing: BTreeSet<String> = passing.iter().map(|race| (*race).to_owned()).collect();
        if let Some(query) = query {
            let (socket, opening) = railbird.live(query).await;
            assert_eq!(races(&opening), passing, "?{query}");
            listening.push((socket, query.to_owned(), passing.clone()));
        }
        let (mut socket, _) = railbird.live("events=status_update&venue=XX").await;
        let mut request = lists.clone();
        request["op"] = json!("subscribe");
        request["events"] = json!(["odds_update"]);
        let (before, ack) = socket.request(&request).await;
        assert_eq!((before.len(), &ack["event"]), (0, &json!("ack")), "{lists}");
        let images = socket.until("snapshot_complete").await;
        assert_eq!(races(&images), passing, "{lists}");
        let empty = |list: &Value| list.as_array().is_some_and(Vec::is_empty);
        let follows = match lists.as_object().unwrap() {
            none if none.is_empty() => "all",
            lists if lists.values().any(empty) => "none",
            _ => "some",
        };
        assert_eq!(ack["follows"], follows, "{lists}");
        listening.push((socket, lists.to_string(), passing));
    }
    let seq = nats.publish(three_races(1)).await;
    railbird.until_published(seq).await;
    for (socket, filter, passing) in &mut listening {
        let (received, _) = socket.request(&json!({ "op": "resync" })).await;
        assert_eq!(
            (races(&received), received.len()),
            (passing.clone(), passing.len()),
            "{filter}"
        );
        let images = socket.until("snapshot_complete").await;
        assert_eq!(races(&images), *passing, "{filter}");
    }
}

#[tokio::test]
async fn kinds_of_messages_are_selected_and_snapshots_are_odds() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let seq = nats
        .publish([
            card(DAY, "ST", 1, 2),
            odds("ST", 1, &second(0), &[2.0, 3.0]),
        ])
        .await;
    railbird.until_published(seq).await;
    let kinds = [
        "odds_update",
        "status_update",
        "runner_update",
        "result_update",
    ];
    let mut listening = Vec::new();
    for kind in kinds {
        let (socket, opening) = railbird.live(&format!("events={kind}")).await;
        let images = opening.iter().filter(|m| m["snapshot"] == true).count();
        assert_eq!(images, usize::from(kind == "odds_update"), "{kind}");
        assert_eq!(opening.last().unwrap()["races"], images);
        listening.push(socket);
    }
    let seq = nats
        .publish([
            withdrawn("ST", 1, &second(1), "H2"),
            status("ST", 1, &second(2), "off"),
            result(DAY, "ST", 1, 1, 1),
        ])
        .await;
    railbird.until_published(seq).await;
    for (socket, kind) in listening.iter_mut().zip(kinds) {
        let (received, _) = socket.request(&json!({ "op": "resync" })).await;
        assert!(
            !received.is_empty() && received.iter().all(|m| m["event"] == kind),
            "{kind}: {received:?}"
        );
    }
    // Odds that are subscribed to later start with snapshots, although the races were followed before.
    let seq = nats.publish([odds("ST", 2, &second(3), &[2.0])]).await;
    railbird.until_published(seq).await;
    let socket = &mut listening[1];
    socket.until("snapshot_complete").await;
    let (_, ack) = socket
        .request(&json!({ "op": "subscribe", "events": ["odds_update", "status_update"] }))
        .await;
    assert_eq!(ack["events"], json!(["odds_update", "status_update"]));
    assert_eq!(
        events(&socket.until("snapshot_complete").await),
        ["odds_update", "snapshot_complete"]
    );
    let (_, ack) = socket
        .request(&json!({ "op": "subscribe", "events": [] }))
        .await;
    assert_eq!(ack["events"], json!([]));
    socket.until("snapshot_complete").await;
    let seq = nats.publish([odds("ST", 2, &second(4), &[2.5])]).await;
    railbird.until_published(seq).await;
    assert_eq!(
        socket.request(&json!({ "op": "resync" })).await.0.len(),
        0,
        "an empty list lets nothing pass"
    );
}

#[tokio::test]
async fn a_horse_on_a_new_card_selects_its_race() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let seq = nats.publish([quote(DAY, "ST", 1, 0, "OTHER")]).await;
    railbird.until_published(seq).await;
    let (mut socket, opening) = railbird.live("horse=LATE").await;
    assert_eq!(opening.last().unwrap()["races"], 0);
    let card_seq = nats
        .publish([
            quote(DAY, "ST", 1, 1, "OTHER"),
            card_of(DAY, "ST", 1, "LATE"),
        ])
        .await;
    let declared = socket.next().await.unwrap();
    let image = socket.next().await.unwrap();
    assert_eq!(
        [&declared, &image].map(|message| (event_of(message), seq_of(message))),
        [("card_update", card_seq), ("odds_update", card_seq)],
        "the race is followed from here on"
    );
    assert_eq!(image["runners"][0]["horse_no"], "OTHER");
    let seq = nats.publish([status("ST", 1, &second(2), "off")]).await;
    assert_eq!(socket.next().await.unwrap()["seq"], seq);
}

#[tokio::test]
async fn an_invalid_filter_is_rejected_before_the_upgrade() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let many = |count: usize| format!("race={}", vec!["1"; count].join(","));
    let long = format!("venue={}", "x".repeat(257));
    for query in [
        "date=2026-13-01",
        "date=",
        "date=2026-10-03,",
        "race=0",
        "race=x",
        "race=",
        "race=ST/",
        "race=ST/x",
        "race=2026-13-01/1",
        "race=2026-13-01/ST/1",
        "race=ST/2026-10-03/1",
        "race=none,1",
        "date=none,2026-10-03",
        "horse=",
        "horse=a%20b%2F",
        "events=",
        "events=odds",
        "events=odds_update,",
        "conflate_ms=60001",
        "conflate_ms=-1",
        "conflate_ms=x",
        "heartbeat_ms=999",
        "heartbeat_ms=60001",
        "since=x",
        "since=-1",
        &many(1001),
        &long,
    ] {
        let path = format!("/ws/live/odds?api_key={}&{query}", railbird.key);
        let reply = Socket::refused(railbird.http, &path).await;
        let error = reply.json()["error"].as_str().unwrap().to_owned();
        assert_eq!(reply.status, 400, "?{query:.40}: {}", reply.text());
        assert!(error.starts_with("invalid_"), "?{query:.40}: {error}");
    }
    railbird.live(&many(1000)).await;
}

#[tokio::test]
async fn one_race_of_today_is_followed_by_its_number() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let path =
        |race: &str, query: &str| format!("/ws/live/odds/{race}?api_key={}&{query}", railbird.key);
    let refused = async |race: &str, query: &str| {
        let reply = Socket::refused(railbird.http, &path(race, query)).await;
        (
            reply.status,
            reply.json()["error"].as_str().unwrap().to_owned(),
        )
    };
    assert_eq!(
        refused("1", "").await,
        (404, "not_found".to_owned()),
        "there is no meeting today"
    );
    let today = railbird.app.clock.today().to_string();
    let seq = nats
        .publish([
            card(&today, "HV", 1, 1),
            card(&today, "ST", 1, 1),
            odds_on(&today, "HV", 1, &second(0), &[2.0]),
            odds_on(&today, "ST", 1, &second(0), &[2.0]),
            odds_on(&today, "ST", 2, &second(0), &[2.0]),
            odds_on("2031-01-01", "ST", 1, &second(0), &[2.0]),
        ])
        .await;
    railbird.until_published(seq).await;
    for (race, query, venue) in [
        ("1", "", "ST"),
        ("1", "venue=HV", "HV"),
        ("1", "venue=happy%20valley", "HV"),
        // It is quoted, and on no card.
        ("2", "", "ST"),
    ] {
        let mut socket = Socket::connect(railbird.http, &path(race, query)).await;
        let opening = socket.until("snapshot_complete").await;
        let number: u64 = race.parse().unwrap();
        assert_eq!(
            (&opening[0]["follows"], &opening[0]["filter"]),
            (
                &json!("some"),
                &json!({ "races": [{ "date": today, "venue": venue, "race_number": number }] })
            )
        );
        let followed = BTreeSet::from([format!("{venue} {race}")]);
        assert_eq!(races(&opening), followed, "{race} {query}");
    }
    for (race, query) in [("1", "venue=XX"), ("99", ""), ("2", "venue=HV")] {
        let refused = refused(race, query).await;
        assert_eq!(refused, (404, "not_found".to_owned()), "{race} {query}");
    }
    for race in ["0", "x", "-1", "1.5", "100000"] {
        assert_eq!(
            refused(race, "").await,
            (400, "invalid_race_number".to_owned()),
            "{race}"
        );
    }
}

/// Race numbers as in a message.
fn numbered(numbers: &BTreeSet<u64>) -> Value {
    numbers
        .iter()
        .map(|n| json!({ "race_number": n }))
        .collect()
}

/// What a client received between two changes of its filter.
#[derive(Debug, Default)]
struct Stretch {
    followed: BTreeSet<u64>,
    /// The `seq` of the answer that put the filter in force.
    started: u64,
    snapshots: BTreeMap<Race, u64>,
    /// The `seq` of the end of the snapshots.
    complete: u64,
    received: Vec<(String, Race, u64)>,
}

/// Publishes odds and statuses of races 1 to 5. Returns the last log sequence.
async fn publish_updates(log: Log, updates: u64) -> u64 {
    let mut last = 0;
    for n in 1..=updates {
        let race = u16::try_from(n % 5).unwrap() + 1;
        let fact = match n % 7 {
            0 => status(
                "ST",
                race,
                &second(n),
                if n % 2 == 0 { "open" } else { "closed" },
            ),
            _ => odds("ST", race, &second(n), &[2.0]),
        };
        last = log.append(outgoing(&fact)).await.unwrap().seq;
    }
    last
}

/// Receives what follows the answer to a subscription, up to the end of the snapshots.
async fn receive_snapshots(
    socket: &mut Socket,
    followed: BTreeSet<u64>,
    ack: &Value,
    proof: &mut Proof,
) -> Stretch {
    let mut stretch = Stretch {
        followed,
        started: seq_of(ack),
        ..Stretch::default()
    };
    for message in socket.until("snapshot_complete").await {
        proof.take(&message);
        if message["snapshot"] == true {
            assert!(
                stretch
                    .snapshots
                    .insert(race_of(&message), seq_of(&message))
                    .is_none()
            );
        } else if message["event"] == "snapshot_complete" {
            assert_eq!(message["id"], ack["id"]);
            stretch.complete = seq_of(&message);
        } else {
            stretch.received.push(position_of(&message));
        }
    }
    stretch
}

#[tokio::test]
async fn changing_filters_while_odds_move_loses_and_repeats_nothing() {
    const UPDATES: u64 = 3_000;
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    nats.publish((1..=5).map(|n| odds("ST", n, &second(0), &[2.0])))
        .await;
    railbird.until_published(5).await;
    let (mut everything, _) = railbird.live("").await;
    let (mut changing, _) = railbird.live("venue=XX").await;
    let publishing = tokio::spawn(publish_updates(nats.log().await, UPDATES));
    let truth = tokio::spawn(async move {
        let mut truth = Vec::new();
        while truth.last().is_none_or(|m| seq_of(m) < 5 + UPDATES) {
            truth.push(everything.next().await.unwrap());
        }
        truth
    });

    let mut stretches = vec![Stretch::default()];
    let (mut next, mut proof) = (0_u64, Proof::default());
    while !publishing.is_finished() {
        next += 1;
        // Each set shares some races with the one before.
        let followed: BTreeSet<u64> = (1..=5)
            .filter(|n| (next * 7 + n * 3) % 5 < 3 || next % 6 == 0)
            .collect();
        let request = json!({ "op": "subscribe", "id": next, "races": numbered(&followed) });
        let (before, ack) = changing.request(&request).await;
        proof.take_all(&before);
        proof.0.retain(|(_, race), _| followed.contains(&race.2));
        stretches
            .last_mut()
            .unwrap()
            .received
            .extend(before.iter().map(position_of));
        let stretch = receive_snapshots(&mut changing, followed, &ack, &mut proof).await;
        stretches.push(stretch);
        // A client may send 100 requests at once, and then 20 a second.
        let pause = if next < 90 { 25 } else { 55 };
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    let last = publishing.await.unwrap();
    railbird.until_published(last).await;
    let (rest, ack) = changing.request(&json!({ "op": "unsubscribe" })).await;
    stretches
        .last_mut()
        .unwrap()
        .received
        .extend(rest.iter().map(position_of));
    stretches.push(Stretch {
        started: seq_of(&ack),
        ..Stretch::default()
    });
    let truth: Vec<_> = truth.await.unwrap().iter().map(position_of).collect();
    assert!(stretches.len() > 20, "{} changes", stretches.len());
    for pair in stretches.windows(3) {
        check_stretch(&pair[0], &pair[1], pair[2].started, &truth);
    }
}

fn position_of(message: &Value) -> (String, Race, u64) {
    (
        event_of(message).to_owned(),
        race_of(message),
        seq_of(message),
    )
}

/// Compares what was sent under one filter with what a client that follows everything was sent.
fn check_stretch(before: &Stretch, stretch: &Stretch, end: u64, truth: &[(String, Race, u64)]) {
    let is_new = |race: &Race| !before.followed.contains(&race.2);
    let expected: Vec<_> = truth
        .iter()
        .filter(|(event, race, seq)| {
            // Odds of newly followed races start after the image.
            let from = if is_new(race) && event == "odds_update" {
                stretch.complete
            } else {
                stretch.started
            };
            stretch.followed.contains(&race.2) && (from + 1..=end).contains(seq)
        })
        .cloned()
        .collect();
    assert_eq!(
        stretch.received, expected,
        "from {} to {end}, complete at {}",
        stretch.started, stretch.complete
    );
    let imaged: BTreeSet<u64> = stretch.snapshots.keys().map(|race| race.2).collect();
    assert_eq!(
        imaged,
        stretch
            .followed
            .difference(&before.followed)
            .copied()
            .collect(),
        "images of what is new alone"
    );
    for (race, seq) in &stretch.snapshots {
        let shown = truth.iter().filter(|(event, of, at)| {
            event == "odds_update" && of == race && *at <= stretch.complete
        });
        assert_eq!(*seq, shown.map(|(_, _, at)| *at).max().unwrap_or(*seq));
    }
}

#[tokio::test]
async fn prev_seq_is_the_same_for_everyone() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    nats.publish((1..=4).map(|n| odds("ST", n, &second(0), &[2.0])))
        .await;
    railbird.until_published(4).await;
    let (mut all, opening) = railbird.live("").await;
    let (mut some, some_opening) = railbird.live("race=2,3&events=odds_update").await;
    let (mut proof, mut some_proof) = (Proof::default(), Proof::default());
    proof.take_all(&opening);
    some_proof.take_all(&some_opening);
    let facts = (1..200).map(|n| match n % 9 {
        0 => status(
            "ST",
            2,
            &second(n),
            if n % 2 == 0 { "open" } else { "closed" },
        ),
        _ => odds("ST", u16::try_from(n % 4).unwrap() + 1, &second(n), &[2.0]),
    });
    let seq = nats.publish(facts).await;
    railbird.until_published(seq).await;
    let (received, _) = all.request(&json!({ "op": "resync" })).await;
    let (some_received, _) = some.request(&json!({ "op": "resync" })).await;
    proof.take_all(&received);
    some_proof.take_all(&some_received);
    let wanted = |m: &&Value| event_of(m) == "odds_update" && [2, 3].contains(&race_of(m).2);
    assert_eq!(
        some_received,
        received.iter().filter(wanted).cloned().collect::<Vec<_>>(),
        "byte for byte the same"
    );
}
