//! A synthetic race day: two meetings on one date, with everything that can happen on one.
//!
//! A racecourse, a tote, a bookmaker and an exchange publish it. The tote pays dividends from the stakes in its pools.
//!
//! Pure: the same [`RaceDay`] at the same [`Pace`] makes the same events, to the byte. Horses and people are invented.
//! A horse keeps its number, name and people from one date of a venue to the next.

mod betting;
mod card;
mod day;
mod finish;
mod fixed_odds;
mod ladder;
mod meeting;
mod pool;
mod race_script;
mod rng;
mod script;
mod source;
#[cfg(test)]
mod tests;
mod tote;
mod twists;
mod units;
mod words;

pub use day::{Pace, RACES_MAX, RaceDay, VENUES};
pub use script::script;
pub use source::publish_at;
