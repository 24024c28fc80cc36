//! The log: the appender, the reader, permissions and durability, through restarts of the server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_nats::jetstream::stream::Config;
use futures::FutureExt;
use futures::future::join_all;
use projections::BATCH_MESSAGES_MAX;
use railbird::log::{
    ACCOUNTS, Appended, Appender, Log, LogError, LogMessage, Outgoing, RACING, ReadPosition, Reader,
};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::support::*;

async fn reader(log: &Log, seq: u64) -> Reader {
    let state = log.state(RACING).await.unwrap();
    log.reader(
        RACING,
        ReadPosition {
            log: state.identity,
            seq,
            recorded_at: None,
        },
    )
}

/// Reads up to the sequence `last`, and checks that no message is missing or delivered twice.
async fn read_until(reader: &mut Reader, mut seq: u64, last: u64) -> Vec<LogMessage> {
    let mut messages = Vec::new();
    while seq < last {
        let batch = timeout(PATIENCE, reader.next())
            .await
            .expect("a batch in time")
            .unwrap();
        for message in batch.messages {
            assert_eq!(message.seq, seq + 1, "each message once, in order");
            seq = message.seq;
            messages.push(message);
        }
    }
    messages
}

#[tokio::test]
async fn a_reader_that_is_far_behind_returns_full_batches_and_a_cancelled_one_loses_nothing() {
    let nats = Nats::start();
    let quotes = (0..3 * BATCH_MESSAGES_MAX as u64).map(|n| odds("ST", 1, &second(n), &[2.0]));
    let last = nats.publish(quotes).await;
    let log = nats.log().await;
    let (mut hasty, mut sizes, mut read) = (reader(&log, 0).await, Vec::new(), 0);
    // Longer each time: to connect may take any time.
    let mut patience = Duration::ZERO;
    while read < last {
        patience += Duration::from_millis(1);
        let Ok(batch) = timeout(patience, hasty.next()).await else {
            continue;
        };
        let batch = batch.unwrap();
        patience = Duration::ZERO;
        for message in &batch.messages {
            assert_eq!(message.seq, read + 1, "each message once, in order");
            read = message.seq;
        }
        let has_more = batch.pending >= BATCH_MESSAGES_MAX as u64 && batch.head.is_none();
        assert!(!has_more || batch.messages.len() >= BATCH_MESSAGES_MAX);
        sizes.push(batch.messages.len());
    }
    assert!(
        sizes.iter().any(|size| *size >= BATCH_MESSAGES_MAX),
        "{sizes:?}"
    );
}

/// Reads for a while, and checks that there is no message.
async fn assert_no_message(reader: &mut Reader, lasting: Duration) {
    let reading = async {
        loop {
            let batch = reader.next().await.unwrap();
            assert_eq!(batch.messages.len(), 0, "no old message is delivered");
        }
    };
    let ended: Result<(), _> = timeout(lasting, reading).await;
    assert!(ended.is_err());
}

#[tokio::test]
async fn a_reader_without_new_messages_receives_no_old_ones_after_a_restart() {
    let mut nats = Nats::start();
    let last = nats
        .publish((0..50).map(|n| odds("ST", 1, &second(n), &[2.0])))
        .await;
    let log = nats.log().await;
    let mut reader = reader(&log, last).await;
    assert_no_message(&mut reader, Duration::from_millis(300)).await;
    nats.kill();
    nats.start_again();
    assert_no_message(&mut reader, Duration::from_secs(1)).await;
    nats.publish([odds("ST", 1, &second(51), &[2.1])]).await;
    assert_eq!(read_until(&mut reader, last, last + 1).await.len(), 1);
}

