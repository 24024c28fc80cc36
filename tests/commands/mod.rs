//! The commands of `railbird`, and the process of the service.

mod check_config;
mod diff;
mod export;
mod output;
mod reload;
mod secrets;
mod shutdown;
mod watch;
