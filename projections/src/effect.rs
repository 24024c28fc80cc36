//! [`Effect`]: what an event did to a race.

/// What an event did to a race.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// None, and no state changed: the event was applied before.
    Repeated,
    /// None, and no state changed: the event is older than the fact in force.
    Stale,
    /// None, but the event will be recognised if it is repeated.
    Unchanged,
    /// The facts in force changed.
    Changed,
    /// The event is the `index`th statement of the result or the dividends, from 0. It is in force, or stale.
    Stated { index: u32, in_force: bool },
}

impl Effect {
    /// Whether the event is older than the fact in force.
    pub(crate) fn is_stale(self) -> bool {
        match self {
            Self::Stated { in_force, .. } => !in_force,
            other => other == Self::Stale,
        }
    }
}