#[tokio::test]
async fn messages_are_delivered_once_and_in_order_through_restarts() {
    let mut nats = Nats::start();
    let log = nats.log().await;
    let mut reader = reader(&log, 0).await;
    let mut seq = 0;
    for round in 0..3 {
        let last = nats
            .publish((0..200).map(|n| odds("ST", 1, &second(round * 1000 + n), &[2.0])))
            .await;
        seq = read_until(&mut reader, seq, last - 50)
            .await
            .last()
            .unwrap()
            .seq;
        let mut connection = log.connection();
        let number = connection.borrow().number;
        nats.kill();
        nats.start_again();
        connection
            .wait_for(|c| c.up && c.number > number)
            .await
            .unwrap();
        let reconnected = Instant::now();
        let first = nats
            .publish([odds("ST", 1, &second(round * 1000 + 500), &[3.0])])
            .await;
        seq = read_until(&mut reader, seq, first)
            .await
            .last()
            .unwrap()
            .seq;
        eprintln!(
            "the first new message was delivered {:?} after the reconnect",
            reconnected.elapsed()
        );
    }
}

/// A server ends the connection of a client that has 64 MB to read.
#[tokio::test]
async fn large_messages_never_overflow_the_connection_of_a_reader() {
    let nats = Nats::start_with(|conf| conf.replace("max_payload: 1MB", "max_payload: 16MB"));
    let log = nats.log().await;
    let mut appender = log.appender();
    for n in 0..200 {
        // One is larger than a pull request.
        let bytes = if n == 100 { 9_000_000 } else { 1_000_000 };
        let message = Outgoing {
            subject: "racing.nonsense".to_owned(),
            id: n.to_string(),
            payload: vec![b'x'; bytes],
        };
        appender.append(message).await.unwrap();
    }
    let last = appender.finish().await.unwrap().last().unwrap().seq;
    let railbird = Railbird::start(&nats).await;
    railbird.until_seq(last).await;
    let server = std::fs::read_to_string(nats.folder().join("log")).unwrap();
    assert!(!server.contains("Slow Consumer"), "{server}");
}

