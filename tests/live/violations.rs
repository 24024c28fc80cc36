//! Clients of the live channel that violate the protocol: each is closed with its code, the service's memory stays
//! bounded, and other clients are served as before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, timeout};

use crate::support::*;

const MIB: u64 = 1024 * 1024;
/// The memory that all attackers together may cost. They announce or send a multiple of it.
const GROWTH_MAX: u64 = 24 * MIB;
/// The service keeps some of the bystander's updates in memory: as fast as a quiet machine takes them, they would be
/// most of the growth.
const UPDATE_INTERVAL: Duration = Duration::from_millis(20);
/// Attackers at a time.
const ATTACKERS: usize = 24;

/// A service as a process, with a bystander: a client that it serves all the time.
struct Fixture {
    serving: Serving,
    nats: Nats,
    key: String,
    peak_bytes: u64,
    over: Arc<AtomicBool>,
    /// Updates that the bystander has received.
    served: Arc<AtomicU64>,
    bystander: JoinHandle<()>,
    /// Kept for as long as the service lives.
    _data: TempDir,
}

impl Fixture {
    async fn start() -> Self {
        let nats = Nats::start();
        let data = tempfile::tempdir().unwrap();
        // All clients of a test are of one network.
        let url = nats.url();
        let all = [
            "--connections-per-network",
            "20000",
            "--http",
            "127.0.0.1:0",
        ];
        let flags = [&all[..], &["--nats", &url]].concat();
        let serving = Serving::start_with(&flags, data.path());
        let key = issue_key(&nats).await;
        nats.publish([odds("ST", 1, &second(0), &[2.0])]).await;
        until_valid(serving.http, &key).await;
        eventually("the board is served", || async {
            get_board(&serving, &key).await.status == 200
        })
        .await;
        let (over, served) = (Arc::default(), Arc::default());
        let bystander = tokio::spawn(stand_by(
            (serving.http, key.clone()),
            nats.log().await,
            Arc::clone(&over),
            Arc::clone(&served),
        ));
        eventually("the bystander is served", || async {
            served.load(Ordering::Relaxed) > 0
        })
        .await;
        // What the first scrape allocates is not for the attackers.
        serving.metric("railbird_ws_connections").await;
        Self {
            peak_bytes: serving.peak_bytes(),
            serving,
            nats,
            key,
            over,
            served,
            bystander,
            _data: data,
        }
    }

    async fn open(&self) -> Raw {
        Raw::open(self.serving.http, &self.key).await
    }

    /// All attackers send the same bytes at the same time. Each must receive the same frames.
    async fn all_receive(&self, what: &str, bytes: &[u8], expected: &[Got]) {
        let all = (0..ATTACKERS).map(|_| async { self.open().await.send(bytes).await });
        for got in join_all(all).await {
            assert_eq!(got, expected, "{what}");
        }
    }

    /// Waits until all attackers are gone, and checks the memory and the bystander.
    async fn assert_unharmed(self) {
        self.assert_unharmed_within(GROWTH_MAX).await;
    }

    async fn assert_unharmed_within(self, growth_max: u64) {
        eventually("all attackers are disconnected", || async {
            self.serving.metric("railbird_ws_connections").await == 1
        })
        .await;
        let grown = self.serving.peak_bytes().saturating_sub(self.peak_bytes);
        assert!(grown < growth_max, "grown by {} KiB", grown / 1024);
        self.over.store(true, Ordering::Relaxed);
        self.bystander.await.unwrap();
    }
}

async fn get_board(serving: &Serving, key: &str) -> Reply {
    let path = format!("/api/v1/odds/{DAY}/1");
    request(serving.http, "GET", &path, &[("x-api-key", key)]).await
}

/// Publishes one update after the other, and checks that it receives each in order, by WebSocket and by GET.
async fn stand_by(
    (http, key): (std::net::SocketAddr, String),
    log: railbird::log::Log,
    over: Arc<AtomicBool>,
    served: Arc<AtomicU64>,
) {
    let mut socket = Socket::open(http, &key).await;
    let opening = socket.until("snapshot_complete").await;
    let mut last = opening.iter().find_map(|m| m["seq"].as_u64()).unwrap();
    let path = format!("/api/v1/odds/{DAY}/1");
    let mut pace = tokio::time::interval(UPDATE_INTERVAL);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for n in 1.. {
        if over.load(Ordering::Relaxed) {
            return;
        }
        pace.tick().await;
        let price = if n % 2 == 0 { 2.5 } else { 3.5 };
        let update = outgoing(&odds("ST", 1, &second(n), &[price]));
        let seq = log.append(update).await.unwrap().seq;
        // The attackers publish about other races.
        let message = loop {
            let message = socket.next().await.unwrap();
            if message["race_number"] == 1 {
                break message;
            }
        };
        assert_eq!(
            (&message["seq"], &message["prev_seq"]),
            (&seq.into(), &last.into())
        );
        let board = request(http, "GET", &path, &[("x-api-key", &key)]).await;
        assert_eq!(board.json()["seq"], seq);
        last = seq;
        served.store(n, Ordering::Relaxed);
    }
}

