//! [`Feeders`]: publish events at a steady rate through whatever happens, and keep all acknowledgements. They use the
//! NATS client alone, and nothing of the service.

use std::time::Duration;

use async_nats::{Client, HeaderMap, Request};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::conformance::scenario::{DATE, Scenario};
use crate::support::*;

/// The venues, and the races of each: so many that feeders keep the rate although each awaits its acknowledgements.
pub(super) const VENUES: [&str; 8] = ["ST", "HV", "AS", "EP", "YO", "KE", "NM", "SA"];
pub(super) const RACES: u16 = 6;
/// Few, as the oracle keeps all messages.
const RUNNERS: u16 = 3;

/// How long a feeder waits for an acknowledgement before it publishes the event again.
const ACK_TIMEOUT: Duration = Duration::from_secs(3);
/// The pause before that, so that a cluster without a leader is not flooded.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// After an event that took longer than this, a feeder publishes at its rate again, and not what it missed: floods are
/// for the overload rig.
const OUTAGE: Duration = Duration::from_secs(1);

/// A feeder for each race, so that the events of a race are in its order.
#[derive(Debug)]
pub(super) struct Feeders {
    begun: Instant,
    pub(super) pace: watch::Sender<Pace>,
    running: Vec<JoinHandle<Feeder>>,
}

/// An event that was acknowledged.
#[derive(Debug)]
pub(super) struct Acknowledged {
    pub(super) seq: u64,
    pub(super) event: Value,
    pub(super) after: Duration,
}

#[derive(Debug)]
struct Feeder {
    client: Client,
    scenario: Scenario,
    /// In the order in which they were published.
    acknowledged: Vec<Acknowledged>,
    /// How often an event was published again.
    retries: u64,
}

/// All that was published.
#[derive(Debug)]
pub(super) struct Published {
    feeders: Vec<Feeder>,
    lasting: Duration,
}

impl Published {
    /// The events of each feeder, in its order.
    pub(super) fn by_feeder(&self) -> Vec<&[Acknowledged]> {
        self.feeders
            .iter()
            .map(|feeder| &*feeder.acknowledged)
            .collect()
    }

    fn all(&self) -> impl Iterator<Item = &Acknowledged> {
        self.feeders.iter().flat_map(|feeder| &feeder.acknowledged)
    }

    pub(super) fn last_seq(&self) -> u64 {
        self.all()
            .map(|acknowledged| acknowledged.seq)
            .max()
            .unwrap()
    }

    pub(super) fn summary(&self) -> String {
        let mut waits: Vec<Duration> = self.all().map(|acknowledged| acknowledged.after).collect();
        waits.sort_unstable();
        let retries: u64 = self.feeders.iter().map(|feeder| feeder.retries).sum();
        #[expect(clippy::cast_precision_loss, reason = "few")]
        let per_second = waits.len() as f64 / self.lasting.as_secs_f64();
        let [p50, p99, max] = [500, 990, 1_000].map(|part| share(&waits, part));
        format!(
            "{} events acknowledged, {per_second:.0} a second, p50 {p50:.1?}, p99 {p99:.1?}, max {max:.1?}; {retries} \
             published again",
            waits.len()
        )
    }
}

/// How fast events are published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    Steady,
    /// As fast as the log acknowledges them.
    Flood,
    Paused,
    Ended,
}

/// The value that this part of all does not exceed, in parts of a thousand. They are in order.
pub(super) fn share(values: &[Duration], per_mille: usize) -> Duration {
    let at = values.len() * per_mille / 1_000;
    values[at.min(values.len() - 1)]
}

