//! Black-box tests of the whole service against a real nats-server.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    unreachable_pub,
    reason = "a test says where it failed by panicking"
)]

mod support;

mod cli;
mod contract;
mod faults;
mod house;
mod limits;
mod live;
mod log;
mod oracle;
mod pain;
mod season;
mod witness;
