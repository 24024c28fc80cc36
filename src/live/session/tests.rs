use std::future::poll_fn;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tungstenite::protocol::{Role, WebSocket};
use tungstenite::{Error, Message};

use super::super::batch::FeedCursor;
use super::super::connection::Connection;
use super::super::connection_limits::ConnectionLimits;
use super::super::message::{FeedHealth, LiveSubscription};
use super::{Session, Shared};
use crate::accounts::{Holder, KeyId};
use crate::live::feed::{Feed, frame};

const HEALTHY: FeedHealth = FeedHealth {
    state: "live",
    last_event_at: String::new(),
    lag_ms: 0,
};

/// A session at a moment, and the other end of its connection.
async fn session(now: Instant) -> (Session, WebSocket<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("a connection");
    let (stream, _) = listener.accept().expect("the other end");
    stream.set_nonblocking(true).expect("a socket");
    client
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a socket");
    let shared = Shared {
        feed: Feed::default(),
        metrics: Arc::default(),
    };
    let tickets = ConnectionLimits::new(Arc::new(Semaphore::new(1)), Arc::clone(&shared.metrics));
    let key_id = KeyId::parse("00000000").expect("an id");
    let (ticket, _) = tickets
        .take(key_id, &Holder::Key(key_id), 1)
        .expect("a place");
    let wire = Connection::open(stream, Vec::new()).expect("a connection");
    let mut session = Session::new(wire, LiveSubscription::default(), None, ticket, shared, now);
    unblocked(&mut session, now).await;
    (
        session,
        WebSocket::from_raw_socket(client, Role::Client, None),
    )
}

/// Waits until the system takes something, as the task of a connection does.
async fn unblocked(session: &mut Session, now: Instant) {
    let unblocked = poll_fn(|context| session.wire.poll_unblocked(context));
    let waited = timeout(Duration::from_secs(10), unblocked).await;
    waited.expect("in time").expect("the other end is there");
    session
        .on_unblocked(FeedCursor::from(&session.shared.feed.position()), now)
        .expect("the other end is there");
}

/// Writes until the system takes nothing more.
fn block(session: &mut Session, now: Instant) {
    let frame = frame::text(&[&[b' '; 60_000]]);
    while !session.wire.is_blocked() {
        session.wire.queue(frame.clone());
        session.write(&[], now).expect("the other end is there");
    }
}

/// Calls a session at each second up to one, as a shard does.
fn pass(session: &mut Session, began: Instant, seconds: std::ops::RangeInclusive<u64>) {
    for second in seconds {
        let now = began + Duration::from_secs(second);
        session
            .on_time(0, &HEALTHY, now)
            .expect("the other end is there");
    }
}

/// What is said until the end: events, codes of closing, and `ping`.
fn to_the_end(client: &mut WebSocket<TcpStream>) -> Vec<String> {
    let mut said = Vec::new();
    loop {
        match client.read() {
            Ok(Message::Text(text)) => {
                let json: Value = serde_json::from_str(&text).expect("JSON");
                let event = json["event"].as_str().expect("an event").to_owned();
                said.push(match json["code"].as_u64() {
                    Some(code) => format!("{event} {code}"),
                    None => event,
                });
            }
            Ok(Message::Ping(_)) => said.push("ping".to_owned()),
            Ok(Message::Close(Some(frame))) => said.push(u16::from(frame.code).to_string()),
            Ok(_) => {}
            Err(Error::ConnectionClosed | Error::Protocol(_)) => return said,
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn a_client_from_which_nothing_comes_is_pinged_and_closed_after_75_seconds() {
    let began = Instant::now();
    let (mut session, mut client) = session(began).await;
    pass(&mut session, began, 1..=74);
    assert!(session.is_open());
    pass(&mut session, began, 75..=75);
    assert!(!session.is_open());
    let said = to_the_end(&mut client);
    assert_eq!(said[..2], ["welcome", "snapshot_complete"]);
    assert_eq!(said[said.len() - 2..], ["closing 4408", "4408"]);
    let count = |what: &str| said.iter().filter(|said| *said == what).count();
    assert_eq!(count("ping"), 2, "after 30 and 60 seconds");
    assert!((14..=16).contains(&count("heartbeat")), "{said:?}");
}

#[tokio::test]
async fn anything_that_comes_counts_as_alive() {
    let began = Instant::now();
    let (mut session, _client) = session(began).await;
    pass(&mut session, began, 1..=70);
    session.heard(began + Duration::from_secs(70));
    pass(&mut session, began, 71..=144);
    assert!(session.is_open());
    pass(&mut session, began, 145..=145);
    assert!(!session.is_open());
}

#[tokio::test]
async fn a_client_that_takes_nothing_for_30_seconds_is_closed() {
    let began = Instant::now();
    let (mut session, client) = session(began).await;
    block(&mut session, began);
    session.heard(began + Duration::from_secs(20));
    pass(&mut session, began, 1..=29);
    assert!(session.is_open());

    // It takes something: it has its time again.
    let mut stream = client.get_ref();
    stream.set_nonblocking(true).expect("a socket");
    let mut buffer = vec![0; 1 << 20];
    while stream.read(&mut buffer).is_ok() {}
    let at = began + Duration::from_secs(30);
    unblocked(&mut session, at).await;
    block(&mut session, at);
    pass(&mut session, began, 31..=59);
    assert!(session.is_open());
    pass(&mut session, began, 60..=60);
    assert!(!session.is_open(), "it has taken nothing since");
    assert!(!session.has_ended(), "it may take its leave");
    pass(&mut session, began, 65..=65);
    assert!(session.has_ended());
}
