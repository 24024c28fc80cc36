//! The live odds channel, compared with docs/live-odds.md sentence by sentence.

mod alive;
mod clients;
mod conflation;
pub(crate) mod delivery;
mod encodings;
mod ends;
mod example_clients;
mod filters;
mod golden;
mod open_races;
mod ops;
mod order;
mod quotes;
mod rfc6455;
mod rust_client;
mod slow;
mod violations;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::support::*;

/// A service that has published the first odds of some races.
async fn with_odds(races: &[(&str, u16)]) -> (Nats, Railbird) {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let quotes = races
        .iter()
        .map(|(venue, race)| odds(venue, *race, &second(0), &[2.0]));
    let seq = nats.publish(quotes).await;
    railbird.until_published(seq).await;
    (nats, railbird)
}

/// Date, venue code and number.
type Race = (String, String, u64);

fn race_of(message: &Value) -> Race {
    let text = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
    let number = message["race_number"].as_u64().unwrap_or_default();
    (text("date"), text("venue_code"), number)
}

fn event_of(message: &Value) -> &str {
    message["event"].as_str().unwrap()
}

fn seq_of(message: &Value) -> u64 {
    message["seq"].as_u64().unwrap()
}

fn events(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(event_of).collect()
}

/// The races of messages, such as `ST 1`, each once.
fn races(messages: &[Value]) -> BTreeSet<String> {
    let about = messages.iter().filter(|m| m["race_number"].is_u64());
    about
        .map(race_of)
        .map(|(_, venue, n)| format!("{venue} {n}"))
        .collect()
}

/// Checks messages by the rule of the docs that proves that nothing is missing.
#[derive(Debug, Default)]
struct Proof(BTreeMap<(String, Race), u64>);

impl Proof {
    fn take(&mut self, message: &Value) {
        if !message["race_number"].is_u64() {
            return;
        }
        let of = (event_of(message).to_owned(), race_of(message));
        let before = self.0.insert(of, seq_of(message));
        if message["snapshot"] == true {
            return;
        }
        let prev_seq = message["prev_seq"].as_u64().unwrap();
        // The first message of an event has no predecessor.
        let expected = before.unwrap_or(prev_seq);
        assert_eq!(
            prev_seq, expected,
            "nothing missing, nothing twice: {message}"
        );
        assert!(prev_seq < seq_of(message), "{message}");
    }

    fn take_all(&mut self, messages: &[Value]) {
        messages.iter().for_each(|message| self.take(message));
    }
}
