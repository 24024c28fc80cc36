//! Test support: the items of an import, sorted by what they are.

use std::path::PathBuf;

use events::{
    DividendsDeclared, Envelope, Event, HorseRegistered, RaceDeclared, ResultDeclared,
    RunnerWithdrawn,
};
use tempfile::TempDir;

use crate::item::{Diagnostic, Item, Items, Omitted};

/// Everything that an importer returns. A rejection or a note is `line: reason`.
#[derive(Debug, Default)]
pub(crate) struct Imported {
    pub(crate) results: Vec<ResultDeclared>,
    pub(crate) cards: Vec<RaceDeclared>,
    pub(crate) horses: Vec<HorseRegistered>,
    pub(crate) withdrawals: Vec<RunnerWithdrawn>,
    pub(crate) dividends: Vec<DividendsDeclared>,
    pub(crate) ids: Vec<String>,
    pub(crate) rejected: Vec<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) omitted: Omitted,
}

impl Imported {
    pub(crate) fn all(items: Items) -> Self {
        Self::shown(items, |at| format!("{}: {}", at.line, at.reason))
    }

    pub(crate) fn shown(items: Items, show: impl Fn(Diagnostic) -> String) -> Self {
        let mut imported = Self::default();
        for item in items {
            match item {
                Item::Rejected(rejected) => imported.rejected.push(show(rejected)),
                Item::Note(note) => imported.notes.push(show(note)),
                Item::Omitted(values) => {
                    for (name, count) in values {
                        *imported.omitted.entry(name).or_default() += count;
                    }
                }
                Item::Event(envelope) => {
                    imported.ids.push(envelope.id);
                    match envelope.event {
                        Event::ResultDeclared(result) => imported.results.push(result),
                        Event::RaceDeclared(card) => imported.cards.push(card),
                        Event::HorseRegistered(horse) => imported.horses.push(horse),
                        Event::RunnerWithdrawn(fact) => imported.withdrawals.push(fact),
                        Event::DividendsDeclared(fact) => imported.dividends.push(fact),
                        other => panic!("{other:?}"),
                    }
                }
            }
        }
        imported
    }
}

/// The envelopes of all events of an import.
pub(crate) fn envelopes(items: Items) -> Vec<Envelope> {
    let event = |item| match item {
        Item::Event(envelope) => Some(*envelope),
        _ => None,
    };
    items.filter_map(event).collect()
}

/// A folder with files, and their paths in the same order.
pub(crate) fn folder_of(files: &[(&str, &[u8])]) -> (TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |(name, bytes): &(&str, &[u8])| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("a file");
        path
    };
    let paths = files.iter().map(write).collect();
    (folder, paths)
}

/// Holds messages against the beginnings that they should have, in order.
pub(crate) fn check_starts(messages: &[String], starts: &[impl AsRef<str>]) {
    assert_eq!(messages.len(), starts.len(), "{messages:#?}");
    for (message, start) in messages.iter().zip(starts) {
        assert!(message.starts_with(start.as_ref()), "{message}");
    }
}
