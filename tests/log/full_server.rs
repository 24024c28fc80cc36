//! The storage of nats-server at its limits.

use railbird::accounts::KeyId;
use railbird::health::Reason;
use railbird::log::{Log, LogError, Outgoing, RACING, SNAPSHOTS};

use crate::support::*;

const STORAGE: &str = "16MB";

/// A server with little storage.
fn small() -> Nats {
    Nats::start_with(|conf| {
        let line = "sync_interval: always";
        assert!(conf.contains(line));
        conf.replace(line, &format!("{line}, max_file_store: {STORAGE}"))
    })
}

/// Appends messages of ever smaller sizes until not even the smallest fits.
async fn fill(nats: &Nats) -> LogError {
    let log = nats.log().await;
    let mut size = 900_000;
    loop {
        let outgoing = Outgoing {
            subject: "racing.garbage".to_owned(),
            id: uuid::Uuid::now_v7().to_string(),
            payload: vec![b'x'; size],
        };
        match log.append_once(&outgoing, None).await {
            Ok(_) => {}
            Err(error) if size == 1 => return error,
            Err(_) => size = (size / 10).max(1),
        }
    }
}

#[tokio::test]
async fn a_full_stream_of_facts_leaves_room_for_keys_and_is_announced() {
    let mut nats = small();
    let railbird = Railbird::start(&nats).await;
    let log = Log::connect(&nats.url(), "test").await.unwrap();
    let durability = log.durability().await.unwrap();
    assert_eq!(durability.nearly_full, Vec::<String>::new());
    assert_eq!(durability.drift[RACING.name], [], "the limit is no drift");

    let error = fill(&nats).await;
    assert!(
        matches!(&error, LogError::Full(reason) if reason.contains("maximum bytes exceeded")),
        "{error}"
    );
    let file = railbird_event();
    let path = file.path().to_str().unwrap();
    let published =
        crate::support::railbird(["publish", path, "--nats", &nats.url_of("feeder")]).await;
    assert_eq!(published.code, 1, "{}", published.all);
    for part in [
        "the log is full",
        "maximum bytes exceeded",
        "docs/production.md",
    ] {
        assert!(published.all.contains(part), "{}", published.all);
    }

    let key = railbird.issue_key(&nats).await;
    let id = KeyId::of_key(&key).unwrap();
    let revoke = [
        "keys",
        "revoke",
        id.as_str(),
        "--nats",
        &nats.url_of("keys"),
    ];
    let revoked = crate::support::railbird(revoke).await;
    assert_eq!(revoked.code, 0, "{}", revoked.all);
    eventually("the key is rejected", || async {
        railbird.app.keys.check(&key).is_err()
    })
    .await;

    // The settings are compared at each connection.
    nats.kill();
    nats.start_again();
    eventually("the full stream is announced", || async {
        let status = railbird.get_open("/readyz").await.json();
        let drift = status["log"]["drift"]["settings"].to_string();
        drift.contains("the stream RACING has less than 10 % of its max_bytes left")
    })
    .await;
    let metrics = railbird.get_admin("/metrics").await.text();
    for name in [
        "railbird_nats_storage_bytes ",
        "railbird_nats_storage_bytes_max ",
    ] {
        assert!(metrics.contains(name), "{metrics}");
    }
}

/// A file with an event.
fn railbird_event() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), odds("ST", 1, &second(1), &[2.0]).to_string()).unwrap();
    file
}

/// As where other programs have filled the disk when nats-server starts again.
#[tokio::test]
async fn a_server_with_less_room_than_before_takes_snapshots_or_the_status_says_that_it_does_not() {
    let mut nats = small();
    let railbird = Railbird::start(&nats).await;
    let seq = nats.publish([odds("ST", 1, &second(1), &[2.0])]).await;
    railbird.until_seq(seq).await;
    let admin = patient_jetstream(nats.client_of("admin").await);
    eventually("all streams are there", async || {
        admin.get_stream(SNAPSHOTS.name).await.is_ok()
    })
    .await;
    let restart = async |nats: &mut Nats, from: &str, to: &str| {
        nats.stop();
        nats.change_file(|conf| conf.replace(from, to));
        nats.start_again();
    };
    restart(&mut nats, STORAGE, "8MB").await;
    let writes = async || railbird.app.health.snapshots.create().await.is_ok();
    eventually("a snapshot is written", writes).await;
    eventually("the reservations are announced", async || {
        let drift = railbird.get_open("/readyz").await.json()["log"]["drift"].to_string();
        drift.contains("no stream can be created or restored")
    })
    .await;

    let fails = |reason: &Reason| *reason == Reason::SnapshotsFail;
    let is_reason = || railbird.app.health.state().reasons().any(|of| fails(&of));
    assert!(!is_reason());
    admin.delete_stream(SNAPSHOTS.name).await.unwrap();
    let error = railbird
        .app
        .health
        .snapshots
        .create()
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("10047"), "{error}");
    assert!(!is_reason());
    railbird.app.health.snapshots.create().await.unwrap_err();
    assert!(is_reason());
    restart(&mut nats, "8MB", STORAGE).await;
    eventually("a snapshot is written", writes).await;
    assert!(!is_reason());
}

#[tokio::test]
async fn a_full_server_is_named_as_the_reason() {
    let nats = small();
    // As an earlier version created it.
    nats.create_log(async_nats::jetstream::stream::Config::default())
        .await;
    let service = Log::connect(&nats.url(), "test").await.unwrap();
    service.ensure(railbird::log::ACCOUNTS).await.unwrap();
    let error = fill(&nats).await;
    assert!(
        matches!(&error, LogError::Full(reason) if reason.contains("insufficient resources")),
        "{error}"
    );
    let nearly_full = service.durability().await.unwrap().nearly_full;
    assert!(
        nearly_full.len() == 1 && nearly_full[0].contains("it stops all streams"),
        "{nearly_full:?}"
    );
    let key = Outgoing {
        subject: "accounts.key.x".to_owned(),
        id: "x".to_owned(),
        payload: vec![b'x'; 100],
    };
    let refused = service.append_once(&key, None).await;
    assert!(matches!(refused, Err(LogError::Full(_))), "{refused:?}");
}
