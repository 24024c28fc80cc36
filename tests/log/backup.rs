//! Backups of the log, and their restore beside running replicas.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use railbird::accounts::{self, Email, KeyId};
use railbird::log::{ACCOUNTS, ADDRESSES, Log, LogError, RACING, StreamName};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::support::*;

/// Ten quotes of one race.
fn quotes(from: u64) -> impl Iterator<Item = Value> {
    (from..from + 10).map(|n| odds("ST", 1, &second(n), &[2.0, 3.0]))
}

async fn log_command(nats: &Nats, command: &str, folder: &Path) -> Output {
    let (folder, nats) = (folder.to_str().unwrap(), nats.url_of("admin"));
    railbird(["log", command, folder, "--nats", &nats]).await
}

/// A server that restores many messages, as an operator starts it for that.
fn unsynced() -> Nats {
    Nats::start_with(|conf| conf.replace("sync_interval: always", "sync_interval: 2m"))
}

/// A backup of a running server.
async fn backup(nats: &Nats) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let done = log_command(nats, "backup", &folder.path().join("b")).await;
    assert_eq!(done.code, 0, "{}", done.all);
    folder
}

/// Restores a backup, and returns the output of the command.
async fn restore(nats: &Nats, backup: &TempDir) -> Output {
    log_command(nats, "restore", &backup.path().join("b")).await
}

async fn check(folder: &Path) -> Output {
    railbird(["log", "check", folder.to_str().unwrap()]).await
}

fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Deletes a stream, as an administrator may.
async fn delete(nats: &Nats, stream: StreamName) {
    let client = nats.client_of("admin").await;
    let jetstream = patient_jetstream(client);
    jetstream.delete_stream(stream.name).await.unwrap();
}

async fn created(nats: &Nats, stream: StreamName) -> String {
    let log = Log::connect(&nats.url(), "test").await.unwrap();
    log.state(stream).await.unwrap().identity.created
}

#[tokio::test]
async fn a_backup_is_whole_and_readable_by_its_owner_alone() {
    let nats = Nats::start();
    let _railbird = Railbird::start(&nats).await;
    nats.publish(quotes(0)).await;
    nats.log().await.ensure(ADDRESSES).await.unwrap();
    let backup = backup(&nats).await;
    let folder = backup.path().join("b");
    let expected = [
        "ACCOUNTS.snapshot",
        "ADDRESSES.snapshot",
        "RACING.snapshot",
        "manifest.json",
    ];
    assert_eq!(files(&folder), expected);
    assert_eq!(files(backup.path()), ["b"], "no draft is left");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for file in expected {
        assert_eq!(mode(&folder.join(file)), 0o600, "{file}");
    }
    assert_eq!(check(&folder).await.code, 0);

    let again = log_command(&nats, "backup", &folder).await;
    assert!(
        again.code == 1 && again.all.contains("is not empty"),
        "{}",
        again.all
    );
}

#[tokio::test]
async fn a_rotation_removes_old_backups_and_tells_the_state_of_the_last_one() {
    let nats = Nats::start();
    let _railbird = Railbird::start(&nats).await;
    nats.publish(quotes(0)).await;
    let (root, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for name in ["2001-01-01T000000Z", "of-another-program"] {
        std::fs::create_dir(root.path().join(name)).unwrap();
    }
    let metrics = other.path().join("railbird.prom");
    let rotate = async |folder: &Path| {
        let [folder, metrics] = [folder, &metrics].map(|path| path.to_str().unwrap().to_owned());
        let nats = nats.url_of("admin");
        let flags = ["--rotate", "--metrics", &metrics, "--nats", &nats];
        railbird([&["log", "backup", &*folder], &flags[..]].concat()).await
    };
    let text = || std::fs::read_to_string(&metrics).unwrap();
    let written = rotate(root.path()).await;
    assert_eq!(written.code, 0, "{}", written.all);
    let [backup, kept] = <[String; 2]>::try_from(files(root.path())).unwrap();
    assert_eq!(kept, "of-another-program");
    assert_eq!(check(&root.path().join(backup)).await.code, 0);
    let mode = std::fs::metadata(&metrics).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o644, "node_exporter reads it");
    let first = text();
    let rules = include_str!("../../ops/prometheus/alerts.yml");
    let names = rules.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    for name in names.filter(|name| name.starts_with("railbird_backup_")) {
        assert!(first.contains(&format!("\n{name} ")), "{name} in\n{first}");
    }

    let failed = rotate(&metrics).await;
    assert_eq!(failed.code, 1, "{}", failed.all);
    let expected = first.replace("railbird_backup_failed 0", "railbird_backup_failed 1");
    assert_ne!(expected, first);
    assert_eq!(text(), expected);
}

