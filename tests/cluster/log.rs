//! The log on a cluster: streams of three replicas, readers and appenders through elections, and answers of servers
//! that do not have the last events.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use projections::LogIdentity;
use railbird::log::{
    ACCOUNTS, ADDRESSES, Continuity, KEY_USE, Log, LogError, NatsConfig, Outgoing, RACING,
    ReadPosition, Reader, Replicas,
};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::*;

const CREATED: &str = "2026-11-21T04:00:00.123456Z";
/// A server that was cut off takes itself for the leader for so long, and answers from what it had.
const STALE: Duration = Duration::from_secs(10);

/// The configuration of a service or a command on a cluster: streams of three replicas.
fn three(url: &str) -> NatsConfig {
    NatsConfig {
        replicas: Replicas::parse("3").unwrap(),
        ..url.into()
    }
}

async fn connect(url: &str) -> Log {
    Log::connect(three(url), "test").await.unwrap()
}

/// A log with all streams of a service, for an administrator.
async fn admin_with_streams(cluster: &Cluster) -> Log {
    let log = connect(&cluster.url_of("admin")).await;
    for stream in [RACING, ACCOUNTS, ADDRESSES, KEY_USE] {
        eventually("the stream is created", async || {
            log.ensure(stream).await.is_ok()
        })
        .await;
    }
    log
}

fn quote(n: u64) -> Outgoing {
    outgoing(&odds("ST", 1, &second(n), &[2.0, 3.0]))
}

/// Reads until an event, and checks that nothing is missing and nothing is read twice.
async fn read_until(reader: &mut Reader, last: u64) {
    while reader.position().seq < last {
        let before = reader.position().seq;
        let batch = timeout(PATIENCE, reader.next())
            .await
            .expect("the reader goes on");
        let messages = batch.expect("it is the same log").messages;
        let seqs: Vec<u64> = messages.iter().map(|message| message.seq).collect();
        let expected: Vec<u64> = (before + 1..).take(seqs.len()).collect();
        assert_eq!(seqs, expected);
    }
}

fn server_error(code: u64, description: &str) -> Answer {
    Answer::Json(json!({ "error": { "code": 503, "err_code": code, "description": description } }))
}

/// An answer about the stream RACING, by a server that names this leader.
fn info(last_seq: u64, leader: &str) -> Answer {
    Answer::Json(json!({
        "config": {
            "name": "RACING", "subjects": ["racing.>"], "retention": "limits", "max_consumers": -1, "max_msgs": -1,
            "max_bytes": -1, "max_age": 0, "max_msgs_per_subject": -1, "max_msg_size": -1, "discard": "old",
            "storage": "file", "num_replicas": 3, "duplicate_window": 120_000_000_000_u64,
        },
        "created": CREATED,
        "state": {
            "messages": last_seq, "bytes": 0, "first_seq": 1, "first_ts": CREATED, "last_seq": last_seq,
            "last_ts": CREATED, "consumer_count": 0,
        },
        "cluster": {
            "name": "railbird", "leader": leader,
            "replicas": [
                { "name": "b", "current": true, "active": 1_000_000 },
                { "name": "c", "current": true, "active": 1_000_000 },
            ],
        },
    }))
}

/// Looks for the log of which 20 events were read.
async fn find(nats: &ScriptedNats) -> Result<u64, String> {
    let data = tempfile::tempdir().unwrap();
    let continuity = Continuity::open(data.path()).unwrap();
    continuity.note(&ReadPosition {
        log: LogIdentity {
            name: RACING.name.to_owned(),
            created: CREATED.to_owned(),
        },
        seq: 20,
        recorded_at: None,
    });
    continuity.begin(None);
    let log = Log::connect(nats.url(), "test").await.unwrap();
    let found = continuity.find(&log, RACING).await;
    found
        .map(|state| state.last_seq)
        .map_err(|replaced| replaced.to_string())
}

