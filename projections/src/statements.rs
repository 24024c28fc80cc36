//! [`Statements`]: the statements of one thing about a race that is stated in revisions, such as its result.

use events::{
    DividendStatus, DividendsDeclared, Moment, Recorded, ResultDeclared, ResultStatus, ResultVoided,
};
use serde::{Deserialize, Serialize};

use crate::effect::Effect;
use crate::json;
use crate::newest::{Newest, Order, identity};

/// A race has a few statements of its result. One of an earlier revision that is repeated after this many others is
/// listed again among the revisions, as stale.
const STATEMENT_IDS_MAX: usize = 16;

/// A statement that another one with a higher revision replaces.
pub(crate) trait Revised: Clone + PartialEq {
    fn revision(&self) -> u32;
    fn is_official(&self) -> bool;
}

/// The statement in force, and the order of those before it. The one with the highest revision is in force, of equals
/// the latest one. Its time does not matter, only whether it is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Statements<T> {
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub(crate) in_force: Option<T>,
    /// When the log stored the latest statement that replaced an official one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) amended_at: Option<Moment>,
    /// The statements of the revision in force.
    #[serde(default, skip_serializing_if = "json::is_default")]
    of_revision: Newest,
    /// The latest statements of any revision.
    #[serde(default, skip_serializing_if = "json::is_default")]
    seen: Vec<u64>,
    #[serde(default, skip_serializing_if = "json::is_default")]
    count: u32,
}

impl<T> Default for Statements<T> {
    fn default() -> Self {
        Self {
            in_force: None,
            amended_at: None,
            of_revision: Newest::default(),
            seen: Vec::new(),
            count: 0,
        }
    }
}

impl<T: Revised> Statements<T> {
    /// Adds a statement.
    pub(crate) fn state(&mut self, recorded: &Recorded, statement: &T) -> Effect {
        let identity = identity(&recorded.envelope);
        if self.seen.contains(&identity) {
            return Effect::Repeated;
        }
        if self.seen.len() == STATEMENT_IDS_MAX {
            self.seen.remove(0);
        }
        self.seen.push(identity);
        let current = self.in_force.as_ref().map(T::revision);
        let revision = Some(statement.revision());
        if revision > current {
            self.of_revision = Newest::default();
        }
        let in_force = revision >= current
            && match self.of_revision.take_untimed(recorded, identity) {
                Order::New => true,
                Order::Repeated => return Effect::Repeated,
                Order::Stale => false,
            };
        if self.in_force.as_ref() == Some(statement) {
            return Effect::Unchanged;
        }
        let index = self.count;
        self.count += 1;
        if in_force {
            let replaced = self.in_force.replace(statement.clone());
            if replaced.as_ref().is_some_and(T::is_official) || self.amended_at.is_some() {
                self.amended_at = Some(recorded.recorded_at);
            }
        }
        Effect::Stated { index, in_force }
    }
}

/// A statement of the result of a race.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ResultStatement {
    Declared(Box<ResultDeclared>),
    Voided(ResultVoided),
}

impl Revised for ResultStatement {
    fn revision(&self) -> u32 {
        match self {
            Self::Declared(result) => result.revision,
            Self::Voided(void) => void.revision,
        }
    }

    fn is_official(&self) -> bool {
        matches!(self, Self::Declared(result) if result.status == ResultStatus::Official)
    }
}

impl Revised for DividendsDeclared {
    fn revision(&self) -> u32 {
        self.revision
    }

    fn is_official(&self) -> bool {
        self.status != DividendStatus::Provisional
    }
}
