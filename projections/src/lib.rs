//! The views: pure folds of racing events into read models, and the store that keeps them.
//!
//! Each read model is a file: `race_card`, `race_result`, `race_dividends`, [`horse_form`], [`horse_profile`],
//! [`meetings`], `odds_board`, [`odds_history`], `odds_sources`, [`rejections`], [`rides`]. It renders state as the
//! JSON that is served, without I/O, clock or errors. [`Projection`] folds a batch of the log and commits the changed
//! views with their checkpoint in one atomic batch of the [`Store`]. Each event that changes a live race yields a
//! [`LiveUpdate`]; [`RaceReplay`] makes the latest of them again.

mod conditions;
mod digest;
mod effect;
pub mod horse_form;
pub mod horse_profile;
pub mod json;
pub mod keys;
mod live;
mod log_clock;
mod log_history;
mod markets;
pub mod meetings;
mod newest;
mod odds_board;
pub mod odds_history;
mod odds_sources;
mod official_age;
mod pending_writes;
mod pools;
mod projection;
mod quotes;
mod race;
mod race_card;
mod race_dividends;
mod race_result;
pub mod rejections;
pub mod rides;
#[cfg(feature = "schemas")]
#[path = "../tests/schemas/mod.rs"]
pub mod schemas;
#[cfg(feature = "simulation")]
#[path = "../tests/simulated/mod.rs"]
pub mod simulated;
mod source_rankings;
mod statements;
mod store;
mod stored_message;
mod translation;
mod venue;

pub use digest::Digest;
pub use live::{
    LiveBoard, LiveKind, LiveMessage, LiveQuote, LiveUpdate, REPLAY_MESSAGES_MAX, RaceReplay,
    open_races, quote_message,
};
pub use log_clock::{ClockStep, LogClock};
pub use log_history::LogHistory;
pub use markets::MarketKey;
pub use odds_sources::{board_of_source, last_quoted_at, odds_market, odds_sources};
pub use projection::{BATCH_MESSAGES_MAX, Projection, SourceActivity, Step, Tally};
pub use quotes::PriceLine;
pub use race_dividends::pending as pending_dividends;
pub use rejections::Announcement;
pub use source_rankings::SourceRankings;
pub use store::{
    Checkpoint, LogIdentity, Recount, Row, SCHEMA_VERSION, Store, StoreError, StoreImport,
    StoredRow, VIEWS_VERSION, View, check_free_space, free_bytes,
};
pub use stored_message::StoredMessage;
pub use translation::Translation;