#[tokio::test]
async fn one_server_that_lacks_the_last_events_does_not_make_it_another_log() {
    let mut asked = 0;
    let nats = ScriptedNats::start(move |subject, _| {
        assert_eq!(subject, "$JS.API.STREAM.INFO.RACING");
        asked += 1;
        match asked {
            // A server of a stream without a leader answers from what it has.
            1..=2 => info(10, ""),
            // A leader that is none any more.
            3..=6 => info(15, "a"),
            7 => server_error(10008, "JetStream system temporarily unavailable"),
            _ => info(25, "b"),
        }
    })
    .await;
    assert_eq!(find(&nats).await, Ok(25));
}

#[tokio::test]
async fn a_cluster_that_has_not_loaded_its_streams_does_not_make_the_log_a_missing_one() {
    let started = Instant::now();
    let nats = ScriptedNats::start(move |_, _| {
        if started.elapsed() < STALE {
            server_error(10059, "stream not found")
        } else {
            info(20, "a")
        }
    })
    .await;
    assert_eq!(find(&nats).await, Ok(20));
}

#[tokio::test]
async fn a_log_that_all_leaders_have_shorter_is_another_one() {
    let started = Instant::now();
    let nats = ScriptedNats::start(move |_, _| info(15, "a")).await;
    let reason = find(&nats).await.unwrap_err();
    assert!(
        reason.contains("it ends at event 15, and 20 was read"),
        "{reason}"
    );
    assert!(started.elapsed() > STALE);
}

/// The last message on a subject, as the leader returns it.
fn last(seq: u64, id: &str) -> Answer {
    use base64::prelude::{BASE64_STANDARD, Engine};
    let headers =
        format!("NATS/1.0\r\nNats-Expected-Last-Sequence: 5\r\nNats-Msg-Id: {id}\r\n\r\n");
    Answer::Json(json!({ "message": {
        "subject": "accounts.x", "seq": seq, "hdrs": BASE64_STANDARD.encode(headers), "time": CREATED,
    } }))
}

fn event_of_account() -> Outgoing {
    Outgoing {
        subject: "accounts.x".to_owned(),
        id: "mine".to_owned(),
        payload: b"{}".to_vec(),
    }
}

/// Appends after event 5, on a server that always reports a conflict, and answers so when it is asked for the last
/// message.
async fn append_in_conflict(answers: impl IntoIterator<Item = Answer>) -> Result<u64, LogError> {
    let mut answers = answers.into_iter().collect::<Vec<_>>().into_iter();
    let nats = ScriptedNats::start(move |subject, _| match subject {
        "accounts.x" => server_error(10071, "wrong last sequence: 3"),
        "$JS.API.STREAM.MSG.GET.ACCOUNTS" => answers.next().expect("it is asked no more"),
        _ => Answer::NoResponders,
    })
    .await;
    let log = Log::connect(nats.url(), "test").await.unwrap();
    let appended = log.append_expecting(ACCOUNTS, event_of_account(), 5).await;
    appended.map(|appended| appended.seq)
}

#[tokio::test]
async fn after_a_conflict_the_leader_decides_whose_event_was_first() {
    let mine = append_in_conflict([last(6, "mine")]).await;
    assert_eq!(mine.unwrap(), 6);
    // A server that has less than what was read knows nothing of the conflict.
    let mine = append_in_conflict([last(3, "older"), last(5, "older"), last(6, "mine")]).await;
    assert_eq!(mine.unwrap(), 6);
    let other = append_in_conflict([last(3, "older"), last(6, "other")]).await;
    assert!(matches!(other, Err(LogError::Conflict)), "{other:?}");
}

#[tokio::test]
async fn a_message_that_no_leader_takes_is_sent_again_until_one_does() {
    let (sent, mut answers) = (Arc::new(AtomicUsize::new(0)), 0);
    let counter = Arc::clone(&sent);
    let nats = ScriptedNats::start(move |subject, _| {
        assert_eq!(subject, "accounts.x");
        counter.fetch_add(1, Ordering::Relaxed);
        answers += 1;
        match answers {
            1 | 2 => Answer::NoResponders,
            3 => server_error(10008, "JetStream system temporarily unavailable"),
            4 => server_error(
                10164,
                "expected last sequence per subject temporarily unavailable",
            ),
            5 => server_error(10158, "duplicate message id is in process"),
            6 => server_error(10077, "store is closed"),
            _ => Answer::Json(json!({ "stream": "ACCOUNTS", "seq": 7 })),
        }
    })
    .await;
    let log = Log::connect(nats.url(), "test").await.unwrap();
    let error = log
        .append_once(&event_of_account(), None)
        .await
        .unwrap_err();
    assert!(matches!(error, LogError::NoLeader(_)), "{error:?}");
    let appended = log.append(event_of_account()).await.unwrap();
    assert_eq!((appended.seq, sent.load(Ordering::Relaxed)), (7, 7));
}

