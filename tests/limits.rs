//! Hostile and slow clients: closed in time, and nobody else notices.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::*;

/// Reads to the end, and says how long that took.
async fn until_closed(stream: &mut TcpStream) -> Duration {
    let began = Instant::now();
    let mut bytes = Vec::new();
    // A reset is an end, too.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut bytes))
        .await
        .expect("the server closes it");
    began.elapsed()
}

#[tokio::test]
async fn slow_headers_are_cut_off() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut silent = TcpStream::connect(railbird.http).await.unwrap();
    let mut slow = TcpStream::connect(railbird.http).await.unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
        .await
        .unwrap();
    let (mut read, mut write) = slow.into_split();
    let dripping = tokio::spawn(async move {
        while write.write_all(b"X-Drip: drop\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    });
    let mut bytes = Vec::new();
    let _ = timeout(PATIENCE, read.read_to_end(&mut bytes))
        .await
        .expect("the server closes it");
    until_closed(&mut silent).await;
    dripping.await.unwrap();
    assert_eq!(railbird.get_open("/healthz").await.status, 200);
}

#[tokio::test]
async fn connections_are_bounded_and_come_free_again() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut held = Vec::new();
    // The service under test takes 256 at a time.
    for _ in 0..256 {
        let mut stream = TcpStream::connect(railbird.http).await.unwrap();
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        held.push(stream);
    }
    let mut one_more = TcpStream::connect(railbird.http).await.unwrap();
    let mut byte = [0];
    assert_eq!(
        one_more.read(&mut byte).await.unwrap_or(0),
        0,
        "one too many is closed at once"
    );
    drop(held);
    eventually("places are free again", || async {
        let mut stream = TcpStream::connect(railbird.http).await.unwrap();
        let _ = stream
            .write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        answer.starts_with(b"HTTP/1.1 200")
    })
    .await;
}

#[tokio::test]
async fn a_head_of_many_kilobytes_is_refused() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut stream = TcpStream::connect(railbird.http).await.unwrap();
    let head = format!(
        "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Large: {}\r\n\r\n",
        "x".repeat(64 * 1024)
    );
    let _ = stream.write_all(head.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer))
        .await
        .unwrap();
    assert!(
        answer.is_empty() || answer.starts_with(b"HTTP/1.1 431"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
}

#[tokio::test]
async fn requests_under_way_end_before_the_service_does() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut stream = TcpStream::connect(railbird.http).await.unwrap();
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\n")
        .await
        .unwrap();
    eventually("the connection is accepted", || async {
        railbird
            .get_admin("/metrics")
            .await
            .text()
            .contains("railbird_http_connections 2")
    })
    .await;
    let stopping = tokio::spawn(railbird.stop());
    stream.write_all(b"Host: x\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer))
        .await
        .unwrap();
    stopping.await.unwrap();
    assert!(
        answer.is_empty() || answer.starts_with(b"HTTP/1.1 200"),
        "a whole answer or none"
    );
}
