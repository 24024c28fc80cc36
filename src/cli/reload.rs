//! [`Reload`]: what a service reads again at SIGHUP.

use std::sync::Arc;

use tokio::task::spawn_blocking;

use super::PlansFlag;
use crate::accounts::KeyCache;
use crate::tls::TlsServer;

/// The files that a service reads again at SIGHUP. One that cannot be used changes nothing.
#[derive(Debug)]
pub(super) struct Reload {
    pub(super) plans: PlansFlag,
    pub(super) keys: Arc<KeyCache>,
    pub(super) tls: Option<TlsServer>,
}

impl Reload {
    pub(super) async fn run(&self) {
        self.replace_plans().await;
        if let Some(tls) = &self.tls
            && let Err(error) = tls.renew().await
        {
            tracing::error!(%error, "the TLS certificate was not reloaded, and the one before stays in use");
        }
    }

    async fn replace_plans(&self) {
        if self.plans.file.is_none() {
            tracing::info!(
                "SIGHUP: there is no file of plans to reload; the built-in ones stay in force"
            );
            return;
        }
        let flag = self.plans.clone();
        match spawn_blocking(move || flag.read()).await {
            Ok(Ok(plans)) => {
                tracing::info!(plans = plans.names(), "the plans were reloaded");
                self.keys.replace_plans(plans);
            }
            Ok(Err(error)) => {
                tracing::error!(%error, "the plans were not reloaded, and those before stay in force");
            }
            Err(panicked) => tracing::error!(%panicked, "the plans were not reloaded"),
        }
    }
}
