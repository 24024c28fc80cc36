//! Long lists come in pages, and clients that take long or come in numbers cost a bounded amount.

use std::net::SocketAddr;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::support::*;

/// The largest body of a page: its rows, the last row, and the board or the meeting.
const PAGE_BYTES_MAX: usize = 300 * 1024;
const MIB: u64 = 1024 * 1024;

async fn publish_quotes(nats: &Nats, count: u64) -> u64 {
    let quotes = (0..count).map(|n| odds("ST", 1, &second(n), &[2.5 + (n % 50) as f64; 14]));
    nats.publish(quotes).await
}

/// Follows `next` from a path on, and returns all pages.
async fn pages(railbird: &Railbird, path: &str) -> Vec<Value> {
    let (mut path, mut pages) = (path.to_owned(), Vec::new());
    while !path.is_empty() {
        let reply = railbird.get(&path).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        assert!(
            reply.body.len() < PAGE_BYTES_MAX,
            "{path}: {}",
            reply.body.len()
        );
        let page = reply.json();
        path = page["next"].as_str().unwrap().to_owned();
        let links = reply.headers.get_all("link").iter();
        let next: Vec<_> = links
            .map(|link| link.to_str().unwrap())
            .filter(|link| link.ends_with("; rel=\"next\""))
            .collect();
        match path.as_str() {
            "" => assert!(next.is_empty(), "{next:?}"),
            path => assert_eq!(next, [format!("<{path}>; rel=\"next\"")]),
        }
        pages.push(page);
    }
    pages
}

fn rows<'a>(pages: &'a [Value], list: &str) -> Vec<&'a Value> {
    let lists = pages.iter().map(|page| page[list].as_array().unwrap());
    lists.flatten().collect()
}

#[tokio::test]
async fn a_long_history_comes_in_pages_that_together_have_every_quote_once() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let last = publish_quotes(&nats, 1_500).await;
    railbird.until_seq(last).await;
    let path = format!("/api/v1/odds/{DAY}/1/history");
    for (query, most) in [("", 1_000), ("?limit=100", 100), ("?venue=ST&limit=33", 33)] {
        let pages = pages(&railbird, &format!("{path}{query}")).await;
        let quotes = rows(&pages, "history");
        let seqs: Vec<u64> = quotes.iter().map(|q| q["seq"].as_u64().unwrap()).collect();
        assert_eq!(seqs, (1..=1_500).collect::<Vec<_>>(), "{query}");
        for page in &pages {
            assert!(page["history"].as_array().unwrap().len() <= most);
            assert_eq!(page["seq"], last);
        }
    }
    let none = railbird.get(&format!("{path}?after=1500")).await.json();
    assert_eq!((&none["history"], &none["next"]), (&json!([]), &json!("")));
    for wrong in ["limit=0", "limit=1001", "after=x", "after=-1"] {
        let reply = railbird.get(&format!("{path}?{wrong}")).await;
        assert_eq!(reply.status, 400, "{wrong}");
        assert_eq!(reply.json()["error"], "invalid_parameter", "{wrong}");
    }
}

#[tokio::test]
async fn revisions_come_in_pages() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let last = nats
        .publish((1..=600).map(|revision| result(DAY, "ST", 1, 14, revision)))
        .await;
    railbird.until_seq(last).await;
    let path = format!("/api/v1/results/{DAY}/1/revisions");
    for query in ["", "?limit=70"] {
        let pages = pages(&railbird, &format!("{path}{query}")).await;
        let revisions = rows(&pages, "revisions");
        let revisions: Vec<u64> = revisions
            .iter()
            .map(|row| row["revision"].as_u64().unwrap())
            .collect();
        assert_eq!(revisions, (1..=600).collect::<Vec<_>>(), "{query}");
    }
}

