//! Clients of the live channel that do what they must not: each is closed with its code, the service grows no larger, and
//! nobody else notices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::support::*;

const MIB: u64 = 1024 * 1024;
/// What attackers may cost, all together. What they announce or send is a multiple.
const GROWTH_MAX: u64 = 24 * MIB;
/// Clients that do the same at the same time.
const ATTACKERS: usize = 24;
/// The others are served within this time, on a busy machine, too.
const SERVED_WITHIN: Duration = Duration::from_secs(10);

/// A service as a process of its own, with a client that is served all the time.
struct Attacked {
    serving: Serving,
    nats: Nats,
    key: String,
    peak_bytes: u64,
    over: Arc<AtomicBool>,
    /// Updates that the bystander has had.
    served: Arc<AtomicU64>,
    bystander: JoinHandle<()>,
    /// Kept for as long as the service lives.
    _data: TempDir,
}

impl Attacked {
    async fn start() -> Self {
        let nats = Nats::start();
        let data = tempfile::tempdir().unwrap();
        let serving = Serving::start(&nats, data.path());
        let key = issue_key(&nats).await;
        nats.publish([odds("ST", 1, &second(0), &[2.0])]).await;
        eventually("the service answers to the key", || async {
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

    /// Many clients send the same at the same time, and each must get the same.
    async fn all_get(&self, what: &str, octets: &[u8], expected: &[Got]) {
        let all = (0..ATTACKERS).map(|_| async { self.open().await.tell(octets).await });
        for got in join_all(all).await {
            assert_eq!(got, expected, "{what}");
        }
    }

    /// All attackers are gone, the memory has stayed what it was, and the bystander has been served.
    async fn unharmed(self) {
        self.unharmed_within(GROWTH_MAX).await;
    }

    async fn unharmed_within(self, growth_max: u64) {
        eventually("all places are free again", || async {
            self.serving.metric("railbird_ws_connections").await == 1
        })
        .await;
        let grown = self.serving.peak_bytes() - self.peak_bytes;
        assert!(grown < growth_max, "grown by {} KiB", grown / 1024);
        self.over.store(true, Ordering::Relaxed);
        self.bystander.await.unwrap();
    }
}

async fn get_board(serving: &Serving, key: &str) -> Reply {
    let path = format!("/api/v1/odds/{DAY}/1");
    request(serving.http, "GET", &path, &[("x-api-key", key)]).await
}

/// Publishes one update after the other, and gets each in order and in time, by socket and by GET.
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
    for n in 1.. {
        if over.load(Ordering::Relaxed) {
            return;
        }
        let began = Instant::now();
        let price = if n % 2 == 0 { 2.5 } else { 3.5 };
        let update = outgoing(&odds("ST", 1, &second(n), &[price]));
        let seq = log.append(update).await.unwrap().seq;
        // Others may publish about other races meanwhile.
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
        assert!(began.elapsed() < SERVED_WITHIN, "{:?}", began.elapsed());
        last = seq;
        served.store(n, Ordering::Relaxed);
    }
}

fn closed(code: u16) -> [Got; 3] {
    [Got::Closing(code), Got::Close(Some(code)), Got::End]
}

/// How many of what came are answers, before the end.
fn answers(got: &[Got], code: u16) -> usize {
    let (answers, end) = got.split_at(got.len().saturating_sub(3));
    assert_eq!(end, closed(code));
    answers.len()
}

#[tokio::test]
async fn what_breaks_the_rules_is_closed_with_its_code() {
    let attacked = Attacked::start().await;
    let announced = |first: u8| header(first, 64 << 20);
    let fragments = |count: usize, octets: usize| {
        let mut all = frame(TEXT, vec![b' '; octets]);
        let next = frame(CONTINUATION, vec![b' '; octets]);
        all.extend(next.repeat(count - 1));
        all
    };
    let endless = [&[FIN | TEXT, 0x80 | 127][..], &[0xff; 8], &[0; 4]].concat();
    for (what, octets, code) in [
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
        ("all that 64 bits can say", endless, 1009),
        ("17 KiB in a frame", text(vec![b' '; 17 << 10]), 1009),
        ("20 KiB in fragments of 4", fragments(5, 4 << 10), 1009),
        // As many as it takes, and no more are needed.
        ("fragments of an octet", fragments((16 << 10) + 1, 1), 1009),
    ] {
        attacked.all_get(what, &octets, &closed(code)).await;
    }
    // The payload that was announced, and fragments without an end.
    for octets in [
        [announced(FIN | TEXT), vec![b'x'; 1 << 20]].concat(),
        fragments(1_000_000, 1),
    ] {
        let floods = (0..4).map(|_| async { attacked.open().await.flood(&octets).await });
        for got in join_all(floods).await {
            assert_eq!(got, closed(1009));
        }
    }
    attacked.unharmed().await;
}

#[tokio::test]
async fn messages_that_are_none_are_answered_and_the_connection_lives() {
    let attacked = Attacked::start().await;
    let error = |kind: &str| Got::Error(kind.to_owned());
    let nested = "[".repeat(16 << 10);
    let unknown = format!(r#"{{"op":"{}"}}"#, "\u{200b}".repeat(5_000));
    let number = r#"{"op":"ping","id":1e999}"#;
    let object = r#"{"op":"ping","id":{"deep":[]}}"#;
    let messages = ["{}", "null", "", &nested, number, &unknown, object];
    let mut octets = messages.map(text).concat();
    octets.extend(close(1000, ""));
    let mut got = vec![error("invalid_message"); 5];
    got.extend([error("unknown_op"), error("invalid_parameter")]);
    got.extend([Got::Close(Some(1000)), Got::End]);
    attacked.all_get("no messages", &octets, &got).await;
    attacked.unharmed().await;
}

#[tokio::test]
async fn floods_are_cut_off() {
    let attacked = Attacked::start().await;
    let pinged = frame(FIN | PING, "flood");
    for (what, octets) in [
        ("pings", pinged.repeat(10_000)),
        ("pongs", frame(FIN | PONG, "").repeat(10_000)),
        ("ops", text(ping("flood")).repeat(2_000)),
        ("nonsense", text("?").repeat(2_000)),
        ("resyncs", text(r#"{"op":"resync"}"#).repeat(2_000)),
        (
            "subscriptions",
            text(r#"{"op":"subscribe","venues":["ST","HV"]}"#).repeat(2_000),
        ),
        // Bytes count, too, where there is no message.
        (
            "empty fragments",
            [frame(TEXT, ""), frame(CONTINUATION, "").repeat(200_000)].concat(),
        ),
    ] {
        let began = Instant::now();
        let all = (0..ATTACKERS).map(|_| async { attacked.open().await.tell(&octets).await });
        let all = join_all(all).await;
        // 100 at once and 20 a second.
        let most = 100 + 20 * (1 + usize::try_from(began.elapsed().as_secs()).unwrap());
        for got in all {
            let answers = answers(&got, 1008);
            assert!(answers <= most, "{what}: {answers}");
        }
    }
    // One that goes on for ever, whatever it is told.
    for octets in [pinged.repeat(1_000), frame(PONG | FIN, "").repeat(1_000)] {
        answers(&attacked.open().await.flood(&octets).await, 1008);
    }
    attacked.unharmed().await;
}

#[tokio::test]
async fn floods_by_clients_that_do_not_read_cost_no_memory() {
    const RACES: u16 = 24;
    let attacked = Attacked::start().await;
    let prices = [2.5; 14];
    let boards = (2..RACES + 2).map(|race| odds("ST", race, &second(0), &prices));
    attacked.nats.publish(boards).await;
    // 100 answers of some 40 KiB are due to each; most of it would lie in memory, were it not for the bounds.
    let octets = text(r#"{"op":"resync","id":"flood"}"#).repeat(500);
    let mut silent = Vec::new();
    for _ in 0..ATTACKERS {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(32 * 1024).unwrap();
        let stream = socket.connect(attacked.serving.http).await.unwrap();
        let mut raw = Raw::on(stream, &attacked.key, &[]).await;
        // The system takes it, whether it is read or not.
        raw.write.write_all(&octets).await.unwrap();
        silent.push(raw);
    }
    // Meanwhile the bystander is served; each update finds them all blocked.
    let served = attacked.served.load(Ordering::Relaxed);
    eventually("the bystander had 50 updates", || async {
        attacked.served.load(Ordering::Relaxed) > served + 50
    })
    .await;
    let grown = attacked.serving.peak_bytes() - attacked.peak_bytes;
    assert!(grown < GROWTH_MAX, "grown by {} KiB", grown / 1024);
    // Some read after all, and get every answer that they are due, and then the end; the others are cut off.
    silent.truncate(2);
    for mut raw in silent {
        assert!(answers(&raw.read.until_end().await, 1008) >= 100);
    }
    attacked.unharmed().await;
}

/// Has the connection end with a reset, and not in order.
fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
}

#[tokio::test]
async fn connections_that_break_anywhere_leave_nothing_behind() {
    let attacked = Attacked::start().await;
    let head = handshake(&attacked.key);
    let message = text(ping("never whole"));
    let whole = [head.as_bytes(), &message, &message].concat();
    let cuts = (1..=whole.len()).step_by(3);
    for cut in cuts {
        for with_reset in [true, false] {
            let mut stream = TcpStream::connect(attacked.serving.http).await.unwrap();
            stream.write_all(&whole[..cut]).await.unwrap();
            if cut > head.len() {
                // It is a WebSocket before it breaks.
                let mut octet = [0; 1];
                stream.read_exact(&mut octet).await.unwrap();
            }
            if with_reset {
                reset(stream);
            }
        }
    }
    // A close, and nobody waits for the answer.
    for _ in 0..ATTACKERS {
        let mut raw = attacked.open().await;
        let octets = [message.clone(), close(1000, "")].concat();
        raw.write.write_all(&octets).await.unwrap();
    }
    attacked.unharmed().await;
}

#[tokio::test]
async fn who_is_told_to_go_and_stays_is_cut_off() {
    let attacked = Attacked::start().await;
    let mut staying = Vec::new();
    for octets in [unmasked(FIN | TEXT, b"{}"), close(1000, "")] {
        let mut raw = attacked.open().await;
        raw.write.write_all(&octets).await.unwrap();
        assert_eq!(raw.read.until_end().await.last(), Some(&Got::End));
        staying.push(raw);
    }
    attacked.unharmed().await;
    drop(staying);
}

#[tokio::test]
async fn two_thousand_silent_connections_disturb_nobody() {
    const SILENT: usize = 2_000;
    // Half of them have begun a handshake. Each end of a connection needs a file, in a process of its own.
    let mut files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let needed = 3 * SILENT as u64;
    if files.current.is_some_and(|current| current < needed) {
        files.current = files.maximum.map(|most| most.min(needed)).or(Some(needed));
        rustix::process::setrlimit(rustix::process::Resource::Nofile, files).unwrap();
    }
    let attacked = Attacked::start().await;
    let head = handshake(&attacked.key);
    let mut silent = Vec::new();
    for n in 0..SILENT {
        let mut stream = TcpStream::connect(attacked.serving.http).await.unwrap();
        if n % 2 == 0 {
            let half = &head.as_bytes()[..head.len() / 2];
            stream.write_all(half).await.unwrap();
        }
        silent.push(stream);
    }
    eventually("all have been accepted", || async {
        let open = attacked.serving.metric("railbird_http_connections");
        open.await >= SILENT as u64
    })
    .await;
    let got = attacked.open().await.tell(&close(1000, "")).await;
    assert_eq!(got, [Got::Close(Some(1000)), Got::End]);
    drop(silent);
    eventually("all have gone", || async {
        let open = attacked.serving.metric("railbird_http_connections");
        open.await < 10
    })
    .await;
    // Without optimization, a connection takes more than it does in a release.
    attacked.unharmed_within(SILENT as u64 * 64 * 1024).await;
}

/// The answer to a request, as it stands on the wire.
async fn answer(railbird: &Railbird, request: &str) -> String {
    let mut stream = TcpStream::connect(railbird.http).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") {
        let read = timeout(PATIENCE, stream.read_buf(&mut answer)).await;
        if read.unwrap().unwrap() == 0 {
            break;
        }
    }
    String::from_utf8(answer).unwrap().to_lowercase()
}

#[tokio::test]
async fn what_is_no_handshake_is_told_why() {
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
            "a race that is none",
            whole.replace("?", "?race=x&"),
            "400 bad request",
        ),
        ("no HTTP", "Hello?\r\n\r\n".to_owned(), "400 bad request"),
    ] {
        let answer = answer(&railbird, &request).await;
        let status_line = answer.lines().next().unwrap_or_default();
        assert!(status_line.ends_with(status), "{what}: {answer}");
        if status == upgrade_required {
            // RFC 9110, 7.8 and RFC 6455, 4.4
            for header in [
                "upgrade: websocket",
                "connection: upgrade",
                "sec-websocket-version: 13",
            ] {
                assert!(answer.contains(header), "{what}: {header} in {answer}");
            }
        }
    }
    assert_eq!(railbird.get_open("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_handshake_may_come_octet_by_octet() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut stream = TcpStream::connect(railbird.http).await.unwrap();
    stream.set_nodelay(true).unwrap();
    for octet in handshake(&railbird.key).into_bytes() {
        stream.write_all(&[octet]).await.unwrap();
    }
    let mut status = [0; 12];
    stream.read_exact(&mut status).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 101");
}

#[tokio::test]
async fn what_comes_in_the_packet_of_the_handshake_is_read() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let message = text(ping("early"));
    let open = async |octets: &[u8]| Raw::open_and_send(railbird.http, &railbird.key, octets).await;
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
    answers(&raw.read.until_end().await, 1008);
}
