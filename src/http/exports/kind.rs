//! [`ExportKind`]: what a file is about.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumIter, EnumString, VariantNames};

use crate::http::formats::{FORM, RACES, RowLists};

const QUOTES: RowLists = &[&["history"], &["runners"]];
const DIVIDENDS: RowLists = &[&["dividends"]];

/// What files are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(Display, EnumIter, EnumString, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum ExportKind {
    /// A row for each runner in a result.
    Results,
    /// A row for each runner on a card.
    Racecards,
    /// A row for each quote and runner in it.
    Odds,
    /// A row for each line of a race's dividends.
    Dividends,
    /// The runs of the meetings, as the forms of the horses have them.
    Form,
}

impl ExportKind {
    /// The path of an answer that has such rows, as the OpenAPI document names it, and its lists.
    pub(super) fn source(self) -> (&'static str, RowLists) {
        match self {
            Self::Results => ("/api/v1/results", RACES),
            Self::Racecards => ("/api/v1/racecards", RACES),
            Self::Odds => ("/api/v1/odds/{date}/{race_number}/history", QUOTES),
            Self::Dividends => ("/api/v1/results/{date}/{race_number}/dividends", DIVIDENDS),
            Self::Form => ("/api/v1/horses/{horse_no}/form", FORM),
        }
    }
}
