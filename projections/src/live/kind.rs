//! [`LiveKind`]: the kinds of messages about a race.

use serde::{Deserialize, Serialize};

/// The kinds of messages of the live channel about a race, but for quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LiveKind {
    /// The odds board changed.
    #[serde(rename = "odds_update")]
    Odds,
    /// The status of the race changed.
    #[serde(rename = "status_update")]
    Status,
    /// A runner was withdrawn or reinstated, or has another rider.
    #[serde(rename = "runner_update")]
    Runner,
    /// A result was declared or voided.
    #[serde(rename = "result_update")]
    Result,
    /// Dividends were declared.
    #[serde(rename = "dividends_update")]
    Dividends,
    /// The card or the going changed.
    #[serde(rename = "card_update")]
    Card,
}

impl LiveKind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::Odds,
        Self::Status,
        Self::Runner,
        Self::Result,
        Self::Dividends,
        Self::Card,
    ];

    /// The value of `event` in the messages of this kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Odds => "odds_update",
            Self::Status => "status_update",
            Self::Runner => "runner_update",
            Self::Result => "result_update",
            Self::Dividends => "dividends_update",
            Self::Card => "card_update",
        }
    }
}
