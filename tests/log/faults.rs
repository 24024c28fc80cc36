//! Failures: servers killed, logs lost, stores damaged.

use std::fs;
use std::path::Path;

use railbird::log::RACING;

use crate::support::*;

#[tokio::test]
async fn a_restart_of_nats_sends_no_old_message_to_a_socket_and_folds_no_event_twice() {
    let mut nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let seq = nats
        .publish((0..30).map(|n| odds("ST", 1, &second(n), &[2.0, 3.0])))
        .await;
    railbird.until_seq(seq).await;
    // A second service resumes and reads no message from this server: the case in which the ordered consumers of the
    // client library start over at the first message.
    let data = tempfile::tempdir().unwrap();
    let idle = Railbird::start_in(&nats, data.path()).await;
    idle.until_seq(seq).await;
    idle.stop().await;
    let idle = Railbird::start_in(&nats, data.path()).await;
    let digest = idle.digest();
    let mut socket = Socket::open(idle.http, &idle.key).await;
    socket.until("snapshot_complete").await;

    nats.kill();
    eventually("the service reports that the log is away", || async {
        idle.get_open("/readyz").await.json()["log"]["connected"] == false
    })
    .await;
    assert_eq!(idle.get_open("/readyz").await.status, 200);
    assert_eq!(
        idle.get(&format!("/api/v1/odds/{DAY}/1")).await.status,
        200,
        "reads still work"
    );
    nats.start_again();
    eventually("the service is connected again", || async {
        idle.get_open("/readyz").await.json()["feed"]["state"] == "live"
    })
    .await;
    assert_eq!(idle.digest(), digest);
    let next = nats.publish([odds("ST", 1, &second(99), &[5.0])]).await;
    let message = socket.next().await.unwrap();
    assert_eq!(
        (message["event"].as_str(), message["seq"].as_u64()),
        (Some("odds_update"), Some(next)),
        "the first message since the restart"
    );
    assert_eq!(message["prev_seq"], seq);
    railbird.until_seq(next).await;
    assert_eq!(idle.digest(), railbird.digest());
}

#[tokio::test]
async fn a_service_starts_and_reports_itself_unready_while_nats_is_away() {
    let mut nats = Nats::start();
    nats.publish([registered("H1", "HORSE 1")]).await;
    nats.kill();
    let data = tempfile::tempdir().unwrap();
    let mut railbird = Railbird::start_unready(&nats.url(), data.path()).await;
    assert_eq!(railbird.get_open("/healthz").await.status, 200);
    // At first the views are being opened.
    eventually("readyz names the log", async || {
        let reply = railbird.get_open("/readyz").await;
        assert_eq!(reply.status, 503);
        reply.json()["reason"] == "the log cannot be reached"
    })
    .await;
    railbird.key = railbird::accounts::ApiKey::generate("test")
        .unwrap()
        .reveal()
        .to_owned();
    let reply = railbird.get("/api/v1/horses/H1").await;
    assert_eq!(
        (
            reply.status,
            reply.json()["error"].as_str(),
            reply.header("retry-after")
        ),
        (503, Some("not_ready"), "2")
    );
    nats.start_again();
    railbird.until_ready().await;
    assert_eq!(
        railbird.get("/api/v1/horses/H1").await.status,
        401,
        "the service has read the valid keys"
    );
    assert_eq!(railbird.seq(), 1);
}

#[tokio::test]
async fn a_lost_folder_is_rebuilt_to_the_same_bytes() {
    let nats = Nats::start();
    let seq = nats
        .publish((1..=9).map(|n| result(DAY, "ST", n, 8, 1)))
        .await;
    let data = tempfile::tempdir().unwrap();
    let first = Railbird::start_in(&nats, data.path()).await;
    first.until_seq(seq).await;
    let digest = first.digest();
    first.stop().await;
    fs::remove_dir_all(data.path().join("views")).unwrap();
    let second = Railbird::start_in(&nats, data.path()).await;
    second.until_seq(seq).await;
    assert_eq!(second.digest(), digest);
}

