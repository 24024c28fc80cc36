//! The fixtures of the tests: a nats-server for each test, services, clients, and events.

mod binary;
mod browser;
mod cable;
mod cluster;
mod example;
mod facts;
mod http;
mod nats;
mod page;
mod process;
mod program;
mod raw;
mod relay;
pub(crate) mod scripted;
mod scripted_nats;
mod service;
mod smtp;
mod tls;

pub(crate) use binary::*;
pub(crate) use browser::*;
pub(crate) use cable::*;
pub(crate) use cluster::*;
pub(crate) use example::*;
pub(crate) use facts::*;
pub(crate) use http::*;
pub(crate) use nats::*;
pub(crate) use page::*;
pub(crate) use process::*;
pub(crate) use program::*;
pub(crate) use raw::*;
pub(crate) use relay::*;
pub(crate) use scripted_nats::*;
pub(crate) use service::*;
pub(crate) use smtp::*;
pub(crate) use tls::*;

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

/// The timeout of every wait. Nothing takes this long unless it is broken, on a machine with other work to do neither.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// JetStream for a client, which waits for each answer with patience. By default it gives up after 5 seconds.
pub(crate) fn patient_jetstream(client: async_nats::Client) -> async_nats::jetstream::Context {
    let mut context = async_nats::jetstream::new(client);
    context.set_timeout(PATIENCE);
    context
}

/// Waits until a condition holds. Panics with its description if it never does.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, holds: impl FnMut() -> F) {
    let held = holds_in_time(holds, || false).await;
    assert!(held, "timed out waiting until {what}");
}

/// Whether a condition holds within [`PATIENCE`], and not only after it has become hopeless.
async fn holds_in_time<F: Future<Output = bool>>(
    mut holds: impl FnMut() -> F,
    mut is_hopeless: impl FnMut() -> bool,
) -> bool {
    let until = std::time::Instant::now() + PATIENCE;
    loop {
        let is_last = is_hopeless() || std::time::Instant::now() >= until;
        if holds().await {
            return true;
        }
        if is_last {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The folder of real racing data. Prints a note and returns `None` without it: no licence permits to keep it in this
/// repository.
pub(crate) fn real_data() -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    let folder = std::env::var_os("RAILBIRD_DATA").map_or(beside, PathBuf::from);
    if folder.join("hkjc_en_json").is_dir() {
        return Some(folder);
    }
    eprintln!(
        "SKIPPED: there is no real racing data at {}; RAILBIRD_DATA names the folder",
        folder.display()
    );
    None
}