#[tokio::test]
async fn an_appender_loses_nothing_and_keeps_the_order_of_a_race_when_the_server_is_killed_on_the_way()
 {
    const RACES: u16 = 2;
    let mut nats = Nats::start();
    let log = nats.log().await;
    let mut appender = log.appender();
    let appending = tokio::spawn(async move {
        for n in 0..4_000_u16 {
            let quote = odds("ST", 1 + n % RACES, &second(n.into()), &[2.0]);
            appender.append(outgoing(&quote)).await.unwrap();
        }
        appender.finish().await.unwrap()
    });
    for killed_at in [500, 1_000, 1_500, 2_000, 2_500, 3_000] {
        nats.until_logged(killed_at).await;
        nats.kill();
        nats.start_again();
    }
    let appended = appending.await.unwrap();
    let seqs: BTreeSet<u64> = appended.iter().map(|a| a.seq).collect();
    assert_eq!(
        (appended.len(), seqs.len()),
        (4_000, 4_000),
        "each was acknowledged with a sequence of its own"
    );
    let (mut ids, mut times) = (BTreeSet::new(), BTreeMap::<_, Vec<_>>::new());
    for message in nats.messages().await {
        let event: Value = serde_json::from_slice(&message.payload).unwrap();
        // A message whose acknowledgement was lost may be in the log twice.
        if ids.insert(event["id"].as_str().unwrap().to_owned()) {
            let times = times.entry(message.subject().to_owned()).or_default();
            times.push(event["time"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(ids.len(), 4_000);
    assert_eq!(times.len(), usize::from(RACES));
    for (subject, times) in times {
        assert!(times.is_sorted(), "{subject}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_appender_keeps_the_order_while_the_server_is_killed_again_and_again() {
    let mut nats = Nats::start();
    let log = nats.log().await;
    let (end, mut ended) = tokio::sync::oneshot::channel();
    let appending = tokio::spawn({
        let log = log.clone();
        async move {
            let mut appender = log.appender();
            let mut appended = 0;
            // Few at a time, so that the window has room when the connection breaks.
            while ended.try_recv().is_err() {
                for _ in 0..10 {
                    let event = outgoing(&odds("ST", 1, &second(appended), &[2.0]));
                    appender.append(event).await.unwrap();
                    appended += 1;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            appender.finish().await.unwrap();
            appended
        }
    });
    for _ in 0..10 {
        let seen = nats.last_seq().await;
        eventually("more is appended", || async {
            log.state(RACING)
                .await
                .is_ok_and(|s| s.last_seq >= seen + 50)
        })
        .await;
        nats.kill();
        nats.start_again();
    }
    end.send(()).unwrap();
    let appended = appending.await.unwrap();
    let last = nats.last_seq().await;
    let mut reader = reader(&log, 0).await;
    let times = read_until(&mut reader, 0, last).await;
    let times = times.iter().map(|message| {
        let event: Value = serde_json::from_slice(&message.payload).unwrap();
        event["time"].as_str().unwrap().to_owned()
    });
    assert!(
        times.eq((0..appended).map(second)),
        "each once, in the order in which it was appended"
    );
}

/// How a connection to NATS ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Outage {
    Kill,
    Stop,
    LameDuck,
    /// Nothing arrives any more, and new connections are accepted.
    HalfOpen,
}

impl Outage {
    fn begin(self, nats: &mut Nats, cable: &Cable) {
        match self {
            Self::Kill => nats.kill(),
            Self::Stop => nats.stop(),
            Self::LameDuck => nats.announce_end(),
            Self::HalfOpen => cable.cut(),
        }
    }

    /// How long it lasts. One of two half-open connections is given up 4 seconds after the other.
    fn lasting(self) -> Duration {
        Duration::from_secs(if self == Self::HalfOpen { 5 } else { 1 })
    }

    fn end(self, nats: &mut Nats, cable: &Cable) {
        match self {
            Self::Kill | Self::Stop => nats.start_again(),
            Self::LameDuck => {
                nats.kill();
                nats.start_again();
            }
            Self::HalfOpen => cable.mend(),
        }
    }
}

/// Publishes quotes of a race as a feed does, and the ids in their order.
struct PacedFeed {
    appender: Appender,
    ids: Vec<String>,
}

impl PacedFeed {
    async fn quote(&mut self) {
        let event = odds("ST", 1, &second(self.ids.len() as u64), &[2.0]);
        self.ids.push(event["id"].as_str().unwrap().to_owned());
        self.appender.append(outgoing(&event)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(2)).await;
    }

    async fn quote_until(mut self, mut ended: tokio::sync::oneshot::Receiver<()>) -> Self {
        while ended.try_recv().is_err() {
            self.quote().await;
        }
        // While the server is up again.
        for _ in 0..20 {
            self.quote().await;
        }
        self
    }
}

/// Breaks a connection with nothing in flight and one with many messages, and checks the order in the log.
async fn check_order_through(outage: Outage) {
    let mut nats = Nats::start();
    nats.log().await;
    let cable = Cable::to(nats.address()).await;
    let address = match outage {
        Outage::HalfOpen => cable.address,
        _ => nats.address(),
    };
    let url = format!("nats://admin:p-admin@{address}");
    let log = Log::connect(&url, "test").await.unwrap();
    let (appender, ids) = (log.appender(), Vec::new());
    let mut feed = PacedFeed { appender, ids };
    for is_idle in [true, false] {
        let mut connection = log.connection();
        connection.wait_for(|c| c.up).await.unwrap();
        feed.quote().await;
        feed.appender.flush().await.unwrap();
        let seen = nats.last_seq().await;
        let (end, ended) = tokio::sync::oneshot::channel();
        if is_idle {
            outage.begin(&mut nats, &cable);
            connection.wait_for(|c| !c.up).await.unwrap();
            tokio::time::sleep(outage.lasting()).await;
        }
        let publishing = tokio::spawn(feed.quote_until(ended));
        if !is_idle {
            nats.until_logged(seen + 10).await;
            outage.begin(&mut nats, &cable);
            connection.wait_for(|c| !c.up).await.unwrap();
        }
        // Some attempts to connect fail.
        tokio::time::sleep(outage.lasting()).await;
        outage.end(&mut nats, &cable);
        end.send(()).unwrap();
        feed = publishing.await.unwrap();
    }
    feed.appender.finish().await.unwrap();
    let mut first = Vec::new();
    for message in nats.messages().await {
        let event: Value = serde_json::from_slice(&message.payload).unwrap();
        let id = event["id"].as_str().unwrap().to_owned();
        // A message whose acknowledgement was lost may be in the log twice.
        if !first.contains(&id) {
            first.push(id);
        }
    }
    let order = |ids: &[String]| -> Vec<Option<usize>> {
        let at = |id| feed.ids.iter().position(|of| of == id);
        ids.iter().map(at).collect()
    };
    assert_eq!(order(&first), order(&feed.ids), "{outage:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paced_feed_keeps_its_order_through_a_kill_of_the_server() {
    check_order_through(Outage::Kill).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paced_feed_keeps_its_order_through_an_orderly_stop_of_the_server() {
    check_order_through(Outage::Stop).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paced_feed_keeps_its_order_through_a_server_that_announces_its_end() {
    check_order_through(Outage::LameDuck).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paced_feed_keeps_its_order_through_a_half_open_proxy() {
    check_order_through(Outage::HalfOpen).await;
}

#[tokio::test]
async fn an_append_may_be_cancelled_while_it_waits() {
    let nats = Nats::start();
    let log = nats.log().await;
    let mut appender = log.appender();
    let mut appended = 0;
    loop {
        let event = outgoing(&odds("ST", 1, &second(appended), &[2.0]));
        if appender.append(event).now_or_never().is_none() {
            break;
        }
        appended += 1;
    }
    let acknowledged = appender.finish().await.unwrap();
    assert_eq!(acknowledged.len() as u64, appended);
    assert_eq!(nats.last_seq().await, appended);
}

fn quotes(race: u16, count: u64) -> Vec<Outgoing> {
    let quote = |n| outgoing(&odds("ST", race, &second(n), &[2.0]));
    (0..count).map(quote).collect()
}

/// Appends the first of these messages by itself and the others as a batch: nothing arrives between two of them.
fn append_together(appender: &mut Appender, messages: &[Outgoing]) {
    for message in messages {
        let sent = appender.append(message.clone()).now_or_never();
        sent.expect("it does not wait").unwrap();
    }
}

/// Checks that each acknowledgement has the sequence of its message, in the order of the messages.
async fn assert_appended(nats: &Nats, quotes: &[Outgoing], appended: &[Appended]) {
    let stored = nats.messages().await;
    let stored: BTreeMap<u64, _> = stored.iter().map(|m| (m.seq, &m.payload)).collect();
    let payloads = appended.iter().map(|appended| stored[&appended.seq]);
    assert!(payloads.eq(quotes.iter().map(|quote| &quote.payload)));
    let new = appended.iter().filter(|appended| !appended.duplicate);
    assert!(new.is_sorted_by_key(|appended| appended.seq));
}

#[tokio::test]
async fn each_message_of_a_batch_has_its_own_sequence_between_those_of_another_feeder() {
    let nats = Nats::start();
    let (one, other) = (nats.log().await, nats.log().await);
    let (mut one, mut other) = (one.appender(), other.appender());
    let (mut of_one, mut of_other) = (Vec::new(), Vec::new());
    for round in 0..5 {
        let (some, others) = (quotes(1 + round, 300), quotes(11 + round, 200));
        append_together(&mut one, &some);
        append_together(&mut other, &others);
        of_one.extend(some);
        of_other.extend(others);
        let (one, other) = tokio::join!(one.flush(), other.flush());
        one.and(other).unwrap();
    }
    let (one, other) = (one.finish().await.unwrap(), other.finish().await.unwrap());
    assert_appended(&nats, &of_one, &one).await;
    assert_appended(&nats, &of_other, &other).await;
    assert!(one.iter().chain(&other).all(|appended| !appended.duplicate));
}

#[tokio::test]
async fn a_batch_with_messages_that_the_log_has_is_appended_without_them() {
    let nats = Nats::start();
    let log = nats.log().await;
    let mut quotes = quotes(1, 30);
    log.append(quotes[3].clone()).await.unwrap();
    // Another one is in the batch twice.
    quotes[21] = quotes[20].clone();
    let mut appender = log.appender();
    append_together(&mut appender, &quotes);
    let appended = appender.finish().await.unwrap();
    assert_appended(&nats, &quotes, &appended).await;
    let duplicates: Vec<_> = appended.iter().map(|a| a.duplicate).collect();
    assert!((0..30).map(|n| [3, 21].contains(&n)).eq(duplicates));
    assert_eq!(nats.last_seq().await, 29);
}

#[tokio::test]
async fn a_stream_that_takes_no_batches_has_the_messages_in_their_order() {
    let nats = Nats::start();
    nats.create_log(Config::default()).await;
    let log = nats.log().await;
    let mut appender = log.appender();
    let quotes = quotes(1, 50);
    append_together(&mut appender, &quotes);
    let appended = appender.finish().await.unwrap();
    assert_appended(&nats, &quotes, &appended).await;
}

#[tokio::test]
async fn a_message_of_a_batch_that_is_too_large_is_the_only_one_that_fails() {
    let nats = Nats::start_with(|conf| conf.replace("max_payload: 1MB", "max_payload: 64KB"));
    let log = nats.log().await;
    let mut appender = log.appender();
    let mut quotes = quotes(1, 40);
    quotes[30].payload.resize(64 * 1024, b' ');
    append_together(&mut appender, &quotes);
    let failed = appender.flush().await;
    assert!(matches!(failed, Err(LogError::TooLarge)), "{failed:?}");
    assert_eq!(appender.finish().await.unwrap().len(), 39);
    assert_eq!(nats.last_seq().await, 39);
}

#[tokio::test]
async fn each_user_has_its_permissions_and_no_others() {
    let nats = Nats::start();
    nats.log().await;
    let feeder = Log::connect(&nats.url_of("feeder"), "test").await.unwrap();
    let event = outgoing(&registered("H1", "HORSE 1"));
    feeder.append(event.clone()).await.unwrap();
    let id = |id: &str, _: &[u8]| Some(id.to_owned());
    let read = feeder.read_subject(RACING, "racing.horse.H1", 1, id).await;
    assert_eq!(read.unwrap(), [event.id.as_str()]);
    let mut key = issued(&railbird::accounts::ApiKey::generate("test").unwrap());
    assert!(
        feeder.append(key.clone()).await.is_err(),
        "a feeder may not issue keys"
    );

    let service = Log::connect(&nats.url_of("railbird"), "test")
        .await
        .unwrap();
    service.ensure(ACCOUNTS).await.unwrap();
    key.id = uuid::Uuid::now_v7().to_string();
    service.append(key).await.unwrap();
    for together in [1, 30] {
        let mut appender = service.appender();
        append_together(&mut appender, &quotes(together, together.into()));
        let refused = appender.finish().await;
        assert!(
            matches!(refused, Err(LogError::Denied { .. })),
            "the service may not publish facts: {refused:?}"
        );
    }
    let servers = service.servers().await.unwrap().answering;
    assert!(servers.len() == 1 && servers.values().all(|server| server.syncs_always));
    let mut reader = reader(&service, 0).await;
    read_until(&mut reader, 0, 1).await;

    let unknown_user = Log::connect(&nats.url_of("nobody"), "test").await;
    assert!(unknown_user.is_err());
}

/// Publishes eight messages that are no valid events, as the sequences 1 to 8, and a valid one, whose sequence it
/// returns.
async fn publish_invalid_events(nats: &Nats) -> u64 {
    let subject = format!("racing.odds.{DAY}.ST.1");
    let good = odds("ST", 1, &second(1), &[3.5]);
    let mut elsewhere = odds("ST", 2, &second(2), &[3.5]);
    elsewhere["id"] = json!("elsewhere");
    let mut unknown = good.clone();
    unknown["type"] = json!("racing.tote.opened.v9");
    let mut negative = good.clone();
    negative["data"]["runners"][0]["win"] = json!(-3.5);
    let mut nowhere = good.clone();
    nowhere["data"]["date"] = json!("0000-13-99");
    let mut named = good.clone();
    named["data"]["runners"][0]["horse_name"] = json!("X".repeat(60_000));
    for payload in [elsewhere, unknown, negative, nowhere, named] {
        nats.publish_raw(&subject, payload.to_string().as_bytes())
            .await;
    }
    nats.publish_raw(&subject, b"\xff\xfe nonsense").await;
    nats.publish_raw(&subject, &good.to_string().as_bytes()[..100])
        .await;
    nats.publish_raw("racing.nonsense", &vec![b'x'; 900_000])
        .await;
    nats.publish([good]).await
}

#[tokio::test]
async fn an_invalid_event_is_kept_with_its_reason_and_delays_no_later_one() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let seq = publish_invalid_events(&nats).await;
    railbird.until_seq(seq).await;

    let rejections = railbird.get_admin("/rejections").await.json();
    let rejections = rejections["rejections"].as_array().unwrap();
    let text = |row: &Value, field: &str| row[field].as_str().unwrap().to_owned();
    let codes: Vec<String> = rejections.iter().map(|row| text(row, "code")).collect();
    assert_eq!(
        codes,
        [
            "subject_mismatch",
            "unknown_type",
            "invalid_data",
            "invalid_data",
            "invalid_data",
            "not_cloud_event",
            "not_cloud_event",
            "too_large",
        ]
    );
    let reasons: Vec<String> = rejections.iter().map(|row| text(row, "reason")).collect();
    for (row, path) in [
        (2, "data.runners[0].win: "),
        (3, "data.date: "),
        (4, "data.runners[0].horse_name: "),
    ] {
        assert!(reasons[row].starts_with(path), "{}", reasons[row]);
    }
    assert!(
        reasons.iter().all(|reason| reason.len() < 400),
        "a reason does not repeat the input"
    );
    assert_eq!(rejections[0]["source"], "test");
    assert_eq!(text(&rejections[7], "payload").len(), 4096);
    let after = railbird.get_admin("/rejections?after=7").await.json();
    assert_eq!(after["rejections"].as_array().unwrap().len(), 1);
    assert!(
        railbird
            .get_admin("/metrics")
            .await
            .text()
            .contains("railbird_events_rejected_total{reason=\"invalid_data\"}")
    );
    assert_eq!(
        railbird.get(&format!("/api/v1/odds/{DAY}/1")).await.json()["seq"],
        seq,
        "the event after them is folded"
    );
}

#[tokio::test]
async fn a_feeder_reads_the_ids_on_a_subject_page_by_page_and_no_others() {
    let nats = Nats::start();
    let races = (0..2_500).map(|n| odds("ST", 1 + (n % 2) as u16, &second(n), &[2.0]));
    let events: Vec<_> = races.collect();
    nats.publish(events.clone()).await;
    nats.publish_raw(&format!("racing.odds.{DAY}.ST.1"), b"no event")
        .await;
    let feeder = Log::connect(&nats.url_of("feeder"), "test").await.unwrap();
    let id = |id: &str, _: &[u8]| id.parse::<uuid::Uuid>().ok();
    let nothing = feeder.read_subject(RACING, "racing.horse.H1", 10, id).await;
    let nothing = nothing.unwrap();
    assert!(nothing.is_empty(), "{nothing:?}");
    for race in [1, 2] {
        let subject = format!("racing.odds.{DAY}.ST.{race}");
        let of_race = events.iter().filter(|e| e["data"]["race_number"] == race);
        let expected: Vec<uuid::Uuid> = of_race
            .map(|event| outgoing(event).id.parse().unwrap())
            .collect();
        let ids = feeder.read_subject(RACING, &subject, 1_251, id).await;
        let ids = ids.unwrap();
        assert_eq!(ids[..expected.len()], expected);
        let too_many = feeder.read_subject(RACING, &subject, 1_249, id).await;
        assert!(
            matches!(too_many, Err(LogError::TooMany { .. })),
            "{too_many:?}"
        );
    }
}

#[tokio::test]
async fn of_several_writers_that_expect_the_same_sequence_one_succeeds() {
    let nats = Nats::start();
    nats.log().await.ensure(ACCOUNTS).await.unwrap();
    let subject = "accounts.mail.mail-1";
    let claim = |payload: &str| Outgoing {
        subject: subject.to_owned(),
        id: uuid::Uuid::now_v7().to_string(),
        payload: payload.into(),
    };
    let mut last_seq = 0;
    for round in 0..20 {
        let writers = (0..8).map(|n| {
            let (url, claim) = (nats.url_of("railbird"), claim(&format!("{round} of {n}")));
            async move {
                let log = Log::connect(&url, "test").await.unwrap();
                log.append_expecting(ACCOUNTS, claim, last_seq).await
            }
        });
        let mut won = Vec::new();
        for outcome in join_all(writers).await {
            match outcome {
                Ok(appended) => won.push(appended.seq),
                Err(LogError::Conflict) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(won.len(), 1, "in round {round}");
        last_seq = won[0];
    }
    assert_eq!(last_seq, 20);
    // Messages on other subjects cause no conflict.
    let log = nats.log().await;
    let other = Outgoing {
        subject: "accounts.mail.mail-2".to_owned(),
        ..claim("another")
    };
    log.append_expecting(ACCOUNTS, other, 0).await.unwrap();
    let next = claim("next");
    log.append_expecting(ACCOUNTS, next, last_seq)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_retry_after_a_lost_acknowledgement_does_not_conflict_with_itself() {
    let nats = Nats::start();
    let client = nats.client_of("admin").await;
    let short_memory = async_nats::jetstream::stream::Config {
        name: ACCOUNTS.name.to_owned(),
        subjects: vec!["accounts.>".to_owned()],
        allow_direct: true,
        duplicate_window: Duration::from_millis(100),
        ..Default::default()
    };
    let jetstream = patient_jetstream(client);
    jetstream.create_stream(short_memory).await.unwrap();

    let log = nats.log().await;
    let claim = |subject: &str| Outgoing {
        subject: subject.to_owned(),
        id: subject.to_owned(),
        payload: b"mine".to_vec(),
    };
    let (mine, marker) = (claim("accounts.mail.mail-1"), claim("accounts.mail.mail-2"));
    let first = log
        .append_expecting(ACCOUNTS, mine.clone(), 0)
        .await
        .unwrap();
    assert!(!first.duplicate);
    log.append(marker.clone()).await.unwrap();
    eventually("the server has forgotten the ids it has seen", || async {
        !log.append(marker.clone()).await.unwrap().duplicate
    })
    .await;
    let again = log
        .append_expecting(ACCOUNTS, mine.clone(), 0)
        .await
        .unwrap();
    assert_eq!((again.seq, again.duplicate), (first.seq, true));
    // After a message of another writer it is a conflict.
    let mut theirs = mine.clone();
    theirs.id = "theirs".to_owned();
    log.append_expecting(ACCOUNTS, theirs, first.seq)
        .await
        .unwrap();
    let late = log.append_expecting(ACCOUNTS, mine, 0).await;
    assert!(matches!(late, Err(LogError::Conflict)), "{late:?}");
}

/// JetStream looks for an id on all subjects of a stream, and another feeder can compute it.
#[tokio::test]
async fn a_feeder_that_takes_the_id_of_an_event_does_not_keep_it_out_of_the_log() {
    let nats = Nats::start_with_feeders(&[("tote", "racing.odds.2026-10-03.HV.>")], |conf| conf);
    nats.log().await;
    let tote = Log::connect(&nats.url_of("tote"), "tote").await.unwrap();
    let judge = Log::connect(&nats.url_of("feeder"), "judge").await.unwrap();
    for (race, together) in [(1, 1), (2, 30)] {
        let quotes = quotes(race, together);
        let event = quotes.last().unwrap().clone();
        let taken = Outgoing {
            subject: format!("racing.odds.2026-10-03.HV.{race}"),
            payload: b"{}".to_vec(),
            ..event.clone()
        };
        assert!(!tote.append(taken).await.unwrap().duplicate);
        let mut appender = judge.appender();
        append_together(&mut appender, &quotes);
        let appended = appender.finish().await.unwrap();
        let last = appended.last().unwrap();
        assert!(!last.duplicate, "{together} together");
        let stored = nats.messages().await;
        let stored = stored.iter().find(|message| message.seq == last.seq);
        let stored = stored.expect("it is in the log");
        assert_eq!(stored.subject(), event.subject);
        assert_eq!(stored.payload, event.payload);
    }
    // A repetition of its own is one.
    let event = outgoing(&odds("ST", 3, &second(1), &[2.5]));
    let first = judge.append(event.clone()).await.unwrap();
    let again = judge.append(event).await.unwrap();
    assert_eq!((first.seq, again.duplicate), (again.seq, true));
}
