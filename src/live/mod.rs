//! The live channel, `/ws/live/odds`: the image of every open race, then every change in the order of the log.
//!
//! - `fan_out`, `shard`, `followers`, `batch`: spread clients over threads, and deliver new messages to them.
//! - `session`, `connection`, `quota`: one client, with its position, timers and requests; its frames; its limits.
//! - `subscription`, `filter`, `request`, `server_message`, `close_reason`: the protocol.
//! - `context`, `new_client`, `connection_limits`: what surrounds the clients.
//!
//! The handshake is in `http`.

mod batch;
mod close_reason;
mod connection;
mod connection_limits;
mod context;
#[cfg(test)]
#[path = "../../tests/documents/generate/asyncapi/live.rs"]
pub(crate) mod documents;
mod fan_out;
mod filter;
mod followers;
#[cfg(feature = "fuzzing")]
#[path = "../../tests/fuzz/doors/live.rs"]
pub(crate) mod fuzzing;
mod new_client;
mod quota;
mod request;
mod server_message;
mod session;
mod shard;
mod subscription;

pub(crate) use close_reason::CloseReason;
pub(crate) use connection_limits::ConnectionRefused;
pub use context::LiveContext;
pub use fan_out::FanOut;

pub(crate) use filter::{Filter, Kinds, markets, values_of};
pub(crate) use new_client::{NewClient, NewConnection};
pub(crate) use request::unknown_name;
pub(crate) use subscription::{LiveSubscription, ResumePoint};
