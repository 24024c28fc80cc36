//! The durability check: whether the server syncs every write before it acknowledges it.

use serde_json::Value;
use tokio::time::timeout;

use super::connection::{Log, REQUEST_TIMEOUT};

impl Log {
    /// Whether the server syncs every write to disk before it acknowledges it; `None` if this user may not read the
    /// server's configuration, or no server answers.
    pub async fn syncs_always(&self) -> Option<bool> {
        let request = self.client.request("$SYS.REQ.SERVER.PING.VARZ", "".into());
        let answer = timeout(REQUEST_TIMEOUT, request).await.ok()?.ok()?;
        let varz: Value = serde_json::from_slice(&answer.payload).ok()?;
        let config = varz.pointer("/data/jetstream/config")?;
        // The server leaves the field out where it is false.
        Some(config["sync_always"].as_bool().unwrap_or(false))
    }
}
