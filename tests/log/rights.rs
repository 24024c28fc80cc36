//! Attacks on the log with the passwords of nats.conf. nats-server checks no permission on reply subjects, and delivers
//! a consumer's messages on a subject that the request for the consumer names: neither may write to a stream.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use async_nats::connection::State;
use async_nats::jetstream::stream::{Config, DiscardPolicy, Republish, Source, SubjectTransform};
use async_nats::{Client, HeaderMap};
use events::Text;
use futures::StreamExt;
use railbird::accounts::{KeyId, KeyRevoked};
use railbird::log::{ACCOUNTS, ADDRESSES, KEY_USE, LEASES, Log, RACING, SNAPSHOTS};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::*;

const STREAMS: [&str; 6] = [
    RACING.name,
    ACCOUNTS.name,
    ADDRESSES.name,
    KEY_USE.name,
    LEASES.name,
    SNAPSHOTS.name,
];
/// A message of each stream, for a stranger to write.
const FACT: &str = "racing.race.2026-11-21.ST.1";
const KEY: &str = "accounts.key.forged";
const USE: &str = "key_use.00000000.forged";
const SECRET: &str = "addresses.key.forged";
const LEASE: &str = "$KV.LEASES.forged";
const SNAPSHOT: &str = "$O.SNAPSHOTS.C.forged";
/// The end of the subjects on which attackers publish what they may.
const OWN: &str = ".own";

/// A stream as it must stay.
#[derive(Debug, PartialEq)]
struct Contents {
    created: Value,
    config: Value,
    messages: BTreeMap<u64, (String, String)>,
}

/// What a user may do, and the connection with which it tries the rest.
struct Attacker {
    client: Client,
    /// The subject on which it may publish.
    own: &'static str,
}

#[tokio::test]
async fn the_password_of_the_service_neither_deletes_the_log_nor_writes_facts() {
    assert_harmless("railbird", "accounts.own", &[FACT]).await;
}

#[tokio::test]
async fn the_password_of_the_service_harms_no_log_where_it_writes_the_use_of_keys() {
    assert_harmless("railbird", "key_use.own", &[FACT]).await;
}

#[tokio::test]
async fn the_password_of_the_service_harms_no_log_where_it_writes_the_keys_of_addresses() {
    assert_harmless("railbird", "addresses.own", &[FACT]).await;
}

#[tokio::test]
async fn the_password_of_the_service_harms_no_log_where_it_takes_leases() {
    assert_harmless("railbird", "$KV.LEASES.own", &[FACT]).await;
}

#[tokio::test]
async fn the_password_of_the_service_harms_no_log_where_it_writes_snapshots() {
    assert_harmless("railbird", "$O.SNAPSHOTS.own", &[FACT]).await;
}

#[tokio::test]
async fn the_password_for_keys_neither_deletes_the_log_nor_writes_facts() {
    assert_harmless("keys", "accounts.own", &[FACT, USE, LEASE, SNAPSHOT]).await;
}

#[tokio::test]
async fn the_password_of_a_feeder_neither_deletes_the_log_nor_issues_keys() {
    assert_harmless("feeder", "racing.own", &[KEY, SECRET, USE, LEASE, SNAPSHOT]).await;
}

#[tokio::test]
async fn the_password_of_an_added_feeder_writes_on_no_other_subjects() {
    let forged = [KEY, FACT, SECRET, USE, LEASE, SNAPSHOT];
    assert_harmless("tote", "racing.odds.own", &forged).await;
}

/// The use of keys is for operators and the service.
#[tokio::test]
async fn a_feeder_reads_nothing_of_the_use_of_keys() {
    let nats = Nats::start_with_feeders(&[("tote", "racing.odds.>")], |conf| conf);
    nats.log().await.ensure(KEY_USE).await.unwrap();
    nats.publish_raw(USE, b"secret").await;
    let answers = async |user| {
        let client = nats.client_of(user).await;
        let attacker = Attacker { client, own: OWN };
        let (info, seq) = (json!({}), json!({ "seq": 1 }));
        let consumer = json!({ "stream_name": KEY_USE.name, "config": { "ack_policy": "none" } });
        let mut answers = Vec::new();
        for (api, body) in [
            ("STREAM.INFO", &info),
            ("STREAM.MSG.GET", &seq),
            ("DIRECT.GET", &seq),
            ("CONSUMER.CREATE", &consumer),
            ("CONSUMER.LIST", &info),
        ] {
            let api = format!("{api}.{}", KEY_USE.name);
            answers.push(!attacker.answer(&api, body).await.is_null());
        }
        answers
    };
    for feeder in ["feeder", "tote"] {
        assert_eq!(answers(feeder).await, [false; 5], "{feeder}");
    }
    // What is allowed is answered, though not always within the time that the others are given.
    eventually("the user of the keys reads it", async || {
        answers("keys").await == [true, true, false, true, false]
    })
    .await;
}