fn closed(code: u16) -> [Got; 3] {
    [Got::Closing(code), Got::Close(Some(code)), Got::End]
}

/// Checks the end, and returns the number of replies before it.
fn replies(got: &[Got], code: u16) -> usize {
    let (replies, end) = got.split_at(got.len().saturating_sub(3));
    assert_eq!(end, closed(code), "after {} replies", replies.len());
    replies.len()
}

#[tokio::test]
async fn protocol_violations_are_closed_with_their_code() {
    let fixture = Fixture::start().await;
    let announced = |first: u8| header(first, 64 << 20);
    let fragments = |count: usize, bytes: usize| {
        let mut all = frame(TEXT, vec![b' '; bytes]);
        let next = frame(CONTINUATION, vec![b' '; bytes]);
        all.extend(next.repeat(count - 1));
        all
    };
    let endless = [&[FIN | TEXT, 0x80 | 127][..], &[0xff; 8], &[0; 4]].concat();
    for (what, bytes, code) in [
        ("text without a mask", unmasked(FIN | TEXT, b"{}"), 1002),
        ("a ping without a mask", unmasked(FIN | PING, b""), 1002),
        ("a close without a mask", unmasked(FIN | CLOSE, b""), 1002),
        ("no UTF-8", text(b"\xff"), 1007),
        (
            "a continuation of nothing",
            frame(FIN | CONTINUATION, "x"),
            1002,
        ),
        ("binary", frame(FIN | BINARY, "x"), 1003),
        ("64 MiB announced", announced(FIN | TEXT), 1009),
        ("a fragment of 64 MiB announced", announced(TEXT), 1009),
        ("a ping of 64 MiB announced", announced(FIN | PING), 1009),
        ("2^64 bytes announced", endless, 1009),
        ("17 KiB in a frame", text(vec![b' '; 17 << 10]), 1009),
        ("20 KiB in fragments of 4", fragments(5, 4 << 10), 1009),
        // Exactly one byte too many.
        ("fragments of an byte", fragments((16 << 10) + 1, 1), 1009),
    ] {
        fixture.all_receive(what, &bytes, &closed(code)).await;
    }
    // The announced payload, and endless fragments.
    for bytes in [
        [announced(FIN | TEXT), vec![b'x'; 1 << 20]].concat(),
        fragments(1_000_000, 1),
    ] {
        let floods = (0..4).map(|_| async { fixture.open().await.flood(&bytes).await });
        for got in join_all(floods).await {
            assert_eq!(got, closed(1009));
        }
    }
    fixture.assert_unharmed().await;
}

