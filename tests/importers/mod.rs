//! Files of racing data, from the import to the answers.

mod betfair;
mod hkjc_odds;
mod rpscrape;
mod season;
mod season_facts;
mod season_zh;
