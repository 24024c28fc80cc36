//! The start and the end of the process: when it is ready, and what a signal does to it.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use railbird::accounts::ApiKey;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::*;

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Waits until a process has ended, and returns its status.
async fn until_ended(mut child: Child) -> ExitStatus {
    let ended = tokio::task::spawn_blocking(move || child.wait().unwrap());
    timeout(PATIENCE, ended).await.expect("its end").unwrap()
}

/// An address that nothing listens on.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

fn serve(nats: &Nats, data: &Path, http: SocketAddr, drain_delay: &str) -> Child {
    let mut command = command();
    command
        .args(["serve", "--admin", "127.0.0.1:0", "--nats", &nats.url()])
        .args(["--http", &http.to_string(), "--data"])
        .arg(data)
        .env("RAILBIRD_DRAIN_DELAY", drain_delay)
        .stderr(Stdio::null());
    command.spawn().unwrap()
}

async fn until_listening(http: SocketAddr) {
    eventually("the service listens", || async {
        TcpStream::connect(http).await.is_ok()
    })
    .await;
}

async fn status(http: SocketAddr, path: &str) -> u16 {
    request(http, "GET", path, &[]).await.status
}

#[tokio::test]
async fn a_stopping_service_is_unready_before_it_refuses_connections_and_ends_at_a_second_signal() {
    let (nats, data, http) = (Nats::start(), tempfile::tempdir().unwrap(), free_address());
    let child = serve(&nats, data.path(), http, "60s");
    until_listening(http).await;
    eventually("it is ready", || async {
        status(http, "/readyz").await == 200
    })
    .await;
    signal(&child, Signal::TERM);
    eventually("it is unready", || async {
        status(http, "/readyz").await == 503
    })
    .await;
    // Balancers still send requests.
    assert_eq!(status(http, "/api/v1/meetings").await, 401);
    assert_eq!(status(http, "/healthz").await, 200);
    let body = request(http, "GET", "/readyz", &[]).await.json();
    assert_eq!(body["reason"], "the service is stopping");
    signal(&child, Signal::TERM);
    let ended = until_ended(child).await;
    assert!(!ended.success(), "in order only after its drain: {ended}");
}

/// Sends a request on an open connection, and returns the head of its answer, which has a body of a known length.
async fn on_open_connection(stream: &mut BufReader<TcpStream>, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: railbird\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut head).await.unwrap() > 0, "{head}");
    }
    let head = head.to_lowercase();
    let length = head
        .lines()
        .find_map(|l| l.strip_prefix("content-length: "));
    let mut body = vec![0; length.unwrap().parse().unwrap()];
    stream.read_exact(&mut body).await.unwrap();
    head
}

#[tokio::test]
async fn a_draining_service_ends_each_connection_by_an_answer_and_serves_new_ones() {
    let (nats, data, http) = (Nats::start(), tempfile::tempdir().unwrap(), free_address());
    let key = issue_key(&nats).await;
    let child = serve(&nats, data.path(), http, "60s");
    until_listening(http).await;
    eventually("it is ready", || async {
        status(http, "/readyz").await == 200
    })
    .await;
    let mut kept = BufReader::new(TcpStream::connect(http).await.unwrap());
    for _ in 0..2 {
        let head = on_open_connection(&mut kept, "/readyz").await;
        assert!(!head.contains("connection: close"), "{head}");
    }
    signal(&child, Signal::TERM);
    eventually("it is unready", || async {
        status(http, "/readyz").await == 503
    })
    .await;
    let head = on_open_connection(&mut kept, "/healthz").await;
    assert!(head.starts_with("http/1.1 200 "), "{head}");
    assert!(head.contains("connection: close\r\n"), "{head}");
    let end = timeout(PATIENCE, kept.read(&mut [0; 1])).await;
    assert_eq!(end.unwrap().unwrap(), 0, "the connection has ended");
    let headers = [("x-api-key", key.as_str())];
    let served = request(http, "GET", "/api/v1/meetings", &headers).await;
    assert_eq!((served.status, served.header("connection")), (200, "close"));
    // A handshake is answered with `Connection: upgrade`, and the socket stays open.
    let mut live = Raw::open(http, &key).await;
    live.write.write_all(&text(ping("1"))).await.unwrap();
    assert_eq!(live.read.next().await, ack("1"));
    signal(&child, Signal::TERM);
    until_ended(child).await;
}

