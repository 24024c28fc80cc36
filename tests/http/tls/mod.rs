//! TLS: of the public address, with certificates that are renewed, and of the connection to NATS.

mod cluster;
mod hello;
mod nats;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jiff::{Timestamp, ToSpan};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::rustls::version::{TLS12, TLS13};

use self::hello::{ClientHello, Version};
use crate::support::*;

/// A service with TLS as a process: its metrics are its own.
struct Encrypted {
    _nats: Nats,
    folder: tempfile::TempDir,
    authority: Authority,
    certificate: PemCertificate,
    serving: Serving,
    key: String,
}

impl Encrypted {
    async fn start(more: &[&str]) -> Self {
        let authority = Authority::new();
        let certificate = authority.issue();
        Self::start_as(authority, certificate, more).await
    }

    async fn start_as(authority: Authority, certificate: PemCertificate, more: &[&str]) -> Self {
        let (nats, folder) = (Nats::start(), tempfile::tempdir().unwrap());
        let key = issue_key(&nats).await;
        let last = nats.publish([card("2026-11-21", "ST", 1, 3)]).await;
        let (tls, url) = (certificate.write(folder.path()).flags(), nats.url());
        let mut flags = vec!["--http", "127.0.0.1:0", "--nats", &url];
        flags.extend(tls.iter().map(String::as_str));
        flags.extend(more);
        let serving = Serving::start_with(&flags, &folder.path().join("data"));
        let started = Self {
            _nats: nats,
            folder,
            authority,
            certificate,
            serving,
            key,
        };
        eventually("the service is ready", || async {
            let reply = request(started.serving.admin, "GET", "/status", &[]).await;
            let status = reply.json();
            status["ready"] == true && status["log"]["seq"] == last
        })
        .await;
        started
    }

    fn http(&self) -> SocketAddr {
        self.serving.http
    }

    fn client(&self) -> TlsClient {
        self.authority.client(&[&TLS13, &TLS12])
    }

    async fn metric(&self, name: &str) -> u64 {
        self.serving.metric(name).await
    }
}

const CARD: &str = "/api/v1/racecards/2026-11-21";
const RENEWAL_FAILED: &str = "railbird_tls_certificate_renewal_failed";
const HANDSHAKES_FAILED: &str = "railbird_tls_handshakes_failed_total";

