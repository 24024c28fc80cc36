use std::sync::atomic::{AtomicUsize, Ordering};

use projections::{Digest, Projection, Store, StoreError, keys};
use serde_json::json;

use crate::common::{
    Fixture, OwnedMessage, Race, card, dump, key, log, odds, open, recorded_at, registered, result,
};

const RACE: Race = ("2026-11-21", "ST", 3);

fn messages() -> Vec<OwnedMessage> {
    let facts = [
        registered("A"),
        card(RACE, &["A", "B"]),
        odds(RACE, &[("A", json!(3))]),
        result(RACE, 1, &[("A", "1")]),
    ];
    let message = |(fact, seq): (crate::common::Fact, u64)| OwnedMessage {
        stored: seq,
        seq,
        subject: fact.subject(),
        payload: fact.payload(seq),
    };
    facts.into_iter().zip(1..).map(message).collect()
}

fn step(projection: &mut Projection, messages: &[OwnedMessage]) -> projections::Step {
    projection
        .step(messages.iter().map(OwnedMessage::as_stored), true)
        .expect("a healthy store")
}

#[test]
fn messages_at_or_below_the_checkpoint_are_skipped() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut projection = open(folder.path());
    let messages = messages();
    assert_eq!(step(&mut projection, &messages[..3]).tally.folded, 3);
    let again = step(&mut projection, &messages);
    assert_eq!((again.tally.skipped, again.tally.folded), (3, 1));
    let views = dump(projection.store());
    let checkpoint = projection.checkpoint().clone();
    let all_again = step(&mut projection, &messages);
    assert_eq!((all_again.tally.skipped, all_again.updates.len()), (4, 0));
    assert_eq!(dump(projection.store()), views);
    assert_eq!(*projection.checkpoint(), checkpoint);
}

#[test]
fn a_checkpoint_survives_a_restart_exactly() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut projection = open(folder.path());
    step(&mut projection, &messages());
    let checkpoint = projection.checkpoint().clone();
    assert_eq!(
        (checkpoint.seq, checkpoint.recorded_at),
        (4, Some(recorded_at(4)))
    );
    assert_eq!(checkpoint.log, log());
    drop(projection);
    let projection = open(folder.path());
    assert_eq!(*projection.checkpoint(), checkpoint);
    assert_eq!(projection.store().seq(), 4);
    assert_eq!(projection.store().checkpoint(), Some(checkpoint));
}

#[test]
fn an_empty_step_leaves_an_empty_checkpoint() {
    let mut fixture = Fixture::given([]);
    assert_eq!(fixture.projection.store().checkpoint(), None);
    step(&mut fixture.projection, &[]);
    let checkpoint = fixture
        .projection
        .store()
        .checkpoint()
        .expect("a checkpoint");
    assert_eq!((checkpoint.seq, checkpoint.digest), (0, Digest::default()));
}

#[test]
fn a_message_that_changes_no_view_still_moves_the_checkpoint() {
    let messages = || card(RACE, &["A"]).id("the same");
    let mut fixture = Fixture::given([messages()]);
    let digest = fixture.projection.checkpoint().digest;
    fixture.when(messages());
    let checkpoint = fixture.projection.checkpoint();
    assert_eq!((checkpoint.seq, checkpoint.digest), (2, digest));
    assert_eq!(fixture.projection.store().seq(), 2);
}

#[test]
#[should_panic(expected = "a store is folded from one log")]
fn a_store_of_another_log_is_rejected() {
    let fixture = Fixture::given([card(RACE, &["A"])]);
    let mut other = log();
    other.created.push('!');
    let _ = Projection::new(fixture.projection.store().clone(), other);
}

#[test]
fn live_updates_are_rendered_on_request_and_do_not_change_the_views() {
    let dumps = [true, false].map(|live| {
        let folder = tempfile::tempdir().expect("a folder");
        let mut projection = open(folder.path());
        let messages = messages();
        let step = projection
            .step(messages.iter().map(OwnedMessage::as_stored), live)
            .expect("a healthy store");
        assert_eq!(step.updates.len(), 3 * usize::from(live));
        dump(projection.store())
    });
    assert_eq!(dumps[0], dumps[1]);
}