/// A feeder with subjects of its own, beside another one and the one of nats.conf.
#[tokio::test]
async fn a_feeder_receives_no_acknowledgement_and_no_rejection_of_another_one() {
    let feeders = [
        ("tote", "racing.odds.>"),
        ("clock", "racing.race.>,racing.result.>"),
    ];
    let nats = Nats::start_with_feeders(&feeders, |conf| conf);
    let _railbird = Railbird::start(&nats).await;
    let (tote, clock) = (nats.client_of("tote").await, nats.client_of("clock").await);
    let mut received = Vec::new();
    for subject in ["_INBOX.>", "rejected.racing.odds.>"] {
        received.push(tote.subscribe(subject).await.unwrap());
    }
    let mut rejected = clock.subscribe("rejected.racing.race.>").await.unwrap();
    clock.flush().await.unwrap();
    tote.flush().await.unwrap();
    for client in [&clock, &nats.client_of("feeder").await] {
        let ack = client.request(FACT, "garbage".into()).await.unwrap();
        assert!(ack.payload.starts_with(b"{\"stream\""), "{ack:?}");
    }
    for _ in 0..2 {
        let rejection = timeout(PATIENCE, rejected.next()).await.unwrap().unwrap();
        assert_eq!(rejection.subject.as_str(), format!("rejected.{FACT}"));
    }
    // Its own come after those of the others.
    let ack = tote.request("racing.odds.nonsense", "garbage".into()).await;
    let seq: Value = serde_json::from_slice(&ack.unwrap().payload).unwrap();
    assert_eq!(seq["seq"], 3);
    for subscription in &mut received {
        let first = timeout(PATIENCE, subscription.next())
            .await
            .unwrap()
            .unwrap();
        let first: Value = serde_json::from_slice(&first.payload).unwrap();
        assert_eq!(first["seq"], 3);
    }
}