#[tokio::test]
async fn after_the_delay_idle_connections_are_closed_and_the_process_ends_in_order() {
    let (nats, data, http) = (Nats::start(), tempfile::tempdir().unwrap(), free_address());
    let key = issue_key(&nats).await;
    let child = serve(&nats, data.path(), http, "1s");
    until_listening(http).await;
    eventually("it is ready", || async {
        status(http, "/readyz").await == 200
    })
    .await;
    let mut idle = BufReader::new(TcpStream::connect(http).await.unwrap());
    on_open_connection(&mut idle, "/healthz").await;
    let mut live = Raw::open(http, &key).await;
    signal(&child, Signal::TERM);
    let ends = live.read.until_end().await;
    assert!(ends.contains(&Got::Close(Some(1001))), "{ends:?}");
    assert_eq!(idle.read(&mut [0; 1]).await.unwrap(), 0);
    let ended = until_ended(child).await;
    assert!(ended.success(), "{ended}");
}

#[tokio::test]
async fn a_service_answers_probes_while_it_opens_its_views_and_a_signal_then_ends_it_in_order() {
    let (nats, data, http) = (Nats::start(), tempfile::tempdir().unwrap(), free_address());
    // Reading this pipe blocks, so the views are never open.
    let current = data.path().join("views/CURRENT");
    std::fs::create_dir_all(current.parent().unwrap()).unwrap();
    let made = Command::new("mkfifo").arg(&current).status().unwrap();
    assert!(made.success());
    let child = serve(&nats, data.path(), http, "0s");
    until_listening(http).await;
    let first = request(http, "GET", "/readyz", &[]).await;
    assert_eq!(first.status, 503);
    assert_eq!(
        first.json()["reason"],
        "the views are being opened and checked"
    );
    assert_eq!(status(http, "/healthz").await, 200);
    let key = ApiKey::generate("test").unwrap();
    let headers = [("x-api-key", key.reveal())];
    let early = request(http, "GET", "/api/v1/meetings", &headers).await;
    assert_eq!(early.status, 503);
    assert_eq!(early.json()["error"], "not_ready");
    signal(&child, Signal::TERM);
    let ended = until_ended(child).await;
    assert!(ended.success(), "{ended}");
}

#[tokio::test]
async fn a_signal_while_dev_starts_leaves_no_nats_server_behind() {
    let data = tempfile::tempdir().unwrap();
    let mut command = command();
    command
        .args(["dev", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .args(["--nats-port", "0", "--data"])
        .arg(data.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = command.spawn().unwrap();
    let pid_file = data.path().join("nats/nats-server.pid");
    let read = || {
        let pid = std::fs::read_to_string(&pid_file).ok()?;
        Pid::from_raw(pid.trim().parse().ok()?)
    };
    // Polled without a pause: the signal has to come while it starts.
    let began = Instant::now();
    let nats = loop {
        if let Some(pid) = read() {
            break pid;
        }
        assert!(began.elapsed() < PATIENCE);
    };
    signal(&child, Signal::TERM);
    let ended = until_ended(child).await;
    assert!(ended.success(), "{ended}");
    eventually("nats-server has ended", || async {
        test_kill_process(nats).is_err()
    })
    .await;
}

#[tokio::test]
async fn dev_ends_in_order_with_its_terminal() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &["--no-demo"]);
    let pid = std::fs::read_to_string(data.path().join("nats/nats-server.pid")).unwrap();
    let nats = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    let child = dev.into_child();
    signal(&child, Signal::HUP);
    let ended = until_ended(child).await;
    assert!(ended.success(), "{ended}");
    assert!(test_kill_process(nats).is_err(), "nats-server has ended");
}

#[tokio::test]
async fn a_second_signal_ends_dev_and_its_nats_server_at_once() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &["--no-demo"]);
    let pid = std::fs::read_to_string(data.path().join("nats/nats-server.pid")).unwrap();
    let nats = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    // A request whose head never ends keeps the drain waiting.
    let mut stuck = TcpStream::connect(dev.http).await.unwrap();
    let head = b"GET /healthz HTTP/1.1\r\n";
    stuck.write_all(head).await.unwrap();
    // A connection that is accepted later is answered, so that one has been accepted.
    assert_eq!(status(dev.http, "/healthz").await, 200);
    let (http, mut child) = (dev.http, dev.into_child());
    signal(&child, Signal::INT);
    eventually("the drain has begun", || async {
        TcpStream::connect(http).await.is_err()
    })
    .await;
    assert!(child.try_wait().unwrap().is_none(), "it drains");
    signal(&child, Signal::INT);
    let ended = until_ended(child).await;
    assert!(!ended.success(), "in order only after its drain: {ended}");
    eventually("nats-server has ended", || async {
        test_kill_process(nats).is_err()
    })
    .await;
}
