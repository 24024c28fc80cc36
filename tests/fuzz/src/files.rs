//! Files of the importers.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;

use events::{RaceNumber, RacingDate};
use importers::{BetfairStream, Item, Items, hkjc_cards, hkjc_results, horses_csv};
use tempfile::TempDir;

use crate::check_text;
use crate::event::check_envelope;

pub(crate) fn hkjc_results_csv(input: &[u8]) {
    check(hkjc_results(&[file("results.csv", input)]));
}

/// Results, cards, and the ids of horses.
pub(crate) fn hkjc_json(input: &[u8]) {
    let races = file("races.json", input);
    check(hkjc_results(std::slice::from_ref(&races)));
    check(hkjc_cards(std::slice::from_ref(&races)));
    let horses = b"horse,country,trainer,colour,sex,owner\nQUIET RIVER(A001),NZ,T,Bay,Gelding,O\n";
    let horses = file("horses.csv", horses);
    check(horses_csv(&[horses], &[races], None));
}

pub(crate) fn hkjc_horses(input: &[u8]) {
    let day = RacingDate::parse("2026-11-21").ok();
    let horses = file("horses.csv", input);
    check(horses_csv(std::slice::from_ref(&horses), &[], day));
    check(horses_csv(&[horses], &[], None));
}

pub(crate) fn hkjc_zh_results(input: &[u8]) {
    check(importers::hkjc_zh_results(
        &[file("results.csv", input)],
        &[],
    ));
}

pub(crate) fn hkjc_zh_horses(input: &[u8]) {
    let results = file("results.csv", input);
    let horses = file("horses.csv", input);
    check(importers::hkjc_zh_horses(&[horses], &[], &[results]));
}

pub(crate) fn rpscrape(input: &[u8]) {
    check(importers::rpscrape(&[file("results.csv", input)]));
}

/// A stream, plain or packed.
pub(crate) fn betfair(input: &[u8]) {
    let path = file("1.234", input);
    check(BetfairStream::find(std::slice::from_ref(&path)).items(None));
    check(BetfairStream::find(&[path]).items(RaceNumber::try_from(3).ok()));
}

fn check(items: Items) {
    for item in items {
        match item {
            Item::Event(envelope) => check_envelope(&envelope),
            Item::Rejected(diagnostic) | Item::Note(diagnostic) => {
                check_text(&diagnostic.reason);
            }
            Item::Omitted(values) => values.keys().for_each(|name| check_text(name)),
        }
    }
}

/// Writes a file into the folder of this thread, in memory if there is such a folder.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    thread_local! {
        static FOLDER: RefCell<Option<TempDir>> = const { RefCell::new(None) };
    }
    let path = FOLDER.with_borrow_mut(|folder| {
        let folder = folder.get_or_insert_with(new_folder);
        folder.path().join(name)
    });
    fs::write(&path, bytes).expect("a file");
    path
}

pub(crate) fn new_folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a folder")
}
