//! [`LoggedEvents`]: the events that the log has on the subjects of an import.

use std::collections::{BTreeMap, HashMap, HashSet};

use events::Envelope;
use futures::{StreamExt, TryStreamExt, stream};
use uuid::Uuid;

use super::source_statement::{SourceStatement, SourceStatements, Standing};
use crate::log::{Log, LogError, Outgoing, RACING};

/// Subjects that are looked up at a time.
const LOOKUPS: usize = 64;
/// Ids of 16 bytes in memory: those of hundreds of markets.
const IDS_MAX: usize = 1_000_000;
/// The memory for a subject beside its ids, and for a statement, in ids.
const SUBJECT_COST: usize = 16;

/// The events that the log has on the subjects of an import: one whose id is not among them is not in the log.
///
/// A subject is looked up when it occurs first. When the ids take too much memory, the subjects that were used least
/// recently are dropped, and are looked up again when they occur again.
#[derive(Default)]
pub(super) struct LoggedEvents {
    subjects: HashMap<String, LoggedSubject>,
    /// The number of calls of [`Self::not_loaded`].
    round: u64,
    /// The statements of the import that were replaced in the log, by subject and topic, under their new ids.
    replaced: BTreeMap<(String, String), Envelope>,
}

#[derive(Default)]
struct LoggedSubject {
    ids: HashSet<Uuid>,
    statements: SourceStatements,
    /// The last round with a message on the subject.
    round: u64,
}

/// Whether the log has an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Logged {
    Missing,
    Present,
    /// Yes, and a later statement of another source about the same thing.
    Outdated,
}

impl LoggedEvents {
    /// The subjects of messages that have to be looked up.
    pub(super) fn not_loaded(&mut self, messages: &[Outgoing]) -> HashSet<String> {
        self.round += 1;
        let mut not_loaded = HashSet::new();
        for Outgoing { subject, .. } in messages {
            match self.subjects.get_mut(subject) {
                Some(logged) => logged.round = self.round,
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
                let mut logged = LoggedSubject {
                    round,
                    ..LoggedSubject::default()
                };
                // Quotes are many, and only their ids count.
                let has_statements = !subject.starts_with("racing.odds.");
                let read = |id: &str, payload: &[u8]| {
                    let event = has_statements.then(|| Envelope::from_json(payload).ok());
                    let statement = event
                        .flatten()
                        .and_then(|event| SourceStatement::of(&event));
                    Some((id.parse::<Uuid>().ok(), statement))
                };
                for (id, statement) in log.read_subject(RACING, &subject, IDS_MAX, read).await? {
                    logged.ids.extend(id);
                    statement.into_iter().for_each(|s| logged.statements.add(s));
                }
                Ok((subject, logged))
            })
            .buffer_unordered(LOOKUPS)
            .try_collect()
            .await?;
        self.subjects.extend(found);
        self.evict();
        Ok(())
    }

    /// Adds an event that is about to be published, unless the log has it.
    pub(super) fn insert(&mut self, event: &Envelope, message: &Outgoing) -> Logged {
        let statement = SourceStatement::of(event);
        let topic = statement.as_ref().map(|statement| statement.topic.clone());
        let replaced = topic.map(|topic| (message.subject.clone(), topic));
        if let Some(replaced) = &replaced {
            // This event replaces it.
            self.replaced.remove(replaced);
        }
        let Some(logged) = self.subjects.get_mut(&message.subject) else {
            return Logged::Missing;
        };
        if logged.ids.insert(event.message_id()) {
            statement.into_iter().for_each(|s| logged.statements.add(s));
            return Logged::Missing;
        }
        let standing = statement.map(|statement| logged.statements.standing(&statement));
        match (standing, replaced) {
            (Some(Standing::Outdated), _) => return Logged::Outdated,
            (Some(Standing::Replaced(id)), Some(replaced)) => {
                let event = event.clone();
                let id = id.to_string();
                self.replaced.insert(replaced, Envelope { id, ..event });
            }
            _ => {}
        }
        Logged::Present
    }

    /// Takes the statements that the log has and that are not in force there: later ones of their source, which are not
    /// of this import, replaced them.
    pub(super) fn take_replaced(&mut self) -> impl Iterator<Item = Envelope> + use<> {
        std::mem::take(&mut self.replaced).into_values()
    }

