//! [`Quotes`]: odds of some races, each with a price of its own, and whether answers are right about them.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use railbird::accounts::{KeyId, KeyRevoked};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::support::*;

const RACES: u64 = 3;

/// A service without descriptors or threads may not answer.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

fn board(race: u64) -> String {
    format!("/api/v1/odds/{DAY}/{race}?venue=ST")
}

/// The quotes in a log, and keys to read them.
#[derive(Debug)]
pub(super) struct Quotes {
    pub(super) valid: String,
    /// Revoked by [`Quotes::revoke`].
    pub(super) revoked: String,
    published: watch::Sender<Published>,
}

#[derive(Debug, Default)]
struct Published {
    /// The race and the price of each quote, by its sequence.
    by_seq: BTreeMap<u64, (u64, f64)>,
    /// The last event.
    last: u64,
}

impl Quotes {
    pub(super) async fn begin(nats: &Nats) -> Self {
        Self {
            valid: issue_key(nats).await,
            revoked: issue_key(nats).await,
            published: watch::Sender::default(),
        }
    }

    pub(super) async fn revoke(&self, nats: &Nats) {
        let key_id = KeyId::of_key(&self.revoked).unwrap();
        let reason = events::Text::default();
        append_account_event(nats, KeyRevoked { key_id, reason }).await;
    }

    /// Publishes more, each after the acknowledgement of the one before.
    pub(super) async fn publish(&self, nats: &Nats, quotes: u64) {
        let log = nats.log().await;
        for _ in 0..quotes {
            let n = self.published.borrow().by_seq.len() as u64;
            let (race, price) = (1 + n % RACES, 2.0 + n as f64);
            let of_race = u16::try_from(race).unwrap();
            let quote = odds("ST", of_race, &second(n), &[price]);
            let seq = log.append(outgoing(&quote)).await.unwrap().seq;
            self.published.send_modify(|published| {
                published.by_seq.insert(seq, (race, price));
                published.last = seq;
            });
        }
    }

    /// Publishes cards whose views are stored in files of their own.
    pub(super) async fn publish_large_cards(&self, nats: &Nats) {
        let cards = (1..=40).map(|race| large_card("HV", race));
        let last = nats.publish(cards).await;
        self.published
            .send_modify(|published| published.last = last);
    }

    /// The answer to a key; `None` if there is none in time.
    async fn get(&self, http: SocketAddr, path: &str, key: &str) -> Option<Reply> {
        let headers = [("x-api-key", key)];
        let reply = try_send(http, "GET", path, &headers, String::new());
        timeout(ANSWER_WAIT, reply).await.ok()?.ok()
    }

    /// The status of an answer to a key; 0 if there is none.
    pub(super) async fn status(&self, http: SocketAddr, key: &str) -> u16 {
        let reply = self.get(http, "/api/v1/meetings", key).await;
        reply.map_or(0, |reply| reply.status)
    }

    /// Reads each race once. What is answered is compared with the quotes up to the event that it reflects. Returns how
    /// many answers there were.
    pub(super) async fn check(&self, http: SocketAddr) -> u64 {
        let mut answers = 0;
        for race in 1..=RACES {
            let Some(reply) = self.get(http, &board(race), &self.valid).await else {
                continue;
            };
            match reply.status {
                200 | 404 => answers += 1,
                503 => continue,
                // Before the keys are known.
                status => panic!("{status}: {}", reply.text()),
            }
            let seq: u64 = reply.header("railbird-seq").parse().unwrap();
            let latest = self.latest(race, seq).await;
            let found = (reply.status == 200).then(|| reply.json());
            let found = found.map(|board| board["runners"][0]["win"].as_f64().unwrap());
            assert_eq!(found, latest, "as of {seq}: {}", reply.text());
        }
        answers
    }

    /// What a service answers that gives no prices, and its log. Ends it.
    pub(super) async fn refusal(&self, mut serving: Serving) -> String {
        let reply = self.get(serving.http, &board(1), &self.valid).await;
        let reply = reply.map(|reply| format!("{}: {}", reply.status, reply.text()));
        serving.kill();
        let (_, log) = serving.until_ended().await;
        format!("{reply:?}\n{log}")
    }

    /// The last price of a race up to an event. Somebody may have read it before its acknowledgement arrives here.
    async fn latest(&self, race: u64, seq: u64) -> Option<f64> {
        let mut published = self.published.subscribe();
        let acknowledged = published.wait_for(|published| published.last >= seq);
        let published = timeout(PATIENCE, acknowledged).await.unwrap().unwrap();
        let mut quotes = published.by_seq.range(..=seq).rev();
        let latest = quotes.find(|(_, (of, _))| *of == race);
        latest.map(|(_, (_, price))| *price)
    }

    /// Waits until a service is ready and has all events, with no wrong answer meanwhile. Then its views equal those
    /// that are folded anew.
    pub(super) async fn until_whole(&self, nats: &Nats, serving: &Serving) {
        self.until_served(nats, serving).await;
        let verified = verify(nats, serving).await;
        assert_eq!(verified.code, 0, "{}", verified.all);
    }

    async fn until_served(&self, nats: &Nats, serving: &Serving) {
        let last = nats.last_seq().await;
        eventually("the service has all events", async || {
            self.check(serving.http).await;
            request(serving.http, "GET", "/readyz", &[]).await.status == 200
                && serving.metric("railbird_log_seq").await >= last
        })
        .await;
    }

    /// Publishes and reads until the views of a service equal those that are folded anew, with no wrong answer
    /// meanwhile. A comparison finds the damage that no answer needs, and begins its repair.
    pub(super) async fn until_healed(&self, nats: &Nats, serving: &Serving) {
        let is_healed = Cell::new(false);
        let healing = async {
            eventually("the views are whole again", async || {
                self.until_served(nats, serving).await;
                verify(nats, serving).await.code == 0
            })
            .await;
            is_healed.set(true);
        };
        let publishing = async {
            while !is_healed.get() {
                self.publish(nats, 10).await;
            }
        };
        let reading = async {
            while !is_healed.get() {
                self.check(serving.http).await;
            }
        };
        tokio::join!(healing, publishing, reading);
    }

    /// What a service says about the views that it did not continue.
    pub(super) async fn note(serving: &Serving) -> String {
        let status: Value = request(serving.admin, "GET", "/status", &[]).await.json();
        status["store"].as_str().unwrap_or_default().to_owned()
    }
}

/// Compares the views of a service with those that are folded anew.
async fn verify(nats: &Nats, serving: &Serving) -> Output {
    let (nats, admin) = (nats.url(), serving.admin.to_string());
    railbird(["verify", "--nats", &nats, "--admin", &admin]).await
}
