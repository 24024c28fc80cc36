//! [`reload`]: what a service reads again at SIGHUP.

use tokio::task::spawn_blocking;

use super::PlansFlag;
use crate::accounts::KeyCache;
use crate::tls::TlsServer;

/// Reads the files again that a service reads at SIGHUP. One that cannot be used changes nothing.
pub(super) async fn reload(plans: &PlansFlag, keys: &KeyCache, tls: Option<&TlsServer>) {
    replace_plans(plans, keys).await;
    if let Some(tls) = tls
        && let Err(error) = tls.renew().await
    {
        let error = format!("{error:#}");
        tracing::error!(
            error,
            "the TLS certificate was not reloaded, and the one before stays in use"
        );
    }
}

async fn replace_plans(flag: &PlansFlag, keys: &KeyCache) {
    if flag.file.is_none() {
        tracing::info!(
            "SIGHUP: there is no file of plans to reload; the built-in ones stay in force"
        );
        return;
    }
    let flag = flag.clone();
    match spawn_blocking(move || flag.read()).await {
        Ok(Ok(plans)) => {
            tracing::info!(plans = plans.names(), "the plans were reloaded");
            keys.replace_plans(plans);
        }
        Ok(Err(error)) => {
            tracing::error!(%error, "the plans were not reloaded, and those before stay in force");
        }
        Err(panicked) => tracing::error!(%panicked, "the plans were not reloaded"),
    }
}
