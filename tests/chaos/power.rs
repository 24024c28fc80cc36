//! Power losses of nats-server and of the service: what they did to their files is traced, and lost up to any moment.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use futures::future::join_all;
use railbird::log::ACCOUNTS;
use tempfile::TempDir;
use tokio::time::timeout;

use super::budget::Budget;
use super::disk::{Unsynced, lose_power};
use super::quotes::Quotes;
use super::trace::{Trace, TracedCall, now_ns};
use crate::conformance::rng::Rng;
use crate::support::*;

/// Programs that publish at once, each of which awaits its acknowledgements.
const FEEDERS: u64 = 8;

/// An event that was acknowledged.
struct Acknowledged {
    seq: u64,
    payload: Vec<u8>,
    at_ns: u64,
}

/// What nats-server did to its files while events were acknowledged.
struct LogRecording {
    calls: Vec<TracedCall>,
    /// Ordered by time.
    acknowledged: Vec<Acknowledged>,
}

impl LogRecording {
    async fn make(events_each: u64, change: impl FnOnce(String) -> String) -> Self {
        let mut trace = None;
        let launch = |store: &Path| {
            let trace = trace.insert(Trace::of(store));
            trace.command(Path::new(nats_server().get_program()))
        };
        let mut nats = Nats::start_by(launch, change);
        let log = nats.log().await;
        let feeders = (0..FEEDERS).map(|feeder| {
            let log = &log;
            async move {
                let mut acknowledged = Vec::new();
                for n in 0..events_each {
                    let race = u16::try_from(feeder + 1).unwrap();
                    let event = outgoing(&odds("ST", race, &second(n), &[2.0, 3.0]));
                    let payload = event.payload.clone();
                    let seq = log.append(event).await.unwrap().seq;
                    let at_ns = now_ns();
                    acknowledged.push(Acknowledged {
                        seq,
                        payload,
                        at_ns,
                    });
                }
                acknowledged
            }
        });
        let mut acknowledged: Vec<_> = join_all(feeders).await.into_iter().flatten().collect();
        acknowledged.sort_by_key(|event| event.at_ns);
        nats.kill();
        let calls = trace.unwrap().calls();
        Self {
            calls,
            acknowledged,
        }
    }

    /// A moment about which something was acknowledged.
    fn moment(&self, rng: &mut Rng) -> u64 {
        let last = rng.of(&self.acknowledged).at_ns;
        last + rng.below(Duration::from_millis(2).as_nanos() as u64)
    }

