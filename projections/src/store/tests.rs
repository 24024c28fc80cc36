use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use super::{Checkpoint, LogIdentity, Row, Store, StoreError, StoreImport, Writes};
use crate::{Digest, LogClock, LogHistory, SourceRankings};

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
        history: LogHistory::default(),
        clock: LogClock::default(),
        rankings: SourceRankings::default(),
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
                    store.check().expect("a sound store");
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

/// Commits the same number under two keys again and again, while `read` runs.
fn while_committing<T: Send>(store: &Store, read: impl FnOnce(&Store) -> T + Send) -> T {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0_u64.. {
                let value = || Some(n.to_le_bytes().to_vec());
                let writes = ["a", "b"].map(|key| (key.to_owned(), value()));
                let mut checkpoint = store.checkpoint().expect("a first commit");
                checkpoint.seq = n;
                store
                    .commit(&Writes::from(writes), checkpoint)
                    .expect("a healthy store");
                if done.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let found = read(store);
        done.store(true, Ordering::Relaxed);
        found
    })
}

/// The numbers under both keys.
fn pair(store: &Store) -> [u64; 2] {
    ["a", "b"].map(|key| {
        let view = store.get(key).expect("a healthy store");
        let bytes = view.map_or([0; 8], |view| view[..].try_into().expect("eight bytes"));
        u64::from_le_bytes(bytes)
    })
}

#[test]
fn what_is_read_together_is_of_one_commit_however_many_there_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path()).expect("an empty store");
    commit(&store, "first", Vec::new()).expect("a healthy store");
    let (mixed, reads) = while_committing(&store, |store| {
        let mut mixed = 0;
        for _ in 0..20_000 {
            let ([a, b], seq) = store.read_consistently(|| pair(store)).expect("not torn");
            mixed += u64::from(a != b || (a, a) != (seq, b) && a != 0);
        }
        (mixed, 20_000)
    });
    assert_eq!(mixed, 0, "of {reads}");
}

#[test]
fn a_recount_while_commits_go_on_equals_the_digest() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path()).expect("an empty store");
    for n in 0..2_000_u64 {
        commit(&store, &format!("b{n}"), n.to_le_bytes().to_vec()).expect("a healthy store");
    }
    while_committing(&store, |store| {
        for _ in 0..20 {
            store.check().expect("a sound store");
        }
    });
    store.flip_bit("b7");
    let error = store.check().expect_err("a flipped bit").to_string();
    assert!(error.contains("damaged at b7"), "{error}");
}

/// The rows of an export.
fn exported(store: &Store) -> Result<Vec<Row>, StoreError> {
    let mut rows = Vec::new();
    store.export(|key, value| {
        rows.push(Row::new(key.to_owned(), value.map(<[u8]>::to_vec)));
        Ok::<_, StoreError>(())
    })?;
    Ok(rows)
}

#[test]
fn an_export_while_commits_go_on_has_the_digest_of_its_checkpoint() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path()).expect("an empty store");
    for n in 0..2_000_u64 {
        commit(&store, &format!("b{n}"), n.to_le_bytes().to_vec()).expect("a healthy store");
    }
    while_committing(&store, |store| {
        for _ in 0..5 {
            let folder = tempfile::tempdir().expect("a folder");
            let copy = Arc::new(Store::open(folder.path()).expect("an empty store"));
            StoreImport::new(Arc::clone(&copy))
                .add(exported(store).expect("a healthy store"))
                .expect("a healthy store");
            copy.check().expect("the digest of the checkpoint");
            let [a, b] = pair(&copy);
            assert_eq!((a, a == copy.seq() || a == 0), (b, true));
        }
    });
}

#[test]
fn an_export_of_a_damaged_or_empty_store_fails() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path()).expect("an empty store");
    let error = exported(&store).expect_err("no checkpoint").to_string();
    assert!(error.ends_with("the store is empty"), "{error}");
    commit(&store, "a", b"the value".to_vec()).expect("a healthy store");
    store.flip_bit("a");
    let error = exported(&store).expect_err("a flipped bit").to_string();
    assert!(error.contains("damaged at a"), "{error}");
}

#[test]
fn rows_that_are_no_whole_export_are_not_imported() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path()).expect("an empty store");
    for key in ["a", "b"] {
        commit(&store, key, b"the value".to_vec()).expect("a healthy store");
    }
    let rows = exported(&store).expect("a healthy store");
    let [a, b, checkpoint] = &rows[..] else {
        panic!("two views and the checkpoint: {rows:?}");
    };
    let old_b = Row::new("b".to_owned(), Some(b"an older value".to_vec()));
    let import_parts = |parts: Vec<Vec<Row>>| {
        let folder = tempfile::tempdir().expect("a folder");
        let copy = Arc::new(Store::open(folder.path()).expect("an empty store"));
        let mut import = StoreImport::new(copy);
        let imported = parts.into_iter().try_for_each(|rows| import.add(rows));
        imported.map_or_else(|error| error.to_string(), |()| String::new())
    };
    let import = |rows: &[&Row]| {
        let rows = rows.iter().map(|row| (*row).clone());
        let in_one_part = import_parts(vec![rows.clone().collect()]);
        let each_alone = import_parts(rows.map(|row| vec![row]).collect());
        assert_eq!(in_one_part, each_alone);
        in_one_part
    };
    assert_eq!(import(&[a, b, checkpoint]), "");
    assert_eq!(import(&[a, &old_b, b, checkpoint]), "", "it is replaced");
    assert_eq!(import(&[a, &old_b, a, b, checkpoint]), "", "so are both");
    for (wrong, reason) in [
        (&[a, b, checkpoint, a][..], "follows the checkpoint"),
        (&[a, b, checkpoint, checkpoint], "follows the checkpoint"),
        (&[a, checkpoint], "the digest is"),
        (&[a, &old_b, checkpoint], "the digest is"),
        (&[a, b, &old_b, checkpoint], "the digest is"),
        (&[a, b, b, a, checkpoint], "out of order"),
    ] {
        let error = import(wrong);
        assert!(error.contains(reason), "{error}, not {reason}");
    }
}