/// Some names are such that nats-server would read them as something else without quotes.
#[tokio::test]
async fn a_feeder_is_added_to_a_running_server_and_disturbs_nobody() {
    let mut nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let (mut socket, _) = railbird.live("").await;
    let feeder = nats.client_of("feeder").await;
    let mut stored = Vec::new();
    for (name, subjects, own) in [
        ("tote", "racing.odds.*.ST.*", "racing.odds.2026-11-21.ST.1"),
        ("5k", "racing.result.>", "racing.result.2026-11-21.ST.1"),
        (
            "true",
            "racing.horse.*,racing.race.*.HV.*",
            "racing.horse.H1",
        ),
    ] {
        nats.add_feeder(name, subjects).await;
        let client = nats.client_of(name).await;
        let mut rejected = client.subscribe(format!("rejected.{own}")).await.unwrap();
        for denied in ["racing.odds.2026-11-21.HV.1", FACT, KEY] {
            client.publish(denied, "garbage".into()).await.unwrap();
        }
        for client in [&client, &feeder] {
            let ack = client.request(own, "garbage".into()).await.unwrap();
            assert!(ack.payload.starts_with(b"{\"stream\""), "{ack:?}");
            stored.push(own.to_owned());
        }
        let rejection = timeout(PATIENCE, rejected.next()).await.unwrap().unwrap();
        assert_eq!(rejection.subject.as_str(), format!("rejected.{own}"));
    }
    let messages = nats.messages().await;
    let subjects: Vec<_> = messages.iter().map(|message| message.subject()).collect();
    assert_eq!(subjects, stored);
    // Others have the connections that they had, and the service reads on.
    assert_eq!(feeder.statistics().connects.load(Ordering::Relaxed), 1);
    let seq = nats.publish([odds("ST", 1, &second(0), &[2.0])]).await;
    let update = socket.until("odds_update").await;
    assert_eq!(update.last().unwrap()["seq"], seq);
    // The file has no password, and a feeder that is not in it is closed out.
    let conf = std::fs::read_to_string(nats.folder().join("feeders.conf")).unwrap();
    for name in ["tote", "5k", "true"] {
        assert!(!conf.contains(&nats.password_of(name)), "{conf}");
    }
    let removed = nats.client_of("tote").await;
    nats.remove_feeders().await;
    eventually("the feeder is disconnected", async || {
        removed.connection_state() != State::Connected
    })
    .await;
    let url = nats.url_of("tote");
    let error = Log::connect(&url, "test").await.unwrap_err().to_string();
    assert!(error.contains("rejected the login"), "{error}");
    assert_eq!(feeder.statistics().connects.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_password_of_a_feeder_takes_the_connections_of_nobody_else() {
    let nats = Nats::start_with_feeders(&[("tote", "racing.odds.>")], |conf| conf);
    for (user, most) in [("tote", 64), ("feeder", 256), ("keys", 128)] {
        let mut clients = Vec::new();
        for _ in 0..most {
            clients.push(nats.client_of(user).await);
        }
        let options = async_nats::ConnectOptions::with_user_and_password(
            user.to_owned(),
            nats.password_of(user),
        );
        let refused = options.connect(nats.address().to_string()).await;
        assert!(refused.is_err(), "{user}");
        nats.client_of("railbird").await;
    }
}

/// The password of the service shows the names of its consumers, and changes one by naming it in a request.
#[tokio::test]
async fn a_service_replaces_a_consumer_that_somebody_has_changed() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let attacker = nats.client_of("railbird").await;
    let mut received = attacker.subscribe("_INBOX.>").await.unwrap();
    attacker.flush().await.unwrap();
    let seq = nats.publish([odds("ST", 1, &second(0), &[2.0])]).await;
    railbird.until_seq(seq).await;
    let name = loop {
        let message = timeout(PATIENCE, received.next()).await.unwrap().unwrap();
        let reply = message.reply.unwrap_or_else(|| "".into());
        if let Some(rest) = reply.strip_prefix("$JS.ACK.RACING.") {
            break rest.split('.').next().unwrap().to_owned();
        }
    };
    let attacker = Attacker {
        client: attacker,
        own: OWN,
    };
    attacker.blind(&nats, RACING.name, &name).await;
    let seq = nats.publish([odds("ST", 1, &second(1), &[3.0])]).await;
    railbird.until_seq(seq).await;
}

/// The password for keys may create consumers of ACCOUNTS, and so change those whose names it knows.
#[tokio::test]
async fn a_revocation_counts_in_time_for_a_service_whose_consumer_somebody_has_changed() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let admin = nats.client_of("admin").await;
    for user in ["railbird", "keys"] {
        let key = railbird.issue_key(&nats).await;
        let client = nats.client_of(user).await;
        let attacker = Attacker { client, own: OWN };
        let names = admin
            .request("$JS.API.CONSUMER.NAMES.ACCOUNTS", "".into())
            .await;
        let names: Value = serde_json::from_slice(&names.unwrap().payload).unwrap();
        for name in names["consumers"].as_array().unwrap() {
            attacker
                .blind(&nats, ACCOUNTS.name, name.as_str().unwrap())
                .await;
        }
        // The service asks for the end of the stream every few seconds, and has just done so.
        eventually("it has asked", async || {
            let status = railbird.get_open("/readyz").await.json();
            let age_ms = status["keys"]["age_ms"].as_u64();
            age_ms.is_some_and(|age_ms| age_ms < 200)
        })
        .await;
        let revoked_at = Instant::now();
        let (key_id, reason) = (KeyId::of_key(&key).unwrap(), Text::parse("test").unwrap());
        append_account_event(&nats, KeyRevoked { key_id, reason }).await;
        eventually("the key is rejected", async || {
            railbird.app.keys.check(&key).is_err()
        })
        .await;
        let taken = revoked_at.elapsed();
        assert!(taken < Duration::from_secs(5), "{user}: {taken:?}");
    }
}

/// The events of feeders that are neither of odds nor of the user `tote`.
fn facts_of_others() -> Vec<Value> {
    let facts = [
        registered("H1", "HORSE 1"),
        card(DAY, "ST", 1, 2),
        withdrawn("ST", 1, &second(1), "H2"),
        status("ST", 1, &second(2), "off"),
        result(DAY, "ST", 1, 2, 1),
    ];
    facts.to_vec()
}

/// What the service shows of these.
async fn shown(railbird: &Railbird) -> Vec<Value> {
    let results = format!("/api/v1/results/{DAY}/1");
    let cards = format!("/api/v1/racecards/{DAY}");
    let mut shown = Vec::new();
    for path in [&results, &cards, "/api/v1/horses/H1"] {
        let reply = railbird.get(path).await;
        assert_eq!(reply.status, 200, "{path}");
        shown.push(reply.json());
    }
    shown
}