#[tokio::test]
async fn quotes_of_one_time_are_stored_in_the_order_in_which_they_were_published() {
    let (stored, mut seq) = (Arc::new(Mutex::new(Vec::new())), 0);
    let log_of_server = Arc::clone(&stored);
    let nats = ScriptedNats::start(move |_, event| {
        seq += 1;
        // A leader is elected after the first message.
        if seq == 1 {
            return Answer::NoResponders;
        }
        log_of_server.lock().unwrap().push(event["id"].clone());
        Answer::Json(json!({ "stream": "RACING", "seq": seq }))
    })
    .await;
    let log = Log::connect(nats.url(), "test").await.unwrap();
    let (mut appender, mut published) = (log.appender(), Vec::new());
    for price in [2.0, 3.0] {
        let event = odds("ST", 1, &second(1), &[price]);
        published.push(event["id"].clone());
        appender.append(outgoing(&event)).await.unwrap();
    }
    appender.finish().await.unwrap();
    assert_eq!(*stored.lock().unwrap(), published);
}

#[tokio::test]
async fn streams_have_the_configured_replicas_and_a_difference_is_reported() {
    let cluster = Cluster::start();
    let log = admin_with_streams(&cluster).await;
    let jetstream = patient_jetstream(cluster.client_of("admin").await);
    for stream in [RACING, ACCOUNTS, ADDRESSES, KEY_USE] {
        let found = jetstream.get_stream(stream.name).await.unwrap();
        assert_eq!(found.cached_info().config.num_replicas, 3);
    }
    let service = Log::connect(three(&cluster.url()), "test").await.unwrap();
    let found = service.durability().await.unwrap();
    assert_eq!(found.servers.len(), 3, "{found:?}");
    assert_eq!(found.risks(), Vec::<String>::new());
    assert!(found.drift.values().all(Vec::is_empty), "{found:?}");

    let other = Log::connect(cluster.url(), "test").await.unwrap();
    let found = other.durability().await.unwrap();
    let drift = &found.drift["RACING"];
    assert_eq!(drift[0].setting, "num_replicas is 3, not 1");
    assert_eq!(found.risks(), Vec::<String>::new());
    let same = log.ensure(RACING).await.unwrap();
    assert_eq!(same.identity, other.ensure(RACING).await.unwrap().identity);
}

#[tokio::test]
async fn servers_that_do_not_answer_are_not_taken_for_ones_that_hide_their_settings() {
    let nats = ScriptedNats::start(|subject, _| match subject {
        "$SYS.REQ.SERVER.PING.VARZ" => Answer::Nothing,
        _ => info(20, "a"),
    })
    .await;
    let log = Log::connect(nats.url(), "test").await.unwrap();
    let found = log.durability().await;
    assert!(matches!(found, Err(LogError::NoLeader(_))), "{found:?}");
    // Nobody has subscribed where the account does not import it.
    let nats = ScriptedNats::start(|subject, _| match subject {
        "$SYS.REQ.SERVER.PING.VARZ" => Answer::NoResponders,
        _ => info(20, "a"),
    })
    .await;
    let log = Log::connect(nats.url(), "test").await.unwrap();
    let risks = log.durability().await.unwrap().risks();
    assert!(risks[0].contains("does not show this user"), "{risks:?}");
}

