//! The history of odds by choice: times, sources, runners, steps of time and other markets.

use serde_json::{Value, json};

use crate::support::*;

const PATH: &str = "/api/v1/odds/2026-10-03/1/history";

fn quote(source: &str, second_of: u64, prices: &[f64]) -> Value {
    let mut quote = odds("ST", 1, &second(second_of), prices);
    quote["source"] = json!(source);
    quote
}

fn pair(second_of: u64, combination: [u16; 2], price: f64) -> Value {
    let prices = json!([{ "combination": combination, "odds": price }]);
    let market = json!({ "market": "quinella", "prices": prices });
    event(
        "market.quoted",
        &second(second_of),
        of_race(DAY, "ST", 1, market),
    )
}

async fn list(railbird: &Railbird, query: &str, list: &str) -> Vec<Value> {
    let reply = railbird.get(&format!("{PATH}?{query}")).await;
    assert_eq!(reply.status, 200, "{query}: {}", reply.text());
    reply.json()[list].as_array().expect(list).clone()
}

fn seqs(rows: &[Value]) -> Vec<u64> {
    rows.iter()
        .map(|row| row["seq"].as_u64().unwrap())
        .collect()
}

/// A card, and quotes of two sources: at the sequences 2 to 7.
async fn quoted() -> (Nats, Railbird) {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let last = nats
        .publish([
            card(DAY, "ST", 1, 2),
            quote("tote", 1, &[3.0, 4.0]),
            quote("bookmaker", 2, &[3.2, 4.2]),
            quote("tote", 3, &[3.5]),
            quote("bookmaker", 4, &[3.3]),
            quote("tote", 5, &[3.1, 4.4]),
            // Older than the one before.
            quote("tote", 2, &[9.0, 9.0]),
        ])
        .await;
    railbird.until_seq(last).await;
    (nats, railbird)
}

#[tokio::test]
async fn a_history_is_chosen_by_source_runner_and_time_and_comes_newest_first() {
    let (_nats, railbird) = quoted().await;
    let all = list(&railbird, "", "history").await;
    assert_eq!(seqs(&all), [2, 3, 4, 5, 6, 7]);
    let rows = |query: &'static str| list(&railbird, query, "history");
    assert_eq!(seqs(&rows("source=bookmaker").await), [3, 5]);
    assert_eq!(seqs(&rows("runner=H2").await), [2, 3, 6, 7]);
    assert_eq!(seqs(&rows("last=2").await), [7, 6]);
    assert_eq!(seqs(&rows("source=tote&last=3").await), [7, 6, 4]);
    // A runner is named by its number as well. What is not about it is left out, the rest is as it was.
    let of_second = rows("runner=2&source=bookmaker").await;
    let mut expected = all[1].clone();
    expected["runners"].as_array_mut().unwrap().remove(0);
    assert_eq!(of_second, [expected]);
    let [third, fifth] = [2, 4].map(|index: usize| all[index]["recorded_at"].as_str().unwrap());
    let between = list(&railbird, &format!("from={third}&to={fifth}"), "history").await;
    let stored = all.iter().filter(|row| {
        let time = row["recorded_at"].as_str().unwrap();
        (third..fifth).contains(&time)
    });
    assert_eq!(between, stored.cloned().collect::<Vec<_>>());

    // Pages have each chosen row once.
    let mut pages = Vec::new();
    let mut path = format!("{PATH}?source=tote&limit=1");
    while !path.is_empty() {
        let page = railbird.get(&path).await.json();
        pages.extend(page["history"].as_array().unwrap().clone());
        path = page["next"].as_str().unwrap().to_owned();
    }
    assert_eq!(seqs(&pages), [2, 4, 6, 7]);
}

#[tokio::test]
async fn steps_open_with_the_price_before_them_and_leave_out_stale_quotes() {
    let (_nats, railbird) = quoted().await;
    // All quotes are in one step.
    let rows = list(&railbird, "every=87600h", "steps").await;
    let prices = ["horse_no", "open", "high", "low", "close", "quotes"];
    let row = |row: &Value| prices.map(|name| row[name].clone());
    let rows: Vec<_> = rows.iter().map(row).collect();
    let expected = [
        json!(["H1", 3.0, 3.5, 3.0, 3.1, 3]),
        json!(["H2", 4.0, 4.4, 4.0, 4.4, 2]),
    ];
    assert_eq!(json!(rows), json!(expected));
    let bookmaker = list(&railbird, "every=87600h&source=bookmaker&runner=1", "steps").await;
    assert_eq!(
        row(&bookmaker[0])[1..],
        [json!(3.2), json!(3.3), json!(3.2), json!(3.3), json!(2)]
    );
    assert_eq!(bookmaker.len(), 1);
    let csv = [("accept", "text/csv")];
    let csv = railbird
        .get_with(&format!("{PATH}?every=87600h&runner=1"), &csv)
        .await;
    assert_eq!(csv.text().lines().count(), 2, "{}", csv.text());
    let history = list(&railbird, "every=87600h", "history").await;
    assert_eq!(history, [json!(null); 0]);
}

