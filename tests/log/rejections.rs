//! Rejected messages: kept, counted, listed and announced; later messages are not delayed.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use async_nats::{Message, Subscriber};
use futures::StreamExt;
use railbird::log::{Outgoing, RACING};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::support::*;

/// A client with the user `feeder` that subscribes to announcements.
pub(crate) struct Feeder {
    client: async_nats::Client,
    announcements: Subscriber,
}

impl Feeder {
    pub(crate) async fn subscribe(nats: &Nats, subject: &str) -> Self {
        let client = nats.client_of("feeder").await;
        let announcements = client.subscribe(subject.to_owned()).await.unwrap();
        client.flush().await.unwrap();
        Self {
            client,
            announcements,
        }
    }

    /// Publishes a payload, and returns its sequence.
    pub(crate) async fn publish(&self, subject: &str, payload: impl Into<Vec<u8>>) -> u64 {
        let jetstream = patient_jetstream(self.client.clone());
        let ack = jetstream.publish(subject.to_owned(), payload.into().into());
        ack.await.unwrap().await.unwrap().sequence
    }

    pub(crate) async fn next(&mut self) -> Message {
        let next = timeout(PATIENCE, self.announcements.next()).await;
        next.expect("an announcement in time").unwrap()
    }

    /// The sequence of the next message that is announced.
    pub(crate) async fn next_seq(&mut self) -> u64 {
        rejection(&self.next().await)["seq"].as_u64().unwrap()
    }

    /// The sequences of the announced messages, up to and including `seq`.
    pub(crate) async fn until(&mut self, seq: u64) -> Vec<u64> {
        let mut seqs = Vec::new();
        while seqs.last() != Some(&seq) {
            seqs.push(self.next_seq().await);
        }
        seqs
    }
}

fn rejection(announcement: &Message) -> Value {
    serde_json::from_slice(&announcement.payload).unwrap()
}

/// The rejections in the read model.
async fn listed(railbird: &Railbird, query: &str) -> Vec<Value> {
    let answer = railbird.get_admin(&format!("/rejections?{query}")).await;
    answer.json()["rejections"].as_array().unwrap().clone()
}

/// A message that is rejected, and how.
struct Rejected {
    payload: String,
    code: &'static str,
    reason_prefix: &'static str,
    id: Value,
}

/// A message on the subject of race 1 for each code, made from a valid event.
fn rejected_messages(good: &Value) -> [Rejected; 6] {
    let changed = |code, reason_prefix, change: &dyn Fn(&mut Value)| {
        let mut event = good.clone();
        event["id"] = uuid::Uuid::now_v7().to_string().into();
        change(&mut event);
        Rejected {
            payload: event.to_string(),
            code,
            reason_prefix,
            id: event["id"].clone(),
        }
    };
    [
        changed("subject_mismatch", "published on racing.odds.", &|event| {
            event["data"]["race_number"] = json!(2);
        }),
        changed("unknown_type", "unknown event type", &|event| {
            event["type"] = json!("racing.tote.opened.v9");
        }),
        changed("invalid_data", "data.runners[0].win: ", &|event| {
            event["data"]["runners"][0]["win"] = json!(-3.5);
        }),
        changed("too_large", "70", &|event| {
            event["more"] = "x".repeat(70_000).into();
        }),
        Rejected {
            payload: good.to_string()[..100].to_owned(),
            code: "not_cloud_event",
            reason_prefix: "not a CloudEvents 1.0 JSON object: EOF",
            id: json!(""),
        },
        // Binary mode: the attributes are headers.
        Rejected {
            payload: good["data"].to_string(),
            code: "not_cloud_event",
            reason_prefix: "not a CloudEvents 1.0 JSON object: it has no `specversion`, `id`, `source` or `type`. \
                Events are in structured mode: ",
            id: json!(""),
        },
    ]
}

