//! The log: what feeders, operators and the service write and read, and what they may not.

mod append_and_read;
mod backup;
mod example_feeders;
mod faults;
mod feeding_guide;
mod full_server;
mod histories;
mod identity;
mod leases;
mod nats_errors;
pub(crate) mod rejections;
mod rights;
mod status;
mod unreadable_messages;
