//! Every message of the service to the byte, except for values that differ from run to run. `UPDATE_GOLDEN=1` writes
//! the files again.

use std::path::Path;

use railbird::log::RACING;
use serde_json::{Value, json};

use crate::support::*;

/// Fields that differ from run to run, and their values in the files.
const DIFFERS: [(&str, &str); 6] = [
    ("recorded_at", "\"2026-10-03T04:00:00.123456Z\""),
    ("server_time", "\"2026-10-03T04:00:00.123456Z\""),
    ("last_event_at", "\"2026-10-03T04:00:00.123456Z\""),
    ("epoch", "\"0123456789abcdef\""),
    ("retry_after_ms", "1234"),
    ("lag_ms", "0"),
];

fn normalised(text: &str) -> String {
    let mut text = text.to_owned();
    for (name, fixed) in DIFFERS {
        let name = format!("\"{name}\":");
        if let Some(at) = text.find(&name) {
            let from = at + name.len();
            let length = text[from..].find([',', '}']).unwrap();
            text.replace_range(from..from + length, fixed);
        }
    }
    text
}

/// One field a line, with every token unchanged.
fn pretty(compact: &str) -> String {
    let (mut out, mut depth, mut in_text, mut escaped) = (String::new(), 0, false, false);
    let line = |depth: usize| format!("\n{}", "  ".repeat(depth));
    for c in compact.chars() {
        let punctuation = !in_text;
        in_text ^= c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        match c {
            '{' | '[' if punctuation => {
                depth += 1;
                out.extend([c.to_string(), line(depth)]);
            }
            '}' | ']' if punctuation => {
                depth -= 1;
                out.extend([line(depth), c.to_string()]);
            }
            ',' if punctuation => out.extend([c.to_string(), line(depth)]),
            ':' if punctuation => out.push_str(": "),
            _ => out.push(c),
        }
    }
    out + "\n"
}

fn check(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/live/{name}.json"));
    let actual = pretty(&normalised(text));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, actual).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == actual,
        "{} differs; UPDATE_GOLDEN=1 writes it again:\n{actual}",
        path.display()
    );
}

/// Compares the next messages, without heartbeats, with these files.
async fn check_next(socket: &mut Socket, names: &[&str]) {
    for name in names {
        let text = loop {
            let text = socket.next_text().await.unwrap();
            if !text.contains(r#""event":"heartbeat""#) {
                break text;
            }
        };
        check(name, &text);
    }
}

fn quote(n: u64, prices: &[f64]) -> Value {
    odds("ST", 1, &second(n), prices)
}

fn with_reason(reason: &str, mut event: Value) -> Value {
    event["data"]["reason"] = json!(reason);
    event
}

async fn check_updates(nats: &Nats, socket: &mut Socket) {
    nats.publish([quote(2, &[4.2, 1.45])]).await;
    check_next(socket, &["odds_update"]).await;
    nats.publish([with_reason(
        "a \"loose\" horse",
        status("ST", 1, &second(3), "closed"),
    )])
    .await;
    check_next(socket, &["status_update"]).await;
    let rider = json!({ "horse_no": "H1", "jockey": "N Ewrider", "weight": 120 });
    nats.publish([of_today("rider.changed", "ST", 1, &second(4), rider)])
        .await;
    check_next(socket, &["runner_update_rider_changed"]).await;
    nats.publish([with_reason("lame", withdrawn("ST", 1, &second(5), "H2"))])
        .await;
    check_next(
        socket,
        &["runner_update_withdrawn", "odds_update_scratched"],
    )
    .await;
    let back = json!({ "horse_no": "H2" });
    nats.publish([of_today("runner.reinstated", "ST", 1, &second(6), back)])
        .await;
    check_next(
        socket,
        &["runner_update_reinstated", "odds_update_reinstated"],
    )
    .await;
    let going = json!({ "going": "SOFT" });
    nats.publish([of_today("going.changed", "ST", 1, &second(6), going)])
        .await;
    check_next(socket, &["card_update"]).await;
    let chosen = json!({ "op": "subscribe", "markets": ["win_place", "quinella"] });
    socket.send(&chosen).await;
    check_next(
        socket,
        &["ack_markets", "quote_snapshot", "snapshot_complete_markets"],
    )
    .await;
    let prices = json!([{ "combination": [1, 2], "odds": 7.5 }, { "combination": [1, 3], "state": "suspended" }]);
    let quinella = json!({ "market": "quinella", "prices": prices });
    nats.publish([of_today("market.quoted", "ST", 1, &second(6), quinella)])
        .await;
    check_next(socket, &["quote"]).await;
    let none = json!({ "op": "unsubscribe", "markets": ["win_place", "quinella"] });
    let (_, ack) = socket.request(&none).await;
    assert_eq!(ack["markets"], Value::Null);
}

async fn check_requests(nats: &Nats, railbird: &Railbird, socket: &mut Socket) {
    let request = json!({
        "op": "subscribe", "id": "one", "dates": [DAY], "venues": ["Sha Tin"], "horses": ["H1"],
        "races": [{ "date": DAY, "venue": "ST", "race_number": 1 }, { "race_number": 2 }],
        "events": ["odds_update", "status_update"], "conflate_ms": 60_000, "heartbeat_ms": 60_000,
    });
    socket.send(&request).await;
    check_next(socket, &["ack", "snapshot_complete_asked"]).await;
    let seq = nats
        .publish([quote(7, &[5.0]), quote(8, &[6.0]), quote(9, &[7.0])])
        .await;
    railbird.until_published(seq).await;
    let seq = nats.publish([status("ST", 1, &second(10), "off")]).await;
    railbird.until_published(seq).await;
    check_next(socket, &["odds_update_conflated"]).await;
    let status_update = socket.next().await.unwrap();
    assert_eq!(status_update["event"], "status_update");
    socket
        .send(&json!({ "op": "subscribe", "heartbeat_ms": 5 }))
        .await;
    check_next(socket, &["error"]).await;
}

#[tokio::test]
async fn each_message_equals_its_golden_file() {
    let mut nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let seq = nats
        .publish([
            card(DAY, "ST", 1, 3),
            quote(0, &[3.5, 1.4]),
            quote(1, &[4.0, 1.4]),
        ])
        .await;
    railbird.until_published(seq).await;
    let mut socket = railbird.connect("").await;
    check_next(
        &mut socket,
        &["welcome", "odds_update_snapshot", "snapshot_complete"],
    )
    .await;

    check_updates(&nats, &mut socket).await;
    check_requests(&nats, &railbird, &mut socket).await;

    let mut socket = railbird.connect("heartbeat_ms=1000").await;
    socket.until("snapshot_complete").await;
    check("heartbeat", &socket.next_text().await.unwrap());
    nats.publish([result(DAY, "ST", 1, 2, 1)]).await;
    check_next(&mut socket, &["result_update", "status_update_result"]).await;
    let voided = json!({ "revision": 2, "reason": "wrong course" });
    nats.publish([of_today("result.voided", "ST", 1, &second(99), voided)])
        .await;
    check_next(&mut socket, &["result_update_void"]).await;
    socket.until_one(|m| m["event"] == "status_update").await;
    nats.publish([dividends(DAY, "ST", 1, 1)]).await;
    check_next(&mut socket, &["dividends_update"]).await;

    nats.kill();
    nats.lose(RACING.name);
    nats.start_again();
    railbird.accept_log(RACING).await;
    check_next(&mut socket, &["resync"]).await;
    let stopping = tokio::spawn(railbird.stop());
    socket.until("snapshot_complete").await;
    check_next(&mut socket, &["closing"]).await;
    stopping.await.unwrap();
}
