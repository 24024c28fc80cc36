//! Hong Kong Jockey Club: cards, results and horses, as its pages have them and as others have collected them.

pub(crate) mod cards;
pub(crate) mod csv;
pub(crate) mod json;
pub(crate) mod zh_horses;
pub(crate) mod zh_results;
pub(crate) mod zh_words;
