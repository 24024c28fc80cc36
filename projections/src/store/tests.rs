use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::{Checkpoint, LogIdentity, Store, StoreError, Writes};
use crate::Digest;

/// Longer than anything here takes, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A value that sled keeps in a file of its own, outside its log.
const LARGE: usize = 200 * 1024;

fn commit(store: &Store, key: &str, value: Vec<u8>) -> Result<Checkpoint, StoreError> {
    let fresh = Checkpoint {
        log: LogIdentity {
            name: "RACING".to_owned(),
            created: "2026-11-21T00:00:00Z".to_owned(),
        },
        seq: 0,
        recorded_at: None,
        latest_time: None,
        digest: Digest::default(),
    };
    let mut checkpoint = store.checkpoint().unwrap_or(fresh);
    checkpoint.seq += 1;
    store.commit(&Writes::from([(key.to_owned(), Some(value))]), checkpoint)
}

/// A store that wrote a part of a page before its disk failed.
fn stuck() -> Store {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path()).expect("an empty store");
    commit(&store, "small", vec![1]).expect("a healthy store");
    folder.close().expect("the folder goes away");
    commit(&store, "large", vec![2; LARGE]).expect_err("there is no folder for it");
    store
}

/// Runs work on a thread, so that the test fails if it hangs.
fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || send.send(work()));
    receive.recv_timeout(PATIENCE).expect(what)
}

fn fill(folder: &Path, commits: u64) {
    let store = Store::open(folder).expect("a sound store");
    for n in 0..commits {
        let size = if n % 8 == 0 { LARGE } else { 100 };
        commit(&store, &n.to_string(), vec![1; size]).expect("a healthy store");
    }
}

#[test]
fn a_store_whose_disk_failed_is_dropped_without_blocking_other_stores() {
    let store = stuck();
    let dropping = thread::spawn(move || drop(store));
    in_time("another store takes commits", || {
        let folder = tempfile::tempdir().expect("a folder");
        for _ in 0..10 {
            fill(folder.path(), 20);
        }
    });
    in_time("the drop ends", move || dropping.join().expect("no panic"));
}

#[test]
fn stores_opened_and_closed_in_parallel_keep_every_commit() {
    const COMMITS: u64 = 30;
    let threads: Vec<_> = (0..4)
        .map(|_| {
            thread::spawn(|| {
                let folder = tempfile::tempdir().expect("a folder");
                for round in 1..=6 {
                    fill(folder.path(), COMMITS);
                    let store = Store::open(folder.path()).expect("a sound store");
                    assert_eq!(store.seq(), round * COMMITS);
                    let (_, digest) = store.recount().expect("a sound store");
                    assert_eq!(Some(digest), store.checkpoint().map(|c| c.digest));
                }
            })
        })
        .collect();
    in_time("all stores are closed", move || {
        for thread in threads {
            thread.join().expect("nothing is lost");
        }
    });
}