/// It states their ids before they do, with a clock that is ahead.
#[tokio::test]
async fn a_feeder_that_names_another_source_changes_nothing_on_other_subjects() {
    let facts = facts_of_others();
    let (alone, forged) = (
        Nats::start(),
        Nats::start_with_feeders(&[("tote", "racing.odds.>")], |conf| conf),
    );
    let mut views = Vec::new();
    for nats in [&alone, &forged] {
        let railbird = Railbird::start(nats).await;
        if std::ptr::eq(nats, &forged) {
            let tote = nats.client_of("tote").await;
            for fact in &facts {
                let mut event = odds("ST", 1, "2099-01-01T00:00:00Z", &[2.0, 3.0]);
                (event["id"], event["source"]) = (fact["id"].clone(), fact["source"].clone());
                let event = outgoing(&event);
                let ack = tote.request(event.subject, event.payload.into()).await;
                assert!(ack.unwrap().payload.starts_with(b"{\"stream\""));
            }
        }
        let seq = nats.publish(facts.clone()).await;
        railbird.until_seq(seq).await;
        views.push(shown(&railbird).await);
    }
    assert_eq!(views[0], views[1]);
}

/// An operator limits the stream of facts, so that no feeder fills the disk.
#[tokio::test]
async fn feeders_that_fill_their_stream_stop_no_key() {
    let nats = Nats::start();
    nats.create_log(Config {
        max_bytes: 10_000,
        discard: DiscardPolicy::New,
        deny_delete: true,
        deny_purge: true,
        ..Default::default()
    })
    .await;
    let service = Railbird::start(&nats).await;
    let feeder = nats.client_of("feeder").await;
    let full = async || {
        let ack = feeder
            .request(FACT, "x".repeat(1_000).into())
            .await
            .unwrap();
        String::from_utf8_lossy(&ack.payload).contains("maximum bytes exceeded")
    };
    eventually("the stream is full", full).await;
    let url = nats.url_of("keys");
    let issued = railbird(["keys", "issue", "--plan", "default", "--nats", &url]).await;
    assert_eq!(issued.code, 0, "{}", issued.all);
    let key = issued
        .all
        .lines()
        .find(|line| line.starts_with("rb_"))
        .unwrap();
    until_valid(service.http, key).await;
}

/// Where a stream is missing, its creator chooses what the server does with its messages: it publishes them with all
/// rights. Only the service may create streams.
#[tokio::test]
async fn no_password_but_that_of_the_service_creates_a_stream_on_an_empty_server() {
    let nats = Nats::start_with_feeders(&[("tote", "racing.odds.>")], |conf| conf);
    let admin = nats.client_of("admin").await;
    for user in ["keys", "feeder", "tote"] {
        let client = nats.client_of(user).await;
        Attacker { client, own: OWN }.create_streams().await;
        assert_eq!(
            contents(&admin, user).await.into_keys().collect::<Vec<_>>(),
            [""; 0],
            "{user}"
        );
    }
}

#[tokio::test]
async fn a_started_service_leaves_no_stream_to_create() {
    let nats = Nats::start_with_feeders(&[("tote", "racing.odds.>")], |conf| conf);
    let _railbird = Railbird::start(&nats).await;
    let admin = nats.client_of("admin").await;
    let created = async || {
        let found = contents(&admin, "").await.into_iter();
        found
            .map(|(stream, of)| (stream, of.created, of.config))
            .collect::<Vec<_>>()
    };
    eventually("all streams are there", async || {
        created().await.len() == STREAMS.len()
    })
    .await;
    let before = created().await;
    let service = [
        "accounts.own",
        "addresses.own",
        "key_use.own",
        "$KV.LEASES.own",
        "$O.SNAPSHOTS.own",
    ];
    for (user, own) in [
        ("railbird", &service[..]),
        ("keys", &service[..2]),
        ("feeder", &["racing.own"]),
        ("tote", &["racing.odds.own"]),
    ] {
        let client = nats.client_of(user).await;
        for own in own {
            let attacker = Attacker {
                client: client.clone(),
                own,
            };
            attacker.create_streams().await;
            attacker.client.request(*own, "{}".into()).await.unwrap();
        }
        assert_eq!(created().await, before, "{user}");
    }
}

