//! Files of the Hong Kong Jockey Club: cards, results, odds and horses, from its pages and from collections of them.

pub(crate) mod cards;
pub(crate) mod csv;
pub(crate) mod horses;
pub(crate) mod odds;
pub(crate) mod results;
pub(crate) mod zh_horses;
pub(crate) mod zh_results;

mod brand;
mod course;
mod csv_race;
mod dividends;
mod hong_kong;
mod horse_ids;
mod json;
mod zh_words;