#[tokio::test]
async fn invalid_messages_get_an_error_and_the_connection_stays_open() {
    let fixture = Fixture::start().await;
    let error = |kind: &str| Got::Error(kind.to_owned());
    let nested = "[".repeat(16 << 10);
    let unknown = format!(r#"{{"op":"{}"}}"#, "\u{200b}".repeat(5_000));
    let number = r#"{"op":"ping","id":1e999}"#;
    let object = r#"{"op":"ping","id":{"deep":[]}}"#;
    let messages = ["{}", "null", "", &nested, number, &unknown, object];
    let mut bytes = messages.map(text).concat();
    bytes.extend(close(1000, ""));
    let mut got = vec![error("invalid_message"); 5];
    got.extend([error("unknown_op"), error("invalid_parameter")]);
    got.extend([Got::Close(Some(1000)), Got::End]);
    fixture.all_receive("invalid messages", &bytes, &got).await;
    fixture.assert_unharmed().await;
}

/// Each flood goes on until it is cut off: what is sent at once is within the quota of a service that takes long to
/// read it.
#[tokio::test]
async fn floods_are_cut_off() {
    let fixture = Fixture::start().await;
    for (what, first, then) in [
        ("pings", vec![], frame(FIN | PING, "flood")),
        ("pongs", vec![], frame(FIN | PONG, "")),
        ("ops", vec![], text(ping("flood"))),
        ("nonsense", vec![], text("?")),
        ("resyncs", vec![], text(r#"{"op":"resync"}"#)),
        (
            "subscriptions",
            vec![],
            text(r#"{"op":"subscribe","venues":["ST","HV"]}"#),
        ),
        // Bytes count, too, without a message.
        ("empty fragments", frame(TEXT, ""), frame(CONTINUATION, "")),
    ] {
        let served = fixture.served.load(Ordering::Relaxed);
        let bytes = then.repeat(1_000);
        eventually("the bystander is served meanwhile", || async {
            let began = Instant::now();
            let all = (0..ATTACKERS).map(|_| async {
                let mut attacker = fixture.open().await;
                attacker.write.write_all(&first).await.unwrap();
                attacker.flood(&bytes).await
            });
            let all = join_all(all).await;
            // 100 at once and 20 a second.
            let most = 100 + 20 * (1 + usize::try_from(began.elapsed().as_secs()).unwrap());
            for got in all {
                let replies = replies(&got, 1008);
                assert!(replies <= most, "{what}: {replies}");
            }
            fixture.served.load(Ordering::Relaxed) > served
        })
        .await;
    }
    fixture.assert_unharmed().await;
}

#[tokio::test]
async fn floods_by_clients_that_do_not_read_use_bounded_memory() {
    const RACES: u16 = 24;
    let fixture = Fixture::start().await;
    let prices = [2.5; 14];
    let boards = (2..RACES + 2).map(|race| odds("ST", race, &second(0), &prices));
    fixture.nats.publish(boards).await;
    // Each is due 100 replies of about 40 KiB. Without the bounds, most of that would be in memory.
    let bytes = text(r#"{"op":"resync","id":"flood"}"#).repeat(500);
    let mut silent = Vec::new();
    for _ in 0..ATTACKERS {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(32 * 1024).unwrap();
        let stream = socket.connect(fixture.serving.http).await.unwrap();
        let mut raw = Raw::on(stream, &fixture.key, &[]).await;
        // The operating system buffers it, whether it is read or not.
        raw.write.write_all(&bytes).await.unwrap();
        silent.push(raw);
    }
    // Meanwhile the bystander is served; each update finds them all blocked.
    let served = fixture.served.load(Ordering::Relaxed);
    eventually("the bystander received 50 updates", || async {
        fixture.served.load(Ordering::Relaxed) > served + 50
    })
    .await;
    let grown = fixture
        .serving
        .peak_bytes()
        .saturating_sub(fixture.peak_bytes);
    assert!(grown < GROWTH_MAX, "grown by {} KiB", grown / 1024);
    // Two read in the end, and receive all their replies and the close. The others are cut off. What was sent is within
    // the quota of a client that takes long to read the replies, so these send more.
    silent.truncate(2);
    for raw in silent {
        assert!(replies(&raw.flood(&bytes).await, 1008) >= 100);
    }
    fixture.assert_unharmed().await;
}

/// Ends the connection with RST.
fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
}

#[tokio::test]
async fn connections_that_break_anywhere_leave_nothing_behind() {
    let fixture = Fixture::start().await;
    let head = handshake(&fixture.key);
    let message = text(ping("never whole"));
    let whole = [head.as_bytes(), &message, &message].concat();
    let cuts = (1..=whole.len()).step_by(3);
    for cut in cuts {
        for with_reset in [true, false] {
            let mut stream = TcpStream::connect(fixture.serving.http).await.unwrap();
            stream.write_all(&whole[..cut]).await.unwrap();
            if cut > head.len() {
                // The handshake completes before the connection breaks.
                let mut byte = [0; 1];
                stream.read_exact(&mut byte).await.unwrap();
            }
            if with_reset {
                reset(stream);
            }
        }
    }
    // A close frame, without waiting for the reply.
    for _ in 0..ATTACKERS {
        let mut raw = fixture.open().await;
        let bytes = [message.clone(), close(1000, "")].concat();
        raw.write.write_all(&bytes).await.unwrap();
    }
    fixture.assert_unharmed().await;
}

#[tokio::test]
async fn a_client_that_stays_after_the_close_is_cut_off() {
    let fixture = Fixture::start().await;
    let mut staying = Vec::new();
    for bytes in [unmasked(FIN | TEXT, b"{}"), close(1000, "")] {
        let mut raw = fixture.open().await;
        raw.write.write_all(&bytes).await.unwrap();
        assert_eq!(raw.read.until_end().await.last(), Some(&Got::End));
        staying.push(raw);
    }
    fixture.assert_unharmed().await;
    drop(staying);
}

#[tokio::test]
async fn two_thousand_silent_connections_do_not_affect_other_clients() {
    const SILENT: usize = 2_000;
    // Each end of a connection needs a file handle, here and in the service. Half of the clients have begun a
    // handshake.
    let mut files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let needed = 3 * SILENT as u64;
    if files.current.is_some_and(|current| current < needed) {
        files.current = files.maximum.map(|most| most.min(needed)).or(Some(needed));
        rustix::process::setrlimit(rustix::process::Resource::Nofile, files).unwrap();
    }
    let fixture = Fixture::start().await;
    let head = handshake(&fixture.key);
    let mut silent = Vec::new();
    for n in 0..SILENT {
        let mut stream = TcpStream::connect(fixture.serving.http).await.unwrap();
        if n % 2 == 0 {
            let half = &head.as_bytes()[..head.len() / 2];
            stream.write_all(half).await.unwrap();
        }
        silent.push(stream);
    }
    eventually("all are accepted", || async {
        let open = fixture.serving.metric("railbird_http_connections");
        open.await >= SILENT as u64
    })
    .await;
    let got = fixture.open().await.send(&close(1000, "")).await;
    assert_eq!(got, [Got::Close(Some(1000)), Got::End]);
    drop(silent);
    eventually("all are closed", || async {
        let open = fixture.serving.metric("railbird_http_connections");
        open.await < 10
    })
    .await;
    // A connection takes more memory than in a release build.
    fixture
        .assert_unharmed_within(SILENT as u64 * 64 * 1024)
        .await;
}

/// The bytes of the response to a request, in lower case.
async fn respond(railbird: &Railbird, request: &str) -> String {
    let mut stream = TcpStream::connect(railbird.http).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    while !response.ends_with(b"}") {
        let read = timeout(PATIENCE, stream.read_buf(&mut response)).await;
        if read.unwrap().unwrap() == 0 {
            break;
        }
    }
    String::from_utf8(response).unwrap().to_lowercase()
}

#[tokio::test]
async fn an_invalid_handshake_is_rejected_with_the_reason() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let whole = handshake(&railbird.key);
    let without = |header: &str| {
        let lines = whole.split_inclusive("\r\n");
        lines.filter(|line| !line.starts_with(header)).collect()
    };
    let upgrade_required = "426 upgrade required";
    for (what, request, status) in [
        ("no key", without("Sec-WebSocket-Key"), upgrade_required),
        (
            "no version",
            without("Sec-WebSocket-Version"),
            upgrade_required,
        ),
        (
            "an old version",
            whole.replace("Version: 13", "Version: 8"),
            upgrade_required,
        ),
        ("no upgrade", without("Upgrade"), upgrade_required),
        (
            "another upgrade",
            whole.replace("Upgrade: websocket", "Upgrade: h2c"),
            upgrade_required,
        ),
        ("no connection", without("Connection"), upgrade_required),
        (
            "HTTP/1.0",
            whole.replace("HTTP/1.1", "HTTP/1.0"),
            upgrade_required,
        ),
        (
            "another method",
            whole.replace("GET", "POST"),
            "405 method not allowed",
        ),
        (
            "another API key",
            whole.replace(&railbird.key, "rb_no"),
            "401 unauthorized",
        ),
        (
            "an invalid race",
            whole.replace("?", "?race=x&"),
            "400 bad request",
        ),
        ("no HTTP", "Hello?\r\n\r\n".to_owned(), "400 bad request"),
    ] {
        let response = respond(&railbird, &request).await;
        let status_line = response.lines().next().unwrap_or_default();
        assert!(status_line.ends_with(status), "{what}: {response}");
        if status == upgrade_required {
            // RFC 9110, 7.8 and RFC 6455, 4.4
            for header in [
                "upgrade: websocket",
                "connection: upgrade",
                "sec-websocket-version: 13",
            ] {
                assert!(response.contains(header), "{what}: {header} in {response}");
            }
        }
    }
    assert_eq!(railbird.get_open("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_handshake_may_arrive_byte_by_byte() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut stream = TcpStream::connect(railbird.http).await.unwrap();
    stream.set_nodelay(true).unwrap();
    for byte in handshake(&railbird.key).into_bytes() {
        stream.write_all(&[byte]).await.unwrap();
    }
    let mut status = [0; 12];
    stream.read_exact(&mut status).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 101");
}

#[tokio::test]
async fn frames_in_the_packet_of_the_handshake_are_read() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let message = text(ping("early"));
    let open = async |bytes: &[u8]| Raw::open_and_send(railbird.http, &railbird.key, bytes).await;
    let mut raw = open(&message).await;
    assert_eq!(raw.read.next().await, ack("early"));
    let mut raw = open(&message.repeat(3)).await;
    for _ in 0..3 {
        assert_eq!(raw.read.next().await, ack("early"));
    }
    let (half, other_half) = message.split_at(message.len() / 2);
    let mut raw = open(half).await;
    raw.write.write_all(other_half).await.unwrap();
    assert_eq!(raw.read.next().await, ack("early"));
    let mut raw = open(&unmasked(FIN | TEXT, b"early")).await;
    assert_eq!(raw.read.until_end().await, closed(1002));
    let mut raw = open(&frame(FIN | PING, "").repeat(1_000)).await;
    replies(&raw.read.until_end().await, 1008);
}
