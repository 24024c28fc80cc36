//! [`LoggedIds`]: the ids that the log has on the subjects of an import.

use std::collections::{HashMap, HashSet};

use futures::{StreamExt, TryStreamExt, stream};
use uuid::Uuid;

use crate::log::{Log, LogError, Outgoing, RACING};

/// Subjects that are looked up at a time.
const LOOKUPS: usize = 64;
/// SubjectIds of 16 bytes in memory: those of hundreds of markets.
const IDS_MAX: usize = 1_000_000;
/// The memory for a subject beside its ids, in ids.
const SUBJECT_COST: usize = 16;

/// The ids that the log has on the subjects of an import: an event whose id is not among them is not in the log.
///
/// A subject is looked up when it occurs first. When the ids take too much memory, the subjects that were used least
/// recently are dropped, and are looked up again when they occur again.
#[derive(Default)]
pub(super) struct LoggedIds {
    subjects: HashMap<String, SubjectIds>,
    /// The number of calls of [`Self::not_loaded`].
    round: u64,
}

struct SubjectIds {
    ids: HashSet<Uuid>,
    /// The last round with a message on the subject.
    round: u64,
}

impl LoggedIds {
    /// The subjects of messages that have to be looked up.
    pub(super) fn not_loaded(&mut self, messages: &[Outgoing]) -> HashSet<String> {
        self.round += 1;
        let mut not_loaded = HashSet::new();
        for Outgoing { subject, .. } in messages {
            match self.subjects.get_mut(subject) {
                Some(ids) => ids.round = self.round,
                None => {
                    not_loaded.insert(subject.clone());
                }
            }
        }
        not_loaded
    }

    /// Looks subjects up in the log.
    pub(super) async fn load(
        &mut self,
        log: &Log,
        subjects: HashSet<String>,
    ) -> Result<(), LogError> {
        let round = self.round;
        let found: Vec<_> = stream::iter(subjects)
            .map(|subject| async move {
                let ids = log.ids(RACING, &subject, IDS_MAX).await?;
                let ids = ids.into_iter().collect();
                Ok((subject, SubjectIds { ids, round }))
            })
            .buffer_unordered(LOOKUPS)
            .try_collect()
            .await?;
        self.subjects.extend(found);
        self.evict();
        Ok(())
    }

    /// Adds the id of a message that is about to be published. Returns false if the log has it.
    pub(super) fn insert(&mut self, message: &Outgoing) -> bool {
        let ids = self.subjects.get_mut(&message.subject);
        match (ids, message.id.parse()) {
            (Some(ids), Ok(id)) => ids.ids.insert(id),
            _ => true,
        }
    }

    fn evict(&mut self) {
        let size = |ids: &SubjectIds| ids.ids.len() + SUBJECT_COST;
        let mut total: usize = self.subjects.values().map(size).sum();
        if total <= IDS_MAX {
            return;
        }
        let mut oldest: Vec<(u64, usize, String)> = self
            .subjects
            .iter()
            .filter(|(_, ids)| ids.round < self.round)
            .map(|(subject, ids)| (ids.round, size(ids), subject.clone()))
            .collect();
        oldest.sort();
        for (_, size, subject) in oldest {
            // Down to a half, so that the next eviction is not soon.
            if total <= IDS_MAX / 2 {
                return;
            }
            total -= size;
            self.subjects.remove(&subject);
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{IDS_MAX, LoggedIds, SUBJECT_COST, SubjectIds};
    use crate::log::Outgoing;

    fn message(subject: &str, id: u128) -> Outgoing {
        Outgoing {
            subject: subject.to_owned(),
            id: Uuid::from_u128(id).to_string(),
            payload: Vec::new(),
        }
    }

    /// Loads a subject with some ids, as if from the log.
    fn load(logged: &mut LoggedIds, subject: &str, count: usize) {
        let ids = (0..count as u128).map(Uuid::from_u128).collect();
        let round = logged.round;
        let ids = SubjectIds { ids, round };
        logged.subjects.insert(subject.to_owned(), ids);
        logged.evict();
    }

    #[test]
    fn logged_and_published_messages_are_not_new() {
        let mut ids = LoggedIds::default();
        let messages = [message("a", 2), message("a", 3), message("b", 0)];
        let mut not_loaded: Vec<String> = ids.not_loaded(&messages).into_iter().collect();
        not_loaded.sort();
        assert_eq!(not_loaded, ["a", "b"]);
        load(&mut ids, "a", 3);
        load(&mut ids, "b", 0);
        assert!(ids.not_loaded(&messages).is_empty());
        let new = messages.each_ref().map(|message| ids.insert(message));
        assert_eq!(new, [false, true, true]);
        let new = messages.each_ref().map(|message| ids.insert(message));
        assert_eq!(new, [false, false, false]);
    }

    #[test]
    fn the_least_recently_used_subjects_are_evicted() {
        let mut ids = LoggedIds::default();
        for subject in ["a", "b", "c"] {
            ids.not_loaded(&[message(subject, 0)]);
            load(&mut ids, subject, IDS_MAX / 4);
        }
        ids.not_loaded(&[message("a", 0)]);
        load(&mut ids, "d", IDS_MAX / 4 - 4 * SUBJECT_COST);
        assert_eq!(ids.subjects.len(), 4, "they just fit");
        ids.not_loaded(&[message("e", 0)]);
        load(&mut ids, "e", 1);
        let mut left: Vec<&str> = ids.subjects.keys().map(String::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["a", "d", "e"]);
        assert_eq!(ids.not_loaded(&[message("b", 0)]).len(), 1);
    }
}