    /// The acknowledged events that a server has lost, or has in other places, after a power loss.
    async fn lost_at(&self, at_ns: u64, unsynced: Unsynced, rng: &mut Rng) -> usize {
        let launch = |store: &Path| {
            lose_power(&self.calls, at_ns, unsynced, rng, store);
            nats_server()
        };
        let nats = Nats::start_by(launch, |conf| conf);
        let messages = nats.messages().await;
        let stored: BTreeMap<_, _> = messages
            .iter()
            .map(|message| (message.seq, message.payload.as_ref()))
            .collect();
        let before = self
            .acknowledged
            .iter()
            .filter(|event| event.at_ns <= at_ns);
        let is_lost =
            |event: &&Acknowledged| stored.get(&event.seq) != Some(&event.payload.as_slice());
        before.filter(is_lost).count()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_power_loss_takes_an_acknowledged_event_with_the_settings_that_are_shipped() {
    if !Trace::is_permitted() {
        return;
    }
    let mut budget = Budget::of("power loss of nats-server", 4);
    let events_each = if budget.is_long() { 200 } else { 40 };
    let recording = LogRecording::make(events_each, |conf| conf).await;
    let not_synced = LogRecording::make(events_each, without_sync).await;
    let mut lost = 0;
    while let Some(mut rng) = budget.next_round() {
        let (at_ns, unsynced) = (recording.moment(&mut rng), *rng.of(&Unsynced::ALL));
        budget.step(format!("power is lost at {at_ns}: {unsynced:?}"));
        assert_eq!(recording.lost_at(at_ns, unsynced, &mut rng).await, 0);
        budget.count("power losses", 1);
        // A loss that takes nothing from this server either proves nothing.
        if lost == 0 {
            let at_ns = not_synced.moment(&mut rng);
            lost = not_synced.lost_at(at_ns, Unsynced::Lost, &mut rng).await;
        }
    }
    assert!(
        lost > 0,
        "the server's own sync_interval loses nothing either"
    );
    budget.count("lost with the server's own sync_interval", lost as u64);
    budget.end();
}

/// What the service did to its files, and what it served meanwhile.
struct ServiceRecording {
    nats: Nats,
    quotes: Quotes,
    /// The stream of keys as it was before one was revoked.
    accounts: TempDir,
    calls: Vec<TracedCall>,
    begun_ns: u64,
    ended_ns: u64,
    /// When the revoked key was rejected.
    rejected_ns: u64,
}

impl ServiceRecording {
    async fn make() -> Self {
        let mut nats = Nats::start();
        let quotes = Quotes::begin(&nats).await;
        nats.kill();
        let accounts = nats.back_up(ACCOUNTS.name);
        nats.start_again();
        let data = tempfile::tempdir().unwrap();
        let (trace, begun_ns) = (Trace::of(data.path()), now_ns());
        let command = trace.command(Path::new(env!("CARGO_BIN_EXE_railbird")));
        let flags = ["--http", "127.0.0.1:0", "--nats", &nats.url()];
        let mut serving = Serving::start_as(command, &flags, data.path());
        quotes.publish(&nats, 100).await;
        until_valid(serving.http, &quotes.revoked).await;
        let rejected = async {
            // Without a pause: the moment of the first rejection counts.
            while quotes.status(serving.http, &quotes.revoked).await != 401 {}
            now_ns()
        };
        let both = futures::future::join(quotes.revoke(&nats), rejected);
        let ((), rejected_ns) = timeout(PATIENCE, both).await.unwrap();
        quotes.publish(&nats, 100).await;
        let admin = serving.admin.to_string();
        let rebuilt = railbird(["rebuild", "--admin", &admin]).await;
        assert_eq!(rebuilt.code, 0, "{}", rebuilt.all);
        quotes.publish(&nats, 50).await;
        quotes.until_whole(&nats, &serving).await;
        let ended_ns = now_ns();
        serving.kill();
        Self {
            nats,
            quotes,
            accounts,
            calls: trace.calls(),
            begun_ns,
            ended_ns,
            rejected_ns,
        }
    }

    /// Starts a service on what a power loss has left, beside a stream of keys from before one was revoked.
    async fn check_start(&mut self, data: &Path, at_ns: u64) {
        self.nats.kill();
        self.nats.put_back(ACCOUNTS.name, &self.accounts);
        self.nats.start_again();
        let mut serving = Serving::start(&self.nats, data);
        let (quotes, http) = (&self.quotes, serving.http);
        eventually("the valid key is accepted", async || {
            request(serving.admin, "POST", "/log/accept", &[]).await;
            quotes.check(http).await;
            quotes.status(http, &quotes.valid).await == 200
        })
        .await;
        if at_ns >= self.rejected_ns {
            let status = quotes.status(http, &quotes.revoked).await;
            assert_eq!(status, 401, "the revocation is remembered");
        }
        quotes.until_whole(&self.nats, &serving).await;
        serving.kill();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_power_loss_the_service_is_right_and_remembers_what_was_revoked() {
    if !Trace::is_permitted() {
        return;
    }
    let mut budget = Budget::of("power loss of the service", 2);
    let mut recording = ServiceRecording::make().await;
    while let Some(mut rng) = budget.next_round() {
        // Half of the losses when the key had just been rejected.
        let at_ns = if rng.happens(50) {
            recording.rejected_ns
        } else {
            rng.within(&(recording.begun_ns..recording.ended_ns))
        };
        let unsynced = *rng.of(&Unsynced::ALL);
        let after = Duration::from_nanos(at_ns - recording.begun_ns);
        budget.step(format!("power is lost after {after:?}: {unsynced:?}"));
        let data = tempfile::tempdir().unwrap();
        lose_power(&recording.calls, at_ns, unsynced, &mut rng, data.path());
        recording.check_start(data.path(), at_ns).await;
        budget.count("power losses", 1);
    }
    budget.end();
}
