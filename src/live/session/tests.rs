//! A session with a real socket, at chosen times.

use std::future::poll_fn;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use events::Moment;
use projections::{Checkpoint, Digest, LogClock, LogHistory, LogIdentity, SourceRankings};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;
use tungstenite::protocol::{Role, WebSocket};
use tungstenite::{Error, Message};

use super::Session;
use crate::accounts::{Holder, KeyCache, KeyId};
use crate::feed::frame::{Encoding, Frame};
use crate::feed::{EventTime, Feed, Replayed};
use crate::health::{FeedHealth, FeedMonitor, Liveness};
use crate::limits::NetworkConnections;
use crate::limits::plans::Plans;
use crate::live::batch::FeedCursor;
use crate::live::connection_limits::ConnectionLimits;
use crate::live::context::LiveContext;
use crate::live::new_client::{NewClient, NewConnection};
use crate::live::subscription::LiveSubscription;
use crate::log::ConnectionStatus;
use crate::projector::lag::Lag;
use crate::projector::{Phase, Status};
use crate::shutdown::Shutdown;

/// Nothing takes this long unless it is broken.
const PATIENCE: Duration = Duration::from_secs(180);

const HEALTHY: FeedHealth = FeedHealth {
    state: Liveness::Live,
    last_event_at: String::new(),
    lag_ms: 0,
    sources: Vec::new(),
};

/// What a channel without messages uses.
pub(in crate::live) fn context() -> LiveContext {
    let status = Status {
        phase: Phase::Live,
        ..Status::default()
    };
    let status = watch::channel(status).1;
    let connection = ConnectionStatus {
        up: true,
        number: 1,
    };
    LiveContext {
        feed: Feed::default(),
        metrics: Arc::default(),
        keys: Arc::new(KeyCache::new(Plans::default(), Duration::MAX)),
        monitor: FeedMonitor::new(status.clone(), watch::channel(connection).1),
        lag: Lag::new(Duration::ZERO, status).0,
        shutdown: Shutdown::new(),
        is_replay: false,
    }
}

/// A session that was opened at a time, and the other end of its connection.
async fn open_session(now: Instant) -> (Session, WebSocket<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("a connection");
    let (stream, _) = listener.accept().expect("the other end");
    stream.set_nonblocking(true).expect("a socket");
    client.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let context = Rc::new(context());
    let limits = ConnectionLimits::new(1, NetworkConnections::new(1), Arc::clone(&context.metrics));
    let key_id = KeyId::parse("00000000").expect("an id");
    let permit = limits
        .acquire(key_id, &Holder::Key(key_id), 1, None)
        .expect("a permit");
    let new_client = NewClient {
        connection: NewConnection {
            stream: stream.into(),
            tls: None,
            read_ahead: Vec::new(),
            encoding: Encoding::WebSocket,
        },
        subscription: LiveSubscription::default(),
        resume: None,
        play: None,
        permit,
    };
    let mut session = Session::open(new_client, context, HEALTHY, now).expect("a connection");
    wait_until_unblocked(&mut session, now).await;
    (
        session,
        WebSocket::from_raw_socket(client, Role::Client, None),
    )
}

/// Waits until the system accepts bytes and writes, as the task of a connection does.
async fn wait_until_unblocked(session: &mut Session, now: Instant) {
    let unblocked = poll_fn(|context| session.connection.poll_unblocked(context));
    let waited = timeout(PATIENCE, unblocked).await;
    waited.expect("in time").expect("the other end is there");
    let delivered = FeedCursor::from(&session.context.feed.position());
    session.continue_writing(delivered, now);
    assert!(!session.has_ended(), "the other end is there");
}

/// Writes until the system accepts no more.
async fn block(session: &mut Session, now: Instant) {
    let frame = Frame::text(&[&[b' '; 60_000]]);
    while !session.connection.blocked || session.connection.has_client_acted() {
        if session.connection.blocked {
            wait_until_unblocked(session, now).await;
        }
        session.connection.queue([frame.clone()]);
        session.write(&[], now);
        assert!(!session.has_ended(), "the other end is there");
    }
}

/// Reads what the system has for a client, until the session could write again.
fn read_until_unblocked(session: &Session, client: &WebSocket<TcpStream>) {
    let mut stream = client.get_ref();
    stream.set_nonblocking(true).expect("a socket");
    let mut buffer = vec![0; 1 << 20];
    while !session.connection.has_client_acted() {
        while stream.read(&mut buffer).is_ok() {}
    }
}

/// Runs the timers of a session at each of these seconds, as a shard does.
fn run_timers(session: &mut Session, start: Instant, seconds: std::ops::RangeInclusive<u64>) {
    for second in seconds {
        session.run_due_timers(0, &HEALTHY, start + Duration::from_secs(second));
    }
}

/// Receives to the end: events, close codes, and `ping`.
fn receive_all(client: &mut WebSocket<TcpStream>) -> Vec<String> {
    let mut received = Vec::new();
    loop {
        match client.read() {
            Ok(Message::Text(text)) => {
                let json: Value = serde_json::from_str(&text).expect("JSON");
                let event = json["event"].as_str().expect("an event").to_owned();
                received.push(match json["code"].as_u64() {
                    Some(code) => format!("{event} {code}"),
                    None => event,
                });
            }
            Ok(Message::Ping(_)) => received.push("ping".to_owned()),
            Ok(Message::Close(Some(frame))) => received.push(u16::from(frame.code).to_string()),
            Ok(_) => {}
            Err(Error::ConnectionClosed | Error::Protocol(_)) => return received,
            Err(error) => panic!("{error}"),
        }
    }
}

