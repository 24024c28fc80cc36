//! The views on disk: replaced, damaged, full, of another version.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use projections::SCHEMA_VERSION;
use railbird::log::RACING;
use railbird::projector::Phase;
use tokio::time::timeout;

use crate::support::*;

const HORSE: &str = "/api/v1/horses/H1";
/// A horse that no event names.
const NO_HORSE: &str = "/api/v1/horses/H999";
/// What no view has.
const UNKNOWN: [&str; 5] = [
    NO_HORSE,
    "/api/v1/jockeys/nobody",
    "/api/v1/days/1999-01-01/movers",
    "/api/v1/odds/1999-01-01/1/history?market=quinella",
    "/api/v1/exports/results/1999-01-01/ST",
];

/// The folder of the views in force.
fn in_force(data: &Path) -> PathBuf {
    let views = data.join("views");
    let name = fs::read_to_string(views.join("CURRENT")).unwrap();
    views.join(name.trim())
}

/// The folders of stores.
fn stores(data: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(data.join("views")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with('v')).collect()
}

/// Makes the views in force those of an earlier schema, whose views have the same form.
fn age(data: &Path) {
    let store = in_force(data);
    let name = store.file_name().unwrap().to_str().unwrap();
    let (schema, rest) = name[1..].split_once('-').unwrap();
    let older = format!("v{}-{rest}", schema.parse::<u32>().unwrap() - 1);
    fs::rename(&store, data.join("views").join(&older)).unwrap();
    fs::write(data.join("views/CURRENT"), older + "\n").unwrap();
}

#[tokio::test]
async fn views_are_replaced_by_whole_ones_and_never_by_empty_ones() {
    let mut nats = Nats::start();
    let seq = nats.publish([registered("H1", "HORSE 1")]).await;
    let railbird = Railbird::start(&nats).await;
    railbird.until_seq(seq).await;
    let (app, done) = (Arc::clone(&railbird.app), Arc::new(AtomicBool::new(false)));
    let watcher = std::thread::spawn({
        let done = Arc::clone(&done);
        move || {
            let mut empty_while_live = 0;
            while !done.load(Ordering::Relaxed) {
                let views = app.views.current();
                let status = app.projector.status.borrow().clone();
                if views.is_none_or(|views| views.seq() == 0)
                    && status.phase == Phase::Live
                    && status.seq > 0
                {
                    empty_while_live += 1;
                }
            }
            empty_while_live
        }
    });
    nats.kill();
    nats.lose("RACING");
    nats.start_again();
    railbird.accept_log(RACING).await;
    eventually("the views of the accepted log are in force", || async {
        let status = railbird.get_admin("/status").await.json();
        status["store"].as_str().unwrap().contains("replaced") || status["log"]["seq"] == 0
    })
    .await;
    done.store(true, Ordering::Relaxed);
    assert_eq!(
        watcher.join().unwrap(),
        0,
        "times that the live views were empty"
    );
}

#[tokio::test]
async fn the_metrics_have_the_sequence_of_new_views_as_soon_as_these_are_served() {
    let (nats, data) = (Nats::start(), tempfile::tempdir().unwrap());
    let seq = nats
        .publish((0..500).map(|n| odds("ST", 1, &second(n), &[2.0, 3.0])))
        .await;
    let serving = Serving::start(&nats, data.path());
    eventually("the service is ready", || async {
        request(serving.http, "GET", "/readyz", &[]).await.status == 200
    })
    .await;
    assert_eq!(serving.metric("railbird_log_seq").await, seq);
    serving.stop().await;
}

