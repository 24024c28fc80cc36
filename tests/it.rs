//! Black-box tests of the whole service against a real nats-server.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    unreachable_pub,
    reason = "a test says where it failed by panicking"
)]

#[path = "../events/tests/generators/mod.rs"]
mod generators;
mod support;

mod accounts;
mod architecture;
mod chaos;
mod cluster;
mod commands;
mod conformance;
mod documents;
mod http;
mod importers;
mod live;
mod log;
mod ops;
mod oracle;
mod pages;
mod past;
mod racing;
mod views;
