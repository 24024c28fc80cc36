//! What the tests of importers share: items sorted by what they are.

use events::{Event, HorseRegistered, RaceDeclared, ResultDeclared};

use crate::{Item, Items, Refused};

/// All that an importer hands out. What was refused or noted is `line: reason`.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) results: Vec<ResultDeclared>,
    pub(crate) cards: Vec<RaceDeclared>,
    pub(crate) horses: Vec<HorseRegistered>,
    pub(crate) ids: Vec<String>,
    pub(crate) refused: Vec<String>,
    pub(crate) notes: Vec<String>,
}

impl Read {
    pub(crate) fn all(items: Items) -> Self {
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
