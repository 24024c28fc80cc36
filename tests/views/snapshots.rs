//! Snapshots of the views: new replicas that start from one, snapshots that cannot be used, and their writers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::stream::Stream;
use async_nats::jetstream::{self, Context};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE;
use bytes::Bytes;
use projections::{SCHEMA_VERSION, VIEWS_VERSION};
use railbird::log::{Log, LogError, RACING, SNAPSHOTS};
use railbird::projector::snapshots::{SnapshotError, SnapshotSecret, ViewsSnapshot, restore};
use railbird::projector::views::Views;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::*;

/// The snapshots that a writer keeps.
const KEPT: usize = 3;

/// Results of some race days, whose views take several parts of a snapshot.
fn race_days(days: u16) -> impl Iterator<Item = Value> {
    (1..=days).flat_map(|day| {
        let date = format!("2026-09-{day:02}");
        (1..=9).map(move |race| result(&date, "ST", race, 14, 1))
    })
}

/// The events that a service has folded since its start.
fn folded(railbird: &Railbird) -> u64 {
    let status = railbird.app.projector.status.borrow();
    let rejected: u64 = status.tally.rejected.values().sum();
    status.tally.folded + rejected
}

/// All views of a service, with the hash of each.
async fn all_views(railbird: &Railbird) -> String {
    railbird.get_admin("/views").await.text()
}

async fn create(railbird: &Railbird) -> ViewsSnapshot {
    railbird.app.health.snapshots.create().await.unwrap()
}

/// A server with some race days, and a service that has folded them and written a snapshot.
async fn with_snapshot() -> (Nats, Railbird, ViewsSnapshot) {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let seq = nats.publish(race_days(12)).await;
    railbird.until_seq(seq).await;
    let snapshot = create(&railbird).await;
    (nats, railbird, snapshot)
}

/// The messages of the object store, for an administrator.
struct ObjectStore {
    jetstream: Context,
    stream: Stream,
}

type Messages = Vec<(String, Vec<u8>)>;

impl ObjectStore {
    async fn of(nats: &Nats) -> Self {
        let jetstream = jetstream::new(nats.client_of("admin").await);
        let stream = jetstream.get_stream(SNAPSHOTS.name).await.unwrap();
        Self { jetstream, stream }
    }

    async fn messages(&mut self) -> Messages {
        let state = self.stream.info().await.unwrap().state.clone();
        let mut messages = Vec::new();
        for seq in state.first_sequence..=state.last_sequence {
            let Ok(message) = self.stream.get_raw_message(seq).await else {
                continue;
            };
            messages.push((message.subject.to_string(), message.payload.to_vec()));
        }
        messages
    }

    async fn replace(&self, messages: Messages) {
        self.stream.purge().await.unwrap();
        for (subject, payload) in messages {
            let sent = self.jetstream.publish(subject, payload.into()).await;
            sent.unwrap().await.unwrap();
        }
    }

    /// The subjects of chunks.
    async fn chunk_subjects(&mut self) -> Vec<String> {
        let mut subjects: Vec<_> = self
            .messages()
            .await
            .into_iter()
            .map(|(subject, _)| subject)
            .collect();
        subjects.retain(|subject| subject.contains(".C."));
        subjects.dedup();
        subjects
    }
}

/// Changes the message that names an object, and signs it again.
fn with_info(messages: &Messages, change: impl FnOnce(&mut Value)) -> Messages {
    with_unsigned(messages, |info| {
        change(info);
        let mut metadata = serde_json::from_value(info["metadata"].take()).unwrap();
        secret().sign(&mut metadata, info["digest"].as_str().unwrap());
        info["metadata"] = json!(metadata);
    })
}

fn with_unsigned(messages: &Messages, change: impl FnOnce(&mut Value)) -> Messages {
    let mut messages = messages.clone();
    let (_, payload) = messages.last_mut().unwrap();
    let mut info: Value = serde_json::from_slice(payload).unwrap();
    change(&mut info);
    *payload = info.to_string().into_bytes();
    messages
}

/// Changes the checkpoint in the metadata of a snapshot.
fn with_checkpoint(messages: &Messages, change: impl FnOnce(&mut Value)) -> Messages {
    with_info(messages, |info| {
        let text = info["metadata"]["checkpoint"].as_str().unwrap();
        let mut checkpoint: Value = serde_json::from_str(text).unwrap();
        change(&mut checkpoint);
        info["metadata"]["checkpoint"] = checkpoint.to_string().into();
    })
}

