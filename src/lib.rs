//! Railbird, an event-sourced horse racing data service.
//!
//! The crates [`events`] and [`projections`] hold the pure core. The modules of this crate connect it to NATS, HTTP,
//! WebSockets and mail. Imports run in one direction only, which `tests/architecture.rs` enforces:
//!
//! | module | purpose | may use |
//! |---|---|---|
//! | [`accounts`] | API keys and subscriptions, folded from the stream `ACCOUNTS` | `limits`, `log`, `metrics` |
//! | [`app`] | the composition root: builds and runs the service | all but `cli`, `asyncapi` |
//! | [`asyncapi`] | the AsyncAPI document of the live channel and the log | `json_schema`, `live`, `log`, `projector` |
//! | [`cli`] | the command line, one command per file | all |
//! | [`clock`] | the racing day in the configured time zone | none |
//! | [`http`] | the JSON API, the pages and the WebSocket handshake, on axum | all but `app`, `cli`, `mail` |
//! | `json_schema` | the schemas in the OpenAPI and the AsyncAPI document | none |
//! | [`limits`] | plans, rate limits and network addresses | none |
//! | [`live`] | the live channel: encoded updates, fan-out, sessions | `accounts`, `log`, `metrics`, `shutdown` |
//! | [`log`] | the event log on NATS JetStream: connection, reader, appender | none |
//! | [`mail`] | mails to subscribers: outbox, templates, transports | `accounts`, `log`, `metrics`, `public_url`, `shutdown` |
//! | [`metrics`] | the Prometheus metrics of the service | `limits` |
//! | [`projector`] | follows the log, folds events, commits views | `live`, `log`, `metrics` |
//! | [`public_url`] | where people find the service | none |
//! | [`shutdown`] | the signal that ends every loop of the service | none |

pub mod accounts;
pub mod app;
pub mod asyncapi;
pub mod cli;
pub mod clock;
pub mod http;
mod json_schema;
pub mod limits;
pub mod live;
pub mod log;
pub mod mail;
pub mod metrics;
pub mod projector;
pub mod public_url;
pub mod shutdown;
pub mod supervisor;
pub mod tls;