#[test]
fn an_export_keeps_a_bounded_amount_of_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path()).expect("an empty store");
    commit(&store, "a", Vec::new()).expect("a healthy store");
    let written = store.export(|_, _| {
        // The same key again and again counts once; others do not.
        for key in ["b", "b", "c", "d", "e", "f"] {
            commit(&store, key, vec![store.seq() as u8; 15 * 1024 * 1024]).map(drop)?;
        }
        Ok::<_, StoreError>(())
    });
    assert!(
        matches!(written, Err(StoreError::TooManyChanges { .. })),
        "{written:?}"
    );
    assert_eq!(exported(&store).expect("as many as there are").len(), 7);
}

#[test]
fn no_wrong_byte_is_read() {
    // The second pair is stored compressed.
    for (damaged, sound) in [("a", "b"), ("tick/a", "tick/b")] {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path()).expect("an empty store");
        for key in [damaged, sound] {
            commit(&store, key, b"the value".to_vec()).expect("a healthy store");
        }
        assert_eq!(store.damage(), None);
        store.flip_bit(damaged);
        let value = store.get(sound).expect("a sound value").expect("a value");
        assert_eq!(*value, *b"the value");
        assert_eq!(store.damage(), None);
        assert!(matches!(
            store.get(damaged),
            Err(StoreError::Corrupt { .. })
        ));
        assert!(store.scan("").any(|entry| entry.is_err()));
        let found = store.damage().expect("it was read");
        assert!(found.contains(&format!("damaged at {damaged}")));
        let committed = commit(&store, damaged, Vec::new());
        assert!(committed.is_err(), "nothing is built on it");
    }
}

#[test]
fn a_torn_store_answers_nothing() {
    let store = stuck();
    assert!(store.is_torn());
    let read = store.read_consistently(|| store.get("small").map(|_| ()));
    assert!(matches!(read, Err(StoreError::Torn)));
    in_time("the drop ends", move || drop(store));
}

/// A killed process loses what sled has not written to its file, which may end in the middle of a commit.
#[test]
fn a_crash_leaves_whole_commits() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path()).expect("an empty store");
    commit(&store, "first", Vec::new()).expect("a healthy store");
    let value = |n: u64, bytes| [&n.to_le_bytes()[..], &vec![0; bytes]].concat();
    for n in 2..=300_u64 {
        // Every seventh commit is a batch of sled's own.
        let is_large = n % 7 == 0;
        let bytes = if is_large { 25_000 } else { 5_000 };
        let all = ["a", "b", "c"].map(|key| (key.to_owned(), Some(value(n, bytes))));
        let mut writes = Writes::from(all);
        writes.insert("odd".to_owned(), (n % 2 == 1).then(|| value(n, 0)));
        if is_large {
            writes.insert("seventh".to_owned(), Some(value(n, 0)));
        }
        let mut checkpoint = store.checkpoint().expect("a first commit");
        checkpoint.seq = n;
        store.commit(&writes, checkpoint).expect("a healthy store");
        if n % 3 > 0 {
            continue;
        }
        let copy = tempfile::tempdir().expect("a folder");
        fs::copy(folder.path().join("conf"), copy.path().join("conf")).expect("sled's file");
        // sled's threads write meanwhile: a copy may have an end without what they wrote before it.
        let log = folder.path().join("db");
        let mut content = fs::read(&log).expect("sled's file");
        loop {
            let again = fs::read(&log).expect("sled's file");
            if again == content {
                break;
            }
            content = again;
        }
        fs::write(copy.path().join("db"), content).expect("a copy");
        let found = Store::open(copy.path()).expect("a store after a crash");
        let seq = found.seq();
        if seq < 2 {
            continue;
        }
        let all = [("a", seq), ("b", seq), ("c", seq), ("seventh", seq / 7 * 7)];
        for (key, expected) in all.into_iter().filter(|(_, expected)| *expected > 0) {
            let view = found.get(key).expect("a sound value").expect("a value");
            let expected = expected.to_le_bytes();
            assert_eq!(view[..8], expected, "{key} at {seq}, {n} commits");
        }
        let is_odd = found.get("odd").expect("a sound value").is_some();
        assert_eq!(is_odd, seq % 2 == 1, "at {seq}, {n} commits");
        found.check().expect("the digest of its views");
    }
}