fn secret() -> SnapshotSecret {
    SnapshotSecret::new(SNAPSHOT_SECRET).unwrap()
}

/// Loads the latest snapshot into an empty folder. Returns whether there was one that fits, and the reasons why others
/// do not.
async fn load_into(log: &Log, data: &Path) -> (bool, Vec<String>) {
    let views = Arc::new(Views::open(data).unwrap());
    let (loaded, refused) = restore(log, &views, &secret()).await.unwrap();
    let reasons = refused.into_iter().map(|refusal| refusal.reason);
    (loaded.is_some(), reasons.collect())
}

async fn load(nats: &Nats) -> (bool, Vec<String>) {
    let data = tempfile::tempdir().unwrap();
    load_into(&nats.log().await, data.path()).await
}

#[tokio::test]
async fn a_replica_that_starts_from_a_snapshot_has_the_bytes_of_a_full_fold() {
    let (nats, first, snapshot) = with_snapshot().await;
    assert_eq!(snapshot.checkpoint.seq, first.seq());
    let rest = 7;
    let odds = (0..rest).map(|n| odds("ST", 1, &second(n), &[2.0, 3.0]));
    let seq = nats.publish(odds).await;
    first.until_seq(seq).await;

    let second = Railbird::start(&nats).await;
    second.until_seq(seq).await;
    assert_eq!(folded(&second), rest, "the snapshot has the others");
    assert_eq!(second.digest(), first.digest());
    assert_eq!(all_views(&second).await, all_views(&first).await);
    // A rebuild trusts nothing but the log.
    assert!(second.app.projector.rebuild());
    eventually("the views are rebuilt", async || {
        second.app.projector.status.borrow().rebuilds == 1
    })
    .await;
    assert_eq!(second.digest(), first.digest());
}

#[tokio::test]
async fn a_snapshot_with_a_wrong_byte_in_any_part_is_refused_by_the_name_of_the_part() {
    let (nats, first, snapshot) = with_snapshot().await;
    let mut store = ObjectStore::of(&nats).await;
    let sound = store.messages().await;
    let parts = usize::try_from(snapshot.object.info.chunks).unwrap();
    assert!(parts > 2, "{parts}");
    assert_eq!(sound.len(), parts + 1);
    for part in 0..parts {
        let mut damaged = sound.clone();
        let bytes = &mut damaged[part].1;
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        store.replace(damaged).await;
        let expected = format!("part {part} has a wrong checksum");
        assert_eq!(load(&nats).await, (false, vec![expected]));
    }
    // The service folds the log, and notes that.
    let second = Railbird::start(&nats).await;
    assert_eq!(folded(&second), first.seq());
    assert_eq!(second.digest(), first.digest());
    let metrics = second.get_admin("/metrics").await.text();
    let refused = metrics
        .lines()
        .find(|line| line.starts_with("railbird_snapshots_refused_total"));
    assert_ne!(refused, Some("railbird_snapshots_refused_total 0"));

    store.replace(sound).await;
    assert_eq!(load(&nats).await, (true, vec![]));
}

