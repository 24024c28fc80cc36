//! The commands of `railbird`, and the process of the service.

mod check_config;
mod output;
mod reload;
mod secrets;
mod shutdown;
mod watch;