#[tokio::test]
async fn a_form_comes_in_pages_newest_first_also_of_many_races_on_a_day() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let results = (1..=700).flat_map(|number| {
        let days = [DAY, "2026-09-30"].into_iter();
        days.map(move |date| result(date, "ST", number, 2, 1))
    });
    let last = nats.publish(results).await;
    railbird.until_seq(last).await;
    let expected: Vec<Value> = [DAY, "2026-09-30"]
        .into_iter()
        .flat_map(|date| (1..=700).rev().map(move |number| json!([date, number])))
        .collect();
    for (horse, list) in [("H1", "form"), ("P1", "unplaced")] {
        let of = |row: &&Value| json!([row["date"], row["race_number"]]);
        for query in ["", "?limit=400", "?limit=999"] {
            let path = format!("/api/v1/horses/{horse}/form{query}");
            let pages = pages(&railbird, &path).await;
            let found: Vec<Value> = rows(&pages, list).iter().map(of).collect();
            assert_eq!(found, expected, "{path}");
        }
        let before = format!("/api/v1/horses/{horse}/form?limit=400&before={DAY}");
        let found = pages(&railbird, &before).await;
        let found: Vec<Value> = rows(&found, list).iter().map(of).collect();
        assert_eq!(found, expected[700..]);
    }
    for wrong in ["soon", "2026-11-21", "2026-11-21/ST/x", "2026-11-21/../3"] {
        let path = format!("/api/v1/horses/H1/form?after={wrong}");
        let reply = railbird.get(&path).await;
        assert_eq!(reply.status, 400, "{wrong}");
    }
}

/// A connection with a small receive buffer, on which a request was sent.
async fn request_without_reading(http: SocketAddr, path: &str, key: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 * 1024).unwrap();
    let mut stream = socket.connect(http).await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nX-API-Key: {key}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn fifty_slow_readers_of_a_long_history_take_little_memory() {
    let (nats, data) = (Nats::start(), tempfile::tempdir().unwrap());
    let serving = Serving::start(&nats, data.path());
    let key = issue_key(&nats).await;
    let last = publish_quotes(&nats, 8_000).await;
    let path = format!("/api/v1/odds/{DAY}/1");
    eventually("the board has the last quote", || async {
        let board = request(serving.http, "GET", &path, &[("x-api-key", &key)]).await;
        board.status == 200 && board.json()["seq"] == last
    })
    .await;
    let path = path + "/history";
    // What the service takes once, for the first pages, is no matter of slow readers.
    for _ in 0..50 {
        let page = request(serving.http, "GET", &path, &[("x-api-key", &key)]).await;
        assert_eq!(page.status, 200);
    }
    let before = serving.resident_bytes();
    let slow = join_all((0..50).map(|_| async {
        let mut stream = request_without_reading(serving.http, &path, &key).await;
        // The response is made when it begins.
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        stream
    }))
    .await;
    let grown = serving.resident_bytes().saturating_sub(before);
    // A page for each reader, and what the allocators of the threads keep. Without pages it was 500 MiB.
    assert!(grown < 40 * MIB, "grown by {} KiB", grown / 1024);
    drop(slow);
}

#[tokio::test]
async fn a_client_that_reads_too_slowly_loses_its_connection() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let last = publish_quotes(&nats, 1_000).await;
    railbird.until_seq(last).await;
    let path = format!("/api/v1/odds/{DAY}/1/history");
    let mut silent = request_without_reading(railbird.http, &path, &railbird.key).await;
    let mut dripping = request_without_reading(railbird.http, &path, &railbird.key).await;
    let drip = tokio::spawn(async move {
        let mut bytes = [0; 64];
        while dripping.read(&mut bytes).await.is_ok_and(|read| read > 0) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    eventually("both connections are closed", || async {
        let metrics = railbird.get_admin("/metrics").await.text();
        // The one is the connection of this request.
        metrics.contains("railbird_http_connections 1\n")
    })
    .await;
    // What the operating system had taken can still be read, and is not the whole response.
    let mut read = Vec::new();
    let _ = timeout(PATIENCE, silent.read_to_end(&mut read))
        .await
        .unwrap();
    let whole = railbird.get(&path).await.body.len();
    assert!(read.len() < whole, "{} of {whole}", read.len());
    drip.abort();
}

/// Opens a connection from one of the addresses of this machine, and returns whether it is served.
async fn is_served(from: &str, http: SocketAddr, head: &str) -> (bool, TcpStream) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    let mut stream = socket.connect(http).await.unwrap();
    let _ = stream.write_all(head.as_bytes()).await;
    let mut start = [0; 9];
    let read = timeout(PATIENCE, stream.read_exact(&mut start))
        .await
        .unwrap();
    (read.is_ok() && &start == b"HTTP/1.1 ", stream)
}

