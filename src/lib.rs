//! Railbird, an event-sourced horse racing data service.
//!
//! The crates [`events`] and [`projections`] hold the pure core. The modules of this crate connect it to NATS, HTTP,
//! WebSockets and mail. Imports run in one direction only, which `tests/architecture.rs` enforces:
//!
//! | module | purpose | uses |
//! |---|---|---|
//! | `atomic_file` | files that a crash leaves whole | |
//! | [`clock`] | the racing day in the configured time zone, and the time that also runs in a suspend | |
//! | [`limits`] | plans, rate limits and network addresses | |
//! | [`public_url`] | where people find the service, and which hosts are this machine | |
//! | [`shutdown`] | the signal that ends every loop of the service | |
//! | [`supervisor`] | the tasks of the service | |
//! | `task` | starts tasks, and work that blocks | |
//! | [`metrics`] | the Prometheus metrics of the service | `limits` |
//! | [`tls`] | the certificate of the public address | `metrics` |
//! | [`log`] | the event log on NATS JetStream: connection, reader, appender | `atomic_file`, `clock`, `metrics`, `public_url`, `task` |
//! | [`feed`] | the latest messages of the live channel, encoded once | `log`, `metrics` |
//! | [`accounts`] | API keys and subscriptions, folded from the stream `ACCOUNTS` | `atomic_file`, `clock`, `limits`, `log`, `metrics`, `task` |
//! | [`mail`] | mails to subscribers: outbox, templates, transports | `accounts`, `atomic_file`, `log`, `metrics`, `public_url`, `shutdown` |
//! | [`projector`] | follows the log, folds events, commits views | `atomic_file`, `clock`, `feed`, `log`, `metrics`, `task` |
//! | [`past`] | the views of some races as of an earlier message, and replays | `feed`, `log`, `task` |
//! | [`health`] | what is wrong with the service, and what that means | `accounts`, `clock`, `feed`, `log`, `projector`, `shutdown` |
//! | [`live`] | the live channel: fan-out, sessions, protocol | `accounts`, `clock`, `feed`, `health`, `limits`, `log`, `metrics`, `past`, `projector`, `shutdown`, `tls` |
//! | [`http`] | the JSON API, the pages and the WebSocket handshake, on axum | all above but `atomic_file`, `mail`, `supervisor`, `task` |
//! | [`app`] | the composition root: builds and runs the service | all above but `atomic_file`, `task` |
//! | [`cli`] | the command line, one command per file | all above but `feed`, `health`, `live`, `metrics`, `past`, `task` |

pub mod accounts;
pub mod app;
mod atomic_file;
pub mod cli;
pub mod clock;
pub mod feed;
pub mod health;
pub mod http;
pub mod limits;
pub mod live;
pub mod log;
pub mod mail;
pub mod metrics;
pub mod past;
pub mod projector;
pub mod public_url;
pub mod shutdown;
pub mod supervisor;
mod task;
pub mod tls;

/// The parsers of input from outside that are not public otherwise, for the fuzz targets.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::cli::backup::fuzzing::open_backup;
    pub use crate::http::fuzzing::parse_request;
    pub use crate::live::fuzzing::parse_message;
    pub use crate::projector::snapshots::fuzzing::{
        decode_part, decode_rows, list_snapshot, recode_rows,
    };
}
#[cfg(test)]
#[path = "../tests/documents/generate/mod.rs"]
mod documents;
#[cfg(test)]
#[path = "../tests/simulation/mod.rs"]
mod simulation;
