//! What the tests of importers share: items sorted by what they are.

use events::{Event, HorseRegistered, RaceDeclared, ResultDeclared};

use super::{Item, Items, Refused};

/// All that an importer hands out. What was refused or noted is `line: reason`.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) results: Vec<ResultDeclared>,
    pub(super) cards: Vec<RaceDeclared>,
    pub(super) horses: Vec<HorseRegistered>,
    pub(super) ids: Vec<String>,
    pub(super) refused: Vec<String>,
    pub(super) notes: Vec<String>,
}

impl Read {
    pub(super) fn all(items: Items) -> Self {
        let mut read = Self::default();
        let said = |what: Refused| format!("{}: {}", what.line, what.reason);
        for item in items {
            match item {
                Item::Refused(refused) => read.refused.push(said(refused)),
                Item::Note(note) => read.notes.push(said(note)),
                Item::Event(envelope) => {
                    read.ids.push(envelope.id);
                    match envelope.event {
                        Event::ResultDeclared(result) => read.results.push(result),
                        Event::RaceDeclared(card) => read.cards.push(card),
                        Event::HorseRegistered(horse) => read.horses.push(horse),
                        other => panic!("{other:?}"),
                    }
                }
            }
        }
        read
    }
}
