//! What an operator reads when the service cannot use NATS.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use railbird::log::ACCOUNTS;
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::support::*;

/// Attempts of both connections of a service after which a reason that is logged each time is there many times.
const ATTEMPTS: usize = 8;

fn lines_with<'a>(log: &'a [String], text: &str) -> Vec<&'a String> {
    log.iter().filter(|line| line.contains(text)).collect()
}

fn start(nats: &str, data: &tempfile::TempDir) -> Serving {
    let flags = [
        "--http",
        "127.0.0.1:0",
        "--drain-delay",
        "0s",
        "--nats",
        nats,
    ];
    Serving::start_with(&flags, data.path())
}

#[tokio::test]
async fn a_server_that_ends_connections_is_reported_once_by_host_and_port_and_without_the_password()
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let attempts = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&attempts);
    tokio::spawn(async move {
        loop {
            drop(listener.accept().await.unwrap());
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    let data = tempfile::tempdir().unwrap();
    let serving = start(&format!("nats://railbird:s3cret@{address}"), &data);
    eventually("the service tries again and again", || async {
        attempts.load(Ordering::Relaxed) >= ATTEMPTS
    })
    .await;
    let log = serving.stop().await;
    let reported = lines_with(&log, "NATS cannot be reached");
    assert_eq!(reported.len(), 1, "{log:#?}");
    assert!(reported[0].contains(&address.to_string()), "{reported:?}");
    assert!(lines_with(&log, "s3cret").is_empty(), "{log:#?}");
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_reported_before_the_first_attempt_has_failed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let attempts = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&attempts);
    tokio::spawn(async move {
        let mut open = Vec::new();
        loop {
            open.push(listener.accept().await.unwrap());
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    let data = tempfile::tempdir().unwrap();
    let mut command = command();
    command
        .args(["serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .args(["--nats", &format!("nats://{address}"), "--data"])
        .arg(data.path())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let reading = tokio::task::spawn_blocking(move || {
        lines.find_map(|line| {
            line.ok()
                .filter(|line| line.contains("NATS cannot be reached"))
        })
    });
    let reported = timeout(PATIENCE, reading).await.unwrap().unwrap().unwrap();
    let attempts = attempts.load(Ordering::Relaxed);
    child.kill().unwrap();
    child.wait().unwrap();
    let reason = format!("{address}: timed out");
    assert!(reported.contains(&reason), "{reported}");
    assert!(attempts <= 4, "one of each connection: {attempts}");
}

#[tokio::test]
async fn a_rejected_login_is_reported_once_with_the_user_and_the_remedy() {
    let nats = Nats::start();
    let url = nats.url().replace(&nats.password_of("railbird"), "wr0ng");
    let data = tempfile::tempdir().unwrap();
    let serving = start(&url, &data);
    let rejected = || {
        let log = std::fs::read_to_string(nats.folder().join("log")).unwrap();
        log.matches("authentication error").count()
    };
    eventually("the service tries again and again", || async {
        rejected() >= ATTEMPTS
    })
    .await;
    let log = serving.stop().await;
    let reported = lines_with(&log, "NATS rejects the login");
    assert_eq!(reported.len(), 1, "{log:#?}");
    for text in ["railbird", "--nats", &nats.address().to_string()] {
        assert!(reported[0].contains(text), "{text}: {reported:?}");
    }
    assert!(lines_with(&log, "async_nats").is_empty(), "{log:#?}");
    assert!(lines_with(&log, "wr0ng").is_empty(), "{log:#?}");
}

#[tokio::test]
async fn a_server_without_jetstream_is_reported_once_with_the_remedy() {
    let nats = Nats::start_from("listen: \"127.0.0.1:-1\"\ntrace: true\n");
    let data = tempfile::tempdir().unwrap();
    let serving = start(&format!("nats://{}", nats.address()), &data);
    let looked_up = || {
        let log = std::fs::read_to_string(nats.folder().join("log")).unwrap();
        log.matches("$JS.API.STREAM.INFO.RACING").count()
    };
    eventually(
        "the service looks for the stream again and again",
        || async { looked_up() >= ATTEMPTS },
    )
    .await;
    let log = serving.stop().await;
    let reported = lines_with(&log, "cannot open the log");
    assert_eq!(reported.len(), 2, "once for each stream: {log:#?}");
    assert!(
        reported.iter().all(|line| line.contains("nats.conf")),
        "{reported:?}"
    );
}

#[tokio::test]
async fn a_stock_server_is_refused_in_production_with_the_remedy() {
    let nats = Nats::start_from("listen: \"127.0.0.1:-1\"\njetstream { }\n");
    let data = tempfile::tempdir().unwrap();
    let url = format!("nats://{}", nats.address());
    let flags = ["--http", "127.0.0.1:0", "--production", "--nats", &url];
    let (code, log) = Serving::start_with(&flags, data.path()).until_ended().await;
    assert_eq!(code, Some(78), "{log}");
    let last = log.lines().last().unwrap();
    for text in ["--production", "sync_interval: always", "nats.conf"] {
        assert!(last.contains(text), "{text}: {last}");
    }
}

#[tokio::test]
async fn a_command_that_works_logs_nothing_of_the_connection() {
    let nats = Nats::start();
    let url = nats.url_of("keys");
    let issue = ["keys", "issue", "--plan", "default", "--nats", &url];
    let early = railbird(issue).await.all;
    let reason = "there is no stream ACCOUNTS; the service creates it when it first starts\n";
    assert!(
        early.ends_with(reason) && early.lines().count() == 1,
        "{early}"
    );
    nats.log().await.ensure(ACCOUNTS).await.unwrap();
    let output = railbird(issue).await;
    assert_eq!(output.code, 0, "{}", output.all);
    assert!(!output.all.contains("connected"), "{}", output.all);
    let wrong = nats
        .url_of("keys")
        .replace(&nats.password_of("keys"), "wr0ng");
    let output = railbird(["keys", "list", "--nats", &wrong]).await;
    assert_eq!(
        (output.code, output.all.lines().count()),
        (77, 1),
        "{}",
        output.all
    );
}