#[tokio::test]
async fn commands_wait_for_the_election_of_a_leader() {
    let mut cluster = Cluster::start();
    let log = admin_with_streams(&cluster).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let events = (0..20).map(|n| odds("ST", 1, &second(n), &[2.0]).to_string() + "\n");
    std::fs::write(file.path(), events.collect::<String>()).unwrap();
    let leader = cluster.stream_leader(ACCOUNTS.name).await;
    cluster.kill(leader);
    let keys = cluster.url_of("keys");
    let issued = railbird(["keys", "issue", "--plan", "default", "--nats", &keys]).await;
    assert_eq!(issued.code, 0, "{}", issued.all);
    let listed = railbird(["keys", "list", "--nats", &keys]).await;
    assert_eq!(listed.code, 0, "{}", listed.all);
    cluster.restart(leader);

    let leader = cluster.stream_leader(RACING.name).await;
    cluster.kill(leader);
    let feeder = cluster.url_of("feeder");
    let path = file.path().to_str().unwrap();
    let published = railbird(["publish", path, "--nats", &feeder]).await;
    assert_eq!(published.code, 0, "{}", published.all);
    assert_eq!(log.state(RACING).await.unwrap().messages, 20);
}

#[tokio::test]
async fn a_server_that_is_away_leaves_the_settings_of_the_others_known() {
    let mut cluster = Cluster::start();
    admin_with_streams(&cluster).await;
    let service = connect(&cluster.url()).await;
    for server in 0..2 {
        cluster.kill(server);
        eventually("the other servers answer", async || {
            let found = service.durability().await;
            found.is_ok_and(|found| found.servers.len() == 2 && found.risks().is_empty())
        })
        .await;
        cluster.restart(server);
        eventually("all servers answer", async || {
            let found = service.durability().await;
            found.is_ok_and(|found| found.servers.len() == 3)
        })
        .await;
    }
}