#[tokio::test]
async fn a_rebuild_that_fails_leaves_the_live_views_in_force_and_nothing_on_disk() {
    let nats = Nats::start();
    let data = tempfile::tempdir().unwrap();
    let seq = nats
        .publish((0..500).map(|n| odds("ST", 1, &second(n), &[2.0, 3.0])))
        .await;
    let railbird = Railbird::start_in(&nats, data.path()).await;
    railbird.until_published(seq).await;
    let mut socket = Socket::open(railbird.http, &railbird.key).await;
    socket.until("snapshot_complete").await;
    let before = stores(data.path());
    // No new store can be put in force.
    let obstacle = data.path().join("views/.CURRENT.new");
    fs::create_dir(&obstacle).unwrap();
    let admin = railbird.admin.to_string();
    let rebuild =
        crate::support::railbird(["rebuild".to_owned(), "--admin".to_owned(), admin.clone()]);
    let rebuilding = tokio::spawn(rebuild);
    let last = nats
        .publish((500..700).map(|n| odds("ST", 1, &second(n), &[2.0, 4.0])))
        .await;
    let mut prev = seq;
    while prev < last {
        let message = socket.next().await.unwrap();
        assert_eq!(message["prev_seq"], prev, "{message}");
        prev = message["seq"].as_u64().unwrap();
    }
    let rebuilt = rebuilding.await.unwrap();
    assert_ne!(rebuilt.code, 0, "{}", rebuilt.all);
    eventually("nothing is left of it", || async {
        stores(data.path()) == before
    })
    .await;
    let status = railbird.get_admin("/status").await.json();
    assert_eq!(
        (&status["phase"], &status["rebuilds"]),
        (&"live".into(), &0.into()),
        "{status}"
    );
    let next = nats.publish([odds("ST", 1, &second(900), &[7.0])]).await;
    let message = socket.next().await.unwrap();
    assert_eq!(
        (&message["seq"], &message["prev_seq"]),
        (&next.into(), &last.into()),
        "{message}"
    );

    fs::remove_dir(&obstacle).unwrap();
    let rebuilt = crate::support::railbird(["rebuild", "--admin", &admin]).await;
    assert_eq!(rebuilt.code, 0, "{}", rebuilt.all);
    eventually("the old store is removed", || async {
        stores(data.path()).len() == 1 && stores(data.path()) != before
    })
    .await;
}

#[tokio::test]
async fn a_service_listens_before_its_store_can_be_opened_and_keeps_a_sound_one() {
    let nats = Nats::start();
    let data = tempfile::tempdir().unwrap();
    let seq = nats.publish([registered("H1", "HORSE 1")]).await;
    let first = Railbird::start_in(&nats, data.path()).await;
    first.until_seq(seq).await;
    first.stop().await;
    let store = in_force(data.path());
    // As another process that has the store open.
    let lock = fs::File::open(store.join("db")).unwrap();
    lock.lock().unwrap();
    let mut railbird = Railbird::start_unready(&nats.url(), data.path()).await;
    railbird.key = issue_key(&nats).await;
    assert_eq!(railbird.get_open("/healthz").await.status, 200);
    eventually("the reason is known", || async {
        let reply = railbird.get_open("/readyz").await;
        let text = reply.text();
        assert!(!text.contains("in use"), "{text}");
        let status = railbird.get_admin("/status").await.json();
        let reason = status["failure"].as_str().unwrap_or_default();
        reply.status == 503 && reason.contains("in use")
    })
    .await;
    assert_eq!(railbird.get(HORSE).await.status, 503);
    lock.unlock().unwrap();
    railbird.until_ready().await;
    assert_eq!(railbird.get(HORSE).await.status, 200);
    assert_eq!(in_force(data.path()), store, "the same store");
}

/// Waits until the status lists an incident of a kind. It does not name the folder.
async fn until_incident(serving: &Serving, kind: &str, data: &Path) {
    eventually(&format!("{kind} is listed"), || async {
        let status = request(serving.http, "GET", "/status.json", &[]).await;
        assert!(!status.text().contains(&data.display().to_string()));
        let status = status.json();
        let mut incidents = status["incidents"].as_array().unwrap().iter();
        incidents.any(|incident| incident["kind"] == kind)
    })
    .await;
}

