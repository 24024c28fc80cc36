//! Importers: read files that people already have as racing events.
//!
//! An importer publishes nothing, and it never stops at bad input: it returns [`Item::Rejected`] with file and line,
//! and goes on. The same files give the same events with the same ids, so importing twice changes nothing.

mod betfair;
mod hkjc;
mod input;
mod item;
mod placing;
mod rpscrape;
#[cfg(test)]
mod testing;
mod units;
mod venue_code;

pub use betfair::BetfairStream;
pub use hkjc::cards::hkjc_cards;
pub use hkjc::horses::horses_csv;
pub use hkjc::odds::hkjc_odds;
pub use hkjc::results::hkjc_results;
pub use hkjc::zh_horses::hkjc_zh_horses;
pub use hkjc::zh_results::hkjc_zh_results;
pub use item::{Diagnostic, Item, Items, Omitted};
pub use rpscrape::rpscrape;
