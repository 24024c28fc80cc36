//! Clients of the live channel that note all they hear, and a judge who knows every event of the log.
//!
//! Tests and `bench/run pain` share it. Nothing here uses the service's folds, feed or messages: [`oracle`] works out from the
//! events and docs/live-odds.md alone what has to be said, [`client`] does what the docs tell a client to do, and [`judge`]
//! holds the one against the other.
#![allow(dead_code, reason = "tests and bench use different parts")]

pub(crate) mod afternoon;
pub(crate) mod chance;
pub(crate) mod client;
pub(crate) mod feeder;
pub(crate) mod judge;
pub(crate) mod oracle;
pub(crate) mod pack;
