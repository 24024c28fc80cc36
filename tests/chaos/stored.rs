//! [`StoredLog`]: the log as NATS has it, read with the NATS client alone.

use std::collections::{BTreeMap, HashMap};

use async_nats::{Client, jetstream};
use futures::stream::{self, StreamExt};
use serde_json::Value;

use super::feeders::Acknowledged;
use crate::support::*;

const READS_CONCURRENT: usize = 64;

/// The events by sequence.
#[derive(Debug)]
pub(super) struct StoredLog {
    pub(super) events: BTreeMap<u64, Value>,
}

impl StoredLog {
    /// For an administrator.
    pub(super) async fn read(client: Client) -> Self {
        let context = jetstream::new(client);
        let mut log = context.get_stream("RACING").await.unwrap();
        let last = log.info().await.unwrap().state.last_sequence;
        // One by one: a consumer of the library may stall without an end.
        let mut messages = stream::iter(1..=last)
            .map(|seq| log.get_raw_message(seq))
            .buffered(READS_CONCURRENT);
        let mut events = BTreeMap::new();
        while let Some(message) = messages.next().await {
            let message = message.unwrap();
            let event = serde_json::from_slice(&message.payload).unwrap();
            events.insert(message.sequence, event);
        }
        Self { events }
    }

    /// Drops the events of other sources.
    pub(super) fn retain_sources(&mut self, prefix: &str) {
        let is_one = |source: &str| source.starts_with(prefix);
        (self.events).retain(|_, event| event["source"].as_str().is_some_and(is_one));
    }

    /// Compares it with what the feeders published. Returns what is wrong, and how often an id is there again.
    pub(super) fn check(&self, feeders: &[&[Acknowledged]]) -> (Vec<String>, usize) {
        let (mut wrong, mut first): (Vec<String>, HashMap<&str, u64>) = Default::default();
        let mut repeated = 0;
        for (seq, event) in &self.events {
            let id = event["id"].as_str().unwrap();
            match first.get(id) {
                None => drop(first.insert(id, *seq)),
                Some(before) if self.events[before] == *event => repeated += 1,
                Some(before) => wrong.push(format!(
                    "{seq} has the id of {before}, and is another event"
                )),
            }
        }
        let mut published = 0;
        for feeder in feeders {
            let mut before = 0;
            for acknowledged in *feeder {
                published += 1;
                let (seq, event) = (acknowledged.seq, &acknowledged.event);
                if self.events.get(&seq) != Some(event) {
                    wrong.push(format!(
                        "{seq} was acknowledged, and is not in the log: {event}"
                    ));
                }
                let id = event["id"].as_str().unwrap();
                match first.get(id) {
                    Some(first) if *first > before => before = *first,
                    first => wrong.push(format!(
                        "{id} is first at {first:?}, the event before it at {before}"
                    )),
                }
            }
        }
        if first.len() != published {
            wrong.push(format!(
                "the log has {} events, not {published}",
                first.len()
            ));
        }
        (wrong, repeated)
    }
}

#[test]
fn events_that_are_lost_changed_out_of_order_or_unknown_are_noticed() {
    let event = |n: u64| odds("ST", 1, &second(n), &[2.5]);
    let published = [event(1), event(2), event(3)];
    let acknowledged = (1..).zip(&published).map(|(seq, event)| Acknowledged {
        seq,
        event: event.clone(),
        after: std::time::Duration::ZERO,
    });
    let acknowledged: Vec<Acknowledged> = acknowledged.collect();
    let log = |events: &[&Value]| StoredLog {
        events: (1..)
            .zip(events.iter().map(|event| (*event).clone()))
            .collect(),
    };
    let check = |events: &[&Value]| {
        let (wrong, repeated) = log(events).check(&[&acknowledged]);
        (wrong.is_empty(), repeated)
    };
    let [a, b, c] = &published;
    assert_eq!(check(&[a, b, c]), (true, 0));
    assert_eq!(
        check(&[a, b, c, a]),
        (true, 1),
        "a repeated message is no second event"
    );
    assert_eq!(check(&[a, b]), (false, 0));
    assert_eq!(check(&[a, c, b]), (false, 0));
    assert_eq!(check(&[a, b, c, &event(4)]), (false, 0));
    let mut changed = c.clone();
    changed["time"] = second(9).into();
    assert_eq!(check(&[a, b, &changed]), (false, 0));
}
