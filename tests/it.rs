//! Black-box tests of the whole service against a real nats-server.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    unreachable_pub,
    reason = "a test says where it failed by panicking"
)]

mod support;

mod asyncapi;
mod cli;
mod contract;
mod examples;
mod faults;
mod hostile;
mod house;
mod keys;
mod limits;
mod live;
mod log;
mod oracle;
mod pain;
mod protocol;
mod season;
mod watch;
mod witness;
