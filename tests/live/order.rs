//! Messages and their order.

use serde_json::{Value, json};

use super::{event_of, events, races};
use crate::support::*;

fn seqs(messages: &[Value], race_number: u16) -> Vec<(u64, u64)> {
    let of_race = messages
        .iter()
        .filter(|m| m["event"] == "odds_update" && m["race_number"] == race_number);
    of_race
        .map(|m| (m["prev_seq"].as_u64().unwrap(), m["seq"].as_u64().unwrap()))
        .collect()
}

/// The images of races 1 and 2, without race 3, which is over.
fn check_opening(opening: &[Value]) {
    assert_eq!(opening[0]["event"], "welcome");
    assert_eq!(opening.last().unwrap()["races"], 2, "race 3 is over");
    assert!(opening[1..3].iter().all(|m| m["snapshot"] == true));
    assert_eq!(
        (seqs(opening, 1), seqs(opening, 2), seqs(opening, 3)),
        (vec![(4, 6)], vec![(0, 5)], vec![])
    );
    let image = &opening[1];
    assert_eq!(
        (&image["date"], &image["venue"], &image["venue_code"]),
        (&json!(DAY), &json!("Sha Tin"), &json!("ST"))
    );
    assert_eq!(image["runners"][0]["horse_no"], "H1");
    assert_eq!(
        (&image["runners"][0]["win"], &image["runners"][0]["number"]),
        (&json!(3.6), &json!(1))
    );
}

#[tokio::test]
async fn a_socket_gets_the_open_races_and_then_every_update_in_order() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    nats.publish([
        card(DAY, "ST", 1, 2),
        card(DAY, "ST", 2, 2),
        card(DAY, "ST", 3, 2),
    ])
    .await;
    let seq = nats
        .publish([
            odds("ST", 1, &second(0), &[3.5, 1.4]),
            odds("ST", 2, &second(1), &[2.0, 2.0]),
            odds("ST", 1, &second(2), &[3.6, 1.4]),
            odds("ST", 3, &second(3), &[9.0, 1.1]),
            status("ST", 3, &second(5), "finished"),
        ])
        .await;
    railbird.until_published(seq).await;

    let mut socket = Socket::open(railbird.http, &railbird.key).await;
    let opening = socket.until("snapshot_complete").await;
    check_opening(&opening);

    nats.publish([
        odds("ST", 1, &second(7), &[3.7]),
        withdrawn("ST", 2, &second(6), "H2"),
        odds("ST", 1, &second(8), &[3.8]),
        odds("ST", 1, &second(1), &[99.0]),
    ])
    .await;
    let last = nats.publish([odds("ST", 2, &second(9), &[2.5])]).await;
    let mut updates = Vec::new();
    while updates.last().is_none_or(|m: &Value| m["seq"] != last) {
        updates.push(socket.next().await.unwrap());
    }
    let received: Vec<&str> = updates
        .iter()
        .map(|m| m["event"].as_str().unwrap())
        .collect();
    let image = "odds_update";
    assert_eq!(received, [image, "runner_update", image, image, image]);
    assert_eq!(
        seqs(&updates, 1),
        [(6, 9), (9, 11)],
        "the stale quote is no update"
    );
    assert_eq!(seqs(&updates, 2), [(5, 10), (10, 13)]);
    let runners = |m: &Value| m["runners"].as_array().unwrap().len();
    assert!(
        updates
            .iter()
            .filter(|m| m["event"] == image)
            .all(|m| runners(m) == 2),
        "each message is a full image"
    );
    let scratched = &updates.iter().rfind(|m| m["seq"] == 10).unwrap()["runners"][1];
    assert_eq!(
        (&scratched["win"], &scratched["state"]),
        (&Value::Null, &json!("scratched"))
    );
    let board = railbird.get(&format!("/api/v1/odds/{DAY}/2")).await.json();
    assert_eq!(
        board["seq"], last,
        "a GET includes what the socket has sent"
    );
    assert_eq!(board["runners"], updates.last().unwrap()["runners"]);
}

#[tokio::test]
async fn sockets_that_join_while_odds_move_miss_nothing() {
    const UPDATES: u64 = 400;
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let publishing = {
        let log = nats.log().await;
        tokio::spawn(async move {
            for n in 0..UPDATES {
                #[expect(clippy::cast_precision_loss, reason = "small")]
                let prices = [2.0 + n as f64 / 10.0, 3.0];
                let race = u16::try_from(n % 2).unwrap() + 1;
                let quote = odds("ST", race, &second(n), &prices);
                log.append(outgoing(&quote)).await.unwrap();
            }
        })
    };
    let mut listeners = Vec::new();
    for _ in 0..8 {
        let (http, key) = (railbird.http, railbird.key.clone());
        listeners.push(tokio::spawn(async move {
            let mut socket = Socket::open(http, &key).await;
            let mut last = [0_u64; 3];
            while last.iter().max() != Some(&UPDATES) {
                let message = socket.next().await.unwrap();
                if message["event"] != "odds_update" {
                    continue;
                }
                let race = usize::try_from(message["race_number"].as_u64().unwrap()).unwrap();
                if message["snapshot"] != true {
                    assert_eq!(
                        message["prev_seq"], last[race],
                        "nothing missing, nothing twice"
                    );
                }
                last[race] = message["seq"].as_u64().unwrap();
            }
        }));
        let next = UPDATES.min(railbird.seq() + 20);
        railbird.until_seq(next).await;
    }
    publishing.await.unwrap();
    for listener in listeners {
        listener.await.unwrap();
    }
}