#[tokio::test]
async fn a_snapshot_that_is_not_whole_or_of_another_log_or_schema_is_refused_with_the_reason() {
    let (nats, _first, _) = with_snapshot().await;
    let mut store = ObjectStore::of(&nats).await;
    let sound = store.messages().await;
    let mut cut = sound.clone();
    cut.remove(1);
    let mut swapped = sound.clone();
    swapped.swap(0, 1);
    // Swapped with their subjects, which are the same.
    let mut claims_less = with_info(&sound, |info| {
        let chunks = info["chunks"].as_u64().unwrap();
        info["chunks"] = (chunks - 1).into();
    });
    claims_less.remove(0);
    let cases = [
        (cut, "part 0 is missing"),
        (swapped, "part 0 has a wrong checksum"),
        (claims_less, "part 0 has a wrong checksum"),
        (
            with_info(&sound, |info| info["digest"] = "SHA-256=AAAA".into()),
            "the checksum of all parts is wrong",
        ),
        (
            with_info(&sound, |info| info["metadata"] = json!({})),
            "its metadata is not that of a snapshot",
        ),
        (
            with_info(&sound, |info| info["metadata"]["schema"] = "9999".into()),
            &format!("it is of schema 9999-{VIEWS_VERSION}"),
        ),
        (
            with_info(&sound, |info| info["metadata"]["views"] = "77".into()),
            &format!("it is of schema {SCHEMA_VERSION}-77"),
        ),
        (
            with_checkpoint(&sound, |of| {
                of["log"]["created"] = "2020-01-01T00:00:00Z".into()
            }),
            "it is of a stream created at 2020-01-01T00:00:00Z",
        ),
        (
            with_checkpoint(&sound, |of| of["seq"] = 9_999.into()),
            "the stream RACING is shorter than what was read: it ends at event 108, and 9999 was read",
        ),
        (
            with_checkpoint(&sound, |of| of["seq"] = 7.into()),
            "the stream RACING has another event 7 than the one that was read",
        ),
        (
            with_checkpoint(&sound, |of| of["digest"] = "0".repeat(64).into()),
            "it has another checkpoint than it claims",
        ),
    ];
    for (messages, expected) in cases {
        store.replace(messages).await;
        assert_eq!(load(&nats).await, (false, vec![expected.to_owned()]));
    }
    store.replace(Vec::new()).await;
    assert_eq!(load(&nats).await, (false, vec![]));
}

/// Whoever has the password of the service can write to the object store, and read the log.
#[tokio::test]
async fn a_snapshot_of_somebody_without_the_secret_of_the_replicas_is_not_loaded() {
    let (nats, first, _) = with_snapshot().await;
    let mut store = ObjectStore::of(&nats).await;
    let sound = store.messages().await;
    let refused = (
        false,
        vec!["it is not signed with the --snapshot-secret".to_owned()],
    );
    let unsigned = with_unsigned(&sound, |info| {
        info["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("signature");
    });
    let of_other_parts = with_unsigned(&sound, |info| info["digest"] = "SHA-256=AAAA".into());
    let of_other_checkpoint = with_unsigned(&sound, |info| info["metadata"]["views"] = "77".into());
    for forged in [unsigned, of_other_parts, of_other_checkpoint] {
        store.replace(forged).await;
        assert_eq!(load(&nats).await, refused);
    }
    store.replace(Vec::new()).await;
    let forger = Railbird::start_with(&nats, |config| {
        config.snapshot_secret = SnapshotSecret::new("a secret that the others do not know");
    })
    .await;
    forger.until_seq(first.seq()).await;
    create(&forger).await;
    assert_eq!(load(&nats).await, refused);
    let second = Railbird::start(&nats).await;
    second.until_seq(first.seq()).await;
    assert_eq!(folded(&second), first.seq());
}

#[tokio::test]
async fn without_a_secret_snapshots_are_neither_written_nor_loaded() {
    let (nats, first, _) = with_snapshot().await;
    let second = Railbird::start_with(&nats, |config| config.snapshot_secret = None).await;
    second.until_seq(first.seq()).await;
    assert_eq!(folded(&second), first.seq());
    let error = second.app.health.snapshots.create().await.unwrap_err();
    assert!(error.to_string().contains("--snapshot-secret"), "{error}");
}

#[tokio::test]
async fn an_older_snapshot_is_loaded_where_the_latest_is_damaged() {
    let (nats, first, _) = with_snapshot().await;
    let seq = nats.publish([odds("ST", 1, &second(1), &[2.0])]).await;
    first.until_seq(seq).await;
    create(&first).await;
    let mut store = ObjectStore::of(&nats).await;
    let mut messages = store.messages().await;
    let last_part = messages.len() - 2;
    messages[last_part].1[40] ^= 1;
    store.replace(messages).await;
    let second = Railbird::start(&nats).await;
    assert_eq!(folded(&second), 1, "the event after the older one");
    assert_eq!(second.digest(), first.digest());
}

#[tokio::test]
async fn a_snapshot_of_events_that_the_log_has_lost_is_refused() {
    let mut nats = Nats::start();
    nats.publish(race_days(1)).await;
    nats.kill();
    let copy = nats.back_up(RACING.name);
    nats.start_again();
    let first = Railbird::start(&nats).await;
    let seq = nats.publish([odds("ST", 1, &second(1), &[2.0])]).await;
    first.until_seq(seq).await;
    create(&first).await;
    first.stop().await;
    nats.kill();
    // As long as before, with other events.
    let others = [odds("ST", 2, &second(2), &[3.0])];
    assert_eq!(nats.rewrite_after(&copy, others).await, seq);
    nats.start_again();
    let expected = format!("the stream RACING has another event {seq} than the one that was read");
    assert_eq!(load(&nats).await, (false, vec![expected]));
    let second = Railbird::start(&nats).await;
    assert_eq!(folded(&second), seq);
}

#[tokio::test]
async fn what_a_killed_writer_has_left_is_not_listed_and_the_next_writer_removes_it() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let seq = nats.publish(race_days(1)).await;
    railbird.until_seq(seq).await;
    let log = nats.log().await;
    let mut killed = log
        .write_object(Bytes::from_static(b"a part"))
        .await
        .unwrap();
    killed.add(Bytes::from_static(b"and one")).await.unwrap();
    drop(killed);
    assert!(log.objects().await.unwrap().is_empty());
    let mut store = ObjectStore::of(&nats).await;
    assert_eq!(store.chunk_subjects().await.len(), 1);
    let left = store.chunk_subjects().await;
    create(&railbird).await;
    let subjects = store.chunk_subjects().await;
    assert_eq!(subjects.len(), 1);
    assert_ne!(subjects, left);
    assert_eq!(load(&nats).await, (true, vec![]));
}