#[test]
fn gaps_in_the_log_are_accepted() {
    let mut fixture = Fixture::given([]);
    fixture.seq = 1_000;
    fixture.when(card(RACE, &["A"]));
    assert_eq!(fixture.projection.checkpoint().seq, 1_001);
}

#[test]
fn a_folder_in_use_is_not_reported_as_damaged() {
    let fixture = Fixture::given([card(RACE, &["A"])]);
    let second = Store::open(fixture.folder.path());
    assert!(matches!(second, Err(StoreError::InUse)), "{second:?}");
    assert_eq!(fixture.career("A"), [0, 0, 0, 0]);
}

#[test]
fn the_race_is_parsed_from_the_key_of_its_view() {
    let race = key(RACE);
    for name in [
        keys::board(&race),
        keys::open_race(&race),
        keys::card(&race),
    ] {
        assert_eq!(keys::parse_race(&name), Some(race.clone()), "{name}");
    }
    for other in [
        "",
        "odds",
        "odds/2026-11-21/ST",
        "odds/2026-11-21/ST/0",
        "horse/A",
    ] {
        assert_eq!(keys::parse_race(other), None, "{other}");
    }
}

static RESTS: AtomicUsize = AtomicUsize::new(0);

/// How often readers have their turn in a step of 200 messages.
fn rests(live: bool, message: impl Fn(u64) -> (String, Vec<u8>)) -> usize {
    let folder = tempfile::tempdir().expect("a folder");
    let mut projection = open(folder.path()).with_readers(|| {
        RESTS.fetch_add(1, Ordering::Relaxed);
    });
    let messages: Vec<OwnedMessage> = (1..=200)
        .map(|seq| {
            let (subject, payload) = message(seq);
            OwnedMessage {
                stored: seq,
                seq,
                subject,
                payload,
            }
        })
        .collect();
    RESTS.store(0, Ordering::Relaxed);
    let step = projection.step(messages.iter().map(OwnedMessage::as_stored), live);
    step.expect("a healthy store");
    RESTS.load(Ordering::Relaxed)
}

#[test]
fn a_large_live_step_yields_to_readers() {
    let garbage = |bytes| move |_| ("racing.x".to_owned(), vec![b'x'; bytes]);
    assert_eq!(rests(true, garbage(100)), 200 / (64 / 2));
    // A long value counts as much as several short ones.
    assert_eq!(rests(true, garbage(10_000)), 200 / (64_usize.div_ceil(6)));
    // A rebuild has no readers.
    assert_eq!(rests(false, garbage(100)), 0);
    // However often a race is quoted, its board is written once.
    let quote = |seq| {
        let quote = odds(RACE, &[("A", json!(3))]);
        (quote.subject(), quote.payload(seq))
    };
    assert_eq!(rests(true, quote), 0);
}

#[test]
fn only_the_latest_rejections_are_stored() {
    const KEPT: u64 = 100_000;
    let folder = tempfile::tempdir().expect("a folder");
    let mut projection = open(folder.path());
    let mut reject = |seqs: std::ops::RangeInclusive<u64>| {
        let garbage = |seq| OwnedMessage {
            stored: seq,
            seq,
            subject: "racing.x".to_owned(),
            payload: Vec::new(),
        };
        let messages: Vec<OwnedMessage> = seqs.map(garbage).collect();
        let step = projection.step(messages.iter().map(OwnedMessage::as_stored), false);
        step.expect("a healthy store");
        let kept = projection.store().scan(keys::REJECTIONS);
        kept.map(|entry| entry.expect("a healthy store").0)
            .collect::<Vec<_>>()
    };
    assert_eq!(reject(1..=KEPT).len() as u64, KEPT);
    let kept = reject(KEPT + 1..=KEPT + 700);
    assert_eq!(kept.len() as u64, KEPT);
    assert_eq!(kept[0], keys::rejection(701));
}