#[tokio::test]
async fn a_damaged_store_is_set_aside_and_rebuilt_and_readyz_reports_it() {
    let nats = Nats::start();
    let seq = nats
        .publish((1..=9).map(|n| result(DAY, "ST", n, 8, 1)))
        .await;
    let data = tempfile::tempdir().unwrap();
    let first = Railbird::start_in(&nats, data.path()).await;
    first.until_seq(seq).await;
    let digest = first.digest();
    first.stop().await;
    let views = data.path().join("views");
    let mut set_aside = 0;
    // A flipped byte may be in an unused part, and a cut file may be a whole, earlier store: such a store is not
    // damaged, or only behind.
    let damages = [
        (flip_one as fn(&Path), false),
        (flip_many, true),
        (cut, false),
        (replace_by_nonsense, true),
    ];
    for (damage, unusable) in damages {
        let current = views.join(fs::read_to_string(views.join("CURRENT")).unwrap().trim());
        damage(&current.join("db"));
        let again = Railbird::start_in(&nats, data.path()).await;
        again.until_seq(seq).await;
        assert_eq!(again.digest(), digest);
        let public = again.get_open("/readyz").await.text();
        assert!(!public.contains("corrupt"), "{public}");
        let note = again.get_admin("/status").await.json()["store"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(
            note.contains("a damaged store was set aside as .corrupt-")
                || note.contains("the store was empty")
                || (note.is_empty() && !unusable),
            "{note:?}"
        );
        let is_rebuilt = note.ends_with("; new views were folded from the log");
        assert!(note.is_empty() || is_rebuilt, "{note:?}");
        set_aside += u32::from(note.contains(".corrupt-"));
        again.stop().await;
    }
    assert!(
        set_aside > 0,
        "sled opens an empty store after some kinds of damage, not after all"
    );
    let aside = fs::read_dir(&views).unwrap().filter(|e| {
        e.as_ref()
            .unwrap()
            .file_name()
            .to_string_lossy()
            .starts_with(".corrupt-")
    });
    assert_eq!(aside.count(), 1, "one is kept");
}

/// Changes a byte in the middle, where no check of the head or the tail notices it.
fn flip_one(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[used / 2] ^= 0x55;
    fs::write(path, bytes).unwrap();
}

fn flip_many(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    for byte in bytes.iter_mut().step_by(7) {
        *byte ^= 0x55;
    }
    fs::write(path, bytes).unwrap();
}

fn cut(path: &Path) {
    let bytes = fs::read(path).unwrap();
    fs::write(path, &bytes[..bytes.len() / 3]).unwrap();
}

fn replace_by_nonsense(path: &Path) {
    fs::write(path, "nonsense").unwrap();
}

#[tokio::test]
async fn the_note_about_a_damaged_store_claims_no_rebuild_before_there_was_one() {
    let mut nats = Nats::start();
    let seq = nats.publish([registered("H1", "HORSE 1")]).await;
    let data = tempfile::tempdir().unwrap();
    let first = Railbird::start_in(&nats, data.path()).await;
    first.until_seq(seq).await;
    first.stop().await;
    let views = data.path().join("views");
    let current = fs::read_to_string(views.join("CURRENT")).unwrap();
    replace_by_nonsense(&views.join(current.trim()).join("db"));
    nats.kill();
    let again = Railbird::start_unready(&nats.url(), data.path()).await;
    let note = || async {
        let status = again.get_admin("/status").await.json();
        status["store"].as_str().unwrap().to_owned()
    };
    eventually("the damage is found", || async { !note().await.is_empty() }).await;
    assert!(note().await.ends_with("; there are no new views yet"));
    nats.start_again();
    again.until_seq(seq).await;
    let note = note().await;
    assert!(
        note.ends_with("; new views were folded from the log"),
        "{note}"
    );
}

#[tokio::test]
async fn another_log_under_the_same_name_is_folded_once_an_operator_accepts_it() {
    let mut nats = Nats::start();
    let seq = nats
        .publish((0..20).map(|n| odds("ST", 1, &second(n), &[2.0, 3.0])))
        .await;
    let railbird = Railbird::start(&nats).await;
    railbird.until_seq(seq).await;
    let mut socket = Socket::open(railbird.http, &railbird.key).await;
    socket.until("snapshot_complete").await;
    nats.kill();
    nats.lose("RACING");
    nats.start_again();
    railbird.accept_log(RACING).await;
    // The service creates the stream again.
    eventually("the views are empty", || async {
        railbird.seq() == 0 && railbird.get_open("/readyz").await.status == 200
    })
    .await;
    assert_eq!(socket.next().await.unwrap()["event"], "resync");
    assert_eq!(
        socket.next().await.unwrap()["races"],
        0,
        "the new log has none"
    );

    // The new log is shorter than the old one; its messages are delivered all the same.
    let first = nats.publish([odds("HV", 1, &second(50), &[4.0])]).await;
    let message = socket.next().await.unwrap();
    assert_eq!(
        (message["seq"].as_u64(), message["venue_code"].as_str()),
        (Some(first), Some("HV"))
    );
    // Later it is longer: then only its identity differs.
    let seq = nats
        .publish((1..=30).map(|n| result("2026-09-30", "HV", n, 3, 1)))
        .await;
    railbird.until_seq(seq).await;
    let fresh = Railbird::start(&nats).await;
    fresh.until_seq(seq).await;
    assert_eq!(railbird.digest(), fresh.digest());
}

#[tokio::test]
async fn a_rebuild_beside_the_live_views_changes_no_byte_and_no_message_is_lost() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let seq = nats
        .publish((0..500).map(|n| odds("ST", 1, &second(n), &[2.0, 3.0])))
        .await;
    railbird.until_published(seq).await;
    let mut socket = Socket::open(railbird.http, &railbird.key).await;
    socket.until("snapshot_complete").await;
    assert_eq!(
        request(railbird.admin, "POST", "/rebuild", &[])
            .await
            .status,
        202
    );
    let last = nats
        .publish((500..700).map(|n| odds("ST", 1, &second(n), &[2.0, 4.0])))
        .await;
    let mut prev = seq;
    while prev < last {
        let message = socket.next().await.unwrap();
        assert_eq!(message["prev_seq"], prev);
        prev = message["seq"].as_u64().unwrap();
    }
    eventually("the rebuilt views are in force", || async {
        railbird.get_admin("/status").await.json()["rebuilds"] == 1
    })
    .await;
    railbird.until_seq(last).await;
    let fresh = Railbird::start(&nats).await;
    fresh.until_seq(last).await;
    assert_eq!(railbird.digest(), fresh.digest());
    let next = nats.publish([odds("ST", 1, &second(900), &[7.0])]).await;
    assert_eq!(socket.next().await.unwrap()["seq"], next);
}

#[tokio::test]
async fn two_services_do_not_share_a_folder() {
    let nats = Nats::start();
    let data = tempfile::tempdir().unwrap();
    let _first = Railbird::start_in(&nats, data.path()).await;
    let error = railbird::projector::views::Views::open(data.path())
        .unwrap_err()
        .to_string();
    assert!(error.contains("is in use by another railbird"), "{error}");
}

#[tokio::test]
async fn a_service_that_has_lost_one_of_its_tasks_ends_instead_of_being_ready_and_wrong() {
    let nats = Nats::start();
    nats.publish([registered("H1", "HORSE 1")]).await;
    let names = Railbird::start(&nats).await.tasks();
    for task in ["projector", "announcer", "accounts", "fan-out-0"] {
        assert!(names.iter().any(|name| name == task), "{names:?}");
    }
    for task in &names {
        let railbird = Railbird::start(&nats).await;
        let address = railbird.http;
        let ended = railbird.lose_task(task).await;
        assert_eq!(&ended.name, task);
        let connected = tokio::net::TcpStream::connect(address).await;
        assert!(connected.is_err(), "{task}");
    }
}