#[tokio::test]
async fn welcome_contains_the_values_in_force() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let seq = nats.publish([odds("ST", 1, &second(0), &[2.0])]).await;
    railbird.until_published(seq).await;
    let (_socket, opening) = railbird.live("").await;
    let welcome = &opening[0];
    let all = [
        "odds_update",
        "status_update",
        "runner_update",
        "result_update",
        "dividends_update",
        "card_update",
    ];
    assert_eq!(
        (
            &welcome["event"],
            &welcome["seq"],
            &welcome["follows"],
            &welcome["filter"]
        ),
        (&json!("welcome"), &json!(seq), &json!("all"), &json!({}))
    );
    assert_eq!(
        (
            &welcome["events"],
            &welcome["conflate_ms"],
            &welcome["heartbeat_ms"]
        ),
        (&json!(all), &json!(0), &json!(5000))
    );
    assert!(welcome.get("recovered").is_none() && welcome.get("reason").is_none());
    assert_eq!(welcome["epoch"].as_str().unwrap().len(), 16);
    let done = opening.last().unwrap();
    assert_eq!(
        (
            &done["seq"],
            &done["races"],
            &done["replayed"],
            done.get("id")
        ),
        (&json!(seq), &json!(1), &json!(0), None)
    );

    let query = "date=2026-10-03,2026-10-04&venue=st&race=1,2&horse=H1&events=result_update,odds_update\
                 &conflate_ms=250&heartbeat_ms=1000";
    let (_socket, opening) = railbird.live(query).await;
    let welcome = &opening[0];
    let filter = json!({
        "dates": ["2026-10-03", "2026-10-04"], "venues": ["st"], "races": [{ "race_number": 1 }, { "race_number": 2 }],
        "horses": ["H1"],
    });
    assert_eq!(
        (&welcome["follows"], &welcome["filter"]),
        (&json!("some"), &filter)
    );
    assert_eq!(
        (
            &welcome["events"],
            &welcome["conflate_ms"],
            &welcome["heartbeat_ms"]
        ),
        (
            &json!(["odds_update", "result_update"]),
            &json!(250),
            &json!(1000)
        )
    );
}

#[tokio::test]
async fn a_race_is_open_from_its_first_quote_until_it_is_over() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let statuses = [
        "scheduled",
        "open",
        "closed",
        "off",
        "finished",
        "abandoned",
    ];
    let seq = nats
        .publish((1..).zip(statuses).flat_map(|(n, is)| {
            [
                odds("ST", n, &second(0), &[2.0]),
                status("ST", n, &second(1), is),
            ]
        }))
        .await;
    railbird.until_published(seq).await;
    let seq = nats
        .publish([
            odds("ST", 7, &second(0), &[2.0]),
            result(DAY, "ST", 7, 1, 1),
            card(DAY, "ST", 8, 2),
            status("ST", 8, &second(1), "open"),
            odds_on("2027-06-01", "HV", 9, &second(0), &[2.0]),
        ])
        .await;
    railbird.until_published(seq).await;
    let (mut socket, opening) = railbird.live("").await;
    let images: Vec<_> = opening.iter().filter(|m| m["snapshot"] == true).collect();
    let shown = |m: &&Value| format!("{} {}", m["race_number"], m["status"].as_str().unwrap());
    assert_eq!(
        images.iter().map(shown).collect::<Vec<_>>(),
        ["1 scheduled", "2 open", "3 closed", "4 off", "9 scheduled"],
        "a status alone changes what the snapshot says; and no date within a year makes a difference"
    );
    assert_eq!(opening.last().unwrap()["races"], 5);

    // A result that is voided opens its race again, and so does a status.
    let voided = of_today(
        "result.voided",
        "ST",
        7,
        &second(2),
        json!({ "revision": 2, "reason": "wrong race" }),
    );
    let seq = nats
        .publish([voided, status("ST", 5, &second(3), "off")])
        .await;
    railbird.until_published(seq).await;
    let (before, _) = socket.request(&json!({ "op": "resync" })).await;
    assert!(
        before.iter().all(|m| m["event"] != "odds_update"),
        "{before:?}"
    );
    let again = socket.until("snapshot_complete").await;
    assert!(races(&again).contains("ST 5"), "{again:?}");
}

