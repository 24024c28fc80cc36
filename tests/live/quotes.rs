//! Quotes of the markets that a client chose.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::*;

/// What a client knows of each market and source: the last `seq`, and the prices.
#[derive(Debug, Default)]
struct Markets(BTreeMap<(String, String), (u64, BTreeMap<String, Value>)>);

impl Markets {
    /// Takes quotes as docs/live-odds.md says. None may be missing.
    fn take(&mut self, messages: &[Value]) {
        for message in messages
            .iter()
            .filter(|message| message["event"] == "quote")
        {
            let name = |field: &str| message[field].as_str().unwrap().to_owned();
            let (last, prices) = self.0.entry((name("market"), name("source"))).or_default();
            let seq = message["seq"].as_u64().unwrap();
            if message["snapshot"] == true {
                prices.clear();
            } else if seq <= *last {
                continue;
            } else {
                assert_eq!(message["prev_seq"], *last, "{message}");
            }
            *last = seq;
            let lines = ["runners", "prices"].map(|list| message[list].as_array());
            for line in lines.into_iter().flatten().flatten() {
                let of = [&line["horse_no"], &line["combination"]].map(Value::to_string);
                prices.insert(of.concat(), line.clone());
            }
        }
    }

    /// The prices of a market, as in the answer to a GET.
    fn prices(&self, market: &str, source: &str) -> Value {
        let known = self.0.get(&(market.to_owned(), source.to_owned()));
        json!(known.map(|(seq, prices)| (seq, prices.values().collect::<Vec<_>>())))
    }
}

const CHOSEN: &str = "markets=win_place,quinella";

fn by(source: &str, mut event: Value) -> Value {
    event["source"] = source.into();
    event
}

fn quinella(n: u64, pairs: &[(u16, f64)]) -> Value {
    let price = |(with, odds): &(u16, f64)| json!({ "combination": [1, with], "odds": odds });
    let prices: Vec<Value> = pairs.iter().map(price).collect();
    let data = json!({ "market": "quinella", "prices": prices });
    of_today("market.quoted", "ST", 1, &second(n), data)
}

/// Checks that a client knows what a GET returns.
async fn check(railbird: &Railbird, markets: &Markets, sources: &[&str]) {
    for source in sources {
        let path = format!("/api/v1/odds/{DAY}/1?source={source}&market=quinella");
        let known = railbird.get(&path).await.json();
        let is_known = known["seq"].is_u64();
        let expected = json!(is_known.then(|| json!([known["seq"], known["prices"]])));
        assert_eq!(markets.prices("quinella", source), expected, "{source}");
        let board = railbird
            .get(&format!("/api/v1/odds/{DAY}/1?source={source}"))
            .await
            .json();
        let wins = |lines: &Value| -> Vec<(String, Value)> {
            let lines = lines.as_array().unwrap().iter();
            lines
                .map(|line| (line["horse_no"].to_string(), line["win"].clone()))
                .collect()
        };
        let of_runners = markets.prices("win_place", source);
        assert_eq!(wins(&of_runners[1]), wins(&board["runners"]), "{source}");
    }
}

#[tokio::test]
async fn a_client_gets_the_markets_that_it_chose_and_no_other_client_gets_any() {
    let nats = Nats::start();
    let data = tempfile::tempdir().unwrap();
    let railbird = Railbird::start_in(&nats, data.path()).await;
    let seq = nats
        .publish([
            by("tote", odds("ST", 1, &second(0), &[2.0, 3.0])),
            by("exchange", odds("ST", 1, &second(0), &[2.1, 3.1])),
            by("tote", quinella(1, &[(2, 7.5), (3, 9.0)])),
            by("exchange", quinella(0, &[(2, 8.0)])),
        ])
        .await;
    railbird.until_published(seq).await;
    let (mut socket, opening) = railbird.live(CHOSEN).await;
    let (mut other, without) = railbird.live("").await;
    let (mut slow, held) = railbird.live(&format!("{CHOSEN}&conflate_ms=60000")).await;
    assert_eq!(opening[0]["markets"], json!(["win_place", "quinella"]));
    assert_eq!(
        [opening.len(), without.len()],
        [7, 3],
        "a snapshot of the board, and of two markets of two sources"
    );
    let (mut markets, mut of_slow) = (Markets::default(), Markets::default());
    markets.take(&opening);
    of_slow.take(&held);
    check(&railbird, &markets, &["tote", "exchange"]).await;

    // The last one is the only message about a change that the others get.
    let last = nats
        .publish([
            by("tote", quinella(2, &[(3, 9.5)])),
            by("exchange", quinella(3, &[(2, 8.0)])),
            by("exchange", odds("ST", 1, &second(4), &[2.2])),
            by("tote", quinella(5, &[(4, 30.0)])),
            by("late", odds("ST", 1, &second(6), &[5.0])),
            by("tote", odds("ST", 1, &second(7), &[2.5])),
        ])
        .await;
    railbird.until_published(last).await;
    let is_last = |m: &Value| m["event"] == "odds_update" && m["seq"] == last;
    let received = [socket.until_one(is_last).await, socket.until("quote").await].concat();
    let seqs: Vec<u64> = received
        .iter()
        .map(|m| m["seq"].as_u64().unwrap() - seq)
        .collect();
    assert_eq!(
        seqs,
        [1, 3, 4, 5, 6, 6],
        "a quote that changes no price is not sent"
    );
    markets.take(&received);
    check(&railbird, &markets, &["tote", "exchange", "late"]).await;
    assert_eq!(other.until_one(is_last).await.len(), 1);

    // Conflated quotes come as the images after them.
    nats.publish([status("ST", 1, &second(8), "closed")]).await;
    let received = slow.until("status_update").await;
    let images = received.iter().filter(|m| m["event"] == "quote");
    assert!(images.clone().all(|m| m["snapshot"] == true) && images.count() == 4);
    of_slow.take(&received);
    check(&railbird, &of_slow, &["tote", "exchange", "late"]).await;

    resume_after_a_restart(&nats, railbird, data.path(), seq, &opening).await;
}

/// A client that was away from an event on misses no quote.
async fn resume_after_a_restart(
    nats: &Nats,
    railbird: Railbird,
    data: &Path,
    seq: u64,
    opening: &[Value],
) {
    let known = nats.recorded_at(seq).await;
    let last = railbird.app.health.feed.position().seq;
    railbird.stop().await;
    let railbird = Railbird::start_in(nats, data).await;
    railbird.until_published(last).await;
    let query = format!("{CHOSEN}&since={seq}&recorded_at={known}");
    let (_socket, received) = railbird.live(&query).await;
    assert_eq!(received[0]["recovered"], true);
    let mut markets = Markets::default();
    markets.take(opening);
    markets.take(&received);
    check(&railbird, &markets, &["tote", "exchange", "late"]).await;
}
