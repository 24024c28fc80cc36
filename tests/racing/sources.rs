//! Two sources of odds on one race, one with a late clock and one that dies: every replica serves what an oracle
//! computes of their quotes, also after a rebuild.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::conformance::rng::Rng;
use crate::support::*;

const RUNNERS: usize = 4;
/// The clock of this source is a second behind.
const LATE: &str = "bookmaker";
const EXACT: &str = "tote";

/// The prices of one source: its own quotes alone.
#[derive(Debug, Default)]
struct Book {
    /// Opening, previous and current price of each runner.
    prices: [[Option<f64>; 3]; RUNNERS],
    latest_time: String,
}

impl Book {
    fn quote(&mut self, time: &str, quoted: &[f64]) {
        self.latest_time = time.to_owned();
        for (prices, price) in self.prices.iter_mut().zip(quoted) {
            let [opening, previous, current] = prices;
            opening.get_or_insert(*price);
            if *current != Some(*price) {
                *previous = *current;
                *current = Some(*price);
            }
        }
    }

    fn rows(&self) -> Vec<Value> {
        let rows = self.prices.iter().enumerate();
        rows.map(|(n, [opening, previous, win])| {
            json!({ "horse_no": format!("H{}", n + 1), "opening": opening, "previous": previous, "win": win })
        })
        .collect()
    }
}

async fn rows(railbird: &Railbird, query: &str) -> Vec<Value> {
    let board = railbird.get(&format!("/api/v1/odds/{DAY}/1{query}")).await;
    let board = board.json();
    let rows = board["runners"].as_array().unwrap().iter();
    let fields = ["horse_no", "opening", "previous", "win"];
    rows.map(|row| {
        fields
            .iter()
            .map(|field| (*field, row[field].clone()))
            .collect()
    })
    .collect()
}

async fn assert_boards(railbird: &Railbird, books: &BTreeMap<&str, Book>) {
    for (source, book) in books {
        assert_eq!(
            rows(railbird, &format!("?source={source}")).await,
            book.rows(),
            "{source}"
        );
    }
    // The first source to quote is the primary one.
    assert_eq!(rows(railbird, "").await, books[EXACT].rows());
    let sources = railbird
        .get(&format!("/api/v1/odds/{DAY}/1/sources"))
        .await
        .json();
    let listed = sources["sources"].as_array().unwrap().iter();
    let listed: Vec<Value> = listed
        .map(|row| json!([row["source"], row["primary"], row["time"]]))
        .collect();
    let expected = [(EXACT, true), (LATE, false)];
    let expected =
        expected.map(|(source, primary)| json!([source, primary, books[source].latest_time]));
    assert_eq!(listed, expected);
    let history = railbird
        .get(&format!("/api/v1/odds/{DAY}/1/history"))
        .await
        .json();
    let quotes = history["history"].as_array().unwrap();
    assert!(
        quotes.iter().all(|quote| quote["stale"] == false),
        "{quotes:?}"
    );
}

async fn until_sources(railbird: &Railbird, expected: &Value) {
    eventually(&format!("the sources are {expected}"), async || {
        let status = railbird.get_open("/status.json").await.json();
        status["feed"]["sources"] == *expected
    })
    .await;
}

#[tokio::test]
async fn two_sources_of_which_one_is_late_and_one_dies_are_never_mixed_on_any_replica() {
    let nats = Nats::start();
    let replicas = [
        Railbird::start(&nats).await,
        Railbird::start(&nats).await,
        Railbird::start(&nats).await,
    ];
    let alive = |source: &str, state: &str| json!({ "source": source, "state": state });
    let both = json!([alive(LATE, "alive"), alive(EXACT, "alive")]);
    for railbird in &replicas {
        tokio::select! {
            never = nats.keep_alive(EXACT) => match never {},
            never = nats.keep_alive(LATE) => match never {},
            () = until_sources(railbird, &both) => {}
        }
    }
    let mut rng = Rng::new(28);
    let mut books = BTreeMap::from([(EXACT, Book::default()), (LATE, Book::default())]);
    let mut events = vec![card(DAY, "ST", 1, u16::try_from(RUNNERS).unwrap())];
    for n in 1..=60 {
        // The bookmaker dies in the middle of the race.
        let sources: &[&str] = if n <= 30 { &[EXACT, LATE] } else { &[EXACT] };
        for source in sources {
            let time = second(if *source == LATE { n - 1 } else { n });
            let prices: Vec<f64> = (0..RUNNERS)
                .map(|_| 2.0 + f64::from(u8::try_from(rng.below(8)).unwrap()) / 2.0)
                .collect();
            books.get_mut(source).unwrap().quote(&time, &prices);
            let mut quote = odds("ST", 1, &time, &prices);
            quote["source"] = json!(source);
            events.push(quote);
        }
    }
    let last = nats.publish(events).await;
    let one = json!([alive(LATE, "down"), alive(EXACT, "alive")]);
    for railbird in &replicas {
        railbird.until_seq(last).await;
        assert_boards(railbird, &books).await;
        tokio::select! {
            never = nats.keep_alive(EXACT) => match never {},
            () = until_sources(railbird, &one) => {}
        }
    }
    let digests = replicas.each_ref().map(Railbird::digest);
    for railbird in &replicas {
        let mut status = railbird.app.projector.status.clone();
        let before = status.borrow().rebuilds;
        assert!(railbird.app.projector.rebuild());
        let rebuilt =
            status.wait_for(|status| status.rebuilds > before && status.rebuild.is_none());
        rebuilt.await.unwrap();
        assert_boards(railbird, &books).await;
        assert_eq!(railbird.digest(), digests[0]);
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]));
}
