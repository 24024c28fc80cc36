//! Files of racing data, from the import to the answers.

mod betfair;
mod rpscrape;
mod season;
mod season_facts;
mod season_zh;