#[tokio::test]
async fn events_are_appended_and_read_once_and_in_order_while_leaders_are_killed() {
    let mut cluster = Cluster::start();
    let log = admin_with_streams(&cluster).await;
    let state = log.state(RACING).await.unwrap();
    let everywhere = three(&cluster.url());
    let background = Log::connect_in_background(&everywhere, "test");
    let mut reader = background
        .await
        .unwrap()
        .reader(RACING, ReadPosition::start_of(&state));
    let feeder = connect(&cluster.url_of("feeder")).await;
    let appending = tokio::spawn(async move {
        let mut appender = feeder.appender();
        for burst in 0..120 {
            // More than are sent one at a time.
            for n in 50 * burst..50 * (burst + 1) {
                appender.append(quote(n)).await.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        appender.finish().await.unwrap()
    });
    for _ in 0..2 {
        let leader = cluster.stream_leader(RACING.name).await;
        cluster.kill(leader);
        let next = cluster.stream_leader(RACING.name).await;
        assert_ne!(next, leader);
        cluster.restart(leader);
        let seq = log.state(RACING).await.unwrap().last_seq;
        read_until(&mut reader, seq + 1).await;
    }
    let appended = appending.await.unwrap();
    assert_eq!(appended.len(), 6_000);
    let state = log.state(RACING).await.unwrap();
    read_until(&mut reader, state.last_seq).await;
    // A repetition has a later sequence than the first one.
    let are_ordered = appended.is_sorted_by(|one, next| one.seq < next.seq);
    assert!(are_ordered, "{appended:?}");
}

#[tokio::test]
async fn one_writer_meets_no_conflict_while_leaders_are_killed_and_frozen() {
    let mut cluster = Cluster::start();
    admin_with_streams(&cluster).await;
    let keys = connect(&cluster.url_of("keys")).await;
    let appending = tokio::spawn(async move {
        let mut last_seq = 0;
        for n in 0..120 {
            let outgoing = Outgoing {
                subject: "accounts.key.test".to_owned(),
                id: format!("{n}"),
                payload: b"{}".to_vec(),
            };
            let appended = keys.append_expecting(ACCOUNTS, outgoing, last_seq).await;
            last_seq = appended
                .unwrap_or_else(|error| panic!("{n} after {last_seq}: {error}"))
                .seq;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        last_seq
    });
    let killed = cluster.stream_leader(ACCOUNTS.name).await;
    cluster.kill(killed);
    let frozen = cluster.stream_leader(ACCOUNTS.name).await;
    cluster.restart(killed);
    cluster.freeze(frozen);
    tokio::time::sleep(STALE / 2).await;
    cluster.thaw(frozen);
    assert_eq!(appending.await.unwrap(), 120);
}

/// The server that has the newest consumer of the log, once the servers have agreed on that.
async fn server_of_consumer(cluster: &Cluster) -> usize {
    let jetstream = patient_jetstream(cluster.client_of("admin").await);
    let log = jetstream.get_stream(RACING.name).await.unwrap();
    let leader = Mutex::new(None);
    eventually("the consumer has a server", async || {
        let consumers: Vec<_> = log.consumers().try_collect().await.unwrap_or_default();
        let newest = consumers.into_iter().max_by_key(|of| of.created);
        let found: Option<String> = newest.and_then(|newest| newest.cluster?.leader);
        let is_found = found.is_some();
        *leader.lock().unwrap() = found;
        is_found
    })
    .await;
    let name = leader.into_inner().unwrap().unwrap();
    name.strip_prefix("node").unwrap().parse::<usize>().unwrap() - 1
}

#[tokio::test]
async fn a_reader_goes_on_when_the_server_of_its_consumer_is_killed() {
    let mut cluster = Cluster::start();
    let log = admin_with_streams(&cluster).await;
    let state = log.state(RACING).await.unwrap();
    let leader = cluster.stream_leader(RACING.name).await;
    let connected = connect(&cluster.server(leader).url()).await;
    let feeder = connect(&cluster.server(leader).url_of("feeder")).await;
    // The connections stay, and the leader, too: nothing but the consumer ends.
    let (mut reader, victim) = loop {
        let mut reader = connected.reader(RACING, ReadPosition::start_of(&state));
        let seq = feeder
            .append(quote(log.state(RACING).await.unwrap().last_seq))
            .await;
        read_until(&mut reader, seq.unwrap().seq).await;
        let server = server_of_consumer(&cluster).await;
        if server != leader {
            break (reader, server);
        }
    };
    cluster.kill(victim);
    let killed = Instant::now();
    let seq = feeder.append(quote(999)).await.unwrap().seq;
    let acknowledged = killed.elapsed();
    read_until(&mut reader, seq).await;
    eprintln!(
        "acknowledged after {acknowledged:?}, read after {:?}",
        killed.elapsed()
    );
}

#[tokio::test]
async fn a_reader_on_a_server_that_is_cut_off_proves_nothing_and_looks_for_another_server() {
    let cluster = Cluster::start();
    let log = admin_with_streams(&cluster).await;
    let state = log.state(RACING).await.unwrap();
    let isolated = cluster.stream_leader(RACING.name).await;
    let others = (0..3).filter(|server| *server != isolated);
    let others: Vec<String> = others
        .map(|server| cluster.server(server).url_of("admin"))
        .collect();
    let majority = connect(&others.join(",")).await;
    let seq = majority.append(quote(0)).await.unwrap().seq;
    cluster.partition(isolated);
    // On the other side of the cut the log grows, and this is read there.
    let seq = majority.append(quote(seq)).await.unwrap().seq;
    let mut reader = majority.reader(RACING, ReadPosition::start_of(&state));
    read_until(&mut reader, seq).await;

    let cut_off = connect(&cluster.server(isolated).url()).await;
    let mut stale = cut_off.reader(RACING, reader.position().clone());
    let nothing = timeout(STALE, stale.next()).await;
    assert!(nothing.is_err(), "{nothing:?}");
    // With the addresses of all servers, a reader finds one that has a leader.
    let everywhere = three(&cluster.url());
    let all = Log::connect(everywhere, "test").await.unwrap();
    let mut moving = all.reader(RACING, ReadPosition::start_of(&state));
    read_until(&mut moving, seq).await;
    cluster.heal(isolated);
    let seq = majority.append(quote(seq)).await.unwrap().seq;
    read_until(&mut stale, seq).await;
}

#[tokio::test]
async fn a_connection_leaves_a_server_that_announces_its_end() {
    let mut cluster = Cluster::start();
    let log = admin_with_streams(&cluster).await;
    // While one of its two servers is down, it is connected to the other one.
    cluster.kill(1);
    let two = [0, 1].map(|server| cluster.server(server).url());
    let background = three(&two.join(","));
    let connected = Log::connect_in_background(&background, "test")
        .await
        .unwrap();
    let mut status = connected.connection();
    status.wait_for(|status| status.up).await.unwrap();
    cluster.restart(1);
    eventually("all servers are up", async || {
        let servers = log.servers().await;
        servers.is_ok_and(|servers| servers.answering.len() == 3)
    })
    .await;
    let number = status.borrow().number;
    cluster.server(0).announce_end();
    let moved = status.wait_for(|status| status.up && status.number > number);
    timeout(PATIENCE, moved)
        .await
        .expect("it connects to the other server")
        .unwrap();
    let served = std::fs::read_to_string(cluster.server(0).folder().join("log")).unwrap();
    assert!(served.contains("Entering lame duck mode"), "{served}");
    assert!(
        !served.contains("Closing existing clients"),
        "it left by itself: {served}"
    );
    // The server that ends may have been a leader.
    eventually("the stream has a leader", async || {
        connected.state(RACING).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn a_client_with_several_addresses_finds_the_servers_that_are_up() {
    let mut cluster = Cluster::start();
    let log = admin_with_streams(&cluster).await;
    cluster.kill(0);
    let late = connect(&cluster.url_of("admin")).await;
    late.append(quote(0)).await.unwrap();
    cluster.restart(0);
    cluster.kill(1);
    log.append(quote(1)).await.unwrap();
    late.append(quote(2)).await.unwrap();
}

#[tokio::test]
async fn a_restored_stream_is_the_same_log_with_the_configured_replicas() {
    let single = Nats::start();
    let seq = single
        .publish((0..50).map(|n| odds("ST", 1, &second(n), &[2.0])))
        .await;
    let original = single.log().await.state(RACING).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("backup");
    let folder = folder.to_str().unwrap();
    let backup = railbird(["log", "backup", folder, "--nats", &single.url_of("admin")]).await;
    assert_eq!(backup.code, 69, "without ACCOUNTS: {}", backup.all);
    single.log().await.ensure(ACCOUNTS).await.unwrap();
    let backup = railbird(["log", "backup", folder, "--nats", &single.url_of("admin")]).await;
    assert_eq!(backup.code, 0, "{}", backup.all);

    let cluster = Cluster::start();
    let url = cluster.url_of("admin");
    let args = ["log", "restore", folder, "--replicas", "3", "--nats", &url];
    let restored = railbird(args).await;
    assert_eq!(restored.code, 0, "{}", restored.all);
    let jetstream = patient_jetstream(cluster.client_of("admin").await);
    let found = jetstream.get_stream(RACING.name).await.unwrap();
    assert_eq!(found.cached_info().config.num_replicas, 3);
    let log = connect(&url).await;
    let state = log.state(RACING).await.unwrap();
    assert_eq!((&state.identity, state.last_seq), (&original.identity, seq));
    let mut reader = log.reader(RACING, ReadPosition::start_of(&state));
    read_until(&mut reader, seq).await;

    // And back, while the backup is made of a stream of three.
    let again = tempfile::tempdir().unwrap();
    let again = again.path().join("backup");
    let again = again.to_str().unwrap();
    let backup = railbird(["log", "backup", again, "--nats", &url]).await;
    assert_eq!(backup.code, 0, "{}", backup.all);
    let empty = Nats::start();
    let restored = railbird(["log", "restore", again, "--nats", &empty.url_of("admin")]).await;
    assert_eq!(restored.code, 0, "{}", restored.all);
    let state: Value = json!(empty.log().await.state(RACING).await.unwrap().last_seq);
    assert_eq!(state, json!(seq));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revocation_is_read_while_no_leader_can_be_elected() {
    let mut cluster = Cluster::start();
    let admin = admin_with_streams(&cluster).await;
    for n in 1..=3 {
        let event = Outgoing {
            id: n.to_string(),
            ..event_of_account()
        };
        admin.append(event).await.unwrap();
    }
    let state = admin.state(ACCOUNTS).await.unwrap();
    cluster.until_all_have("ACCOUNTS").await;
    let leader = cluster.stream_leader("ACCOUNTS").await;
    let [other, left] = [(leader + 1) % 3, (leader + 2) % 3];
    cluster.kill(leader);
    cluster.kill(other);
    let log = connect(&cluster.server(left).url()).await;
    let mut reader = log.reader(ACCOUNTS, ReadPosition::start_of(&state));
    read_until(&mut reader, 3).await;
}