#[tokio::test]
async fn a_damaged_or_partial_backup_is_rejected_and_restores_nothing() {
    let mut nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    nats.publish(quotes(0)).await;
    let backup = backup(&nats).await;
    railbird.stop().await;
    nats.lose_all();
    let folder = backup.path().join("b");
    let (events, manifest) = (folder.join("RACING.snapshot"), folder.join("manifest.json"));
    let whole = [&events, &manifest].map(|path| std::fs::read(path).unwrap());
    let size = whole[0].len();

    let mut flipped = whole[0].clone();
    flipped[size / 2] ^= 1;
    let mut other = whole[1].clone();
    let at = other.windows(8).position(|part| part == b"last_seq");
    other[at.unwrap() + 11] ^= 1;
    for (path, bytes, expected) in [
        (
            &events,
            &flipped[..],
            "RACING.snapshot: the file is damaged: its SHA-256 is".to_owned(),
        ),
        (
            &events,
            &whole[0][..size - 1],
            format!("ends at byte {}, not at {size}", size - 1),
        ),
        (
            &manifest,
            &other[..],
            "manifest.json: the manifest is damaged".to_owned(),
        ),
    ] {
        std::fs::write(path, bytes).unwrap();
        let outputs = [restore(&nats, &backup).await, check(&folder).await];
        for output in outputs {
            assert_eq!(output.code, 1, "{}", output.all);
            assert!(output.all.contains(&expected), "{}", output.all);
        }
        for (path, bytes) in [&events, &manifest].into_iter().zip(&whole) {
            std::fs::write(path, bytes).unwrap();
        }
    }
    let newer: Value = serde_json::from_slice(&whole[1]).unwrap();
    let mut newer = newer["manifest"].clone();
    newer["nats_server"] = "99.1.0".into();
    let newer = newer.to_string();
    let sealed = format!(
        r#"{{"manifest":{newer},"sha256":"{:x}"}}"#,
        Sha256::digest(&newer)
    );
    std::fs::write(&manifest, sealed).unwrap();
    let output = restore(&nats, &backup).await;
    assert!(output.all.contains("use 99.1.0 or later"), "{}", output.all);

    std::fs::remove_file(&manifest).unwrap();
    let output = restore(&nats, &backup).await;
    assert!(output.all.contains("was not finished"), "{}", output.all);
    let log = Log::connect(&nats.url(), "test").await.unwrap();
    for stream in [RACING, ACCOUNTS] {
        log.state(stream).await.expect_err("nothing is restored");
    }
    std::fs::write(&manifest, &whole[1]).unwrap();
    assert_eq!(restore(&nats, &backup).await.code, 0);
}

#[tokio::test]
async fn replicas_that_have_read_no_more_continue_after_a_restore() {
    let mut nats = Nats::start();
    let replicas = [Railbird::start(&nats).await, Railbird::start(&nats).await];
    let seq = nats.publish(quotes(0)).await;
    for replica in &replicas {
        replica.until_published(seq).await;
    }
    let ids = (created(&nats, RACING).await, created(&nats, ACCOUNTS).await);
    let digest = replicas[0].digest();
    let backup = backup(&nats).await;
    nats.lose_all();
    for replica in &replicas {
        until_diverged(replica, "RACING").await;
        until_diverged(replica, "ACCOUNTS").await;
        assert_eq!(
            replica.get(&board()).await.status,
            200,
            "old views are served"
        );
    }

    let restored = restore(&nats, &backup).await;
    assert_eq!(restored.code, 0, "{}", restored.all);
    for replica in &replicas {
        replica.until_ready().await;
        assert_eq!(replica.digest(), digest);
    }
    assert_eq!(
        (created(&nats, RACING).await, created(&nats, ACCOUNTS).await),
        ids
    );
    let next = nats.publish(quotes(10)).await;
    assert_eq!(next, seq + 10);
    for replica in &replicas {
        replica.until_published(next).await;
    }
    assert_eq!(replicas[0].digest(), replicas[1].digest());
    assert_ne!(replicas[0].digest(), digest);

    let again = restore(&nats, &backup).await;
    assert_eq!(again.code, 0, "{}", again.all);
    assert!(
        again.all.contains("RACING: the server has it"),
        "{}",
        again.all
    );
    assert_eq!(nats.last_seq().await, next, "nothing is overwritten");
}