#[tokio::test]
async fn a_full_disk_stops_no_read_and_the_service_recovers_when_there_is_space() {
    let nats = Nats::start();
    let data = tempfile::tempdir().unwrap();
    let seq = nats.publish([registered("H1", "HORSE 1")]).await;
    let key = issue_key(&nats).await;
    let serving = Serving::start_on_small_disk(&nats, data.path(), "64m");
    let get = async |path: &str| request(serving.http, "GET", path, &[("x-api-key", &key)]).await;
    let ready = async || request(serving.http, "GET", "/readyz", &[]).await;
    eventually("it is ready", || async { ready().await.status == 200 }).await;

    let filler = serving
        .root()
        .join(data.path().strip_prefix("/").unwrap())
        .join("filler");
    let full = fs::write(&filler, vec![1; 128 * 1024 * 1024]).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    nats.publish((0..3_000).map(|n| odds("ST", 1, &second(n), &[2.0, 3.0])))
        .await;
    nats.publish([registered("H2", "HORSE 2")]).await;
    eventually("it says that the disk is full", || async {
        let reply = ready().await;
        assert!(!reply.text().contains("No space"), "{}", reply.text());
        let status = request(serving.admin, "GET", "/status", &[]).await.json();
        let failure = status["failure"].as_str().unwrap_or_default();
        reply.status == 503 && failure.contains("disk")
    })
    .await;
    until_incident(&serving, "disk_full", data.path()).await;
    for (metric, value) in [("railbird_fold_failed", 1), ("railbird_ready", 0)] {
        assert_eq!(serving.metric(metric).await, value, "{metric}");
    }
    let last = nats.publish([registered("H3", "HORSE 3")]).await;
    eventually(
        "the pending events are known while the fold waits",
        || async {
            let seq = serving.metric("railbird_log_seq").await;
            serving.metric("railbird_log_pending").await == last - seq
        },
    )
    .await;
    for _ in 0..50 {
        let reply = get(HORSE).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert!(reply.header("railbird-seq").parse::<u64>().unwrap() >= seq);
        let reply = get("/api/v1/horses/H2").await;
        assert_eq!(
            reply.status,
            503,
            "it may be known in the log: {}",
            reply.text()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    fs::remove_file(&filler).unwrap();
    eventually("it is ready again", || async {
        ready().await.status == 200
    })
    .await;
    let reply = get("/api/v1/horses/H2").await;
    assert_eq!(
        (reply.status, reply.header("railbird-seq")),
        (200, &*last.to_string())
    );
}

#[tokio::test]
async fn a_disk_without_inodes_stops_no_read_and_the_service_recovers_when_there_are_some() {
    let nats = Nats::start();
    let data = tempfile::tempdir().unwrap();
    nats.publish([registered("H1", "HORSE 1")]).await;
    let key = issue_key(&nats).await;
    let serving = Serving::start_on_small_disk(&nats, data.path(), "256m,nr_inodes=8k");
    let get = async |path: &str| request(serving.http, "GET", path, &[("x-api-key", &key)]).await;
    let ready = async || request(serving.http, "GET", "/readyz", &[]).await;
    eventually("it is ready", || async { ready().await.status == 200 }).await;
    let root = serving.root().join(data.path().strip_prefix("/").unwrap());
    let store = in_force(&root);
    let fillers = root.join("fillers");
    fs::create_dir(&fillers).unwrap();
    let full = (0..8192).find_map(|n| fs::write(fillers.join(n.to_string()), "").err());
    assert_eq!(full.unwrap().kind(), std::io::ErrorKind::StorageFull);
    let last = nats
        .publish((1..=40).map(|race| large_card("ST", race)))
        .await;
    eventually("it says that there are no inodes", || async {
        let status = request(serving.admin, "GET", "/status", &[]).await.json();
        let failure = status["failure"].as_str().unwrap_or_default();
        ready().await.status == 503 && failure.contains("0 inodes are free")
    })
    .await;
    for _ in 0..50 {
        let reply = get(HORSE).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(reply.header("railbird-feed"), "stale");
    }
    fs::remove_dir_all(&fillers).unwrap();
    eventually("it has all", || async {
        ready().await.status == 200 && serving.metric("railbird_log_seq").await == last
    })
    .await;
    assert_eq!(in_force(&root), store, "the same store");
}

/// Sets the number below which a process opens files.
fn limit_open_files(serving: &Serving, limit: &str) {
    let args = [
        "--pid",
        &serving.id().to_string(),
        &format!("--nofile={limit}:"),
    ];
    assert!(
        Command::new("prlimit")
            .args(args)
            .status()
            .unwrap()
            .success()
    );
}

#[tokio::test]
async fn views_are_kept_while_no_file_can_be_opened() {
    let nats = Nats::start();
    let data = tempfile::tempdir().unwrap();
    nats.publish([registered("H1", "HORSE 1")]).await;
    let key = issue_key(&nats).await;
    let serving = Serving::start(&nats, data.path());
    eventually("it is ready", || async {
        request(serving.http, "GET", "/readyz", &[]).await.status == 200
    })
    .await;
    let store = in_force(data.path());
    let mut socket = Socket::open(serving.http, &key).await;
    socket.until("snapshot_complete").await;
    let is_open = |n: &u32| Path::new(&format!("/proc/{}/fd/{n}", serving.id())).exists();
    let first_free = (0..).find(|n| !is_open(n)).unwrap();
    limit_open_files(&serving, &first_free.to_string());
    let last = nats
        .publish((1..=40).map(|race| large_card("ST", race)))
        .await;
    loop {
        let message = socket.next_or_heartbeat().await.unwrap();
        if message["event"] == "heartbeat" && message["feed"]["state"] != "live" {
            break;
        }
    }
    limit_open_files(&serving, "4096");
    eventually("it has all", || async {
        serving.metric("railbird_log_seq").await == last
            && request(serving.http, "GET", "/readyz", &[]).await.status == 200
    })
    .await;
    assert_eq!(in_force(data.path()), store, "the same store");
}

#[tokio::test]
async fn the_views_of_another_schema_are_served_until_the_new_ones_are_caught_up() {
    let nats = Nats::start();
    let data = tempfile::tempdir().unwrap();
    let seq = nats.publish([registered("H1", "HORSE 1")]).await;
    let first = Railbird::start_in(&nats, data.path()).await;
    first.until_seq(seq).await;
    let digest = first.digest();
    let key = first.key.clone();
    first.stop().await;
    age(data.path());
    // The new views take a while.
    let last = nats
        .publish((0..20_000).map(|n| odds("ST", 1, &second(n % 50_000), &[2.0, 3.0])))
        .await;
    let mut railbird = Railbird::start_unready(&nats.url(), data.path()).await;
    railbird.key = key;
    let [older, newer] = [SCHEMA_VERSION - 1, SCHEMA_VERSION].map(|schema| schema.to_string());
    let (mut served, mut others) = (0, BTreeSet::new());
    while railbird.get_open("/readyz").await.status != 200 {
        let reply = railbird.get(HORSE).await;
        if reply.status == 200 && reply.header("railbird-feed") != "live" {
            let of = reply.header("railbird-seq");
            assert!(
                [seq, last]
                    .map(|seq| seq.to_string())
                    .contains(&of.to_owned()),
                "{of}"
            );
            // The new views are in force a little before they are live.
            let schema = if of == seq.to_string() {
                &older
            } else {
                &newer
            };
            assert_eq!(reply.header("railbird-schema"), schema, "at {of}");
            served += 1;
        } else {
            others.insert((served > 0, reply.status));
        }
        let unknown = railbird.get(NO_HORSE).await.status;
        assert!(
            unknown == 503 || railbird.get_open("/readyz").await.status == 200,
            "{unknown}"
        );
    }
    assert!(
        served > 0,
        "the old views were served; other answers: {others:?}"
    );
    assert!(
        !others.contains(&(true, 503)),
        "without a pause: {others:?}"
    );
    let reply = railbird.get(HORSE).await;
    assert_eq!(
        (reply.status, reply.header("railbird-schema")),
        (200, &*newer)
    );
    assert_ne!(railbird.digest(), digest);
    eventually("the old views are removed", || async {
        stores(data.path()).len() == 1
    })
    .await;
}

/// All files under a folder with their bytes.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push((path.clone(), fs::read(path).unwrap()));
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn verify_changes_nothing_and_fails_where_the_log_is_shorter_than_the_views() {
    let mut nats = Nats::start();
    let data = tempfile::tempdir().unwrap();
    nats.publish([registered("H1", "HORSE 1")]).await;
    let first = Railbird::start_in(&nats, data.path()).await;
    first.until_seq(1).await;
    nats.kill();
    let copy = nats.back_up("RACING");
    nats.start_again();
    let seq = nats.publish([registered("H2", "HORSE 2")]).await;
    first.until_seq(seq).await;
    first.stop().await;
    fs::create_dir(data.path().join("views/v0-left-over")).unwrap();
    let before = files(data.path());
    let args = [
        "verify",
        "--nats",
        &nats.url(),
        "--data",
        data.path().to_str().unwrap(),
    ];
    let verified = railbird(args).await;
    assert_eq!(verified.code, 0, "{}", verified.all);
    assert!(files(data.path()) == before, "it writes nothing");
    assert!(
        data.path().join("views/v0-left-over").is_dir(),
        "it removes nothing"
    );

    nats.kill();
    nats.put_back("RACING", &copy);
    nats.start_again();
    let shorter = timeout(PATIENCE, railbird(args)).await;
    let shorter = shorter.expect("it ends");
    assert_ne!(shorter.code, 0, "{}", shorter.all);
    assert!(
        shorter.all.contains("the log ends at event 1"),
        "{}",
        shorter.all
    );
}

#[tokio::test]
async fn a_damaged_view_is_never_served_and_is_restored_while_the_others_are_served() {
    let nats = Nats::start();
    let data = tempfile::tempdir().unwrap();
    let seq = nats
        .publish(["H1", "H2"].map(|horse| registered(horse, "A HORSE")))
        .await;
    let railbird = Railbird::start_in(&nats, data.path()).await;
    railbird.until_seq(seq).await;
    let sound = railbird.get(HORSE).await.body;
    let views = railbird.app.views.current().unwrap();
    views.flip_bit("horse/H1");
    drop(views);
    let admin = railbird.admin.to_string();
    let verified =
        crate::support::railbird(["verify", "--nats", &nats.url(), "--admin", &admin]).await;
    assert_ne!(
        verified.code, 0,
        "the digest of the checkpoint is still right: {}",
        verified.all
    );

    eventually("the view is restored", || async {
        assert_eq!(railbird.get("/api/v1/horses/H2").await.status, 200);
        let reply = railbird.get(HORSE).await;
        let restored = reply.status == 200 && reply.body == sound;
        assert!(restored || reply.status == 503, "{}", reply.text());
        restored
    })
    .await;
    let ready = railbird.get_open("/readyz").await;
    assert!(!ready.text().contains("corrupt"), "{}", ready.text());
    let status = railbird.get_admin("/status").await.json();
    let note = status["store"].as_str().unwrap();
    assert!(
        note.contains("set aside as .corrupt-") && note.contains("horse/H1"),
        "{note}"
    );
    let verified =
        crate::support::railbird(["verify", "--nats", &nats.url(), "--admin", &admin]).await;
    assert_eq!(verified.code, 0, "{}", verified.all);
}

#[tokio::test]
async fn views_that_an_earlier_process_had_not_finished_are_continued() {
    let nats = Nats::start();
    let data = tempfile::tempdir().unwrap();
    let seq = nats.publish([registered("H1", "HORSE 1")]).await;
    let first = Railbird::start_in(&nats, data.path()).await;
    first.until_seq(seq).await;
    first.stop().await;
    let unfinished = in_force(data.path());
    fs::remove_file(data.path().join("views/CURRENT")).unwrap();
    let seq = nats.publish([registered("H2", "HORSE 2")]).await;
    let second = Railbird::start_in(&nats, data.path()).await;
    second.until_seq(seq).await;
    assert_eq!(in_force(data.path()), unfinished);
    let fresh = Railbird::start(&nats).await;
    fresh.until_seq(seq).await;
    assert_eq!(second.digest(), fresh.digest());
}

/// Sets the size beyond which no file of a process grows.
fn limit_files(serving: &Serving, bytes: &str) {
    let limit = format!("--fsize={bytes}:unlimited");
    let args = ["--pid", &serving.id().to_string(), &limit];
    assert!(
        Command::new("prlimit")
            .args(args)
            .status()
            .unwrap()
            .success()
    );
}

#[tokio::test]
async fn after_writes_that_fail_reads_go_on_and_new_views_are_built_when_the_disk_accepts_them() {
    let nats = Nats::start();
    let data = tempfile::tempdir().unwrap();
    nats.publish([registered("H1", "HORSE 1")]).await;
    let key = issue_key(&nats).await;
    // A write over the limit is then an error, not a signal that ends the process.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ && exec \"$@\"", "sh"]);
    command.arg(env!("CARGO_BIN_EXE_railbird"));
    let flags = ["--http", "127.0.0.1:0", "--nats", &nats.url()];
    let serving = Serving::start_as(command, &flags, data.path());
    let get = async |path: &str| request(serving.http, "GET", path, &[("x-api-key", &key)]).await;
    let ready = async || request(serving.http, "GET", "/readyz", &[]).await;
    eventually("it is ready", || async { ready().await.status == 200 }).await;
    let store = in_force(data.path());
    limit_files(&serving, "1");
    let mut n = 0;
    // Few bytes at a time: a commit that is written to the disk while it is applied would fail halfway, and its store
    // answers nothing.
    eventually("a write has failed", || {
        n += 1;
        let race = 1 + u16::try_from(n % 900).unwrap();
        let publishing = nats.publish([odds("ST", race, &second(n), &[2.0, 3.0])]);
        let ready = &ready;
        async move {
            publishing.await;
            ready().await.status == 503
        }
    })
    .await;
    for _ in 0..50 {
        let reply = get(HORSE).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        for unknown in UNKNOWN {
            let reply = get(unknown).await;
            assert_eq!(reply.status, 503, "{unknown}: {}", reply.text());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    until_incident(&serving, "fold_restart", data.path()).await;
    limit_files(&serving, "unlimited");
    eventually("it is ready again", || async {
        ready().await.status == 200
    })
    .await;
    for unknown in UNKNOWN {
        assert_eq!(get(unknown).await.status, 404, "{unknown}");
    }
    assert_ne!(
        in_force(data.path()),
        store,
        "sled accepts no write after one that failed"
    );
    let fresh = Railbird::start(&nats).await;
    let seq = nats.last_seq().await;
    fresh.until_seq(seq).await;
    eventually("it has all", || async {
        let digest = request(serving.admin, "GET", "/digest?recount=true", &[])
            .await
            .json();
        digest["seq"] == seq && digest["digest"] == fresh.digest()
    })
    .await;
}

/// All files and folders below a folder, and itself.
fn all_paths(folder: &Path) -> Vec<PathBuf> {
    let mut paths = vec![folder.to_owned()];
    let mut next = 0;
    while let Some(path) = paths.get(next).cloned() {
        next += 1;
        if path.is_dir() {
            let entries = fs::read_dir(path).unwrap();
            paths.extend(entries.map(|entry| entry.unwrap().path()));
        }
    }
    paths
}

#[tokio::test]
async fn nobody_else_can_read_the_data_folder() {
    let nats = Nats::start();
    let folder = tempfile::tempdir().unwrap();
    // A folder that is created, and one that an operator has created for everybody to read.
    let (created, shared) = (folder.path().join("a/b"), folder.path().join("shared"));
    fs::create_dir(&shared).unwrap();
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&shared, open).unwrap();
    for data in [&created, &shared] {
        let seq = nats.publish([registered("H1", "HORSE 1")]).await;
        let serving = Serving::start(&nats, data);
        eventually("the views are written", || async {
            serving.metric("railbird_log_seq").await == seq
        })
        .await;
        serving.stop().await;
        let paths = all_paths(data);
        assert!(paths.len() > 5, "{paths:?}");
        for path in paths {
            let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            let is_shared = path == shared;
            assert!(
                is_shared || mode & 0o077 == 0,
                "{} has {mode:o}",
                path.display()
            );
        }
    }
    let mode = fs::metadata(&created).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}