/// Before the first start of a service, whoever has its password can create the streams. It uses none that publishes.
#[tokio::test]
async fn a_stream_that_publishes_elsewhere_is_refused_and_a_copy_of_the_log_is_not() {
    let nats = Nats::start();
    let jetstream = patient_jetstream(nats.client_of("admin").await);
    let create = async |name: &str, change: &dyn Fn(&mut Config)| {
        let mut config = Config {
            name: name.to_owned(),
            subjects: vec![format!("{}.>", prefix(name))],
            ..Config::default()
        };
        change(&mut config);
        jetstream.create_stream(config).await.unwrap();
    };
    let source = || Source {
        name: "ELSEWHERE".to_owned(),
        ..Source::default()
    };
    create("ELSEWHERE", &|_| {}).await;
    create(ACCOUNTS.name, &|config| {
        let (source, destination) = ("accounts.own".to_owned(), "elsewhere.own".to_owned());
        config.republish = Some(Republish {
            source,
            destination,
            headers_only: false,
        });
    })
    .await;
    create(ADDRESSES.name, &|config| {
        config.sources = Some(vec![source()])
    })
    .await;
    create(KEY_USE.name, &|config| {
        let (source, destination) = ("key_use.>".to_owned(), "key_use.x.>".to_owned());
        config.subject_transform = Some(SubjectTransform {
            source,
            destination,
        });
    })
    .await;
    let mirror = |config: &mut Config| {
        config.mirror = Some(source());
        config.subjects = Vec::new();
    };
    create(SNAPSHOTS.name, &mirror).await;
    create(RACING.name, &|config| {
        mirror(config);
        config.metadata.insert(
            "railbird_created".to_owned(),
            "2026-11-21T00:00:00Z".to_owned(),
        );
    })
    .await;
    let log = Log::connect(&nats.url(), "test").await.unwrap();
    for (stream, setting) in [
        (ACCOUNTS, "republish"),
        (ADDRESSES, "sources"),
        (KEY_USE, "subject_transform"),
        (SNAPSHOTS, "mirror"),
    ] {
        let error = log.ensure(stream).await.unwrap_err().to_string();
        let name = stream.name;
        for part in [
            format!("the stream {name} has {setting}, "),
            format!("nats stream rm {name}"),
        ] {
            assert!(error.contains(&part), "{error}");
        }
    }
    log.ensure(RACING).await.unwrap();
}

/// Also a service that knows the stream uses it no more.
#[tokio::test]
async fn a_service_does_not_start_on_a_log_that_publishes_elsewhere() {
    let (nats, data) = (Nats::start(), tempfile::tempdir().unwrap());
    Railbird::start_in(&nats, data.path()).await.stop().await;
    let jetstream = patient_jetstream(nats.client_of("admin").await);
    let set = async |republish: Option<Republish>| {
        let found = jetstream.get_stream(ACCOUNTS.name).await.unwrap();
        let config = Config {
            republish,
            ..found.cached_info().config.clone()
        };
        jetstream.update_stream(config).await.unwrap();
    };
    let (source, destination) = ("accounts.>".to_owned(), "elsewhere.>".to_owned());
    set(Some(Republish {
        source,
        destination,
        headers_only: false,
    }))
    .await;
    let railbird = Serving::start(&nats, data.path());
    eventually("the setting is reported", async || {
        let status = request(railbird.admin, "GET", "/status", &[]).await.json();
        let is_live = status["phase"] == "live" && status["keys"]["complete"] == false;
        is_live
            && status["log"]["drift"]["settings"]
                .to_string()
                .contains("republish")
    })
    .await;
    // It tries again while it drains.
    let log = railbird.stop().await.join("\n");
    assert!(log.contains("the stream ACCOUNTS has republish"), "{log}");
    let railbird = Serving::start(&nats, data.path());
    set(None).await;
    railbird.until_ready().await;
}

