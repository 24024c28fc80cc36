//! Files of racing data, from the import to the answers.

mod betfair;
mod hkjc_odds;
mod rpscrape;
pub(crate) mod season;
mod season_facts;
mod season_zh;
