//! [`Repeats`]: notices that an import makes a second event on a subject.

use std::collections::HashMap;

use events::{Envelope, Subject};

use crate::item::{Item, LineItems};

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
    pub(crate) fn push(&mut self, what: &str, item: Item, out: &mut LineItems) {
        if let Item::Event(event) = &item {
            let subject = event.event.subject();
            let id = event.id.clone();
            let last = self.last_ids.insert(subject, id);
            if last.is_some_and(|last| last != event.id) {
                let values = "was read before with different values: the later ones are kept";
                out.note(format!("this {what} {values}"));
            }
        }
        out.items.push(item);
    }
}
