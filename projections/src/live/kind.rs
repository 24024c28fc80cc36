//! [`LiveKind`]: the kinds of messages about a race.

use serde::{Deserialize, Serialize};
use strum::VariantArray;

/// The kinds of messages of the live channel about a race, but for quotes. A variant has the name that is the value of
/// `event` in its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum LiveKind {
    /// The odds board changed.
    OddsUpdate,
    /// The status of the race changed.
    StatusUpdate,
    /// A runner was withdrawn or reinstated, or has another rider.
    RunnerUpdate,
    /// A result was declared or voided.
    ResultUpdate,
    /// Dividends were declared.
    DividendsUpdate,
    /// The card or the going changed.
    CardUpdate,
}

impl LiveKind {
    /// Every kind.
    pub const ALL: [Self; Self::VARIANTS.len()] =
        *Self::VARIANTS.first_chunk().expect("its length");

    /// The value of `event` in the messages of this kind.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}