    fn evict(&mut self) {
        let size = |logged: &LoggedSubject| {
            logged.ids.len() + SUBJECT_COST * (1 + logged.statements.0.len())
        };
        let mut total: usize = self.subjects.values().map(size).sum();
        if total <= IDS_MAX {
            return;
        }
        let mut oldest: Vec<(u64, usize, String)> = self
            .subjects
            .iter()
            .filter(|(_, logged)| logged.round < self.round)
            .map(|(subject, logged)| (logged.round, size(logged), subject.clone()))
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
    use events::{Event, GoingChanged, Moment, RaceNumber, RacingDate, Text, VenueCode};
    use uuid::Uuid;

    use super::super::source_statement::SourceStatement;
    use super::{Envelope, IDS_MAX, Logged, LoggedEvents, LoggedSubject, SUBJECT_COST};
    use crate::log::Outgoing;

    fn going(source: &str, second: u8, going: &str) -> Envelope {
        let event = Event::GoingChanged(GoingChanged {
            date: RacingDate::parse("2026-06-14").expect("a date"),
            venue: VenueCode::parse("ST").expect("a code"),
            race_number: RaceNumber::parse("1").expect("a number"),
            going: Text::parse(going).expect("a text"),
        });
        let time = Moment::parse(&format!("2026-06-14T18:55:{second:02}Z")).expect("a time");
        Envelope::derived(source, time, event).expect("an event")
    }

    /// Imports events into a log with others, and returns what is published and whether the log had the events.
    fn import(log: &mut Vec<Envelope>, events: &[Envelope]) -> Vec<Logged> {
        let mut subject = LoggedSubject::default();
        for event in &*log {
            subject.ids.insert(event.message_id());
            subject
                .statements
                .add(SourceStatement::of(event).expect("a statement"));
        }
        let mut logged = LoggedEvents::default();
        let name = events[0].event.subject().to_string();
        logged.subjects.insert(name, subject);
        let mut found = Vec::new();
        for event in events {
            let is_logged = logged.insert(event, &Outgoing::from(event));
            if is_logged == Logged::Missing {
                log.push(event.clone());
            }
            found.push(is_logged);
        }
        log.extend(logged.take_replaced());
        found
    }

    #[test]
    fn a_statement_that_its_source_replaced_is_published_again_once() {
        let [a, b] = ["a", "b"].map(|text| going("import", 1, text));
        let mut log = Vec::new();
        for round in 1..=3 {
            for (statement, other) in [(&a, &b), (&b, &a)] {
                import(&mut log, std::slice::from_ref(statement));
                let count = log.len();
                let last = log.last().expect("published");
                assert_eq!(last.event, statement.event, "round {round}");
                assert_ne!(last.id, other.id);
                let again = import(&mut log, std::slice::from_ref(statement));
                assert_eq!((again, log.len()), (vec![Logged::Present], count));
            }
        }
        let ids: std::collections::HashSet<_> = log.iter().map(|event| &event.id).collect();
        assert_eq!((log.len(), ids.len()), (6, 6));
    }

    #[test]
    fn an_import_that_states_a_thing_twice_and_is_repeated_or_resumed_adds_nothing() {
        let events = ["a", "b", "a", "c"].map(|text| going("import", 1, text));
        let mut log = Vec::new();
        import(&mut log, &events[..1]);
        import(&mut log, &events);
        let stated: Vec<_> = log.iter().map(|event| event.event.clone()).collect();
        assert_eq!(
            stated,
            [&events[0], &events[1], &events[3]].map(|e| e.event.clone())
        );
        assert_eq!(import(&mut log, &events), [Logged::Present; 4]);
        assert_eq!(log.len(), 3);
    }

    #[test]
    fn a_statement_with_a_later_time_or_of_another_source_stays_in_force() {
        let [early, late] = [1, 2].map(|second| going("import", second, "a"));
        let mut log = vec![early.clone(), late];
        assert_eq!(
            import(&mut log, std::slice::from_ref(&early)),
            [Logged::Present]
        );
        log.push(going("judge", 1, "b"));
        assert_eq!(
            import(&mut log, std::slice::from_ref(&early)),
            [Logged::Outdated]
        );
        assert_eq!(log.len(), 3);
    }

    /// Loads a subject with some ids, as if from the log.
    fn load(logged: &mut LoggedEvents, subject: &str, count: usize) {
        let subject_ids = LoggedSubject {
            ids: (0..count as u128).map(Uuid::from_u128).collect(),
            round: logged.round,
            ..LoggedSubject::default()
        };
        logged.subjects.insert(subject.to_owned(), subject_ids);
        logged.evict();
    }

    fn message(subject: &str) -> [Outgoing; 1] {
        [Outgoing {
            subject: subject.to_owned(),
            id: String::new(),
            payload: Vec::new(),
        }]
    }

    #[test]
    fn the_least_recently_used_subjects_are_evicted() {
        let mut logged = LoggedEvents::default();
        for subject in ["a", "b", "c"] {
            assert_eq!(logged.not_loaded(&message(subject)).len(), 1);
            load(&mut logged, subject, IDS_MAX / 4);
        }
        assert!(logged.not_loaded(&message("a")).is_empty());
        load(&mut logged, "d", IDS_MAX / 4 - 4 * SUBJECT_COST);
        assert_eq!(logged.subjects.len(), 4, "they just fit");
        logged.not_loaded(&message("e"));
        load(&mut logged, "e", 1);
        let mut left: Vec<&str> = logged.subjects.keys().map(String::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["a", "d", "e"]);
        assert_eq!(logged.not_loaded(&message("b")).len(), 1);
    }
}
