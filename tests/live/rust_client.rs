//! The client in `clients/rust`, against real services and scripted ones.

use std::time::Duration;

use client::{Event, LiveOdds, LiveOddsError, Message, ServiceUrl};
use serde_json::json;
use tokio::time::timeout;

use super::clients::{Gateway, quote};
use crate::support::scripted::{self, ScriptedServer};
use crate::support::*;

/// A client, and the messages that it has returned.
struct Received {
    odds: LiveOdds,
    messages: Vec<Message>,
    gaps: usize,
}

impl Received {
    fn connect(url: &str, key: &str) -> Self {
        let (url, _) = ServiceUrl::parse(url).unwrap();
        Self {
            odds: LiveOdds::connect(url, key).unwrap(),
            messages: Vec::new(),
            gaps: 0,
        }
    }

    /// Takes events up to one that holds. Each wait for one is cancelled again and again.
    async fn until(&mut self, what: &str, holds: impl Fn(&Event) -> bool) {
        let all = async {
            loop {
                let next = timeout(Duration::from_millis(1), self.odds.next());
                let Ok(event) = next.await else { continue };
                let event = event.unwrap().unwrap();
                let is_last = holds(&event);
                if let Event::Message { message, gap, .. } = event {
                    self.messages.push(*message);
                    self.gaps += usize::from(gap.is_some());
                }
                if is_last {
                    return;
                }
            }
        };
        let found = timeout(PATIENCE, all).await;
        found.unwrap_or_else(|_| panic!("no {what}"));
    }

    async fn until_message(&mut self, what: &str, holds: impl Fn(&Message) -> bool) {
        let is_it =
            |event: &Event| matches!(event, Event::Message { message, .. } if holds(message));
        self.until(what, is_it).await;
    }

    async fn until_received(&mut self, seq: u64) {
        let reached = |message: &Message| matches!(message, Message::Heartbeat(heartbeat) if heartbeat.position.seq >= seq);
        self.until_message("heartbeat", reached).await;
    }

    /// The sequences of the updates of a race, without snapshots.
    fn updates(&self, race: u16) -> Vec<u64> {
        let updates = self.messages.iter().filter_map(|message| match message {
            Message::OddsUpdate(odds) if !odds.snapshot => Some(&odds.header),
            _ => None,
        });
        let of_race = updates.filter(|header| header.race.race_number == race);
        of_race.map(|header| header.seq).collect()
    }
}

#[tokio::test]
async fn a_cut_client_resumes_on_another_replica_without_a_loss() {
    let nats = Nats::start();
    let first = Railbird::start(&nats).await;
    let second = Railbird::start(&nats).await;
    let gateway = Gateway::start(first.http).await;
    let url = format!("{}?markets=win_place", gateway.url());
    let mut client = Received::connect(&url, &first.key);
    let is_complete = |message: &Message| matches!(message, Message::SnapshotComplete(_));
    client.until_message("snapshots", is_complete).await;
    let mut published = vec![quote(&nats, 1, 1).await];
    client.until_received(published[0]).await;
    gateway.cut_to(second.http);
    for n in 2..6 {
        published.push(quote(&nats, 1, n).await);
    }
    client.until_received(published[4]).await;
    assert_eq!(client.updates(1), published);
    let quotes = client.messages.iter().filter_map(|message| match message {
        Message::Quote(quote) if quote.runners[0].win.is_some() => Some(quote.header.seq),
        _ => None,
    });
    assert_eq!(quotes.collect::<Vec<_>>(), published);
    assert_eq!(client.gaps, 0);
    let resumed = |message: &&Message| matches!(message, Message::Welcome(welcome) if welcome.recovered == Some(true));
    assert_eq!(client.messages.iter().filter(resumed).count(), 1);
}

#[tokio::test]
async fn a_dead_connection_is_replaced() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let gateway = Gateway::start(railbird.http).await;
    let url = format!("{}?heartbeat_ms=1000", gateway.url());
    let mut client = Received::connect(&url, &railbird.key);
    let first = quote(&nats, 1, 1).await;
    client.until_received(first).await;
    gateway.freeze();
    let second = quote(&nats, 1, 2).await;
    let is_dead = |event: &Event| matches!(event, Event::Disconnected { reason, .. } if reason == "no message for 2 s");
    client.until("end of the dead connection", is_dead).await;
    client.until_received(second).await;
    assert_eq!(client.updates(1).last(), Some(&second));
    assert_eq!(client.gaps, 0);
}

#[tokio::test]
async fn a_gap_and_a_repetition_are_noticed() {
    let server = ScriptedServer::start().await;
    let mut client = Received::connect(&server.url, "rb_key");
    let mut socket = server.accept().await;
    let mut welcome = scripted::welcome("e1");
    welcome["server_time"] = scripted::recorded_at(1).into();
    socket.send(&welcome).await;
    for (seq, prev_seq) in [(5, 0), (7, 5), (7, 5), (9, 8)] {
        let mut quote = scripted::quote(1, seq, prev_seq, 2.5);
        quote["venue"] = "Sha Tin".into();
        socket.send(&quote).await;
    }
    let is_last = |message: &Message| message.header().is_some_and(|header| header.seq == 9);
    client.until_message("last message", is_last).await;
    assert_eq!(client.updates(1), [5, 7, 9]);
    assert_eq!(client.gaps, 1);
    let closing = json!({ "event": "closing", "code": 4403, "reason": "too many connections", "retry_after_ms": 0 });
    socket.send(&closing).await;
    let ended = loop {
        match timeout(PATIENCE, client.odds.next()).await.unwrap() {
            Ok(event) => assert!(event.is_some()),
            Err(error) => break error,
        }
    };
    let reason = "too many connections".to_owned();
    assert_eq!(ended, LiveOddsError::Closed { code: 4403, reason });
    assert_eq!(client.odds.next().await, Ok(None));
}

#[tokio::test]
async fn a_wrong_key_is_an_error() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let (url, _) = ServiceUrl::parse(&format!("ws://{}", railbird.http)).unwrap();
    let mut odds = LiveOdds::connect(url, "rb_wrong").unwrap();
    let error = odds.next().await.unwrap_err();
    assert!(matches!(error, LiveOddsError::InvalidKey { .. }), "{error}");
}

/// The files of `golden.rs` have every message of the service.
#[test]
fn every_message_of_the_service_is_known() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/live");
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(path).unwrap();
        let message: Message =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        // The answers to requests, which this client does not send.
        let is_other = ["ack", "error"].iter().any(|other| name.starts_with(other));
        assert_eq!(message == Message::Other, is_other, "{name}");
    }
}