#[tokio::test]
async fn http_and_the_live_channel_are_served_with_both_versions_of_tls() {
    let nats = Nats::start();
    let plain = Railbird::start(&nats).await;
    let encrypted = Railbird::start_with_tls(&nats).await;
    let seq = nats.publish([card("2026-11-21", "ST", 1, 12)]).await;
    for railbird in [&plain, &encrypted] {
        railbird.until_seq(seq).await;
    }
    let (over_plain, over_tls) = (plain.get(CARD).await, encrypted.get(CARD).await);
    assert_eq!(over_tls.status, 200);
    assert_eq!(over_tls.body, over_plain.body);
    let strict = "strict-transport-security";
    assert_eq!(over_tls.header(strict), "max-age=31536000");
    assert_eq!(
        over_plain.header(strict),
        "",
        "without TLS it means nothing"
    );

    // All messages arrive, unchanged and in order.
    let (mut socket, _) = encrypted.live("").await;
    let (mut reference, _) = plain.live("").await;
    let prices = |n: u16| [2.0 + f64::from(n), 3.0, 4.5];
    let quotes = (0..500).map(|n| odds("ST", 1, &second(n.into()), &prices(n)));
    let last = nats.publish(quotes).await;
    let is_last = |message: &serde_json::Value| message["seq"] == last;
    let received = socket.until_one(is_last).await;
    assert_eq!(received, reference.until_one(is_last).await);
    let (_, ack) = socket
        .request(&serde_json::json!({"op": "ping", "id": "1"}))
        .await;
    assert_eq!(ack["id"], "1");

    let served = Encrypted::start(&[]).await;
    for version in [&TLS12, &TLS13] {
        let client = served.authority.client(&[version]);
        let (mut http, certificate) = client.http(served.http()).await.unwrap();
        assert_eq!(certificate, served.certificate.der());
        for _ in 0..3 {
            assert_eq!(http.get(CARD, &served.key).await.unwrap().status, 200);
        }
    }
    // The admin address stays plain.
    assert_eq!(
        request(served.serving.admin, "GET", "/metrics", &[])
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn watch_connects_with_tls() {
    let service = Encrypted::start(&[]).await;
    let mut watch = command();
    let url = format!("wss://{}", service.http());
    watch.args(["watch", "--json", "--url", &url, "--api-key", &service.key]);
    watch.env(
        "SSL_CERT_FILE",
        service.authority.file(service.folder.path()),
    );
    let mut watching = watch.stdout(Stdio::piped()).spawn().unwrap();
    let first = BufReader::new(watching.stdout.take().unwrap())
        .lines()
        .next();
    watching.kill().unwrap();
    watching.wait().unwrap();
    assert!(first.unwrap().unwrap().contains("\"welcome\""));
}

#[tokio::test]
async fn a_command_of_the_api_connects_with_tls_to_a_service_that_it_can_trust() {
    let service = Encrypted::start(&[]).await;
    let url = format!("https://{}", service.http());
    for is_trusted in [true, false] {
        let mut diff = command();
        diff.args(["diff", "1", "1", "--url", &url, "--api-key", &service.key]);
        if is_trusted {
            let authority = service.authority.file(service.folder.path());
            diff.env("SSL_CERT_FILE", authority);
        }
        let output = diff.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        let code = if is_trusted { 0 } else { 69 };
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert_eq!(error.contains("certificate"), !is_trusted, "{error}");
    }
}

#[tokio::test]
async fn a_certificate_is_renewed_under_load_without_a_lost_request() {
    const KEPT: usize = 16;
    const RENEWALS: usize = 3;
    let service = Encrypted::start(&["--access-log"]).await;
    let key = &service.key;
    let tunnel = Tunnel::to(service.http(), service.client()).await;
    let mut socket = Socket::open(tunnel.address, key).await;
    socket.until("snapshot_complete").await;
    let (stop, answered, connected) = (
        AtomicBool::new(false),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
    );
    let client = service.client();
    let check = |reply: hyper::Result<Reply>| {
        let reply = reply.expect("an answer to every request");
        assert!([200, 429].contains(&reply.status), "{}", reply.text());
        answered.fetch_add(1, Ordering::Relaxed);
    };
    let keep = || async {
        let (mut http, _) = client.http(service.http()).await.unwrap();
        while !stop.load(Ordering::Relaxed) {
            check(http.get(CARD, key).await);
        }
    };
    let connect_again = || async {
        while !stop.load(Ordering::Relaxed) {
            let (mut http, _) = client.http(service.http()).await.unwrap();
            check(http.get(CARD, key).await);
            connected.fetch_add(1, Ordering::Relaxed);
        }
    };
    let renew = async {
        for _ in 0..RENEWALS {
            let (before, renewed) = (connected.load(Ordering::Relaxed), service.authority.issue());
            renewed.write(service.folder.path());
            eventually("new connections see the new certificate", || async {
                client.certificate(service.http()).await == renewed.der()
            })
            .await;
            assert!(
                connected.load(Ordering::Relaxed) > before,
                "connections come meanwhile"
            );
        }
        stop.store(true, Ordering::Relaxed);
    };
    let kept = futures::future::join_all((0..KEPT).map(|_| keep()));
    let connecting = futures::future::join_all((0..4).map(|_| connect_again()));
    tokio::join!(kept, connecting, renew);
    assert!(answered.load(Ordering::Relaxed) > 1_000);
    assert_eq!(service.metric(HANDSHAKES_FAILED).await, 0);
    assert_eq!(service.metric(RENEWAL_FAILED).await, 0);
    let (_, ack) = socket
        .request(&serde_json::json!({"op": "ping", "id": "still here"}))
        .await;
    assert_eq!(ack["id"], "still here");
}

#[tokio::test]
async fn a_broken_renewal_keeps_the_certificate_and_is_logged_once() {
    let service = Encrypted::start(&[]).await;
    let (folder, address) = (service.folder.path(), service.http());
    let (old, other) = (service.certificate.clone(), service.authority.issue());
    let broken = [
        PemCertificate {
            key: other.key.clone(),
            ..old.clone()
        },
        PemCertificate {
            cert: "no PEM".to_owned(),
            ..old.clone()
        },
    ];
    for broken in broken {
        broken.write(folder);
        eventually("the failure is known", || async {
            service.metric(RENEWAL_FAILED).await == 1
        })
        .await;
        assert_eq!(service.client().certificate(address).await, old.der());
        old.write(folder);
        eventually("the old files are well", || async {
            service.metric(RENEWAL_FAILED).await == 0
        })
        .await;
    }
    std::fs::remove_file(folder.join("key.pem")).unwrap();
    eventually("the loss is known", || async {
        service.metric(RENEWAL_FAILED).await == 1
    })
    .await;
    other.write(folder);
    eventually("the new certificate is used", || async {
        service.client().certificate(address).await == other.der()
    })
    .await;
    eventually("all is well", || async {
        service.metric(RENEWAL_FAILED).await == 0
    })
    .await;
    let log = service.serving.stop().await.join("\n");
    let errors: Vec<&str> = log.lines().filter(|line| line.contains("ERROR")).collect();
    assert_eq!(errors.len(), 3, "{errors:#?}");
    let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    for (error, file) in errors.iter().zip([&key, &cert, &key]) {
        assert!(error.contains(&file.display().to_string()), "{error}");
    }
    assert_eq!(log.matches("the TLS certificate was renewed").count(), 1);
    assert!(!log.contains("BEGIN"), "no part of a file is logged");
}

#[tokio::test]
async fn the_expiry_is_a_metric_and_warned_of_before() {
    let authority = Authority::new();
    let today = Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    let expires = "railbird_tls_certificate_expires_timestamp_seconds";
    for (days, level, text) in [
        (40, "WARN", ""),
        (10, "WARN", "expires soon"),
        (-2, "ERROR", "has expired"),
    ] {
        let end = today.checked_add(days.days()).unwrap();
        let seconds = end
            .to_zoned(jiff::tz::TimeZone::UTC)
            .unwrap()
            .timestamp()
            .as_second();
        let certificate = authority.issue_until(end);
        let service = Encrypted::start_as(Authority::new(), certificate, &[]).await;
        assert_eq!(
            service.metric(expires).await,
            u64::try_from(seconds).unwrap()
        );
        let log = service.serving.stop().await;
        let lines: Vec<_> = log
            .iter()
            .filter(|line| line.contains("TLS certificate"))
            .collect();
        let expected = usize::from(!text.is_empty());
        assert_eq!(lines.len(), expected, "{days} days: {lines:?}");
        assert!(
            lines
                .iter()
                .all(|line| line.contains(text) && line.contains(level))
        );
    }
}

#[tokio::test]
async fn only_current_versions_and_suites_are_offered() {
    let service = Encrypted::start(&[]).await;
    let address = service.http();
    for version in [Version::Ssl3, Version::Tls10, Version::Tls11] {
        let refused = ClientHello::all_suites(version).send(address).await;
        assert_eq!(refused, None, "{version:?}");
    }
    // AES-GCM and ChaCha20-Poly1305 alone, with ECDHE.
    for (version, expected) in [
        (Version::Tls12, BTreeSet::from([0xc02b, 0xc02c, 0xcca9])),
        (Version::Tls13, BTreeSet::from([0x1301, 0x1302, 0x1303])),
    ] {
        let mut hello = ClientHello::all_suites(version);
        let mut offered = BTreeSet::new();
        while let Some(hello_of_server) = hello.send(address).await {
            assert_eq!(hello_of_server.version, version);
            assert!(offered.insert(hello_of_server.suite));
            hello.suites.remove(&hello_of_server.suite);
        }
        assert_eq!(offered, expected, "{version:?}");
    }
    let ssl2 = [&[0x80, 0x2e, 1, 0, 2, 0, 0x15, 0, 0, 0, 0x10][..], &[0; 37]].concat();
    assert!(!exchange(address, &ssl2).await.starts_with(&[0x80]));
    let http2 = service.client();
    // The client offers h2 first.
    assert!(http2.http(address).await.is_ok());
}

/// Sends bytes and the end, and reads until the end.
async fn exchange(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    let reading = timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    reading
        .expect("the connection is closed")
        .expect("without a reset");
    answer
}

#[tokio::test]
async fn anything_but_tls_is_closed_and_counted() {
    let service = Encrypted::start(&[]).await;
    let address = service.http();
    let http = format!(
        "GET {CARD} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {}\r\n\r\n",
        service.key
    );
    let garbage = vec![0xff; 300];
    let hello_that_ends = ClientHello::all_suites(Version::Tls13).bytes();
    let cases = [http.as_bytes(), &garbage, &hello_that_ends[..40]];
    for (bytes, expected) in cases.into_iter().zip(1..) {
        let answer = exchange(address, bytes).await;
        // At most an alert of TLS.
        assert!(answer.is_empty() || answer[0] == 0x15, "{answer:?}");
        eventually("the failure is counted", || async {
            service.metric(HANDSHAKES_FAILED).await == expected
        })
        .await;
    }
    let log = service.serving.stop().await.join("\n");
    assert!(
        !log.contains("handshake") && !log.contains("ERROR"),
        "{log}"
    );
}

#[tokio::test]
async fn a_slow_handshake_counts_as_a_connection_and_is_cut_off() {
    const CONNECTIONS: usize = 8;
    let max = CONNECTIONS.to_string();
    let service = Encrypted::start(&["--connections-max", &max]).await;
    let address = service.http();
    let hello = ClientHello::all_suites(Version::Tls13).bytes();
    eventually("only the one that reads the metric is open", || async {
        service.metric("railbird_http_connections").await == 1
    })
    .await;
    let begun = Instant::now();
    let mut slow = Vec::new();
    for n in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // Some send nothing, others begin.
        stream.write_all(&hello[..n * 5]).await.unwrap();
        slow.push(stream);
    }
    let refused = "railbird_http_connections_refused_total";
    eventually("more are refused", || async {
        let more = service.client().connect(address).await;
        more.is_err() && service.metric(refused).await > 0
    })
    .await;
    for stream in &mut slow {
        let read = timeout(PATIENCE, stream.read_to_end(&mut Vec::new())).await;
        assert!(read.is_ok(), "the connection is cut off");
    }
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(8), "{took:?}");
    eventually("others are served again", || async {
        service.client().http(address).await.is_ok()
    })
    .await;
    eventually("all are counted", || async {
        service.metric(HANDSHAKES_FAILED).await == CONNECTIONS as u64
    })
    .await;
}

