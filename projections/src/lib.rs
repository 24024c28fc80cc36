//! What it means now: pure folds of racing events into views, and the store that keeps them.
//!
//! A read model is a file of its own: [`race_card`], [`race_result`], [`horse_form`], [`horse_profile`],
//! [`meetings`], [`odds_board`], [`rejections`]. Each turns state into the JSON that is served, byte for byte; none
//! does I/O, reads a clock or can fail. [`Projection`] drives them over a batch of the log and commits what they
//! say, with the checkpoint that it reflects, in one atomic batch of the [`Store`]. What each event changed of what is
//! live comes out as a [`LiveUpdate`]; [`RaceReplay`] makes the same ones again without a store.

mod digest;
pub mod horse_form;
pub mod horse_profile;
pub mod json;
pub mod keys;
mod live;
mod live_message;
mod live_race;
pub mod meetings;
pub mod odds_board;
mod official_age;
mod projection;
mod race;
pub mod race_card;
pub mod race_result;
pub mod rejections;
mod seen_ids;
mod store;
mod stored_message;
mod venue;

pub use digest::Digest;
pub use live::{LiveBoard, LiveKind, LiveMessage, LiveUpdate, RaceReplay, open_races};
pub use live_message::live_schemas;
pub use official_age::Birth;
pub use projection::{BATCH_MESSAGES_MAX, Projection, Step, Tally};
pub use race::Race;
pub use rejections::Announcement;
pub use store::{Checkpoint, LogIdentity, SCHEMA_VERSION, Store, StoreError, View};
pub use stored_message::StoredMessage;
pub use venue::venue_name;

/// Names every view's schema, for the description of the HTTP interface. What they share goes to the generator.
#[must_use]
pub fn view_schemas(
    generator: &mut schemars::SchemaGenerator,
) -> Vec<(&'static str, schemars::Schema)> {
    vec![
        ("HorseProfile", horse_profile::schema(generator)),
        ("FormRow", horse_form::schema(generator)),
        ("RaceResult", race_result::schema(generator)),
        ("ResultRevision", race_result::revision_schema(generator)),
        ("RaceCard", race_card::schema(generator)),
        ("Meeting", meetings::schema(generator)),
        ("OddsBoard", odds_board::schema(generator)),
        ("OddsTick", odds_board::tick_schema(generator)),
        ("Rejection", rejections::schema(generator)),
    ]
}