#[tokio::test]
async fn each_rejected_message_is_announced_and_delays_no_later_event() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let mut feeder = Feeder::subscribe(&nats, "rejected.>").await;
    let subject = format!("racing.odds.{DAY}.ST.1");
    let good = odds("ST", 1, &second(1), &[3.5]);
    for expected in rejected_messages(&good) {
        let payload = &expected.payload;
        let seq = feeder.publish(&subject, payload.clone()).await;
        let announcement = feeder.next().await;
        assert_eq!(announcement.subject.as_str(), format!("rejected.{subject}"));
        let rejection = rejection(&announcement);
        assert_eq!(rejection["seq"], seq);
        assert_eq!(rejection["code"], expected.code);
        let reason = rejection["reason"].as_str().unwrap();
        assert!(reason.starts_with(expected.reason_prefix), "{reason}");
        assert_eq!(rejection["id"], expected.id);
        let source = if expected.id == "" { "" } else { "test" };
        assert_eq!(rejection["source"], source);
        assert_eq!(rejection["payload_bytes"], payload.len());

        // The read model has it already, with its payload.
        let mut row = listed(&railbird, &format!("after={}", seq - 1))
            .await
            .remove(0);
        let payload_listed = row.as_object_mut().unwrap().remove("payload").unwrap();
        assert!(payload.starts_with(payload_listed.as_str().unwrap()));
        assert_eq!(row, rejection);

        let epoch = railbird.app.health.feed.position().epoch;
        let headers = announcement.headers.unwrap();
        let id = headers.get("Nats-Msg-Id").unwrap();
        let stored: jiff::Timestamp = rejection["recorded_at"].as_str().unwrap().parse().unwrap();
        let stored_us = stored.as_microsecond();
        assert_eq!(id.as_str(), format!("{epoch}-{seq}-{stored_us}"));
    }
    let seq = feeder.publish(&subject, good.to_string()).await;
    railbird.until_seq(seq).await;
    let board = railbird.get(&format!("/api/v1/odds/{DAY}/1")).await.json();
    assert_eq!(board["seq"], seq, "the event after them is folded");
    let metrics = railbird.get_admin("/metrics").await.text();
    for Rejected { code, .. } in rejected_messages(&good) {
        let counted = format!("railbird_events_rejected_total{{reason=\"{code}\"}}");
        assert!(metrics.contains(&counted), "{code} is not counted");
    }
}

/// With a configuration of NATS from before leases.
#[tokio::test]
async fn a_feeder_receives_announcements_of_its_subjects_and_two_replicas_publish_the_same() {
    let nats = Nats::start_with(without_leases);
    let (first, second) = (Railbird::start(&nats).await, Railbird::start(&nats).await);
    let mut feeder = Feeder::subscribe(&nats, "rejected.racing.odds.>").await;
    feeder.publish("racing.horse.H1", "no odds").await;
    let seq = feeder.publish("racing.odds.x", "no odds either").await;
    let (one, other) = (feeder.next().await, feeder.next().await);
    assert_eq!(rejection(&one)["seq"], seq);
    assert_eq!((one.payload, one.headers), (other.payload, other.headers));
    drop((first, second));
}

#[tokio::test]
async fn after_a_restart_only_new_rejections_are_announced() {
    let nats = Nats::start();
    nats.create_leases(Duration::from_secs(3)).await;
    let folder = tempfile::tempdir().unwrap();
    let mut feeder = Feeder::subscribe(&nats, "rejected.>").await;
    let mut service = Serving::start(&nats, folder.path());
    service.until_ready().await;
    let mut all = Vec::new();
    for n in 0..20 {
        all.push(feeder.publish("racing.x", format!("garbage {n}")).await);
    }
    assert_eq!(feeder.until(all[19]).await, all);

    service.kill();
    let meanwhile = feeder.publish("racing.x", "while it was away").await;
    service = Serving::start(&nats, folder.path());
    // What a killed service had not noted with its lease is announced again, under the same ids: nobody knows whether
    // it was announced, or only folded.
    let announced = feeder.until(meanwhile).await;
    service.until_ready().await;
    assert!(
        all.ends_with(&announced[..announced.len() - 1]),
        "{announced:?}"
    );

    service.stop().await;
    service = Serving::start(&nats, folder.path());
    service.until_ready().await;
    let marker = feeder.publish("racing.x", "after a clean restart").await;
    assert_eq!(feeder.until(marker).await, [marker]);

    let rebuild = request(service.admin, "POST", "/rebuild", &[]).await;
    assert_eq!(rebuild.status, 202);
    eventually("the views are rebuilt", || async {
        status(service.admin).await["rebuilds"] == 1
    })
    .await;
    let marker = feeder.publish("racing.x", "after a rebuild").await;
    assert_eq!(feeder.until(marker).await, [marker]);
}