/// Also a stream that the service can do without would delete the log.
#[tokio::test]
async fn a_service_does_not_start_beside_a_stream_that_publishes_elsewhere() {
    let (nats, data) = (Nats::start(), tempfile::tempdir().unwrap());
    let jetstream = patient_jetstream(nats.client_of("admin").await);
    let (source, destination) = (
        "$O.SNAPSHOTS.own".to_owned(),
        "$JS.API.STREAM.DELETE.RACING".to_owned(),
    );
    let republish = Republish {
        source,
        destination,
        headers_only: false,
    };
    let config = Config {
        name: SNAPSHOTS.name.to_owned(),
        subjects: vec!["$O.SNAPSHOTS.>".to_owned()],
        republish: Some(republish.clone()),
        ..Config::default()
    };
    jetstream.create_stream(config).await.unwrap();
    let risk_is_reported = async |railbird: &Serving| {
        eventually("the risk is reported", async || {
            let status = request(railbird.admin, "GET", "/status", &[]).await.json();
            let risks = status["log"]["drift"]["risks"].to_string();
            risks.contains("OBJ_SNAPSHOTS can lose events")
        })
        .await;
    };
    let railbird = Serving::start(&nats, data.path());
    risk_is_reported(&railbird).await;
    // It tries again while it drains.
    let log = railbird.stop().await.join("\n");
    let refused =
        "cannot open the log; trying again\",\"error\":\"the stream OBJ_SNAPSHOTS has republish";
    assert!(log.contains(refused), "{log}");
    assert!(jetstream.get_stream(RACING.name).await.is_err());

    jetstream.delete_stream(SNAPSHOTS.name).await.unwrap();
    let railbird = Serving::start(&nats, data.path());
    railbird.until_ready().await;
    eventually("the stream is created again", async || {
        jetstream.get_stream(SNAPSHOTS.name).await.is_ok()
    })
    .await;
    // Where it is set later, no replica ends, and operators see it.
    let mut found = jetstream.get_stream(SNAPSHOTS.name).await.unwrap();
    let config = Config {
        republish: Some(republish),
        ..found.info().await.unwrap().config.clone()
    };
    jetstream.update_stream(config).await.unwrap();
    risk_is_reported(&railbird).await;
}

/// Attacks with each target, while an administrator receives all that it may, and compares the streams.
async fn assert_harmless(user: &str, own: &'static str, forged: &[&str]) {
    let nats = Nats::start_with_feeders(&[("tote", "racing.odds.>")], |conf| conf);
    let log = nats.log().await;
    // Nothing that is missing afterwards has ended by itself.
    nats.create_leases(Duration::from_secs(60 * 60)).await;
    for stream in [ACCOUNTS, ADDRESSES, KEY_USE, SNAPSHOTS] {
        log.ensure(stream).await.unwrap();
    }
    let admin = nats.client_of("admin").await;
    // A request to JetStream that deletes, one that lets everybody delete, and what a stranger would forge.
    for bait in STREAMS.map(relaxed).iter().chain([&"{}".to_owned()]) {
        for subject in [
            "racing.bait",
            "accounts.bait",
            "addresses.bait",
            "key_use.bait",
            "$KV.LEASES.bait",
            "$O.SNAPSHOTS.bait",
        ] {
            nats.publish_raw(subject, bait.as_bytes()).await;
        }
    }
    let mut before = contents(&admin, user).await;
    let client = nats.client_of(user).await;
    let attacker = Attacker { client, own };

    let mut targets: Vec<String> = forged.iter().map(ToString::to_string).collect();
    for stream in STREAMS {
        let of_stream = |api: &&str| format!("$JS.API.STREAM.{api}.{stream}");
        targets.extend(["UPDATE", "PURGE", "DELETE"].iter().map(of_stream));
    }
    // The server delivers on a subject while somebody subscribes to it, if it lets the administrator.
    let mut watching = vec![admin.subscribe(">").await.unwrap()];
    let mut harm = Vec::new();
    let consumers_of = attacker.consumers_of().await;
    for target in &targets {
        watching.push(admin.subscribe(target.clone()).await.unwrap());
        admin.flush().await.unwrap();
        // What the server does late in one round is seen after the next.
        for _ in 0..3 {
            attacker.attack(target, &consumers_of).await;
            let after = contents(&admin, user).await;
            if let Some(difference) = difference(&before, &after) {
                harm.push(format!("{target}: {difference}"));
                before = after;
                break;
            }
        }
        if before.len() < STREAMS.len() {
            break;
        }
    }
    assert_eq!(harm, Vec::<String>::new());
}

