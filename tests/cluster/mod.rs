//! Three nats-servers as one log: what holds while servers and replicas end, hang and are cut off.

mod balancer;
mod faults;
mod feeders;
mod gets;
mod growth;
mod log;
mod quorum;
mod regions;
mod replica;
mod revocation;
mod servers;
mod stored;
mod support;
mod views;
