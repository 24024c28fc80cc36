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