#[tokio::test]
async fn another_market_has_its_history_from_the_log() {
    let (nats, railbird) = quoted().await;
    let first = nats.publish([pair(6, [1, 2], 7.5)]).await;
    let last = nats
        .publish([
            pair(7, [1, 2], 8.0),
            pair(7, [2, 3], 30.0),
            pair(5, [1, 2], 5.0),
        ])
        .await;
    railbird.until_seq(last).await;
    let rows = list(&railbird, "market=quinella", "history").await;
    assert_eq!(seqs(&rows), [first, last - 2, last - 1, last]);
    let stale: Vec<_> = rows.iter().map(|row| row["stale"] == true).collect();
    assert_eq!(stale, [false, false, false, true]);
    assert_eq!(
        rows[0]["prices"],
        json!([{ "combination": [1, 2], "odds": 7.5 }])
    );
    let steps = list(&railbird, "market=quinella&every=87600h&runner=1", "steps").await;
    let [step] = &steps[..] else {
        panic!("{steps:?}")
    };
    assert_eq!(step["combination"], json!([1, 2]));
    assert_eq!((&step["open"], &step["close"]), (&json!(7.5), &json!(8.0)));
    let then = list(
        &railbird,
        &format!("market=quinella&as_of={first}"),
        "history",
    )
    .await;
    assert_eq!(seqs(&then), [first]);
    let unknown = railbird.get(&format!("{PATH}?market=trio")).await;
    assert_eq!(unknown.status, 404, "{}", unknown.text());
}

#[tokio::test]
async fn moves_are_from_the_first_price_to_the_last_one_before_the_off() {
    let (nats, railbird) = quoted().await;
    let off = nats.publish([status("ST", 1, &second(6), "off")]).await;
    let last = nats.publish([quote("tote", 7, &[9.0])]).await;
    railbird.until_seq(last).await;
    let moves = async |query: &str| {
        let path = format!("/api/v1/odds/2026-10-03/1/moves?{query}");
        let reply = railbird.get(&path).await;
        assert_eq!(reply.status, 200, "{query}: {}", reply.text());
        reply.json()["moves"].clone()
    };
    let tote = json!([
        { "horse_no": "H1", "opening": 3.0, "high": 3.5, "low": 3.0, "closing": 3.1, "probability_change": -1.07,
          "quotes": 3 },
        { "horse_no": "H2", "opening": 4.0, "high": 4.4, "low": 4.0, "closing": 4.4, "probability_change": -2.27,
          "quotes": 2 },
    ]);
    assert_eq!(moves("source=tote").await, tote);
    assert_eq!(moves(&format!("source=tote&as_of={off}")).await, tote);
    let bookmaker = moves("source=bookmaker&runner=1").await;
    assert_eq!(bookmaker[0]["closing"], 3.3);
    // Before it was off.
    let earlier = moves("source=tote&runner=1&as_of=4").await;
    assert_eq!(earlier[0]["closing"], 3.5);
    the_result_has_the_moves(&nats, &railbird, moves("").await).await;
}

async fn the_result_has_the_moves(nats: &Nats, railbird: &Railbird, moves: Value) {
    const RESULT: &str = "/api/v1/results/2026-10-03/1";
    let declared = nats.publish([result(DAY, "ST", 1, 2, 1)]).await;
    railbird.until_seq(declared).await;
    let plain = railbird.get(RESULT).await;
    let with_moves = railbird.get(&format!("{RESULT}?moves=true")).await;
    let mut expected = plain.json();
    expected["moves"] = moves;
    assert_eq!(with_moves.json(), expected);
    assert_ne!(with_moves.header("etag"), plain.header("etag"));
    for (query, expected) in [
        ("?moves=false".to_owned(), &plain),
        (format!("?moves=true&as_of={declared}"), &with_moves),
    ] {
        let reply = railbird.get(&format!("{RESULT}{query}")).await;
        assert_eq!(reply.text(), expected.text(), "{query}");
        assert_eq!(reply.header("etag"), expected.header("etag"), "{query}");
    }
    let others = [
        odds("ST", 2, &second(8), &[2.0]),
        result(DAY, "ST", 3, 2, 1),
    ];
    railbird.until_seq(nats.publish(others).await).await;
    let unquoted = railbird
        .get("/api/v1/results/2026-10-03/3?moves=true")
        .await;
    assert_eq!(unquoted.json()["moves"], json!([]));
    for (path, status) in [
        ("1?moves=1", 400),
        ("2?moves=true", 404),
        ("9?moves=true", 404),
    ] {
        let reply = railbird
            .get(&format!("/api/v1/results/2026-10-03/{path}"))
            .await;
        assert_eq!(reply.status, status, "{path}: {}", reply.text());
    }
    let free = railbird.issue_key_on(nats, "free").await;
    let refused = request(
        railbird.http,
        "GET",
        &format!("{RESULT}?moves=true"),
        &[("x-api-key", &free)],
    )
    .await;
    assert_eq!(refused.status, 403, "{}", refused.text());
}

#[tokio::test]
async fn what_cannot_be_chosen_is_refused() {
    let (_nats, railbird) = quoted().await;
    for (query, status, part) in [
        ("every=1ms", 400, "every is 1s or longer"),
        ("every=often", 400, "every is a duration"),
        ("from=yesterday", 400, "from is a time as in RFC 3339"),
        ("last=0", 400, "last is 1 to 1000"),
        ("last=5&limit=5", 400, "last is without after and limit"),
        ("runner=99", 404, "No runner"),
        ("source=nobody", 404, "No such source"),
        ("step=1m", 400, "step"),
    ] {
        let reply = railbird.get(&format!("{PATH}?{query}")).await;
        assert_eq!(reply.status, status, "{query}: {}", reply.text());
        assert!(reply.text().contains(part), "{query}: {}", reply.text());
    }
}