impl Attacker {
    /// Has the server answer or deliver on the target in every way that there is.
    async fn attack(&self, target: &str, consumers_of: &[&str]) {
        for stream in STREAMS {
            let prefix = prefix(stream);
            let answers = consumers_of.contains(&stream);
            self.attack_with_consumers(stream, target, answers).await;
            for query in [
                json!({ "seq": 1 }),
                json!({ "seq": 1, "batch": 10 }),
                json!({ "last_by_subj": format!("{prefix}.bait") }),
            ] {
                self.request(&format!("DIRECT.GET.{stream}"), &query, target)
                    .await;
                self.request(&format!("STREAM.MSG.GET.{stream}"), &query, target)
                    .await;
            }
            // Of the keys of addresses it may erase each one.
            let seq = if stream == ADDRESSES.name { 999 } else { 1 };
            let erase = json!({ "seq": seq });
            self.request(&format!("STREAM.MSG.DELETE.{stream}"), &erase, target)
                .await;
            let by_subject = format!("$JS.API.DIRECT.GET.{stream}.{prefix}.bait");
            self.publish(&by_subject, "", target).await;
            for api in ["INFO", "CREATE", "UPDATE", "PURGE", "DELETE"] {
                let mut body: Value = serde_json::from_str(&relaxed(stream)).unwrap();
                match api {
                    "UPDATE" => {}
                    "CREATE" => body["republish"] = republish(stream, target),
                    _ => body = json!({}),
                }
                self.request(&format!("STREAM.{api}.{stream}"), &body, target)
                    .await;
            }
        }
        self.publish(target, "{}", "_INBOX.nobody").await;
        self.publish("$SYS.REQ.SERVER.PING.VARZ", "", target).await;
        // The acknowledgement, and the trace of a message.
        self.publish(self.own, "{}", target).await;
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Trace-Dest", target);
        let traced = self
            .client
            .publish_with_headers(self.own, headers, "{}".into());
        traced.await.unwrap();
        // The server has received all of it.
        self.client.flush().await.unwrap();
        // Fails where the stream is gone, which the comparison reports.
        let _ = self.client.request(self.own, "{}".into()).await;
    }

    /// Has the server deliver the messages of a stream on the target.
    async fn attack_with_consumers(&self, stream: &str, target: &str, answers: bool) {
        let consumers = [
            json!({ "ack_policy": "none", "deliver_subject": target }),
            json!({ "ack_policy": "none", "deliver_subject": target, "headers_only": true }),
            json!({ "ack_policy": "explicit" }),
        ];
        for (n, config) in consumers.into_iter().enumerate() {
            let name = format!("attack-{n}");
            let mut named = config.clone();
            named["name"] = name.clone().into();
            let create = |config| json!({ "stream_name": stream, "config": config });
            let named_api = format!("CONSUMER.CREATE.{stream}.{name}");
            self.request(&named_api, &create(named), target).await;
            let api = format!("CONSUMER.CREATE.{stream}");
            self.request(&api, &create(config.clone()), target).await;
            let mut created = Value::Null;
            if answers {
                created = self.answer(&api, &create(config)).await;
            }
            for name in [&json!(name), &created["name"]] {
                let name = name.as_str().unwrap_or_default();
                let next = format!("CONSUMER.MSG.NEXT.{stream}.{name}");
                self.request(&next, &json!({ "batch": 10, "no_wait": true }), target)
                    .await;
                let ack = format!("$JS.ACK.{stream}.{name}.1.1.1.1.1");
                self.publish(&ack, "+NXT", target).await;
            }
        }
    }