#[tokio::test]
async fn a_writer_that_was_paused_writes_nothing_after_another_one_has_begun() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let seq = nats.publish(race_days(1)).await;
    railbird.until_seq(seq).await;
    let log = nats.log().await;
    let mut paused = log
        .write_object(Bytes::from_static(b"a part"))
        .await
        .unwrap();
    let written = create(&railbird).await;
    let next = paused.add(Bytes::from_static(b"the next")).await;
    assert!(matches!(next, Err(LogError::Conflict)), "{next:?}");
    let named = paused.finish("paused".to_owned(), |_| [].into()).await;
    assert!(matches!(named, Err(LogError::Conflict)), "{named:?}");
    let objects = log.objects().await.unwrap();
    let names: Vec<_> = objects.iter().map(|object| &object.info.name).collect();
    assert_eq!(names, [&written.object.info.name]);
}

/// Each of two replicas is asked at the same time. Each writes one, the one after the other.
#[tokio::test]
async fn two_replicas_write_snapshots_one_at_a_time() {
    let nats = Nats::start();
    let (a, b) = (Railbird::start(&nats).await, Railbird::start(&nats).await);
    let seq = nats.publish(race_days(3)).await;
    a.until_seq(seq).await;
    b.until_seq(seq).await;
    let (of_a, of_b) = tokio::join!(create(&a), create(&b));
    assert_eq!(of_a.checkpoint, of_b.checkpoint);
    assert_eq!(nats.log().await.objects().await.unwrap().len(), 2);
    assert_eq!(load(&nats).await, (true, vec![]));
}

#[tokio::test]
async fn a_snapshot_during_commits_is_a_fold_up_to_its_checkpoint() {
    let (nats, first, _) = with_snapshot().await;
    let publishing = async {
        for round in 0..10 {
            let quotes = (0..200).map(|n| {
                let race = u16::try_from(n % 9 + 1).unwrap();
                odds(
                    "ST",
                    race,
                    &second(round * 200 + n),
                    &[2.0 + n as f64 / 100.0],
                )
            });
            nats.publish(quotes).await;
        }
    };
    let writing = async {
        let mut seqs = Vec::new();
        for _ in 0..4 {
            seqs.push(create(&first).await.checkpoint.seq);
        }
        seqs
    };
    let ((), seqs) = tokio::join!(publishing, writing);
    first.until_seq(nats.last_seq().await).await;
    let second = Railbird::start(&nats).await;
    second.until_seq(first.seq()).await;
    assert_eq!(folded(&second), first.seq() - seqs[3]);
    assert_eq!(second.digest(), first.digest());
    assert_eq!(all_views(&second).await, all_views(&first).await);
}