#[tokio::test]
async fn one_network_cannot_hold_all_connections() {
    const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    let (nats, data) = (Nats::start(), tempfile::tempdir().unwrap());
    let mut command = command();
    command
        .env("RAILBIRD_CONNECTIONS_PER_NETWORK", "8")
        .env("RAILBIRD_TRUSTED_PROXIES", "127.0.0.3");
    let flags = ["--http", "127.0.0.1:0", "--nats", &nats.url()];
    let serving = Serving::start_as(command, &flags, data.path());
    let key = issue_key(&nats).await;
    let mut held = Vec::new();
    for _ in 0..8 {
        let (served, stream) = is_served("127.0.0.2", serving.http, HEALTH).await;
        assert!(served);
        held.push(stream);
    }
    assert!(!is_served("127.0.0.2", serving.http, HEALTH).await.0);
    // Others are served, and a trusted proxy has many clients.
    assert!(is_served("127.0.0.4", serving.http, HEALTH).await.0);
    for _ in 0..20 {
        let (served, stream) = is_served("127.0.0.3", serving.http, HEALTH).await;
        assert!(served);
        held.push(stream);
    }
    drop(held);
    eventually("the network is served again", || async {
        is_served("127.0.0.2", serving.http, HEALTH).await.0
    })
    .await;

    // A WebSocket behind a proxy counts for the client that the proxy names.
    let head = |client: &str| {
        let forwarded = format!("\r\nX-Forwarded-For: {client}\r\n\r\n");
        handshake(&key).replace("\r\n\r\n", &forwarded)
    };
    let status = async |client: &str| {
        let (served, mut stream) = is_served("127.0.0.3", serving.http, &head(client)).await;
        assert!(served);
        let mut status = [0; 3];
        stream.read_exact(&mut status).await.unwrap();
        (String::from_utf8_lossy(&status).into_owned(), stream)
    };
    eventually("the live channel takes the key", || async {
        status("203.0.113.8").await.0 == "101"
    })
    .await;
    let mut sockets = Vec::new();
    for _ in 0..8 {
        let (status, stream) = status("203.0.113.9").await;
        assert_eq!(status, "101");
        sockets.push(stream);
    }
    assert_eq!(status("203.0.113.9").await.0, "429");
    assert_eq!(status("203.0.113.10").await.0, "101");
}

#[tokio::test]
async fn the_contact_for_security_is_that_of_the_settings() {
    let nats = Nats::start();
    let none = Railbird::start(&nats).await;
    let path = "/.well-known/security.txt";
    assert_eq!(none.get_open(path).await.status, 404);
    let contact = "mailto:security@racing.example".to_owned();
    let railbird = Railbird::start_with(&nats, |config| config.security_contact = Some(contact));
    let reply = railbird.await.get_open(path).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.header("content-type"), "text/plain; charset=utf-8");
    let text = reply.text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "Contact: mailto:security@racing.example");
    let expires = lines[1].strip_prefix("Expires: ").unwrap();
    let expires: jiff::Timestamp = expires.parse().unwrap();
    let days = expires.duration_since(jiff::Timestamp::now()).as_hours() / 24;
    assert!((100..365).contains(&days), "RFC 9116, 2.5.5: {expires}");
    let refused = railbird_with_contact("security@racing.example").await;
    assert_eq!(refused.code, 2, "{}", refused.all);
}

async fn railbird_with_contact(contact: &str) -> Output {
    let serve = ["serve", "--data", "/nowhere", "--security-contact", contact];
    crate::support::railbird(serve).await
}