async fn status(admin: SocketAddr) -> Value {
    request(admin, "GET", "/status", &[]).await.json()
}

/// A hand-written NATS client that sends what client libraries reject.
struct RawNatsClient {
    stream: BufReader<TcpStream>,
}

impl RawNatsClient {
    async fn connect(nats: &Nats) -> Self {
        let stream = TcpStream::connect(nats.address()).await.unwrap();
        let mut client = Self {
            stream: BufReader::new(stream),
        };
        let connect = json!({ "verbose": false, "pedantic": false, "headers": true, "user": "feeder", "pass": "p-feeder" });
        client
            .send(format!("CONNECT {connect}\r\nSUB _INBOX.raw.> 1\r\n").as_bytes())
            .await;
        client
    }

    async fn send(&mut self, octets: &[u8]) {
        self.stream.write_all(octets).await.unwrap();
    }

    /// Publishes with these octets as subject and header, and returns the sequence.
    async fn publish(&mut self, subject: &[u8], header: &[u8], payload: &[u8]) -> u64 {
        let (verb, lengths) = match header.len() {
            0 => ("PUB", payload.len().to_string()),
            n => ("HPUB", format!("{n} {}", n + payload.len())),
        };
        let head = format!(" _INBOX.raw.a {lengths}\r\n");
        let verb = format!("{verb} ");
        self.send(
            &[
                verb.as_bytes(),
                subject,
                head.as_bytes(),
                header,
                payload,
                b"\r\n",
            ]
            .concat(),
        )
        .await;
        loop {
            let mut line = String::new();
            let read = timeout(PATIENCE, self.stream.read_line(&mut line)).await;
            assert!(read.expect("an answer in time").unwrap() > 0, "closed");
            assert!(!line.starts_with("-ERR"), "{line}");
            if let Ok(ack) = serde_json::from_str::<Value>(&line) {
                return ack["seq"].as_u64().unwrap();
            }
        }
    }
}

