//! Hostile and slow clients: they are closed in time, and do not affect others.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::*;

/// Reads until the server closes the connection, and returns how long that took.
async fn until_closed(stream: &mut TcpStream) -> Duration {
    let began = Instant::now();
    let mut bytes = Vec::new();
    // A reset counts as closed.
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
async fn connections_are_limited_and_freed_again() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut held = Vec::new();
    // The service under test accepts 256 connections at a time.
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
    eventually("a connection is accepted again", || async {
        let mut stream = TcpStream::connect(railbird.http).await.unwrap();
        let _ = stream
            .write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .await;
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response).await;
        response.starts_with(b"HTTP/1.1 200")
    })
    .await;
}

#[tokio::test]
async fn a_large_head_is_rejected() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut stream = TcpStream::connect(railbird.http).await.unwrap();
    let head = format!(
        "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Large: {}\r\n\r\n",
        "x".repeat(64 * 1024)
    );
    let _ = stream.write_all(head.as_bytes()).await;
    let mut response = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut response))
        .await
        .unwrap();
    assert!(
        response.is_empty() || response.starts_with(b"HTTP/1.1 431"),
        "{}",
        String::from_utf8_lossy(&response)
    );
}

#[tokio::test]
async fn requests_in_progress_are_finished_at_the_shutdown() {
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
    let mut response = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut response))
        .await
        .unwrap();
    stopping.await.unwrap();
    assert!(
        response.is_empty() || response.starts_with(b"HTTP/1.1 200"),
        "a whole response or none"
    );
}

#[tokio::test]
async fn a_form_that_stalls_is_timed_out_and_no_error_of_the_service() {
    let nats = Nats::start();
    let data = tempfile::tempdir().unwrap();
    let serving = Serving::start(&nats, data.path());
    for path in ["/pricing", "/account"] {
        let mut stream = TcpStream::connect(serving.http).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\
             Content-Type: application/x-www-form-urlencoded\r\n\r\nemail=rail"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut status = [0; 12];
        timeout(PATIENCE, stream.read_exact(&mut status))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(&status, b"HTTP/1.1 408", "{path}");
    }
    let log = serving.stop().await;
    let error = log.iter().find(|line| line.contains("\"ERROR\""));
    assert_eq!(error, None);
}

#[tokio::test]
async fn a_request_without_one_host_is_refused() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    for (head, status) in [
        ("GET /healthz HTTP/1.1\r\nHost: x\r\n", "200"),
        ("GET /healthz HTTP/1.0\r\n", "200"),
        ("GET /healthz HTTP/1.1\r\n", "400"),
        ("GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\n", "400"),
    ] {
        let mut stream = TcpStream::connect(railbird.http).await.unwrap();
        let request = format!("{head}Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut reply = String::new();
        let read = timeout(PATIENCE, stream.read_to_string(&mut reply)).await;
        read.expect("an answer").unwrap();
        assert_eq!(reply.split(' ').nth(1), Some(status), "{head}: {reply}");
    }
}
