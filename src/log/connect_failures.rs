//! [`ConnectAttempts`]: logs why NATS cannot be reached, once for each reason.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::{ConnectErrorKind, ConnectOptions, Server, ServerAddr};
use tokio::time::timeout;

use super::address::{NatsAddress, host_and_port};

/// A server that answers does so in less, also on another continent. An operator who starts a service looks at its
/// log for about as long.
const NO_ANSWER_AFTER: Duration = Duration::from_secs(1);
/// The text of the client library for an attempt without an answer.
const TIMED_OUT: &str = "timed out";
const UNRESOLVED: &str = "the host name cannot be resolved";

/// Reasons that are remembered: more than the servers of a cluster have. A server could announce others without end.
const REASONS_MAX: usize = 64;

/// The attempts of one connection.
#[derive(Debug, Clone)]
pub(super) struct ConnectAttempts {
    address: Arc<NatsAddress>,
    /// Whether an attempt was made since the connection was last up.
    tried: Arc<AtomicBool>,
}

impl ConnectAttempts {
    pub(super) fn new(address: Arc<NatsAddress>) -> Self {
        let tried = Arc::default();
        Self { address, tried }
    }

    /// Logs a reason, unless it was logged since a connection was last up.
    fn log(&self, reasons: BTreeSet<String>) {
        let reason = Vec::from_iter(reasons).join("; ");
        let mut logged = self.address.failures.lock();
        if logged.contains(&reason) {
            return;
        }
        let names = |kind: ConnectErrorKind| reason.contains(&kind.to_string());
        let is_denied = names(ConnectErrorKind::AuthorizationViolation);
        if is_denied || names(ConnectErrorKind::Authentication) {
            tracing::error!(
                login = self.address.login(),
                reason,
                "NATS rejects the login; check the user and password in --nats, or the file of --nats-creds, against \
                 the configuration of nats-server; trying again"
            );
        } else {
            let unreachable = "NATS cannot be reached; trying again until it answers";
            tracing::warn!(reason, "{unreachable}");
        }
        if logged.len() >= REASONS_MAX {
            logged.clear();
        }
        logged.insert(reason);
    }

    /// Has the client library report each attempt.
    pub(super) fn observe(&self, options: ConnectOptions) -> ConnectOptions {
        let attempts = self.clone();
        options.reconnect_to_server_callback(move |servers, _| {
            attempts.begin(&servers);
            // The library chooses the server.
            std::future::ready(None)
        })
    }

    /// An attempt begins, with what became of earlier ones. The servers are tried one after the other in each.
    fn begin(&self, servers: &[Server]) {
        if !self.tried.swap(true, Ordering::Relaxed) {
            // The errors are those of an earlier loss of the connection.
            return;
        }
        let failed = servers.iter();
        let failed = failed.filter_map(|of| Some(reason(&of.addr, of.last_error.as_deref()?)));
        let mut failed: BTreeSet<_> = failed.collect();
        if failed.is_empty() {
            // The library notes no error of DNS.
            let unresolved = servers.iter().map(|of| reason(&of.addr, UNRESOLVED));
            failed = unresolved.collect();
        }
        self.log(failed);
    }

    pub(super) fn succeeded(&self) {
        self.tried.store(false, Ordering::Relaxed);
        self.address.failures.lock().clear();
    }

    /// Logs that the first attempt takes long: the library reports it only once it has failed.
    pub(super) async fn watch_first(self, connected: impl Future) {
        let is_late = timeout(NO_ANSWER_AFTER, connected).await.is_err();
        if is_late && self.address.failures.lock().is_empty() {
            let late = self.address.servers.iter().map(|of| reason(of, TIMED_OUT));
            self.log(late.collect());
        }
    }
}

fn reason(server: &ServerAddr, error: &str) -> String {
    format!("{}: {error}", host_and_port(server))
}