/// Messages that client libraries cannot parse, so that they close the connection: subject, header, and the subject of
/// the announcement.
fn unreadable_messages() -> [(Vec<u8>, &'static [u8], String); 8] {
    let long = format!("racing.{}", "x".repeat(3_900));
    let header = b"NATS/1.0\r\nA: b\r\n\r\n".as_slice();
    [
        (
            b"racing.*.>".to_vec(),
            b"".as_slice(),
            "rejected.racing._._".to_owned(),
        ),
        (
            "racing.a\u{3000}b".into(),
            b"",
            "rejected.racing.a_b".to_owned(),
        ),
        (
            "racing.a\u{3000}b".into(),
            header,
            "rejected.racing.a_b".to_owned(),
        ),
        (
            b"racing.\xff\xfe".to_vec(),
            b"",
            "rejected.racing.__".to_owned(),
        ),
        (
            b"racing.header".to_vec(),
            b"NATS/1.0\r\nA: \xff\r\n\r\n",
            "rejected.racing.header".to_owned(),
        ),
        (
            b"racing.header".to_vec(),
            b"NATS/1.0\r\nno colon\r\n\r\n",
            "rejected.racing.header".to_owned(),
        ),
        (
            b"racing.header".to_vec(),
            b"anything\r\n\r\n",
            "rejected.racing.header".to_owned(),
        ),
        (
            long.clone().into_bytes(),
            b"",
            format!("rejected.{}", &long[..256]),
        ),
    ]
}

#[tokio::test]
async fn a_message_that_closes_client_connections_is_rejected_and_delays_nothing() {
    let nats = Nats::start();
    let folder = tempfile::tempdir().unwrap();
    let railbird = Railbird::start_in(&nats, folder.path()).await;
    let mut feeder = Feeder::subscribe(&nats, "rejected.>").await;
    let mut client = RawNatsClient::connect(&nats).await;
    let good = odds("ST", 1, &second(1), &[3.5]);
    let subject = format!("racing.odds.{DAY}.ST.1");
    let mut seqs = Vec::new();
    for (subject, header, announced) in unreadable_messages() {
        let seq = client.publish(&subject, header, b"garbage").await;
        let announcement = feeder.next().await;
        assert_eq!(announcement.subject.as_str(), announced);
        assert_eq!(rejection(&announcement)["seq"], seq);
        seqs.push(seq);
    }
    // A valid event with such a header is accepted.
    let seq = client
        .publish(
            subject.as_bytes(),
            b"NATS/1.0\r\n\xff\r\n\r\n",
            good.to_string().as_bytes(),
        )
        .await;
    railbird.until_seq(seq).await;
    let board = railbird.get(&format!("/api/v1/odds/{DAY}/1")).await.json();
    assert_eq!(board["seq"], seq);
    let rejected = listed(&railbird, "").await;
    let rejected: Vec<u64> = rejected
        .iter()
        .map(|r| r["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(rejected, seqs);

    // Neither a service that resumes after them nor one that folds them again is stopped.
    railbird.stop().await;
    let again = Railbird::start_in(&nats, folder.path()).await;
    let fresh = Railbird::start(&nats).await;
    let seq = feeder
        .publish(&subject, odds("ST", 1, &second(2), &[4.5]).to_string())
        .await;
    for railbird in [&again, &fresh] {
        railbird.until_seq(seq).await;
    }
    assert_eq!(again.digest(), fresh.digest());
}

/// Publishes 2,800 messages that are rejected: every second one is no CloudEvent, every 700th has another source.
async fn publish_rejected_messages(nats: &Nats) {
    let log = nats.log().await;
    let mut appender = log.appender();
    for n in 1..=2_800_u64 {
        let source = if n.is_multiple_of(700) {
            "rare & odd"
        } else {
            "tote"
        };
        let version = if n.is_multiple_of(2) { "0.3" } else { "1.0" };
        let event = json!({ "specversion": version, "source": source, "id": n.to_string(), "type": "racing.tote.opened.v1",
            "time": second(n), "data": {} });
        let outgoing = Outgoing {
            subject: format!("racing.odds.{DAY}.ST.{}", n % 20),
            id: n.to_string(),
            payload: event.to_string().into_bytes(),
        };
        appender.append(outgoing).await.unwrap();
    }
    appender.finish().await.unwrap();
}

#[tokio::test]
async fn an_operator_pages_and_filters_rejections_and_sees_the_newest_last() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    publish_rejected_messages(&nats).await;
    railbird.until_seq(2_800).await;
    check_pages(&railbird).await;
    check_filters(&railbird).await;
    check_command(&railbird).await;
    check_follow(&railbird, &nats).await;
}

async fn page(railbird: &Railbird, query: &str) -> Value {
    railbird
        .get_admin(&format!("/rejections?{query}"))
        .await
        .json()
}

fn seqs(page: &Value) -> Vec<u64> {
    let rows = page["rejections"].as_array().unwrap();
    rows.iter().map(|r| r["seq"].as_u64().unwrap()).collect()
}

async fn check_pages(railbird: &Railbird) {
    let mut all = Vec::new();
    let mut more = true;
    let mut after = 0;
    while more {
        let page = page(railbird, &format!("after={after}")).await;
        all.extend(seqs(&page));
        (after, more) = (page["next"].as_u64().unwrap(), page["more"] == true);
    }
    assert_eq!(all, (1..=2_800).collect::<Vec<_>>());
    let latest = page(railbird, "before=2800&limit=3").await;
    assert_eq!(seqs(&latest), [2_797, 2_798, 2_799]);
    assert_eq!(
        (&latest["next"], &latest["more"]),
        (&json!(2_797), &json!(true))
    );
    let none = page(railbird, "after=2800").await;
    assert_eq!(
        none,
        json!({ "rejections": [], "next": 2800, "more": false })
    );
}

async fn check_filters(railbird: &Railbird) {
    for (query, count) in [
        ("source=rare%20%26%20odd", 4),
        ("code=unknown_type&limit=999", 999),
        (&format!("subject=racing.odds.{DAY}.ST.1"), 140),
        (&format!("subject=racing.odds.{DAY}.S"), 0),
        (
            "subject=racing.odds&code=not_cloud_event&source=rare%20%26%20odd",
            4,
        ),
    ] {
        let found = page(railbird, query).await;
        assert_eq!(seqs(&found).len(), count, "{query}");
    }
    for invalid in ["after=x", "after=1&before=2", "limit=0", "limit=1001"] {
        let reply = railbird.get_admin(&format!("/rejections?{invalid}")).await;
        assert_eq!(reply.status, 400, "{invalid}");
    }
}

async fn check_command(railbird: &Railbird) {
    let admin = railbird.admin.to_string();
    let lines = async |args: &[&str]| {
        let all = ["rejections", "--admin", &admin]
            .into_iter()
            .chain(args.iter().copied());
        let output = crate::support::railbird(all).await;
        assert_eq!(output.code, 0, "{}", output.all);
        let lines = output.all.lines().map(str::to_owned);
        lines.collect::<Vec<_>>()
    };
    let latest = lines(&[]).await;
    assert_eq!(latest.len(), 101);
    assert!(latest[0].starts_with("2701 ") && latest[99].starts_with("2800 "));
    assert!(latest[100].starts_with("there are older ones"));
    let of_source = lines(&["--source", "rare & odd", "--last", "3"]).await;
    let starts: BTreeSet<&str> = of_source
        .iter()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(starts, ["1400", "2100", "2800", "there"].into());
    assert_eq!(lines(&["--after", "0"]).await.len(), 2_800);
    let of_code = lines(&["--last", "1500", "--code", "unknown_type"]).await;
    assert_eq!(of_code.len(), 1_400);
}

/// An older version rejected events that this one accepts: its list, as the service answers with it.
#[tokio::test]
async fn a_retry_publishes_the_events_that_are_valid_by_now_and_reports_the_others() {
    let nats = Nats::start();
    let event = odds("ST", 1, &second(0), &[2.0]).to_string();
    let subject = format!("racing.odds.{DAY}.ST.1");
    let valid = nats.publish_raw(&subject, event.as_bytes()).await;
    let invalid = nats.publish_raw("racing.x", b"no event").await;
    let rejections = json!([{ "seq": valid }, { "seq": invalid }, { "seq": 1_000 }]);
    let page = json!({ "rejections": rejections, "next": 1_000, "more": false });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let admin = listener.local_addr().unwrap().to_string();
    let route = axum::routing::get(async move || axum::Json(page));
    let app = axum::Router::new().route("/rejections", route);
    tokio::spawn(async { axum::serve(listener, app).await });
    let url = nats.url_of("admin");
    let output =
        crate::support::railbird(["rejections", "--admin", &admin, "retry", "--nats", &url]);
    let output = output.await;
    assert_eq!(output.code, 1, "{}", output.all);
    let counts = "3 read, 1 published, 0 duplicates, 2 refused";
    let gone = "refused: 1000: the log has no such message any more";
    for expected in [counts, "refused: 2: ", gone] {
        assert!(output.all.contains(expected), "{}", output.all);
    }
    let published = nats.log().await.message_at(RACING, 3).await;
    let published = published.unwrap().expect("a copy of the event");
    assert_eq!(published.subject(), subject);
    assert_eq!(published.as_message().payload, event.as_bytes());
}

async fn check_follow(railbird: &Railbird, nats: &Nats) {
    let admin = railbird.admin.to_string();
    let mut following = tokio::process::Command::from(command())
        .args(["rejections", "--admin", &admin, "--follow", "--last", "1"])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    let mut next = async || {
        let line = timeout(PATIENCE, lines.next_line()).await;
        line.expect("a line in time").unwrap().unwrap()
    };
    assert!(next().await.starts_with("2800 "));
    nats.publish_raw("racing.x", b"while somebody follows")
        .await;
    assert!(next().await.starts_with("2801 "));
}
