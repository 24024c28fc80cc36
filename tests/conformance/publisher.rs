//! [`Publisher`]: publishes events one after the other, and records their log sequences.

use std::collections::BTreeMap;
use std::time::Instant;

use railbird::log::{Log, Outgoing};
use serde_json::Value;

use super::oracle::Oracle;

#[derive(Debug)]
pub(crate) struct Publisher {
    log: Log,
    /// By log sequence.
    published: BTreeMap<u64, Value>,
    /// When each was sent to the log.
    pub(crate) sent_at: BTreeMap<u64, Instant>,
    last: u64,
}

impl Publisher {
    /// A publisher of a log that ends with the event `last`.
    pub(crate) fn new(log: Log, last: u64) -> Self {
        Self {
            log,
            published: BTreeMap::new(),
            sent_at: BTreeMap::new(),
            last,
        }
    }

    /// Publishes an event, retries while the log cannot be reached, and returns its sequence.
    pub(crate) async fn publish(&mut self, event: Value) -> u64 {
        let outgoing = Outgoing {
            subject: subject(&event),
            id: event["id"].as_str().expect("an id").to_owned(),
            payload: event.to_string().into_bytes(),
        };
        let at = Instant::now();
        let appended = self
            .log
            .append(outgoing)
            .await
            .expect("the log accepts it within a minute");
        // There is no other publisher. A gap before it is the same event: written, not acknowledged, and written again.
        for seq in self.last + 1..=appended.seq {
            self.published.insert(seq, event.clone());
            self.sent_at.insert(seq, at);
        }
        self.last = self.last.max(appended.seq);
        appended.seq
    }

    pub(crate) async fn publish_all(&mut self, events: impl IntoIterator<Item = Value>) -> u64 {
        for event in events {
            self.publish(event).await;
        }
        self.last
    }

    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    pub(crate) fn oracle(&self) -> Oracle {
        Oracle::of(&self.published)
    }
}

fn subject(event: &Value) -> String {
    let (kind, data) = (event["type"].as_str().expect("a type"), &event["data"]);
    let branch = match kind {
        "racing.odds.quoted.v1" => "odds",
        "racing.sources.ranked.v1" => return "racing.sources".to_owned(),
        "racing.result.declared.v1" | "racing.result.voided.v1" => "result",
        _ => "race",
    };
    let text = |name: &str| data[name].as_str().expect("a text");
    format!(
        "racing.{branch}.{}.{}.{}",
        text("date"),
        text("venue"),
        data["race_number"]
    )
}
