//! The HTTP servers: the contract, limits, TLS, metrics and the admin address.

mod access_log;
mod admin;
mod changes;
pub(crate) mod contract;
mod exports;
mod formats;
mod long_lists;
mod metrics;
mod names;
mod open_paths;
mod origins;
mod slow_clients;
mod tls;