#[tokio::test]
async fn messages_of_one_event_are_sent_in_order_and_a_get_includes_them() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    nats.publish([
        card(DAY, "ST", 1, 3),
        odds("ST", 1, &second(0), &[2.0, 3.0, 4.0]),
    ])
    .await;
    railbird.until_published(2).await;
    let (mut socket, _) = railbird.live("").await;
    let rider = json!({ "horse_no": "H1", "jockey": "N Ewrider", "weight": 120 });
    nats.publish([
        withdrawn("ST", 1, &second(1), "H2"),
        of_today(
            "runner.reinstated",
            "ST",
            1,
            &second(2),
            json!({ "horse_no": "H2" }),
        ),
        of_today("rider.changed", "ST", 1, &second(3), rider),
        status("ST", 1, &second(4), "closed"),
        status("ST", 1, &second(5), "closed"),
        result(DAY, "ST", 1, 2, 1),
    ])
    .await;
    let mut received = Vec::new();
    while received.len() < 8 {
        let message = socket.next().await.unwrap();
        let seq = message["seq"].as_u64().unwrap();
        assert!(railbird.seq() >= seq, "a GET already knows");
        let more = &message[if message["event"] == "runner_update" {
            "change"
        } else {
            "status"
        }];
        received.push(format!(
            "{seq} {} {} {}",
            event_of(&message),
            message["prev_seq"],
            more.as_str().unwrap()
        ));
    }
    assert_eq!(
        received,
        [
            "3 runner_update 0 withdrawn",
            "3 odds_update 2 scheduled",
            "4 runner_update 3 reinstated",
            "4 odds_update 3 scheduled",
            "5 runner_update 4 rider_changed",
            "6 status_update 0 closed",
            "8 result_update 0 official",
            "8 status_update 6 result",
        ],
        "an event without effect, such as the second `closed`, is not sent"
    );
}

#[tokio::test]
async fn a_socket_continues_a_get_without_a_gap() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let seq = nats
        .publish((0..5).map(|n| odds("ST", 1, &second(n), &[2.0])))
        .await;
    railbird.until_published(seq).await;
    let reply = railbird.get(&format!("/api/v1/odds/{DAY}/1")).await;
    let board = reply.json();
    let known = format!(
        "since={}&recorded_at={}",
        board["seq"],
        board["recorded_at"].as_str().unwrap()
    );
    let last = nats
        .publish((5..9).map(|n| odds("ST", 1, &second(n), &[3.0])))
        .await;
    railbird.until_published(last).await;
    let (_socket, received) = railbird.live(&known).await;
    assert_eq!(
        (&received[0]["event"], &received[0]["recovered"]),
        (&json!("welcome"), &json!(true))
    );
    assert_eq!(seqs(&received, 1), [(5, 6), (6, 7), (7, 8), (8, 9)]);
    assert!(received.iter().all(|m| m.get("snapshot").is_none()));
    let done = received.last().unwrap();
    assert_eq!(
        (&done["replayed"], &done["races"], &done["seq"]),
        (&json!(4), &json!(0), &json!(last))
    );
    let (_socket, received) = railbird.live("since=100").await;
    assert_eq!(
        (&received[0]["recovered"], &received[0]["reason"]),
        (&json!(false), &json!("ahead"))
    );
    assert_eq!(
        events(&received),
        ["welcome", "odds_update", "snapshot_complete"]
    );
    let (_socket, received) = railbird
        .live(&format!("since={last}&epoch=0123456789abcdef"))
        .await;
    assert_eq!(
        (&received[0]["recovered"], &received[0]["reason"]),
        (&json!(false), &json!("other_epoch"))
    );
}

#[tokio::test]
async fn heartbeats_follow_the_interval_and_are_sent_at_once_when_health_changes() {
    let mut nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let seq = nats.publish([odds("ST", 1, &second(0), &[2.0])]).await;
    railbird.until_published(seq).await;
    let (mut often, _) = railbird.live("heartbeat_ms=1000").await;
    let (mut seldom, _) = railbird.live("heartbeat_ms=60000").await;
    let mut sent = Vec::new();
    for _ in 0..2 {
        let beat = often.next_or_heartbeat().await.unwrap();
        assert_eq!(
            (&beat["event"], &beat["seq"]),
            (&json!("heartbeat"), &json!(seq))
        );
        let feed = &beat["feed"];
        assert_eq!(
            (&feed["state"], &feed["lag_ms"]),
            (&json!("live"), &json!(0))
        );
        let board = railbird.get(&format!("/api/v1/odds/{DAY}/1")).await.json();
        assert_eq!(feed["last_event_at"], board["recorded_at"]);
        assert!(beat["server_time"].as_str().unwrap() > feed["last_event_at"].as_str().unwrap());
        sent.push(
            beat["server_time"]
                .as_str()
                .unwrap()
                .parse::<jiff::Timestamp>()
                .unwrap(),
        );
    }
    let apart = sent[1].duration_since(sent[0]).as_millis();
    assert!(apart >= 990, "two heartbeats in {apart} ms");

    nats.kill();
    until_feed_is(&mut seldom, "stale").await;
    nats.start_again();
    until_feed_is(&mut seldom, "live").await;
}

/// Waits for a heartbeat of a client that gets them only when the health of the feed changes.
async fn until_feed_is(socket: &mut Socket, state: &str) {
    loop {
        let beat = socket.next_or_heartbeat().await.unwrap();
        assert_eq!(beat["event"], "heartbeat");
        if beat["feed"]["state"] == state {
            return;
        }
    }
}
