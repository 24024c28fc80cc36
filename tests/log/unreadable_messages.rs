//! Messages that client libraries cannot read, in numbers: they delay neither keys nor events for long, and the service
//! stays ready.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use events::Text;
use railbird::accounts::{AccountCommands, Actor, KeyId};
use railbird::http::state::App;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::support::*;

/// How far the flood may be ahead of the views, which cannot keep up with it on every machine.
const AHEAD_MAX: u64 = 500;
/// A revocation counts within 5 s, by promise: these are the messages of the flood in that time.
const REVOKED_WITHIN: u64 = 2_500;

/// A header that the client library of the service cannot parse: it closes the connection.
const CLOSING: &[u8] = b"NATS/1.0\r\nA: \xff\r\n\r\n";
/// A header that the client library takes for a heartbeat of the server.
const SWALLOWED: &[u8] = b"NATS/1.0 100 Idle Heartbeat\r\nA: b\r\n\r\n";
/// Others that it takes for messages of the server: the end of a request, and errors. nats-server 2.15 removes a status
/// that stands alone.
const STATUSES: [&[u8]; 7] = [
    b"NATS/1.0 100 Idle Heartbeat\r\n\r\n",
    b"NATS/1.0 404 No Messages\r\nA: b\r\n\r\n",
    b"NATS/1.0 408 Request Timeout\r\nA: b\r\n\r\n",
    b"NATS/1.0 409 Consumer Deleted\r\nA: b\r\n\r\n",
    b"NATS/1.0 423 Pin Id Mismatch\r\nA: b\r\n\r\n",
    b"NATS/1.0 503\r\nA: b\r\n\r\n",
    b"NATS/1.0 999 Unknown\r\nA: b\r\n\r\n",
];

/// A feeder that speaks NATS itself.
struct RawFeeder(TcpStream);

impl RawFeeder {
    async fn connect(nats: &Nats) -> Self {
        let mut stream = TcpStream::connect(nats.address()).await.unwrap();
        let connect = r#"{"verbose":false,"headers":true,"user":"feeder","pass":"p-feeder"}"#;
        let hello = format!("CONNECT {connect}\r\nPING\r\n");
        stream.write_all(hello.as_bytes()).await.unwrap();
        Self(stream)
    }

    /// Publishes without waiting for the acknowledgement.
    async fn publish(&mut self, header: &[u8], payload: &[u8]) {
        let lengths = format!("{} {}", header.len(), header.len() + payload.len());
        let head = format!("HPUB racing.odds.{DAY}.ST.1 {lengths}\r\n");
        let message = [head.as_bytes(), header, payload, b"\r\n"].concat();
        self.0.write_all(&message).await.unwrap();
    }

    /// Publishes such a message every 2 ms until it is over, and counts them.
    fn flood(
        mut self,
        header: &'static [u8],
        app: Arc<App>,
        over: Arc<AtomicBool>,
        count: Arc<AtomicU64>,
    ) -> JoinHandle<()> {
        tokio::spawn(async move {
            let mut tick = tokio::time::interval(Duration::from_millis(2));
            let mut answers = [0; 4096];
            while !over.load(Ordering::Relaxed) {
                tick.tick().await;
                let seq = app.views.current().map_or(0, |views| views.seq());
                if count.load(Ordering::Relaxed) > seq + AHEAD_MAX {
                    continue;
                }
                self.publish(header, b"garbage").await;
                count.fetch_add(1, Ordering::Relaxed);
                let _ = self.0.try_read(&mut answers);
            }
            // The server has taken all of them when it answers.
            self.0.write_all(b"PING\r\n").await.unwrap();
            let _ = self.0.read(&mut answers).await;
        })
    }
}

async fn reconnects(railbird: &Railbird) -> u64 {
    railbird.app.health.monitor.connection().number
}

#[tokio::test]
async fn a_flood_of_messages_that_close_connections_leaves_the_service_ready_and_delays_no_revocation()
 {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let (over, count) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
    let feeder = RawFeeder::connect(&nats).await;
    let app = Arc::clone(&railbird.app);
    let flood = feeder.flood(CLOSING, app, Arc::clone(&over), Arc::clone(&count));
    eventually("the flood has begun", || async {
        count.load(Ordering::Relaxed) > 500
    })
    .await;
    let epoch = reconnects(&railbird).await;
    let began = Instant::now();
    for n in 1..=20 {
        let key = issue_key(&nats).await;
        eventually("the key is valid", || async {
            railbird.app.keys.check(&key).is_ok()
        })
        .await;
        let key_id = railbird.app.keys.check(&key).unwrap().key_id;
        let commands = AccountCommands::at_end(nats.log().await, Actor::Service)
            .await
            .unwrap();
        revoke(&commands, key_id).await;
        let before = count.load(Ordering::Relaxed);
        eventually("the key is revoked", || async {
            railbird.app.keys.check(&key).is_err()
        })
        .await;
        let meanwhile = count.load(Ordering::Relaxed) - before;
        assert!(meanwhile < REVOKED_WITHIN, "{meanwhile} messages");
        // A valid event among them.
        let seq = nats.publish([odds("ST", 1, &second(n), &[2.5])]).await;
        railbird.until_seq(seq).await;
        assert_eq!(railbird.get_open("/readyz").await.status, 200);
        eventually("the feed is live", || async {
            let ready = railbird.get_open("/readyz?fresh=10s").await;
            ready.status == 200 && ready.json()["feed"]["state"] == "live"
        })
        .await;
    }
    let epochs = reconnects(&railbird).await - epoch;
    let seconds = began.elapsed().as_secs();
    over.store(true, Ordering::Relaxed);
    flood.await.unwrap();
    eprintln!(
        "{} messages, {epochs} reconnects in {seconds} s",
        count.load(Ordering::Relaxed),
    );
    let last = nats.last_seq().await;
    railbird.until_seq(last).await;
    // The service does not reconnect for each of them.
    assert!(epochs <= 8 + seconds, "{epochs} in {seconds} s");
}

async fn revoke(commands: &AccountCommands, key_id: KeyId) {
    let reason = Text::parse("test").unwrap();
    commands.revoke(key_id, reason).await.unwrap();
}

#[tokio::test]
async fn a_last_message_that_the_client_library_swallows_is_read() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut feeder = RawFeeder::connect(&nats).await;
    let headers = [SWALLOWED, CLOSING].into_iter().chain(STATUSES);
    for (n, header) in headers.enumerate() {
        let began = Instant::now();
        feeder.publish(header, b"garbage").await;
        let seq = n as u64 + 1;
        nats.until_logged(seq).await;
        railbird.until_seq(seq).await;
        eprintln!("read after {:?}", began.elapsed());
        eventually("nothing is pending", || async {
            let body = railbird.get_open("/readyz").await.json();
            body["log"]["pending"] == 0 && body["ready"] == true
        })
        .await;
    }
    let epoch = reconnects(&railbird).await;
    let (over, count) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
    let app = Arc::clone(&railbird.app);
    let flood = feeder.flood(SWALLOWED, app, Arc::clone(&over), Arc::clone(&count));
    eventually("the flood is over", || async {
        count.load(Ordering::Relaxed) > 2_000
    })
    .await;
    over.store(true, Ordering::Relaxed);
    flood.await.unwrap();
    let last = nats.last_seq().await;
    railbird.until_seq(last).await;
    assert_eq!(reconnects(&railbird).await, epoch);
}
