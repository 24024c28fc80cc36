//! Client messages and their answers.

use serde_json::{Value, json};

use super::{events, races, seq_of};
use crate::support::*;

const OPENING: &str = "events=odds_update,status_update&conflate_ms=0&heartbeat_ms=60000";

async fn with_races() -> (Nats, Railbird) {
    super::with_odds(&[("ST", 1), ("ST", 2), ("HV", 1)]).await
}

/// Texts without a known op.
const INVALID_MESSAGES: [&str; 11] = [
    "",
    "nonsense",
    "{",
    "[]",
    "null",
    "\"subscribe\"",
    "{}",
    r#"{"id":"a"}"#,
    r#"{"op":1}"#,
    r#"{"op":null,"id":1}"#,
    r#"{"op":"ping"} {"op":"ping"}"#,
];

/// Messages with an unknown op.
const UNKNOWN_OPS: [&str; 2] = [r#"{"op":"Subscribe"}"#, r#"{"op":""}"#];

/// Requests with an invalid field.
const INVALID_PARAMETERS: [&str; 19] = [
    r#"{"op":"subscribe","dates":"2026-10-03"}"#,
    r#"{"op":"subscribe","dates":["2026-10-32"]}"#,
    r#"{"op":"subscribe","venues":[1]}"#,
    r#"{"op":"subscribe","races":[1]}"#,
    r#"{"op":"subscribe","races":[{"venue":"ST"}]}"#,
    r#"{"op":"subscribe","races":[{"race_number":0}]}"#,
    r#"{"op":"subscribe","horses":["a b"]}"#,
    r#"{"op":"subscribe","events":["heartbeat"]}"#,
    r#"{"op":"subscribe","events":"odds_update"}"#,
    r#"{"op":"subscribe","conflate_ms":60001}"#,
    r#"{"op":"subscribe","conflate_ms":-1}"#,
    r#"{"op":"subscribe","conflate_ms":"5"}"#,
    r#"{"op":"subscribe","heartbeat_ms":5}"#,
    r#"{"op":"subscribe","heartbeat_ms":60001}"#,
    r#"{"op":"subscribe","since":"1"}"#,
    r#"{"op":"subscribe","since":1,"epoch":2}"#,
    r#"{"op":"subscribe","venue":["ST"]}"#,
    r#"{"op":"subscribe","races":[{"race_number":1,"venues":"ST"}]}"#,
    r#"{"op":"ping","ids":1}"#,
];

/// Requests that name a list that is not in force.
const NOT_SUBSCRIBED: [&str; 2] = [
    r#"{"op":"unsubscribe","venues":["ST"]}"#,
    r#"{"op":"unsubscribe","races":[]}"#,
];

#[tokio::test]
async fn invalid_requests_are_answered_by_an_error_and_change_nothing() {
    let (_nats, railbird) = with_races().await;
    let (mut socket, _) = railbird.live(OPENING).await;
    let (_, in_force) = socket.request(&json!({ "op": "ping" })).await;
    let many = vec!["H1"; 1_001];
    let half = vec!["H1"; 501];
    let date = vec!["2026-10-03"; 500];
    let too_large = [
        json!({ "op": "subscribe", "horses": many }).to_string(),
        json!({ "op": "subscribe", "horses": half, "dates": date }).to_string(),
        json!({ "op": "subscribe", "venues": ["x".repeat(257)] }).to_string(),
    ];
    let too_large = too_large.iter().map(String::as_str);
    let with = |error: &'static str| move |text| (text, error);
    let wrong = INVALID_MESSAGES
        .map(with("invalid_message"))
        .into_iter()
        .chain(UNKNOWN_OPS.map(with("unknown_op")))
        .chain(
            INVALID_PARAMETERS
                .into_iter()
                .chain(too_large)
                .map(with("invalid_parameter")),
        )
        .chain(NOT_SUBSCRIBED.map(with("not_subscribed")));
    for (text, error) in wrong {
        socket.send_text(text).await;
        let answer = socket.next().await.unwrap();
        assert_eq!(
            (&answer["event"], &answer["error"]),
            (&json!("error"), &json!(error)),
            "{text:.60}"
        );
        assert!(
            answer["message"]
                .as_str()
                .is_some_and(|message| !message.is_empty()),
            "{text:.60}"
        );
    }
    let (before, still) = socket.request(&json!({ "op": "ping" })).await;
    assert_eq!(before, [""; 0], "an error causes nothing");
    for field in [
        "follows",
        "filter",
        "events",
        "conflate_ms",
        "heartbeat_ms",
        "seq",
    ] {
        assert_eq!(still[field], in_force[field], "{field}");
    }
}

#[tokio::test]
async fn answers_repeat_the_id_unchanged() {
    let (_nats, railbird) = with_races().await;
    let (mut socket, _) = railbird.live(OPENING).await;
    for id in [
        json!("1"),
        json!(""),
        json!("ü \" \\"),
        json!(7),
        json!(-1),
        json!(1.5),
        json!(u64::MAX),
    ] {
        for op in ["ping", "resync", "subscribe", "unsubscribe", "nonsense"] {
            let (_, answer) = socket.request(&json!({ "op": op, "id": id })).await;
            assert_eq!(answer["id"], id, "{op}");
            if op == "nonsense" {
                assert_eq!(answer["event"], "error");
                continue;
            }
            assert_eq!(
                (&answer["event"], &answer["op"]),
                (&json!("ack"), &json!(op))
            );
            if op == "resync" || op == "subscribe" {
                assert_eq!(
                    socket.until("snapshot_complete").await.last().unwrap()["id"],
                    id,
                    "{op}"
                );
            }
        }
    }
    for request in [
        json!({ "op": "resync" }),
        json!({ "op": "resync", "id": null }),
    ] {
        let (_, answer) = socket.request(&request).await;
        assert_eq!(
            (&answer["event"], &answer["id"]),
            (&json!("ack"), &Value::Null)
        );
        assert!(
            socket
                .until("snapshot_complete")
                .await
                .last()
                .unwrap()
                .get("id")
                .is_none()
        );
    }
}

#[tokio::test]
async fn a_subscription_replaces_the_one_before() {
    let (nats, railbird) = with_races().await;
    let (mut socket, _) = railbird.live(&format!("{OPENING}&venue=ST")).await;
    // Races that were followed before get no new image; new ones do.
    let all = json!({ "op": "subscribe" });
    let (before, ack) = socket.request(&all).await;
    assert_eq!(
        (before.len(), &ack["follows"], &ack["filter"]),
        (0, &json!("all"), &json!({}))
    );
    assert_eq!(
        (&ack["events"], &ack["conflate_ms"], &ack["heartbeat_ms"]),
        (
            &json!(["odds_update", "status_update"]),
            &json!(0),
            &json!(60_000)
        ),
        "what is left out stays"
    );
    let images = socket.until("snapshot_complete").await;
    assert_eq!(images.len(), 2, "{images:?}");
    assert_eq!(
        (&images[0]["venue_code"], &images[1]["races"]),
        (&json!("HV"), &json!(1))
    );
    let (_, _) = socket.request(&all).await;
    assert_eq!(
        events(&socket.until("snapshot_complete").await),
        ["snapshot_complete"],
        "nothing is new"
    );

    let request = json!({ "op": "subscribe", "races": [{ "race_number": 2 }], "events": ["odds_update"], "conflate_ms": 50, "heartbeat_ms": 2000 });
    let (_, ack) = socket.request(&request).await;
    assert_eq!(
        (
            &ack["events"],
            &ack["conflate_ms"],
            &ack["heartbeat_ms"],
            &ack["filter"]
        ),
        (
            &json!(["odds_update"]),
            &json!(50),
            &json!(2000),
            &json!({ "races": [{ "race_number": 2 }] })
        )
    );
    socket.until("snapshot_complete").await;
    let (_, ack) = socket
        .request(&json!({ "op": "subscribe", "venues": ["HV"], "conflate_ms": 0 }))
        .await;
    assert_eq!(
        ack["filter"],
        json!({ "venues": ["HV"] }),
        "without a list, it is not in force"
    );
    socket.until("snapshot_complete").await;
    let last = nats
        .publish([
            odds("ST", 2, &second(1), &[3.0]),
            odds("ST", 1, &second(1), &[3.0]),
            odds("HV", 1, &second(1), &[3.0]),
        ])
        .await;
    let message = socket.next().await.unwrap();
    assert_eq!((seq_of(&message), &message["prev_seq"]), (last, &json!(3)));
}

fn unsubscribe(mut lists: Value) -> Value {
    lists["op"] = json!("unsubscribe");
    lists
}

#[tokio::test]
async fn unsubscribe_removes_values() {
    let (nats, railbird) = with_races().await;
    let (mut socket, _) = railbird
        .live("venue=ST,HV&race=1,2&date=2026-10-03&horse=H1")
        .await;
    let (_, ack) = socket
        .request(&unsubscribe(
            json!({ "venues": ["HV", "XX"], "races": [{ "race_number": 2 }] }),
        ))
        .await;
    let filter = json!({ "dates": [DAY], "venues": ["ST"], "races": [{ "race_number": 1 }], "horses": ["H1"] });
    assert_eq!((&ack["follows"], &ack["filter"]), (&json!("some"), &filter));
    let (_, ack) = socket.request(&unsubscribe(json!({ "events": ["result_update"], "venues": ["ST"], "races": [{ "race_number": 1 }] }))).await;
    assert_eq!(ack["event"], "ack", "all of these are in force");
    assert_eq!(
        (&ack["follows"], &ack["events"]),
        (
            &json!("none"),
            &json!([
                "odds_update",
                "status_update",
                "runner_update",
                "dividends_update",
                "card_update"
            ])
        ),
        "an empty list selects no race"
    );
    socket
        .request(&json!({ "op": "subscribe", "venues": ["ST"] }))
        .await;
    socket.until("snapshot_complete").await;
    let (_, error) = socket
        .request(&unsubscribe(json!({ "venues": ["ST"], "dates": [DAY] })))
        .await;
    assert_eq!(
        (&error["event"], &error["error"]),
        (&json!("error"), &json!("not_subscribed"))
    );
    let seq = nats.publish([odds("ST", 1, &second(1), &[3.0])]).await;
    assert_eq!(
        seq_of(&socket.next().await.unwrap()),
        seq,
        "nothing has changed"
    );
}

#[tokio::test]
async fn unsubscribe_without_lists_follows_nothing() {
    let (nats, railbird) = with_races().await;
    let (mut socket, _) = railbird
        .live("venue=ST&events=odds_update,status_update,runner_update")
        .await;
    let (_, ack) = socket.request(&unsubscribe(json!({}))).await;
    assert_eq!(ack["follows"], "none");
    let seq = nats.publish([odds("ST", 1, &second(2), &[3.5])]).await;
    railbird.until_published(seq).await;
    let (before, _) = socket.request(&json!({ "op": "resync" })).await;
    assert_eq!(before, [""; 0], "nothing is followed");
    assert_eq!(
        socket.until("snapshot_complete").await.last().unwrap()["races"],
        0
    );
    socket.request(&json!({ "op": "subscribe" })).await;
    assert_eq!(
        races(&socket.until("snapshot_complete").await).len(),
        3,
        "all is new again"
    );
    let (_, ack) = socket
        .request(&unsubscribe(json!({ "events": ["odds_update"] })))
        .await;
    assert_eq!(
        (&ack["follows"], &ack["events"]),
        (&json!("all"), &json!(["status_update", "runner_update"]))
    );
    let last = nats
        .publish([
            odds("ST", 1, &second(3), &[4.0]),
            status("ST", 1, &second(3), "closed"),
        ])
        .await;
    assert_eq!(seq_of(&socket.next().await.unwrap()), last);
}

#[tokio::test]
async fn a_resync_sends_pending_messages_and_then_each_followed_open_race() {
    let (nats, railbird) = with_races().await;
    let (mut socket, _) = railbird.live("venue=ST").await;
    let seq = nats
        .publish([
            odds("ST", 1, &second(1), &[3.0]),
            odds("ST", 2, &second(2), &[3.5]),
        ])
        .await;
    railbird.until_published(seq).await;
    let (before, ack) = socket.request(&json!({ "op": "resync", "id": 5 })).await;
    assert_eq!((before.len(), seq_of(&ack)), (2, seq));
    let images = socket.until("snapshot_complete").await;
    assert_eq!(
        events(&images),
        ["odds_update", "odds_update", "snapshot_complete"]
    );
    let image = |n: usize| {
        (
            &images[n]["snapshot"],
            &images[n]["race_number"],
            seq_of(&images[n]),
        )
    };
    assert_eq!(
        (image(0), image(1)),
        ((&json!(true), &json!(1), 4), (&json!(true), &json!(2), 5))
    );
    let (before, ack) = socket.request(&json!({ "op": "ping", "id": 6 })).await;
    assert_eq!(
        (before.len(), &ack["op"], &ack["id"], seq_of(&ack)),
        (0, &json!("ping"), &json!(6), seq)
    );
}

#[tokio::test]
async fn since_in_a_subscription_replays_matching_messages() {
    let (nats, railbird) = with_races().await;
    let (mut socket, opening) = railbird.live("venue=HV").await;
    let epoch = opening[0]["epoch"].clone();
    let seq = nats
        .publish((1..=20).map(|n| match n {
            10 => status("ST", 1, &second(n), "closed"),
            _ => odds("ST", u16::try_from(n % 2).unwrap() + 1, &second(n), &[3.0]),
        }))
        .await;
    railbird.until_published(seq).await;
    // The same time in another form.
    let recorded_at = nats.recorded_at(3).await.replace('Z', "+00:00");
    let request = json!({
        "op": "subscribe", "id": "again", "races": [{ "race_number": 1, "venue": "ST" }],
        "since": 3, "recorded_at": recorded_at, "epoch": epoch,
    });
    let (before, ack) = socket.request(&request).await;
    assert_eq!((before.len(), &ack["recovered"]), (0, &json!(true)));
    let received = socket.until("snapshot_complete").await;
    let (done, received) = received.split_last().unwrap();
    let seqs: Vec<u64> = received.iter().map(seq_of).collect();
    assert_eq!(seqs, [5, 7, 9, 11, 13, 15, 17, 19, 21, 23], "{received:?}");
    assert_eq!(
        (&done["replayed"], &done["id"], &done["races"], seq_of(done)),
        (&json!(received.len()), &json!("again"), &json!(0), seq)
    );
    let next = nats.publish([odds("ST", 1, &second(30), &[4.0])]).await;
    assert_eq!(
        seq_of(&socket.next().await.unwrap()),
        next,
        "and then the live ones"
    );

    let request = json!({ "op": "subscribe", "since": 3, "epoch": "another" });
    let (_, ack) = socket.request(&request).await;
    assert_eq!(
        (&ack["recovered"], &ack["reason"]),
        (&json!(false), &json!("other_epoch"))
    );
    assert_eq!(
        races(&socket.until("snapshot_complete").await).len(),
        3,
        "fresh snapshots, also of what was followed"
    );
    let (_, ack) = socket
        .request(&json!({ "op": "subscribe", "since": 1_000_000 }))
        .await;
    assert_eq!(
        (&ack["recovered"], &ack["reason"]),
        (&json!(false), &json!("ahead"))
    );
    assert_eq!(
        socket.until("snapshot_complete").await.last().unwrap()["races"],
        3
    );
}
