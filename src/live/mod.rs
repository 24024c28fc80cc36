//! `/ws/live/odds`: the image of every open race, then every change in the order of the log.
//!
//! Here is the handshake. Behind it the connection goes to a shard (`shard.rs`), a thread that serves many clients; what one
//! client is sent is decided in `session.rs`, what it says is heard in `hear.rs`, and `wire.rs` reads and writes its frames.

mod batch;
mod connection;
mod connection_limits;
mod fan_out;
pub mod feed;
mod filter;
mod health;
pub(crate) mod message;
mod session;
mod shard;
pub mod status;

use std::net::TcpStream;

pub use fan_out::{FanOut, LiveContext};

use connection_limits::ConnectionPermit;
pub(crate) use filter::{Filter, FilterQuery, Kinds};
pub(crate) use message::LiveSubscription;

/// What clients say is short, all fragments together.
const MESSAGE_BYTES_MAX: usize = 16 * 1024;
/// What is read from one client before others have their turn.
const READ_BYTES_PER_TURN: usize = 16 * 1024;
/// Those who are sent away come back within this time, each at its own moment.
const RETRY_AFTER_MS: std::ops::Range<u32> = 500..5_000;

pub(crate) const TOO_MANY_CONNECTIONS: u16 = 4429;

/// What a client was sent last.
#[derive(Debug, Clone)]
pub(crate) struct Since {
    pub(crate) seq: u64,
    pub(crate) epoch: Option<String>,
}

/// A client behind its handshake.
#[derive(Debug)]
pub(crate) struct NewClient {
    pub(crate) stream: TcpStream,
    /// What came from it behind the handshake.
    pub(crate) read_ahead: Vec<u8>,
    pub(crate) subscription: LiveSubscription,
    pub(crate) since: Option<Since>,
    pub(crate) ticket: ConnectionPermit,
    /// It is to be closed at once, with this code.
    pub(crate) refused: Option<(u16, &'static str)>,
}

/// When to come back, for a client that is sent away with a code; 0 where that is of no use.
fn retry_after_ms(code: u16) -> u64 {
    match code {
        1001 | 1008 | 4408 | TOO_MANY_CONNECTIONS => {
            u64::from(RETRY_AFTER_MS.start + random(RETRY_AFTER_MS.end - RETRY_AFTER_MS.start))
        }
        _ => 0,
    }
}

/// A number below `end`. Without random numbers, all do the same.
fn random(end: u32) -> u32 {
    getrandom::u32().unwrap_or(0) % end
}

fn now() -> String {
    events::Moment::from(jiff::Timestamp::now()).to_string()
}
