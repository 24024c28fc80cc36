//! Clients of the live channel that record all they receive, and a checker that knows every event of the log.
//!
//! The tests and `bench/run faults` share it. It uses nothing of the service's folds, feed or messages: [`oracle`]
//! derives the expected messages from the events and docs/live-odds.md alone, [`client`] does what the docs tell a
//! client to do, and [`checker`] compares the two.
#![allow(dead_code, reason = "tests and bench use different parts")]

pub(crate) mod checker;
pub(crate) mod client;
pub(crate) mod clients;
pub(crate) mod oracle;
pub(crate) mod publisher;
pub(crate) mod rng;
pub(crate) mod scenario;
