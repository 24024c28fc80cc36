//! The views: pure folds of racing events into read models, and the store that keeps them.
//!
//! Each read model is a file: `race_card`, `race_result`, [`horse_form`], [`horse_profile`], [`meetings`],
//! `odds_board`, [`rejections`]. It renders state as the JSON that is served, without I/O, clock or errors.
//! [`Projection`] folds a batch of the log and commits the changed views with their checkpoint in one atomic batch of
//! the [`Store`]. Each event that changes a live race yields a [`LiveUpdate`]; [`RaceReplay`] makes the same updates
//! again without a store.

mod changes;
mod digest;
pub mod horse_form;
pub mod horse_profile;
pub mod json;
pub mod keys;
mod live;
mod log_history;
pub mod meetings;
mod newest;
mod odds_board;
mod official_age;
mod projection;
mod race;
mod race_card;
mod race_result;
pub mod rejections;
mod seen_ids;
mod store;
mod stored_message;
mod venue;

use schemars::JsonSchema;

use self::horse_form::FormRow;
use self::meetings::MeetingView;
use self::odds_board::{OddsBoard, OddsTick};
use self::race_card::RaceCard;
use self::race_result::{RaceResult, ResultRevision};
use self::rejections::Rejection;

pub use digest::Digest;
pub use live::{
    LiveBoard, LiveKind, LiveMessage, LiveUpdate, RaceReplay, live_schemas, open_races,
};
pub use log_history::LogHistory;
pub use projection::{BATCH_MESSAGES_MAX, Projection, Step, Tally};
pub use rejections::Announcement;
pub use store::{
    Checkpoint, LogIdentity, Recount, SCHEMA_VERSION, Store, StoreError, VIEWS_VERSION, View,
    check_free_space,
};
pub use stored_message::StoredMessage;

/// The name and the schema of every view, for the OpenAPI document. Shared definitions are added to the generator.
pub fn view_schemas(
    generator: &mut schemars::SchemaGenerator,
) -> Vec<(&'static str, schemars::Schema)> {
    vec![
        ("HorseProfile", horse_profile::schema(generator)),
        ("FormRow", FormRow::json_schema(generator)),
        ("RaceResult", RaceResult::json_schema(generator)),
        ("ResultRevision", ResultRevision::json_schema(generator)),
        ("RaceCard", RaceCard::json_schema(generator)),
        ("Meeting", MeetingView::json_schema(generator)),
        ("OddsBoard", OddsBoard::json_schema(generator)),
        ("OddsTick", OddsTick::json_schema(generator)),
        ("Rejection", Rejection::json_schema(generator)),
    ]
}
