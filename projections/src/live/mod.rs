//! The live channel: what each event changes for those who follow a race, and the messages that publish it.

mod kind;
pub(crate) mod message;
mod message_fields;
mod open_races;
pub(crate) mod quote;
mod race;
mod replay;
mod update;

pub use kind::LiveKind;
pub use open_races::open_races;
pub(crate) use open_races::races_open_between;
pub use quote::{LiveQuote, quote_message};
pub(crate) use race::LiveRace;
pub use replay::{REPLAY_MESSAGES_MAX, RaceReplay};
pub(crate) use replay::{render_replay_state, replay_period};
pub use update::{LiveBoard, LiveMessage, LiveUpdate};
