//! [`SourceStatement`]: an event that replaces the earlier ones of its source about the same thing.

use events::{Envelope, Event, HorseNo};
use uuid::Uuid;

/// An event that replaces the earlier ones of its source about the same thing, as the folds have it: a card, a status,
/// a result, dividends, the withdrawal of a horse. A quote is none: the log has each of them.
#[derive(Debug, Clone)]
pub(super) struct SourceStatement {
    /// What it is about, within its subject.
    pub(super) topic: String,
    pub(super) source: String,
    /// The id that an import derives from its content.
    content: String,
    message_id: Uuid,
    /// It replaces no statement with a higher rank: a revision, else the time.
    rank: i64,
}

impl SourceStatement {
    pub(super) fn of(event: &Envelope) -> Option<Self> {
        let of_horse = |topic: &str, horse_no: &HorseNo| format!("{topic} of {horse_no}");
        let time = event.time.microseconds();
        let (topic, rank) = match &event.event {
            Event::OddsQuoted(_) | Event::MarketQuoted(_) | Event::PoolInvested(_) => return None,
            Event::ResultDeclared(fact) => ("result".to_owned(), i64::from(fact.revision)),
            Event::ResultVoided(fact) => ("result".to_owned(), i64::from(fact.revision)),
            Event::DividendsDeclared(fact) => ("dividends".to_owned(), i64::from(fact.revision)),
            Event::RunnerWithdrawn(fact) => (of_horse("withdrawal", &fact.horse_no), time),
            Event::RunnerReinstated(fact) => (of_horse("withdrawal", &fact.horse_no), time),
            Event::RiderChanged(fact) => (of_horse("rider", &fact.horse_no), time),
            other => (other.type_name().to_owned(), time),
        };
        let content = Envelope::derived(&event.source, event.time, event.event.clone()).ok()?;
        Some(Self {
            topic,
            source: event.source.clone(),
            content: content.id,
            message_id: event.message_id(),
            rank,
        })
    }

    /// Whether another statement is of the same source about the same thing.
    fn is_rival(&self, other: &Self) -> bool {
        self.topic == other.topic && self.source == other.source
    }
}

/// The last statement of each source about each thing on a subject, in the order of the log.
#[derive(Debug, Default)]
pub(super) struct SourceStatements(pub(super) Vec<SourceStatement>);

/// A statement that the log has, among those after it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is the last one, or its source has replaced it for good.
    Kept,
    /// Its source has replaced it. It is in force again under this id, which is that of every repetition after the
    /// same statement.
    Replaced(Uuid),
    /// Another source has a later one.
    Outdated,
}

impl SourceStatements {
    /// Adds the next statement of the log.
    pub(super) fn add(&mut self, statement: SourceStatement) {
        let rival = self.0.iter().position(|s| s.is_rival(&statement));
        match rival {
            Some(rival) if self.0[rival].rank > statement.rank => return,
            Some(rival) => drop(self.0.remove(rival)),
            None => {}
        }
        self.0.push(statement);
    }

    pub(super) fn standing(&self, statement: &SourceStatement) -> Standing {
        let last = self.0.iter().rfind(|s| s.topic == statement.topic);
        let own = self.0.iter().find(|s| s.is_rival(statement));
        match own {
            Some(own) if own.content != statement.content && own.rank <= statement.rank => {
                let again = Uuid::new_v5(&statement.message_id, own.message_id.as_bytes());
                Standing::Replaced(again)
            }
            _ if last.is_some_and(|last| last.source != statement.source) => Standing::Outdated,
            _ => Standing::Kept,
        }
    }
}
