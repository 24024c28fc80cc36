#![doc = include_str!("../README.md")]

mod error;
mod live_odds;
pub mod message;
mod position;
mod sequences;
mod service_url;

pub use error::{InvalidKey, LiveOddsError};
pub use live_odds::{Event, LiveOdds};
pub use message::{Message, Play};
pub use sequences::Gap;
pub use service_url::{InvalidServiceUrl, ServiceUrl};
