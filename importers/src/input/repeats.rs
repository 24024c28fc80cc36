//! [`Repeats`]: notices that an import makes a second event on a subject.

use std::collections::HashMap;

use events::{Envelope, Subject};

use crate::item::{Item, LineItems};

/// The id of the last event of each type on each subject. Only the id is held, for files of any size.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    last_ids: HashMap<Subject, HashMap<&'static str, String>>,
}

impl Repeats {
    /// Whether there was an event on the subject.
    pub(crate) fn contains(&self, subject: &Subject) -> bool {
        self.last_ids.contains_key(subject)
    }

    /// Whether the last event of its type on the subject is this one.
    pub(crate) fn is_last(&self, event: &Envelope) -> bool {
        let last_ids = self.last_ids.get(&event.event.subject());
        last_ids.and_then(|ids| ids.get(event.event.type_name())) == Some(&event.id)
    }

    /// Appends an item, with a note if it is an event that replaces a different one. `what` is the kind of subject.
    pub(crate) fn push(&mut self, what: &str, item: Item, out: &mut LineItems) {
        if let Item::Event(event) = &item {
            let last_ids = self.last_ids.entry(event.event.subject()).or_default();
            let last = last_ids.insert(event.event.type_name(), event.id.clone());
            if last.is_some_and(|last| last != event.id) {
                let values = "was read before with different values: the later ones are kept";
                out.note(format!("this {what} {values}"));
            }
        }
        out.items.push(item);
    }
}
