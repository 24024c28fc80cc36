//! Facts about sources.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::require;
use crate::{DecodeError, Text};

/// The largest number of sources that are ranked, and of those whose prices of a race are kept. A race has a tote, a
/// few bookmakers and exchanges.
pub const SOURCES_MAX: usize = 16;

/// An operator's ranking of sources, which replaces the one before. The board of a race is that of the source that
/// ranks highest of those that have quoted it. A ranking counts for a race from its next quote on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SourcesRanked {
    /// The sources, the highest first, at most 16. Others rank below them, in the order of their first quotes.
    #[schemars(length(max = 16))]
    pub sources: Vec<Text>,
}

impl SourcesRanked {
    pub(crate) fn check(&self) -> Result<(), DecodeError> {
        let count = self.sources.len();
        let reason = || format!("{count} sources, at most {SOURCES_MAX} are ranked");
        require(count <= SOURCES_MAX, || "data.sources", reason)
    }
}
