//! Three nats-servers as one log: what holds while servers and replicas end, hang and are cut off.

mod growth;
mod log;
mod quorum;
mod regions;
mod revocation;
mod servers;
mod support;
