//! The content of each read model after given facts.

#[path = "../common/mod.rs"]
mod common;

mod clocks;
mod horse_form;
mod horse_profile;
mod live;
mod markets;
mod meetings;
mod names;
mod odds_board;
mod odds_sources;
mod pools;
mod projection;
mod race_card;
mod race_dividends;
mod race_result;
mod rejections;
mod rides;
