//! Railbird, an event-sourced horse racing data service.
//!
//! The crates [`events`] and [`projections`] hold the pure core. The modules of this crate connect it to NATS, HTTP,
//! WebSockets and mail. Imports run in one direction only; `tests/architecture.rs` enforces the arrows below.

/// API keys and subscriptions, folded from the stream `ACCOUNTS`. Uses `limits`, `log` and `metrics`.
pub mod accounts;
/// The composition root: builds the service from its configuration and runs it. Uses every module but `cli` and
/// `asyncapi`.
pub mod app;
/// The AsyncAPI document of the live channel and the log. Uses `live`, `log` and `projector`.
pub mod asyncapi;
/// The command line, one command per file. May use every module.
pub mod cli;
/// The racing day in the configured time zone. Uses no other module.
pub mod clock;
/// The JSON API, the pages and the WebSocket handshake, on axum. Uses every module but `app`, `cli` and `mail`.
pub mod http;
/// Plans, rate limits and network addresses. Uses no other module.
pub mod limits;
/// The live channel: encoded updates, fan-out and client sessions. Uses `accounts`, `log`, `metrics` and `shutdown`.
pub mod live;
/// The event log on NATS JetStream: connection, reader and appender. Uses no other module.
pub mod log;
/// Delivery of API keys by mail: outbox, templates and transports. Uses `accounts`, `limits`, `log`, `metrics` and
/// `shutdown`.
pub mod mail;
/// The Prometheus metrics of the service. Uses `limits`.
pub mod metrics;
/// Follows the log, folds events and commits views. Uses `live`, `log` and `metrics`.
pub mod projector;
/// The signal that ends every loop of the service. Uses no other module.
pub mod shutdown;