fn board() -> String {
    format!("/api/v1/odds/{DAY}/1")
}

async fn until_diverged(railbird: &Railbird, stream: &str) {
    eventually("the service reports another history", || async {
        let ready = railbird.get_open("/readyz").await;
        ready.status == 503 && ready.json()["log"]["diverged"][stream].is_object()
    })
    .await;
}

async fn accept(railbird: &Railbird) -> Output {
    let admin = railbird.admin.to_string();
    crate::support::railbird(["log", "accept", "--admin", &admin]).await
}

#[tokio::test]
async fn a_replica_that_has_read_more_than_the_backup_waits_for_an_operator() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let kept = nats.publish(quotes(0)).await;
    let backup = backup(&nats).await;
    let seq = nats.publish(quotes(10)).await;
    railbird.until_published(seq).await;
    delete(&nats, RACING).await;
    let restored = restore(&nats, &backup).await;
    assert_eq!(restored.code, 0, "{}", restored.all);
    assert!(
        restored.all.contains("ACCOUNTS: the server has it"),
        "only what is missing is restored: {}",
        restored.all
    );
    eventually("the service names what it lacks", || async {
        let ready = railbird.get_open("/readyz").await.json();
        ready["log"]["diverged"]["RACING"]["lost"] == seq - kept
    })
    .await;
    assert_eq!(railbird.seq(), seq, "the old views are served");
    let accepted = accept(&railbird).await;
    assert_eq!(accepted.code, 0, "{}", accepted.all);
    railbird.until_ready().await;
    assert_eq!(railbird.seq(), kept);
}

#[tokio::test]
async fn a_restore_overwrites_no_stream_that_somebody_created() {
    let mut nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let seq = nats.publish(quotes(0)).await;
    let backup = backup(&nats).await;
    railbird.stop().await;
    nats.lose_all();
    // A service on an empty folder creates the streams before the restore does.
    let early = Railbird::start(&nats).await;
    let ids = created(&nats, RACING).await;
    let refused = restore(&nats, &backup).await;
    assert_eq!(refused.code, 1, "{}", refused.all);
    for part in [
        "nothing was restored",
        "RACING (0 messages",
        "ACCOUNTS (1 messages",
        "ADDRESSES (0 messages",
        "nats stream rm",
    ] {
        assert!(refused.all.contains(part), "{}", refused.all);
    }
    assert_eq!(created(&nats, RACING).await, ids);

    // It has seen them, so it does not create them again.
    let streams = [RACING, ACCOUNTS, ADDRESSES];
    for stream in streams {
        delete(&nats, stream).await;
    }
    let restored = restore(&nats, &backup).await;
    assert_eq!(restored.code, 0, "{}", restored.all);
    nats.stop();
    nats.start_again();
    for stream in streams {
        until_diverged(&early, stream.name).await;
    }
    let accepted = accept(&early).await;
    assert_eq!(accepted.code, 0, "{}", accepted.all);
    early.until_ready().await;
    early.until_seq(seq).await;
}