/// The events of a history up to a sequence, recorded a second apart from `start` on.
fn events(start: i64, seq: u64) -> Vec<EventTime> {
    let recorded_at = |seq: u64| jiff::Timestamp::from_second(start + seq.cast_signed());
    let event = |seq| EventTime {
        seq,
        recorded_at: Moment::from(recorded_at(seq).expect("in range")),
    };
    (1..=seq).map(event).collect()
}

#[tokio::test]
async fn no_message_joins_a_position_of_one_history_to_a_time_of_another() {
    let start = Instant::now();
    let (mut session, mut client) = open_session(start).await;
    let feed = session.context.feed.clone();
    feed.publish(Vec::new(), &events(0, 9), None);
    session.send_heartbeat(9, &HEALTHY, start);
    // The log has other events at the same sequences. The shard has not passed the reset on yet.
    let checkpoint = Checkpoint {
        log: LogIdentity {
            name: "RACING".to_owned(),
            created: "now".to_owned(),
        },
        seq: 9,
        recorded_at: None,
        history: LogHistory::default(),
        clock: LogClock::default(),
        rankings: SourceRankings::default(),
        digest: Digest::default(),
    };
    let replayed = Replayed {
        events: events(1_000, 9),
        complete_from: 1,
        updates: Vec::new(),
    };
    feed.reset(&checkpoint, Vec::new(), replayed);
    session.send_heartbeat(9, &HEALTHY, start);
    session.advance(start);
    let mut received = Vec::new();
    while received.len() < 6 {
        let Message::Text(text) = client.read().expect("a message") else {
            continue;
        };
        let json: Value = serde_json::from_str(&text).expect("JSON");
        let field = |name: &str| json[name].as_str().unwrap_or("-").to_owned();
        received.push((field("event"), json["seq"].as_u64(), field("recorded_at")));
    }
    let expected = [
        ("welcome", 0, "-"),
        ("snapshot_complete", 0, ""),
        ("heartbeat", 9, "1970-01-01T00:00:09Z"),
        ("heartbeat", 9, ""),
        ("resync", 9, "-"),
        ("snapshot_complete", 9, "1970-01-01T00:16:49Z"),
    ];
    let expected = expected.map(|(event, seq, at)| (event.to_owned(), Some(seq), at.to_owned()));
    assert_eq!(received, expected);
}

#[tokio::test]
async fn a_silent_client_is_pinged_and_closed_after_75_seconds() {
    let start = Instant::now();
    let (mut session, mut client) = open_session(start).await;
    run_timers(&mut session, start, 1..=74);
    assert!(session.is_open());
    run_timers(&mut session, start, 75..=75);
    assert!(!session.is_open());
    let received = receive_all(&mut client);
    assert_eq!(received[..2], ["welcome", "snapshot_complete"]);
    assert_eq!(received[received.len() - 2..], ["closing 4408", "4408"]);
    let count = |name: &str| received.iter().filter(|event| *event == name).count();
    assert_eq!(count("ping"), 2, "after 30 and 60 seconds");
    assert!((14..=16).contains(&count("heartbeat")), "{received:?}");
}

#[tokio::test]
async fn any_input_counts_as_alive() {
    let start = Instant::now();
    let (mut session, _client) = open_session(start).await;
    run_timers(&mut session, start, 1..=70);
    session.timers.received_at = start + Duration::from_secs(70);
    run_timers(&mut session, start, 71..=144);
    assert!(session.is_open());
    run_timers(&mut session, start, 145..=145);
    assert!(!session.is_open());
}

#[tokio::test]
async fn a_client_that_reads_nothing_for_30_seconds_is_closed() {
    let start = Instant::now();
    let (mut session, client) = open_session(start).await;
    block(&mut session, start).await;
    session.timers.received_at = start + Duration::from_secs(20);
    run_timers(&mut session, start, 1..=29);
    assert!(session.is_open());

    // The client reads: its time starts again.
    read_until_unblocked(&session, &client);
    let at = start + Duration::from_secs(30);
    wait_until_unblocked(&mut session, at).await;
    block(&mut session, at).await;
    run_timers(&mut session, start, 31..=59);
    assert!(session.is_open());
    run_timers(&mut session, start, 60..=60);
    assert!(!session.is_open(), "nothing was read since");
    assert!(!session.has_ended(), "it has time to close");
    run_timers(&mut session, start, 65..=65);
    assert!(session.has_ended());
}

#[tokio::test]
async fn a_client_that_acted_while_the_process_had_no_time_counts_as_alive() {
    let start = Instant::now();
    let (mut session, client) = open_session(start).await;
    block(&mut session, start).await;
    read_until_unblocked(&session, &client);
    // Its task has not run since: the timers of a process that was stopped may run first.
    run_timers(&mut session, start, 40..=40);
    assert!(session.is_open(), "it read");
    run_timers(&mut session, start, 69..=69);
    assert!(session.is_open(), "for another 30 seconds");

    let (mut session, mut client) = open_session(start).await;
    client.send(Message::Ping("".into())).expect("a socket");
    run_timers(&mut session, start, 80..=80);
    assert!(session.is_open(), "it sent");
    run_timers(&mut session, start, 154..=154);
    assert!(session.is_open(), "for another 75 seconds");
}
