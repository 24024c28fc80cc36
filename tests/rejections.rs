//! What is refused: kept, counted, listed and announced, and in nobody's way.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Stdio;

use async_nats::{Message, Subscriber};
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::*;

/// A service with the permissions that nats.conf gives it.
async fn start(nats: &Nats) -> Railbird {
    let url = nats.url_of("railbird");
    Railbird::start_with(nats, |config| config.nats = url).await
}

/// The user `feeder`, who listens.
struct Feeder {
    client: async_nats::Client,
    heard: Subscriber,
}

impl Feeder {
    async fn listen(nats: &Nats, subject: &str) -> Self {
        let client = async_nats::connect(nats.url_of("feeder")).await.unwrap();
        let heard = client.subscribe(subject.to_owned()).await.unwrap();
        client.flush().await.unwrap();
        Self { client, heard }
    }

    /// Publishes bytes, and returns their place in the log.
    async fn publish(&self, subject: &str, payload: impl Into<Vec<u8>>) -> u64 {
        let jetstream = async_nats::jetstream::new(self.client.clone());
        let ack = jetstream.publish(subject.to_owned(), payload.into().into());
        ack.await.unwrap().await.unwrap().sequence
    }

    async fn next(&mut self) -> Message {
        let heard = timeout(PATIENCE, self.heard.next()).await;
        heard.expect("an announcement in time").unwrap()
    }

    /// The place of the next message that is announced.
    async fn next_seq(&mut self) -> u64 {
        told(&self.next().await)["seq"].as_u64().unwrap()
    }

    /// The places of all that is announced, up to and with one of them.
    async fn until(&mut self, seq: u64) -> Vec<u64> {
        let mut places = Vec::new();
        while places.last() != Some(&seq) {
            places.push(self.next_seq().await);
        }
        places
    }
}

fn told(announcement: &Message) -> Value {
    serde_json::from_slice(&announcement.payload).unwrap()
}