impl Feeders {
    /// Publishes the cards and first prices, and then this many events a second, or as many as are acknowledged. Each
    /// feeder has a connection of its own.
    pub(super) async fn start(
        client: impl AsyncFn() -> Client,
        seed: u64,
        events_per_second: u32,
    ) -> Self {
        let races = VENUES
            .iter()
            .flat_map(|venue| (1..=RACES).map(move |number| (*venue, number)));
        let races: Vec<(&str, u16)> = races.collect();
        let interval =
            Duration::from_secs(1) * u32::try_from(races.len()).unwrap() / events_per_second;
        let (begun, pace) = (Instant::now(), watch::Sender::new(Pace::Steady));
        let mut running = Vec::new();
        for (n, race) in races.into_iter().enumerate() {
            let mut feeder = Feeder {
                client: client().await,
                scenario: Scenario::new(seed.wrapping_add(n as u64), &[race], RUNNERS),
                acknowledged: Vec::new(),
                retries: 0,
            };
            for event in feeder.scenario.opening() {
                feeder.publish(event).await;
            }
            running.push(tokio::spawn(feeder.run(interval, pace.subscribe())));
        }
        Self {
            begun,
            pace,
            running,
        }
    }

    /// Lets all publish the results of their races. A quote of another race is the last event.
    pub(super) async fn end(self) -> Published {
        self.pace.send_replace(Pace::Ended);
        let mut feeders = Vec::new();
        for feeder in self.running {
            feeders.push(feeder.await.unwrap());
        }
        let (last, others) = feeders.split_last_mut().unwrap();
        for feeder in others {
            for event in feeder.scenario.finish(0) {
                feeder.publish(event).await;
            }
        }
        last.publish_a_quote().await;
        let lasting = self.begun.elapsed();
        Published { feeders, lasting }
    }
}

impl Feeder {
    async fn run(mut self, interval: Duration, wanted: watch::Receiver<Pace>) -> Self {
        let mut pace = tokio::time::interval(interval);
        while *wanted.borrow() != Pace::Ended {
            pace.tick().await;
            if *wanted.borrow() == Pace::Paused {
                continue;
            }
            let event = self.scenario.next();
            let begun = Instant::now();
            self.publish(event).await;
            if begun.elapsed() > OUTAGE {
                pace.reset();
            }
        }
        self
    }

    /// Publishes until there is a new price: not all events change a board.
    async fn publish_a_quote(&mut self) {
        loop {
            let event = self.scenario.next();
            let is_quote = event["type"] == "racing.odds.quoted.v1";
            // Scenarios have quotes that are too old, too.
            let is_new = event["time"].as_str() > Some("2026-10-03T04");
            self.publish(event).await;
            if is_quote && is_new {
                return;
            }
        }
    }

    /// Publishes an event until it is acknowledged, always under its id.
    async fn publish(&mut self, event: Value) {
        let (begun, until) = (Instant::now(), Instant::now() + PATIENCE);
        loop {
            match self.publish_once(&event).await {
                Ok(seq) => {
                    let after = begun.elapsed();
                    self.acknowledged.push(Acknowledged { seq, event, after });
                    return;
                }
                Err(reason) => assert!(Instant::now() < until, "not acknowledged: {reason}"),
            }
            self.retries += 1;
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    async fn publish_once(&self, event: &Value) -> Result<u64, String> {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", event["id"].as_str().unwrap());
        let request = Request::new()
            .headers(headers)
            .payload(event.to_string().into());
        let sent = self
            .client
            .send_request(subject(event), request.timeout(Some(ACK_TIMEOUT)));
        // The library waits longer while it is disconnected.
        let reply = timeout(2 * ACK_TIMEOUT, sent)
            .await
            .map_err(|_| "timed out".to_owned())?;
        let reply = reply.map_err(|error| error.to_string())?;
        let ack: Value =
            serde_json::from_slice(&reply.payload).map_err(|error| error.to_string())?;
        if ack["error"].is_null() {
            ack["seq"].as_u64().ok_or_else(|| ack.to_string())
        } else {
            Err(ack.to_string())
        }
    }
}

/// As docs/feeding.md has it.
fn subject(event: &Value) -> String {
    let branch = match event["type"].as_str().unwrap() {
        "racing.odds.quoted.v1" => "odds",
        "racing.sources.ranked.v1" => return "racing.sources".to_owned(),
        "racing.result.declared.v1" | "racing.result.voided.v1" => "result",
        _ => "race",
    };
    let venue = event["data"]["venue"].as_str().unwrap();
    format!(
        "racing.{branch}.{DATE}.{venue}.{}",
        event["data"]["race_number"]
    )
}
