//! [`Known`]: what the log has already, as far as it matters for what is imported.

use std::collections::{HashMap, HashSet};

use futures::{StreamExt, TryStreamExt, stream};
use uuid::Uuid;

use crate::log::{Log, LogError, Outgoing, RACING};

/// Subjects that are asked for at a time.
const LOOKUPS: usize = 64;
/// Ids that are held, of 16 bytes each: those of hundreds of markets.
const IDS_MAX: usize = 1_000_000;
/// What a subject takes beside its ids, in ids.
const SUBJECT: usize = 16;

/// The ids that the log has on each subject that was met: an event that is not among them is not in the log.
///
/// The log is asked when a subject is met. Where there is no room for more, the subjects that were met longest ago are
/// forgotten, and asked for again when they are met again.
#[derive(Debug, Default)]
pub(super) struct Known {
    subjects: HashMap<String, Ids>,
    /// How often messages were looked at.
    round: u64,
}

#[derive(Debug)]
struct Ids {
    ids: HashSet<Uuid>,
    /// The last round with a message on the subject.
    round: u64,
}

impl Known {
    /// The subjects of some messages that the log has to be asked for.
    pub(super) fn unknown(&mut self, messages: &[Outgoing]) -> HashSet<String> {
        self.round += 1;
        let mut unknown = HashSet::new();
        for Outgoing { subject, .. } in messages {
            match self.subjects.get_mut(subject) {
                Some(ids) => ids.round = self.round,
                None => {
                    unknown.insert(subject.clone());
                }
            }
        }
        unknown
    }

    /// Asks the log for what it has on some subjects.
    pub(super) async fn ask(
        &mut self,
        log: &Log,
        subjects: HashSet<String>,
    ) -> Result<(), LogError> {
        let round = self.round;
        let found: Vec<_> = stream::iter(subjects)
            .map(|subject| async move {
                let ids = log.ids(RACING, &subject, IDS_MAX).await?;
                let ids = ids.into_iter().collect();
                Ok((subject, Ids { ids, round }))
            })
            .buffer_unordered(LOOKUPS)
            .try_collect()
            .await?;
        self.subjects.extend(found);
        self.make_room();
        Ok(())
    }

    /// Notes a message that is about to be published. False if the log has it.
    pub(super) fn is_new(&mut self, message: &Outgoing) -> bool {
        let ids = self.subjects.get_mut(&message.subject);
        match (ids, message.id.parse()) {
            (Some(ids), Ok(id)) => ids.ids.insert(id),
            _ => true,
        }
    }

    fn make_room(&mut self) {
        let size = |ids: &Ids| ids.ids.len() + SUBJECT;
        let mut held: usize = self.subjects.values().map(size).sum();
        if held <= IDS_MAX {
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
            // To a half, so that there is room for a while.
            if held <= IDS_MAX / 2 {
                return;
            }
            held -= size;
            self.subjects.remove(&subject);
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{IDS_MAX, Ids, Known, SUBJECT};
    use crate::log::Outgoing;

    fn message(subject: &str, id: u128) -> Outgoing {
        Outgoing {
            subject: subject.to_owned(),
            id: Uuid::from_u128(id).to_string(),
            payload: Vec::new(),
        }
    }

    /// What the log would say of a subject.
    fn learn(known: &mut Known, subject: &str, count: usize) {
        let ids = (0..count as u128).map(Uuid::from_u128).collect();
        let round = known.round;
        known
            .subjects
            .insert(subject.to_owned(), Ids { ids, round });
        known.make_room();
    }

    #[test]
    fn what_the_log_has_and_what_was_published_is_not_new() {
        let mut known = Known::default();
        let messages = [message("a", 2), message("a", 3), message("b", 0)];
        let mut unknown: Vec<String> = known.unknown(&messages).into_iter().collect();
        unknown.sort();
        assert_eq!(unknown, ["a", "b"]);
        learn(&mut known, "a", 3);
        learn(&mut known, "b", 0);
        assert!(known.unknown(&messages).is_empty());
        let new = messages.each_ref().map(|message| known.is_new(message));
        assert_eq!(new, [false, true, true]);
        let new = messages.each_ref().map(|message| known.is_new(message));
        assert_eq!(new, [false, false, false]);
    }

    #[test]
    fn subjects_that_were_met_longest_ago_are_forgotten_where_there_is_no_room() {
        let mut known = Known::default();
        for subject in ["a", "b", "c"] {
            known.unknown(&[message(subject, 0)]);
            learn(&mut known, subject, IDS_MAX / 4);
        }
        known.unknown(&[message("a", 0)]);
        learn(&mut known, "d", IDS_MAX / 4 - 4 * SUBJECT);
        assert_eq!(known.subjects.len(), 4, "there is just room");
        known.unknown(&[message("e", 0)]);
        learn(&mut known, "e", 1);
        let mut left: Vec<&str> = known.subjects.keys().map(String::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["a", "d", "e"]);
        assert_eq!(known.unknown(&[message("b", 0)]).len(), 1);
    }
}