async fn kept(railbird: &Railbird, query: &str) -> Vec<Value> {
    let answer = railbird.get_admin(&format!("/rejections?{query}")).await;
    answer.json()["rejections"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_feeder_hears_of_each_of_its_messages_that_is_refused_and_later_facts_go_on() {
    let nats = Nats::start();
    let railbird = start(&nats).await;
    let mut feeder = Feeder::listen(&nats, "rejected.>").await;
    let subject = format!("racing.odds.{DAY}.ST.1");
    let good = odds("ST", 1, &second(1), &[3.5]);
    let with = |change: &dyn Fn(&mut Value)| {
        let mut event = good.clone();
        event["id"] = uuid::Uuid::now_v7().to_string().into();
        change(&mut event);
        event
    };
    let elsewhere = with(&|event| event["data"]["race_number"] = json!(2));
    let unknown = with(&|event| event["type"] = json!("racing.tote.opened.v9"));
    let negative = with(&|event| event["data"]["runners"][0]["win"] = json!(-3.5));
    let large = with(&|event| event["more"] = "x".repeat(70_000).into());
    let cut = good.to_string()[..100].to_owned();
    for (payload, code, reason, id) in [
        (
            elsewhere.to_string(),
            "subject_mismatch",
            "published on racing.odds.",
            &elsewhere["id"],
        ),
        (
            unknown.to_string(),
            "unknown_type",
            "unknown event type",
            &unknown["id"],
        ),
        (
            negative.to_string(),
            "invalid_data",
            "data.runners[0].win: ",
            &negative["id"],
        ),
        (large.to_string(), "too_large", "70", &large["id"]),
        (
            cut,
            "not_cloud_event",
            "not a CloudEvents 1.0 JSON object: EOF",
            &json!(""),
        ),
    ] {
        let seq = feeder.publish(&subject, payload.clone()).await;
        let announcement = feeder.next().await;
        assert_eq!(announcement.subject.as_str(), format!("rejected.{subject}"));
        let told = told(&announcement);
        assert_eq!(told["seq"], seq);
        assert_eq!(told["code"], code);
        assert!(
            told["reason"].as_str().unwrap().starts_with(reason),
            "{told}"
        );
        assert_eq!(told["id"], *id);
        assert_eq!(told["source"], if id == "" { "" } else { "test" });
        assert_eq!(told["payload_bytes"], payload.len());

        // What was announced is in the read model already, and there with its payload.
        let mut row = kept(&railbird, &format!("after={}", seq - 1))
            .await
            .remove(0);
        let payload_kept = row.as_object_mut().unwrap().remove("payload").unwrap();
        assert!(payload.starts_with(payload_kept.as_str().unwrap()));
        assert_eq!(row, told);

        let epoch = railbird.app.feed.position().epoch;
        let headers = announcement.headers.unwrap();
        let id = headers.get("Nats-Msg-Id").unwrap();
        assert_eq!(id.as_str(), format!("{epoch}-{seq}"));
    }
    let seq = feeder.publish(&subject, good.to_string()).await;
    railbird.until_seq(seq).await;
    let board = railbird.get(&format!("/api/v1/odds/{DAY}/1")).await.json();
    assert_eq!(board["seq"], seq, "the fact behind them went in");
    let metrics = railbird.get_admin("/metrics").await.text();
    for code in [
        "subject_mismatch",
        "unknown_type",
        "invalid_data",
        "too_large",
        "not_cloud_event",
    ] {
        let counted = format!("railbird_events_rejected_total{{reason=\"{code}\"}}");
        assert!(metrics.contains(&counted), "{code} is not counted");
    }
}

#[tokio::test]
async fn a_feeder_hears_only_of_the_subjects_that_it_listens_to_and_two_replicas_say_the_same() {
    let nats = Nats::start();
    let (first, second) = (start(&nats).await, start(&nats).await);
    let mut feeder = Feeder::listen(&nats, "rejected.racing.odds.>").await;
    feeder.publish("racing.horse.H1", "no odds").await;
    let seq = feeder.publish("racing.odds.x", "no odds either").await;
    let (one, other) = (feeder.next().await, feeder.next().await);
    assert_eq!(told(&one)["seq"], seq);
    assert_eq!((one.payload, one.headers), (other.payload, other.headers));
    drop((first, second));
}

#[tokio::test]
async fn what_was_announced_is_not_announced_again_after_a_restart_and_what_came_meanwhile_is() {
    let nats = Nats::start();
    let folder = tempfile::tempdir().unwrap();
    let mut feeder = Feeder::listen(&nats, "rejected.>").await;
    let mut service = Serving::start(&nats, folder.path());
    until_live(service.admin).await;
    let mut all = Vec::new();
    for n in 0..20 {
        all.push(feeder.publish("racing.x", format!("garbage {n}")).await);
    }
    assert_eq!(feeder.until(all[19]).await, all);

    service.kill();
    let meanwhile = feeder.publish("racing.x", "while it was away").await;
    service = Serving::start(&nats, folder.path());
    // A killed service may have lost the last half second of its views; it folds that anew, and announces it again.
    let heard = feeder.until(meanwhile).await;
    until_live(service.admin).await;
    assert_eq!(heard.len() as u64, refused_by(service.admin).await);
    assert!(all.ends_with(&heard[..heard.len() - 1]), "{heard:?}");

    service.stop().await;
    service = Serving::start(&nats, folder.path());
    until_live(service.admin).await;
    let marker = feeder.publish("racing.x", "after a restart in order").await;
    assert_eq!(feeder.until(marker).await, [marker]);

    let rebuild = request(service.admin, "POST", "/rebuild", &[]).await;
    assert_eq!(rebuild.status, 202);
    eventually("the views are folded anew", || async {
        status(service.admin).await["rebuilds"] == 1
    })
    .await;
    let marker = feeder.publish("racing.x", "after a rebuild").await;
    assert_eq!(feeder.until(marker).await, [marker]);
}

async fn status(admin: SocketAddr) -> Value {
    request(admin, "GET", "/status", &[]).await.json()
}

async fn until_live(admin: SocketAddr) {
    eventually("the service has caught up", || async {
        status(admin).await["phase"] == "live"
    })
    .await;
}

/// How many messages a process has refused.
async fn refused_by(admin: SocketAddr) -> u64 {
    let metrics = request(admin, "GET", "/metrics", &[]).await.text();
    let counts = metrics
        .lines()
        .filter(|line| line.starts_with("railbird_events_rejected_total{"));
    counts
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum()
}

/// A NATS client by hand: others refuse to say such things.
struct Rude {
    stream: BufReader<TcpStream>,
}

impl Rude {
    async fn connect(nats: &Nats) -> Self {
        let address = nats.url().replace("nats://", "");
        let stream = TcpStream::connect(address).await.unwrap();
        let mut rude = Self {
            stream: BufReader::new(stream),
        };
        let hello = json!({ "verbose": false, "pedantic": false, "headers": true, "user": "feeder", "pass": "p-feeder" });
        rude.say(format!("CONNECT {hello}\r\nSUB _INBOX.rude.> 1\r\n").as_bytes())
            .await;
        rude
    }

    async fn say(&mut self, octets: &[u8]) {
        self.stream.write_all(octets).await.unwrap();
    }

    /// Publishes with these octets as subject and header, and returns the place in the log.
    async fn publish(&mut self, subject: &[u8], header: &[u8], payload: &[u8]) -> u64 {
        let (verb, lengths) = match header.len() {
            0 => ("PUB", payload.len().to_string()),
            n => ("HPUB", format!("{n} {}", n + payload.len())),
        };
        let head = format!(" _INBOX.rude.a {lengths}\r\n");
        let verb = format!("{verb} ");
        self.say(
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

#[tokio::test]
async fn a_message_that_ends_every_connection_is_refused_like_any_other_and_stops_nothing() {
    let nats = Nats::start();
    let folder = tempfile::tempdir().unwrap();
    let railbird = Railbird::start_in(&nats, folder.path()).await;
    let mut feeder = Feeder::listen(&nats, "rejected.>").await;
    let mut rude = Rude::connect(&nats).await;
    let good = odds("ST", 1, &second(1), &[3.5]);
    let subject = format!("racing.odds.{DAY}.ST.1");
    let long = format!("racing.{}", "x".repeat(3_900));
    let header = b"NATS/1.0\r\nA: b\r\n\r\n".as_slice();
    let mut places = Vec::new();
    for (subject, header, announced) in [
        (
            "racing.*.>".as_bytes(),
            b"".as_slice(),
            "rejected.racing._._".to_owned(),
        ),
        (
            "racing.a\u{3000}b".as_bytes(),
            b"",
            "rejected.racing.a_b".to_owned(),
        ),
        (
            "racing.a\u{3000}b".as_bytes(),
            header,
            "rejected.racing.a_b".to_owned(),
        ),
        (b"racing.\xff\xfe", b"", "rejected.racing.__".to_owned()),
        (
            b"racing.header",
            b"NATS/1.0\r\nA: \xff\r\n\r\n",
            "rejected.racing.header".to_owned(),
        ),
        (
            b"racing.header",
            b"NATS/1.0\r\nno colon\r\n\r\n",
            "rejected.racing.header".to_owned(),
        ),
        (
            b"racing.header",
            b"anything\r\n\r\n",
            "rejected.racing.header".to_owned(),
        ),
        (long.as_bytes(), b"", format!("rejected.{}", &long[..256])),
    ] {
        let seq = rude.publish(subject, header, b"garbage").await;
        let announcement = feeder.next().await;
        assert_eq!(announcement.subject.as_str(), announced);
        assert_eq!(told(&announcement)["seq"], seq);
        places.push(seq);
    }
    // A fact is none the worse for an odd header.
    let seq = rude
        .publish(
            subject.as_bytes(),
            b"NATS/1.0\r\n\xff\r\n\r\n",
            good.to_string().as_bytes(),
        )
        .await;
    railbird.until_seq(seq).await;
    let board = railbird.get(&format!("/api/v1/odds/{DAY}/1")).await.json();
    assert_eq!(board["seq"], seq);
    let refused = kept(&railbird, "").await;
    let refused: Vec<u64> = refused.iter().map(|r| r["seq"].as_u64().unwrap()).collect();
    assert_eq!(refused, places);

    // Nor does it stop one that begins behind it, or that folds it anew.
    railbird.stop().await;
    let again = Railbird::start_in(&nats, folder.path()).await;
    let anew = Railbird::start(&nats).await;
    let seq = feeder
        .publish(&subject, odds("ST", 1, &second(2), &[4.5]).to_string())
        .await;
    for railbird in [&again, &anew] {
        railbird.until_seq(seq).await;
    }
    assert_eq!(again.digest(), anew.digest());
}

#[tokio::test]
async fn an_operator_pages_and_filters_and_sees_the_newest_last() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let garbage = |n: u64| {
        let source = if n.is_multiple_of(700) {
            "rare & odd"
        } else {
            "tote"
        };
        let code = if n.is_multiple_of(2) { "0.3" } else { "1.0" };
        let event = json!({ "specversion": code, "source": source, "id": n.to_string(), "type": "racing.tote.opened.v1",
            "time": second(n), "data": {} });
        let subject = format!("racing.odds.{DAY}.ST.{}", n % 20);
        (subject, event.to_string())
    };
    let log = nats.log().await;
    let mut appender = log.appender(256);
    for n in 1..=2_800 {
        let (subject, payload) = garbage(n);
        let id = n.to_string();
        let outgoing = railbird::log::Outgoing {
            subject,
            id,
            payload: payload.into_bytes(),
        };
        appender.append(outgoing).await.unwrap();
    }
    appender.finish().await.unwrap();
    railbird.until_seq(2_800).await;

    let seqs = |rows: &[Value]| {
        rows.iter()
            .map(|r| r["seq"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    let page = async |query: &str| {
        railbird
            .get_admin(&format!("/rejections?{query}"))
            .await
            .json()
    };
    let mut all = Vec::new();
    let mut more = true;
    let mut after = 0;
    while more {
        let page = page(&format!("after={after}")).await;
        all.extend(seqs(page["rejections"].as_array().unwrap()));
        (after, more) = (page["next"].as_u64().unwrap(), page["more"] == true);
    }
    assert_eq!(all, (1..=2_800).collect::<Vec<_>>());
    let latest = page("before=2800&limit=3").await;
    assert_eq!(
        seqs(latest["rejections"].as_array().unwrap()),
        [2_797, 2_798, 2_799]
    );
    assert_eq!(
        (&latest["next"], &latest["more"]),
        (&json!(2_797), &json!(true))
    );
    let none = page("after=2800").await;
    assert_eq!(
        none,
        json!({ "rejections": [], "next": 2800, "more": false })
    );
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
        let found = page(query).await;
        assert_eq!(
            found["rejections"].as_array().unwrap().len(),
            count,
            "{query}"
        );
    }
    for wrong in ["after=x", "after=1&before=2", "limit=0", "limit=1001"] {
        assert_eq!(
            railbird
                .get_admin(&format!("/rejections?{wrong}"))
                .await
                .status,
            400
        );
    }

    let admin = railbird.admin.to_string();
    let cli = async |args: &[&str]| {
        let all = ["rejections", "--admin", &admin]
            .into_iter()
            .chain(args.iter().copied());
        let output = crate::support::railbird(all).await;
        assert_eq!(output.code, 0, "{}", output.all);
        let lines = output.all.lines().map(str::to_owned);
        lines.collect::<Vec<_>>()
    };
    let lines = cli(&[]).await;
    assert_eq!(lines.len(), 101);
    assert!(lines[0].starts_with("2701 ") && lines[99].starts_with("2800 "));
    assert!(lines[100].starts_with("there are older ones"));
    let lines = cli(&["--source", "rare & odd", "--last", "3"]).await;
    let starts: BTreeSet<&str> = lines
        .iter()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(starts, ["1400", "2100", "2800", "there"].into());
    assert_eq!(cli(&["--after", "0"]).await.len(), 2_800);
    assert_eq!(
        cli(&["--last", "1500", "--code", "unknown_type"])
            .await
            .len(),
        1_400
    );

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
    nats.publish_raw("racing.x", b"while somebody looks on")
        .await;
    assert!(next().await.starts_with("2801 "));
}
