//! [`Repeats`]: notices that an import makes a second event on a subject.

use std::collections::HashMap;

use events::{Envelope, Subject};

use crate::item::{Item, Location};

/// The id of the last event on each subject. Only the id is held, for files of any size.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    last_ids: HashMap<Subject, String>,
}

impl Repeats {
    pub(crate) fn contains(&self, subject: &Subject) -> bool {
        self.last_ids.contains_key(subject)
    }

    /// Whether the last event on the subject is this one.
    pub(crate) fn is_last(&self, event: &Envelope) -> bool {
        self.last_ids.get(&event.event.subject()) == Some(&event.id)
    }

    /// Appends an item, with a note if it is an event that replaces a different one. `what` is the kind of subject.
    pub(crate) fn push(
        &mut self,
        what: &str,
        item: Item,
        location: &Location,
        out: &mut Vec<Item>,
    ) {
        if let Item::Event(event) = &item {
            let last = self
                .last_ids
                .insert(event.event.subject(), event.id.clone());
            if last.is_some_and(|last| last != event.id) {
                let values = "was read before with different values: the later ones are kept";
                out.push(location.note(format!("this {what} {values}")));
            }
        }
        out.push(item);
    }
}