#[tokio::test]
async fn a_client_that_reads_too_slowly_loses_its_connection() {
    let service = Encrypted::start(&[]).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 * 1024).unwrap();
    let stream = socket.connect(service.http()).await.unwrap();
    let mut stream = service.client().connect_on(stream).await.unwrap();
    // 1.4 MB.
    let request =
        b"GET /assets/swagger-ui/swagger-ui-bundle.js HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let begun = Instant::now();
    let connections = "railbird_http_connections";
    // That of the metrics remains.
    eventually("the connection is closed", || async {
        service.metric(connections).await == 1
    })
    .await;
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(9), "{took:?}");
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer).await;
    assert!(read.is_err(), "the answer is cut: {} bytes", answer.len());
    assert!(answer.starts_with(b"HTTP/1.1 200"));

    // One that reads gets all of it.
    let (mut reader, _) = service.client().http(service.http()).await.unwrap();
    let whole = reader
        .get("/assets/swagger-ui/swagger-ui-bundle.js", "")
        .await;
    assert!(whole.unwrap().body.len() > answer.len());
}

#[tokio::test]
async fn a_stop_ends_connections_with_tls_as_it_ends_others() {
    let service = Encrypted::start(&["--drain-delay", "0s"]).await;
    let (mut idle, _) = service.client().http(service.http()).await.unwrap();
    assert_eq!(idle.get(CARD, &service.key).await.unwrap().status, 200);
    let _half = TcpStream::connect(service.http()).await.unwrap();
    let tunnel = Tunnel::to(service.http(), service.client()).await;
    let mut socket = Socket::open(tunnel.address, &service.key).await;
    socket.until("snapshot_complete").await;
    let (log, closed) = tokio::join!(service.serving.stop(), socket.until_closed());
    assert_eq!(closed.1, Some(1001), "{:?}", closed.0);
    assert!(!log.join("\n").contains("were cut off"));
}