#[tokio::test]
async fn a_stream_that_is_created_while_it_is_restored_is_kept() {
    let mut nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    nats.publish(quotes(0)).await;
    let backup = backup(&nats).await;
    railbird.stop().await;
    nats.lose_all();
    let folder = backup.path().join("b");
    let manifest = std::fs::read(folder.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let streams = manifest["manifest"]["streams"].as_array().unwrap();
    let head = streams.iter().find(|of| of["name"] == "RACING").unwrap();
    let head = serde_json::from_value(head.clone()).unwrap();
    let file = std::fs::read(folder.join("RACING.snapshot")).unwrap();
    let log = Log::connect(&nats.url_of("admin"), "test").await.unwrap();

    let restoring = log.restore(RACING, &head).await.unwrap();
    nats.publish(quotes(20)).await;
    let found = nats.messages().await;
    // The server may reject the first part or the end.
    let error = match restoring.send(file.clone().into()).await {
        Ok(()) => restoring.finish().await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.to_string(), "the stream RACING exists");
    let kept = nats.messages().await;
    assert_eq!(kept.len(), found.len());
    assert_eq!(kept[0].payload, found[0].payload);

    // In the other order, the name is taken.
    delete(&nats, RACING).await;
    let restoring = log.restore(RACING, &head).await.unwrap();
    restoring.send(file.into()).await.unwrap();
    let _ = log.ensure(RACING).await;
    let state = restoring.finish().await.unwrap();
    assert_eq!((state.messages, state.identity.created), (10, head.created));
}

#[tokio::test]
async fn a_backup_has_all_that_was_acknowledged_before_it_while_feeders_go_on() {
    let mut nats = unsynced();
    let log = nats.log().await;
    log.ensure(ACCOUNTS).await.unwrap();
    // Many parts, which no compression makes small.
    let mut appender = log.appender();
    for n in 0..200_u64 {
        let mut payload = vec![0; 100_000];
        blake3::Hasher::new()
            .update(&n.to_le_bytes())
            .finalize_xof()
            .fill(&mut payload);
        let (subject, id) = ("racing.garbage".to_owned(), n.to_string());
        let outgoing = railbird::log::Outgoing {
            subject,
            id,
            payload,
        };
        appender.append(outgoing).await.unwrap();
    }
    appender.finish().await.unwrap();
    let before = nats.last_seq().await;
    let feeding = async {
        let mut n = 0;
        loop {
            nats.publish(quotes(n % 40)).await;
            n += 10;
        }
    };
    let backup = tokio::select! {
        backup = backup(&nats) => backup,
        () = feeding => unreachable!(),
    };
    let messages: Vec<_> = nats.messages().await;
    nats.lose_all();
    let restored = restore(&nats, &backup).await;
    assert_eq!(restored.code, 0, "{}", restored.all);
    let again = nats.messages().await;
    assert!(again.len() as u64 >= before, "{} of {before}", again.len());
    for (restored, message) in again.iter().zip(&messages) {
        assert_eq!(restored.seq, message.seq);
        assert_eq!(restored.recorded_at, message.recorded_at);
        assert_eq!(restored.payload, message.payload);
    }
}

#[tokio::test]
async fn an_interrupted_restore_is_followed_by_nobody_and_done_again() {
    let mut nats = unsynced();
    let railbird = Railbird::start(&nats).await;
    let seq = nats
        .publish((0..3_000).map(|n| odds("ST", 1, &second(n % 60), &[2.0])))
        .await;
    railbird.until_published(seq).await;
    let digest = railbird.digest();
    let backup = backup(&nats).await;
    nats.lose_all();
    until_diverged(&railbird, "RACING").await;
    let folder = backup.path().join("b");
    let manifest = std::fs::read(folder.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let head = manifest["manifest"]["streams"][0].clone();
    let head = serde_json::from_value(head).unwrap();
    let file = std::fs::read(folder.join("RACING.snapshot")).unwrap();
    let log = Log::connect(&nats.url_of("admin"), "test").await.unwrap();

    // The server takes the first blocks of the file, and finds no end.
    let restoring = log.restore(RACING, &head).await.unwrap();
    let most = file.len() - 100;
    restoring.send(file[..most].to_vec().into()).await.unwrap();
    restoring.finish().await.unwrap_err();
    let left = nats.client_of("admin").await;
    let left = patient_jetstream(left).get_stream("RACING").await;
    let left = left.unwrap().cached_info().state.messages;
    assert!(
        left > 0 && left < seq,
        "the server has kept {left} messages"
    );
    let unusable = log.ensure(RACING).await.unwrap_err();
    assert!(matches!(unusable, LogError::Restoring(_)), "{unusable}");
    let event = odds("ST", 1, &second(59), &[9.0]);
    let published = log.append_once(&outgoing(&event), None).await;
    assert!(
        published.is_err(),
        "no feeder is acknowledged: {published:?}"
    );

    let restored = restore(&nats, &backup).await;
    assert_eq!(restored.code, 0, "{}", restored.all);
    assert!(
        restored
            .all
            .contains("RACING: what an interrupted restore has left"),
        "{}",
        restored.all
    );
    railbird.until_ready().await;
    assert_eq!(railbird.digest(), digest);
    assert_eq!(nats.last_seq().await, seq);
}

#[tokio::test]
async fn a_restore_during_which_the_server_is_killed_ends_and_is_done_again() {
    let mut nats = unsynced();
    let railbird = Railbird::start(&nats).await;
    let seq = nats.publish(quotes(0)).await;
    let backup = backup(&nats).await;
    railbird.stop().await;
    nats.lose_all();
    let relay = Relay::silenced_by(&nats, "PUB $JS.SNAPSHOT.RESTORE.".to_owned(), 1).await;
    let mut restoring = command();
    let folder = backup.path().join("b");
    restoring.args(["log", "restore", folder.to_str().unwrap(), "--nats"]);
    restoring.arg(relay.url_of("admin"));
    let mut restoring = Process::start(restoring, backup.path().join("output"));
    let is_sent = async || relay.seen() > 0;
    restoring.until("a part is sent", is_sent).await;
    nats.kill();
    nats.start_again();
    assert!(!restoring.ended().await.success());
    let output = restoring.output();
    assert!(output.contains("was cut off"), "{output}");
    let restored = restore(&nats, &backup).await;
    assert_eq!(restored.code, 0, "{}", restored.all);
    assert_eq!(nats.last_seq().await, seq);
}

#[tokio::test]
async fn a_server_that_syncs_every_write_is_given_no_large_restore() {
    let mut nats = Nats::start();
    let log = nats.log().await;
    log.ensure(ACCOUNTS).await.unwrap();
    nats.publish((0..600).map(|n| odds("ST", 1, &second(n % 60), &[2.0])))
        .await;
    let backup = backup(&nats).await;
    nats.lose_all();
    let refused = restore(&nats, &backup).await;
    assert_eq!(refused.code, 1, "{}", refused.all);
    assert!(
        refused.all.contains("`sync_interval: 2m`"),
        "{}",
        refused.all
    );
    let log = Log::connect(&nats.url(), "test").await.unwrap();
    log.state(RACING).await.expect_err("nothing is restored");
}

/// The statuses of a request with each key.
async fn statuses<const N: usize>(railbird: &Railbird, keys: [&str; N]) -> [u16; N] {
    let mut statuses = [0; N];
    for (status, key) in statuses.iter_mut().zip(keys) {
        let headers = [("x-api-key", key)];
        let path = "/api/v1/meetings";
        *status = request(railbird.http, "GET", path, &headers).await.status;
    }
    statuses
}

async fn until_rejected(railbird: &Railbird, key: &str) {
    eventually("the key is rejected", || async {
        statuses(railbird, [key]).await == [401]
    })
    .await;
}

async fn revoke(nats: &Nats, key: &str) {
    let (key_id, nats) = (KeyId::of_key(key).unwrap(), nats.url_of("keys"));
    let revoked = railbird(["keys", "revoke", key_id.as_str(), "--nats", &nats]).await;
    assert_eq!(revoked.code, 0, "{}", revoked.all);
}

#[tokio::test]
async fn a_key_that_was_revoked_after_the_backup_is_never_accepted_again() {
    let nats = Nats::start();
    let data = tempfile::tempdir().unwrap();
    let railbird = Railbird::start_in(&nats, data.path()).await;
    let (kept, revoked) = (
        railbird.issue_key(&nats).await,
        railbird.issue_key(&nats).await,
    );
    let backup = backup(&nats).await;
    revoke(&nats, &revoked).await;
    until_rejected(&railbird, &revoked).await;
    let read = nats.log().await.state(ACCOUNTS).await.unwrap().last_seq;
    eventually("the data folder remembers it", || async {
        let file = |name| std::fs::read_to_string(data.path().join(name));
        let streams: Value = serde_json::from_str(&file("log.json").unwrap()).unwrap();
        let key_id = KeyId::of_key(&revoked).unwrap();
        let ended = file("ended.json").is_ok_and(|ended| ended.contains(key_id.as_str()));
        ended && streams["ACCOUNTS"]["seq"] == read
    })
    .await;
    // Of the service nothing is left but its folder.
    railbird.stop().await;
    delete(&nats, ACCOUNTS).await;
    let restored = restore(&nats, &backup).await;
    assert_eq!(restored.code, 0, "{}", restored.all);
    assert!(restored.all.contains("revokes again"), "{}", restored.all);

    let railbird = Railbird::start_unready(&nats.url(), data.path()).await;
    until_diverged(&railbird, "ACCOUNTS").await;
    assert_eq!(statuses(&railbird, [&kept, &revoked]).await, [503; 2]);
    assert_eq!(accept(&railbird).await.code, 0);
    // The first answer that is not 503 is right.
    eventually("the keys are known", || async {
        match statuses(&railbird, [&revoked, &kept]).await {
            [503, _] | [_, 503] => false,
            known => {
                assert_eq!(known, [401, 200]);
                true
            }
        }
    })
    .await;
    // Another service learns it from the stream.
    let other = Railbird::start(&nats).await;
    assert_eq!(statuses(&other, [&kept, &revoked]).await, [200, 401]);
    let listed = railbird_keys(&nats).await;
    assert!(
        listed.contains("ended before the stream was restored"),
        "{listed}"
    );
}

async fn railbird_keys(nats: &Nats) -> String {
    let nats = nats.url_of("keys");
    railbird(["keys", "list", "--json", "--nats", &nats])
        .await
        .all
}

#[tokio::test]
async fn replicas_that_go_on_revoke_again_once() {
    let nats = Nats::start();
    let replicas = [Railbird::start(&nats).await, Railbird::start(&nats).await];
    let (kept, revoked) = (
        replicas[0].issue_key(&nats).await,
        replicas[0].issue_key(&nats).await,
    );
    let backup = backup(&nats).await;
    revoke(&nats, &revoked).await;
    for replica in &replicas {
        until_rejected(replica, &revoked).await;
    }
    delete(&nats, ACCOUNTS).await;
    assert_eq!(restore(&nats, &backup).await.code, 0);
    let log = Log::connect(&nats.url(), "test").await.unwrap();
    let before = log.state(ACCOUNTS).await.unwrap().last_seq;
    for replica in &replicas {
        until_diverged(replica, "ACCOUNTS").await;
        assert_eq!(statuses(replica, [&kept, &revoked]).await, [200, 401]);
    }
    for replica in &replicas {
        assert_eq!(accept(replica).await.code, 0);
    }
    for replica in &replicas {
        replica.until_ready().await;
        assert_eq!(statuses(replica, [&kept, &revoked]).await, [200, 401]);
    }
    let after = log.state(ACCOUNTS).await.unwrap().last_seq;
    assert_eq!(after, before + 1, "one of them appends it");
}

#[tokio::test]
async fn a_subscriber_who_was_forgotten_after_the_backup_stays_forgotten() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let commands = &railbird.app.pages.commands;
    let email = Email::parse("rail.bird@racing.example").unwrap();
    let plan = events::Text::parse("default").unwrap();
    commands.subscribe(&email, plan, true).await.unwrap();
    let id = commands.book.id_of(&email).await.unwrap();
    let backup = backup(&nats).await;
    commands.forget(id.clone()).await.unwrap();
    let has_address = async || {
        let subject = format!("addresses.key.{id}.1");
        let log = nats.log().await;
        log.last_message(ADDRESSES, &subject)
            .await
            .unwrap()
            .is_some()
    };
    assert!(!has_address().await);

    // Only the stream of addresses is lost: ACCOUNTS knows who was forgotten.
    delete(&nats, ADDRESSES).await;
    assert_eq!(restore(&nats, &backup).await.code, 0);
    assert!(!has_address().await);

    delete(&nats, ADDRESSES).await;
    delete(&nats, ACCOUNTS).await;
    assert_eq!(restore(&nats, &backup).await.code, 0);
    assert!(has_address().await);
    until_diverged(&railbird, "ACCOUNTS").await;
    assert_eq!(accept(&railbird).await.code, 0);
    railbird.until_ready().await;
    let ledger = accounts::read(&nats.log().await).await.unwrap();
    assert!(
        ledger
            .subscriptions
            .get(&id)
            .unwrap()
            .forgotten_at
            .is_some()
    );
    assert_eq!(
        ledger.to_erase.len(),
        1,
        "a service that sends mails erases it"
    );
}