#[tokio::test]
async fn only_the_latest_snapshots_are_kept() {
    let (nats, first, oldest) = with_snapshot().await;
    let mut names = vec![oldest.object.info.name];
    for _ in 0..KEPT {
        names.push(create(&first).await.object.info.name);
    }
    names.reverse();
    let listed = nats.log().await.objects().await.unwrap();
    let listed: Vec<_> = listed.into_iter().map(|object| object.info.name).collect();
    assert_eq!(listed, names[..KEPT]);
    assert_eq!(
        ObjectStore::of(&nats).await.chunk_subjects().await.len(),
        KEPT
    );
}

#[tokio::test]
async fn older_snapshots_make_room_for_a_new_one_but_not_the_latest() {
    let (nats, first, oldest) = with_snapshot().await;
    let store = ObjectStore::of(&nats).await;
    let limit = async |snapshots: u64| {
        let mut config = store.stream.cached_info().config.clone();
        config.max_bytes = i64::try_from(oldest.object.info.size * snapshots / 2).unwrap();
        store.jetstream.update_stream(&config).await.unwrap();
    };
    let names = async || {
        let objects = nats.log().await.objects().await.unwrap();
        let names = objects.into_iter().map(|object| object.info.name);
        names.collect::<Vec<_>>()
    };
    let second = create(&first).await.object.info.name;
    // Two and a half.
    limit(5).await;
    let third = create(&first).await.object.info.name;
    assert_eq!(names().await, [third.clone(), second]);
    let log = nats.log().await;
    let objects = log.objects().await.unwrap();
    log.remove_object(&objects[1]).await.unwrap();
    // One and a half.
    limit(3).await;
    let error = first.app.health.snapshots.create().await.unwrap_err();
    assert!(error.to_string().contains("OBJ_SNAPSHOTS"), "{error}");
    assert_eq!(names().await, [third], "the latest is kept");
}

#[tokio::test]
async fn what_a_failed_removal_has_left_is_removed_after_the_next_snapshot() {
    let (nats, first, _) = with_snapshot().await;
    let mut store = ObjectStore::of(&nats).await;
    let named = store.messages().await.pop().unwrap().1;
    for name in ["a", "b", "c"] {
        let mut info: Value = serde_json::from_slice(&named).unwrap();
        info["name"] = name.into();
        let subject = format!("$O.SNAPSHOTS.M.{}", BASE64_URL_SAFE.encode(name));
        let sent = store.jetstream.publish(subject, info.to_string().into());
        sent.await.unwrap().await.unwrap();
    }
    let log = nats.log().await;
    assert_eq!(log.objects().await.unwrap().len(), 4);
    create(&first).await;
    assert_eq!(log.objects().await.unwrap().len(), KEPT);
}