async fn serve_with(flags: &[&str]) -> Output {
    let data = tempfile::tempdir().unwrap();
    let mut args = vec!["serve", "--data", data.path().to_str().unwrap()];
    // Nothing listens there: a service that starts waits for NATS.
    args.extend(["--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    args.extend(flags);
    timeout(PATIENCE, railbird(args))
        .await
        .expect("the service does not start")
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let (ours, other) = (authority.issue(), authority.issue());
    let file = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.display().to_string()
    };
    let (cert, key) = (file("cert", &ours.cert), file("key", &ours.key));
    let other_key = file("other-key", &other.key);
    let text = file("text", "a text");
    let cut = file("cut", &ours.cert.replace("MII", "MIJ"));
    let missing = folder.path().join("missing").display().to_string();
    for (cert, key, texts) in [
        (&missing, &key, [missing.as_str(), "No such file"]),
        (&cert, &missing, [&missing, "No such file"]),
        (&text, &key, [&text, "no certificate"]),
        (&key, &key, [&key, "no certificate"]),
        (&cut, &key, [&cut, "not valid"]),
        (&cert, &text, [&text, "no private key"]),
        (&cert, &cert, [&cert, "no private key"]),
        (
            &cert,
            &other_key,
            [&other_key, "is not that of the certificate in"],
        ),
    ] {
        let output = serve_with(&["--tls-cert", cert, "--tls-key", key]).await;
        assert_eq!(output.code, 78, "{}", output.all);
        for text in texts {
            assert!(output.all.contains(text), "{text}: {}", output.all);
        }
        assert_eq!(output.all.lines().count(), 1, "{}", output.all);
    }
    for (flags, text) in [
        (["--tls-cert", &cert], "--tls-cert needs --tls-key"),
        (["--tls-key", &key], "--tls-key needs --tls-cert"),
    ] {
        let output = serve_with(&flags).await;
        assert_eq!(output.code, 78, "{}", output.all);
        assert!(output.all.contains(text), "{}", output.all);
    }
}

#[tokio::test]
async fn production_refuses_connections_that_others_can_read() {
    let mail = [
        "--smtp-url",
        "smtp://127.0.0.1:1",
        "--mail-from",
        "a@b.example",
    ];
    let public = |url| [&mail[..], &["--public-url", url]].concat();
    for (flags, text) in [
        (
            public("http://racing.example"),
            "--public-url http://racing.example is not an https URL",
        ),
        (
            vec!["--public-url", "http://racing.example"],
            "is not an https URL",
        ),
        (
            vec!["--nats", "nats://railbird:secret@192.0.2.1:4222"],
            "NATS on 192.0.2.1 is not encrypted: use a tls:// address, or --nats-plain-allowed in a network",
        ),
        (
            vec!["--nats", "nats://127.0.0.1,nats://nats.example"],
            "NATS on nats.example is not encrypted",
        ),
    ] {
        let flags = [&["--production"], &flags[..]].concat();
        let output = serve_with(&flags).await;
        assert_eq!(output.code, 78, "{}", output.all);
        assert!(output.all.contains(text), "{text}: {}", output.all);
        assert!(!output.all.contains("secret"));
    }
    for flags in [
        &["--nats", "tls://192.0.2.1:4222"][..],
        &["--nats", "nats://127.0.0.1:1"],
        &["--nats", "nats://192.0.2.1:4222", "--nats-plain-allowed"],
        &public("https://racing.example"),
    ] {
        let flags = [&["--http", "127.0.0.1:0", "--production"], flags].concat();
        let data = tempfile::tempdir().unwrap();
        // It starts, and waits for NATS.
        Serving::start_with(&flags, data.path()).kill();
    }
}