    /// The streams of which it can create consumers. Nobody answers what is not allowed, so it waits for no others.
    async fn consumers_of(&self) -> Vec<&'static str> {
        let mut allowed = Vec::new();
        for stream in STREAMS {
            let create = json!({ "stream_name": stream, "config": { "ack_policy": "none" } });
            let answer = self
                .answer(&format!("CONSUMER.CREATE.{stream}"), &create)
                .await;
            if !answer.is_null() {
                allowed.push(stream);
            }
        }
        allowed
    }

    /// Creates each stream such that it deletes the log at its first message.
    async fn create_streams(&self) {
        for stream in STREAMS {
            let mut config: Value = serde_json::from_str(&relaxed(stream)).unwrap();
            config["republish"] = republish(stream, "$JS.API.STREAM.DELETE.RACING");
            let answer = self
                .answer(&format!("STREAM.CREATE.{stream}"), &config)
                .await;
            println!("CREATE {stream}: {answer}");
        }
    }

    /// Changes a consumer of a service such that nothing is delivered by it.
    async fn blind(&self, nats: &Nats, stream: &str, consumer: &str) {
        let admin = nats.client_of("admin").await;
        let info = format!("$JS.API.CONSUMER.INFO.{stream}.{consumer}");
        let info = admin.request(info, "".into()).await.unwrap();
        let info: Value = serde_json::from_slice(&info.payload).unwrap();
        let mut config = info["config"].clone();
        let nothing = format!("{}.nothing", prefix(stream));
        config["name"] = consumer.into();
        config["filter_subject"] = nothing.clone().into();
        let create = json!({ "stream_name": stream, "config": config });
        let api = format!("$JS.API.CONSUMER.CREATE.{stream}");
        let changed = self.client.request(api, create.to_string().into()).await;
        let changed: Value = serde_json::from_slice(&changed.unwrap().payload).unwrap();
        assert_eq!(changed["config"]["filter_subject"], nothing, "{changed}");
    }

    async fn request(&self, api: &str, body: &Value, reply: &str) {
        self.publish(&format!("$JS.API.{api}"), &body.to_string(), reply)
            .await;
    }

    async fn publish(&self, subject: &str, body: &str, reply: &str) {
        let (subject, body) = (subject.to_owned(), body.to_owned());
        let sent = self
            .client
            .publish_with_reply(subject, reply.to_owned(), body.into());
        sent.await.unwrap();
    }

    /// The answer of JetStream; null if this user may not send the request, or nobody answers.
    async fn answer(&self, api: &str, body: &Value) -> Value {
        let request = async_nats::Request::new()
            .payload(body.to_string().into())
            .timeout(Some(std::time::Duration::from_millis(200)));
        let answer = self
            .client
            .send_request(format!("$JS.API.{api}"), request)
            .await;
        answer.map_or(Value::Null, |answer| {
            serde_json::from_slice(&answer.payload).unwrap_or_default()
        })
    }
}

/// The first part of the subjects of a stream.
fn prefix(stream: &str) -> String {
    match stream {
        "KV_LEASES" => "$KV.LEASES".to_owned(),
        "OBJ_SNAPSHOTS" => "$O.SNAPSHOTS".to_owned(),
        stream => stream.to_lowercase(),
    }
}

/// The settings of a stream that lets everybody delete its messages.
fn relaxed(stream: &str) -> String {
    let subjects = format!("{}.>", prefix(stream));
    json!({ "name": stream, "subjects": [subjects], "storage": "file", "max_msgs": 1 }).to_string()
}

/// Has the server publish what is stored on a subject on another one, which has to have as many wildcards: none.
fn republish(stream: &str, target: &str) -> Value {
    json!({ "src": prefix(stream) + OWN, "dest": target })
}

/// The streams that there are, without what a user published where it may. The service may write and purge all
/// snapshots.
async fn contents(admin: &Client, user: &str) -> BTreeMap<&'static str, Contents> {
    let request = async |api: String, body: Value| -> Value {
        let api = format!("$JS.API.{api}");
        let answer = admin.request(api, body.to_string().into()).await.unwrap();
        serde_json::from_slice(&answer.payload).unwrap()
    };
    let mut streams = BTreeMap::new();
    for stream in STREAMS {
        let info = request(format!("STREAM.INFO.{stream}"), json!({})).await;
        let Some(last_seq) = info["state"]["last_seq"].as_u64() else {
            continue;
        };
        let mut messages = BTreeMap::new();
        for seq in 1..=last_seq {
            let api = format!("STREAM.MSG.GET.{stream}");
            let message = request(api, json!({ "seq": seq })).await;
            let text = |field: &str| {
                let message = &message["message"][field];
                message.as_str().unwrap_or_default().to_owned()
            };
            let subject = text("subject");
            // A stream that keeps the last message of each subject has others no more.
            let is_its_own = user == "railbird" && stream == SNAPSHOTS.name;
            if !subject.is_empty() && !subject.ends_with(OWN) && !is_its_own {
                messages.insert(seq, (subject, text("data")));
            }
        }
        let (created, config) = (info["created"].clone(), info["config"].clone());
        let contents = Contents {
            created,
            config,
            messages,
        };
        streams.insert(stream, contents);
    }
    streams
}

/// The first stream that differs, and how.
fn difference(
    before: &BTreeMap<&str, Contents>,
    after: &BTreeMap<&str, Contents>,
) -> Option<String> {
    STREAMS.into_iter().find_map(|stream| {
        let before = &before[stream];
        match after.get(stream) {
            None => Some(format!("{stream} is deleted")),
            Some(after) if after.config != before.config => {
                Some(format!("{stream} has other settings"))
            }
            Some(after) if after != before => {
                let new = after
                    .messages
                    .iter()
                    .find(|of| !before.messages.contains_key(of.0));
                Some(format!("{stream} has other messages, such as {new:?}"))
            }
            Some(_) => None,
        }
    })
}