#[tokio::test]
async fn one_of_two_replicas_writes_a_snapshot_when_it_is_due() {
    let nats = Nats::start();
    let every = |config: &mut railbird::app::Config| config.snapshot_every = Duration::from_secs(1);
    let a = Railbird::start_with(&nats, every).await;
    let b = Railbird::start_with(&nats, every).await;
    let log = nats.log().await;
    let quotes = |n: u64| odds("ST", u16::try_from(n % 9 + 1).unwrap(), &second(n), &[2.0]);
    nats.publish((0..9_000).map(quotes)).await;
    assert!(
        log.objects().await.unwrap().is_empty(),
        "there are too few events"
    );
    let seq = nats.publish((9_000..10_500).map(quotes)).await;
    a.until_seq(seq).await;
    b.until_seq(seq).await;
    eventually("a snapshot is written", async || {
        !log.objects().await.unwrap().is_empty()
    })
    .await;
    // Both have looked at it by now, and find no new events.
    for replica in [&a, &b] {
        eventually("the replica knows the snapshot", async || {
            let metrics = replica.get_admin("/metrics").await.text();
            !metrics.contains("\nrailbird_snapshot_bytes 0\n")
        })
        .await;
    }
    assert_eq!(log.objects().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_server_without_the_rights_to_snapshots_delays_no_start() {
    let nats = Nats::start_with(|conf| {
        let lines = conf.lines().filter(|line| !line.contains("SNAPSHOTS"));
        lines.collect::<Vec<_>>().join("\n")
    });
    let seq = nats.publish(race_days(1)).await;
    let railbird = Railbird::start(&nats).await;
    railbird.until_seq(seq).await;
    assert_eq!(folded(&railbird), seq);
    let written = railbird.app.health.snapshots.create().await;
    assert!(
        matches!(written, Err(SnapshotError::Log(LogError::Denied { .. }))),
        "{written:?}"
    );
    let metrics = railbird.get_admin("/metrics").await.text();
    assert!(metrics.contains("\nrailbird_snapshot_failures_total "));
}

/// The form of object stores, which the other clients of NATS read (ADR-20 of NATS).
#[tokio::test]
async fn a_snapshot_is_an_object_as_other_clients_of_nats_read_it() {
    let (nats, _first, snapshot) = with_snapshot().await;
    let mut messages = ObjectStore::of(&nats).await.messages().await;
    let (subject, info) = messages.pop().unwrap();
    let name = &snapshot.object.info.name;
    let encoded = BASE64_URL_SAFE.encode(name);
    assert_eq!(subject, format!("$O.SNAPSHOTS.M.{encoded}"));
    let info: Value = serde_json::from_slice(&info).unwrap();
    let nuid = info["nuid"].as_str().unwrap();
    let (mut hash, mut size) = (Sha256::new(), 0);
    for (subject, chunk) in &messages {
        assert_eq!(subject, &format!("$O.SNAPSHOTS.C.{nuid}"));
        hash.update(chunk);
        size += chunk.len();
    }
    let digest = format!("SHA-256={}", BASE64_URL_SAFE.encode(hash.finalize()));
    assert_eq!(
        (&info["name"], &info["bucket"], &info["digest"]),
        (&json!(name), &json!("SNAPSHOTS"), &json!(digest))
    );
    assert_eq!(
        (&info["size"], &info["chunks"]),
        (&json!(size), &json!(messages.len()))
    );
}

#[tokio::test]
async fn an_operator_creates_lists_and_restores_snapshots() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let seq = nats.publish(race_days(1)).await;
    railbird.until_seq(seq).await;
    let (url, admin) = (nats.url(), railbird.admin.to_string());
    let run = async |args: &[&str]| crate::support::railbird(args.iter().copied()).await;
    let none = run(&["snapshot", "list", "--nats", &url]).await;
    assert_eq!((none.code, none.all.trim()), (0, "there are no snapshots"));
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().to_str().unwrap();
    let none = run(&[
        "snapshot",
        "restore",
        folder,
        "--nats",
        &url,
        "--snapshot-secret",
        SNAPSHOT_SECRET,
    ])
    .await;
    assert!(
        none.code != 0 && none.all.contains("no snapshot that fits"),
        "{}",
        none.all
    );

    let created = run(&["snapshot", "create", "--admin", &admin]).await;
    assert!(
        created.all.contains(&format!("event {seq}, ")),
        "{}",
        created.all
    );
    let listed = run(&["snapshot", "list", "--json", "--nats", &url]).await;
    let listed: Value = serde_json::from_str(&listed.all).unwrap();
    assert_eq!(listed["seq"], seq);
    assert_eq!(listed["digest"], railbird.digest());

    let restored = run(&[
        "snapshot",
        "restore",
        folder,
        "--nats",
        &url,
        "--snapshot-secret",
        SNAPSHOT_SECRET,
    ])
    .await;
    assert!(restored.all.contains("loaded v"), "{}", restored.all);
    let again = run(&[
        "snapshot",
        "restore",
        folder,
        "--nats",
        &url,
        "--snapshot-secret",
        SNAPSHOT_SECRET,
    ])
    .await;
    assert!(
        again.code != 0 && again.all.contains("has views already"),
        "{}",
        again.all
    );
    let second = Railbird::start_in(&nats, data.path()).await;
    assert_eq!((folded(&second), second.seq()), (0, seq));
    assert_eq!(second.digest(), railbird.digest());
}

#[tokio::test]
async fn an_operator_waits_for_a_snapshot_that_takes_longer_than_other_requests_may() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let seq = nats.publish(race_days(1)).await;
    railbird.until_seq(seq).await;
    let admin = railbird.admin.to_string();
    nats.freeze();
    let create = crate::support::railbird(["snapshot", "create", "--admin", &admin]);
    let thaw = async {
        tokio::time::sleep(Duration::from_secs(12)).await;
        nats.thaw();
    };
    let (created, ()) = tokio::join!(create, thaw);
    assert_eq!(created.code, 0, "{}", created.all);
}
