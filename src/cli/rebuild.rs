//! `railbird rebuild`.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;
use serde_json::Value;
use tokio::time::sleep;

use super::Outcome;
use super::admin::Admin;
use super::report::{Progress, result};

/// How often a service is asked how far it is.
const POLL_EVERY: Duration = Duration::from_millis(200);

/// Which service is told.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  railbird rebuild --admin 127.0.0.1:9090")]
pub(super) struct Rebuild {
    /// The admin address of the running service.
    #[arg(long, env = "RAILBIRD_ADMIN", default_value = "127.0.0.1:9090")]
    admin: SocketAddr,
}

impl Rebuild {
    pub(super) async fn run(self) -> anyhow::Result<Outcome> {
        let (admin, began) = (Admin(self.admin), Instant::now());
        let status = admin.get("/status").await?;
        let before = count(&status);
        let total = status
            .pointer("/log/seq")
            .and_then(Value::as_u64)
            .unwrap_or(0);
        admin.post("/rebuild").await?;
        let mut progress = Progress::new("rebuilding", total);
        loop {
            sleep(POLL_EVERY).await;
            let status = admin.get("/status").await?;
            if let Some(seq) = status.pointer("/rebuild/seq").and_then(Value::as_u64) {
                progress.set(seq);
            } else if count(&status) > before {
                break;
            } else if status.pointer("/rebuild").is_some_and(Value::is_null)
                && began.elapsed() > POLL_EVERY * 10
            {
                bail!(
                    "the rebuild failed, and the live views stay in force; the service's log says why"
                );
            }
        }
        drop(progress);
        result(format_args!(
            "rebuilt {total} events in {:.1} s; the new views are in force",
            began.elapsed().as_secs_f64()
        ));
        Ok(Outcome::Done)
    }
}

fn count(status: &Value) -> u64 {
    status.get("rebuilds").and_then(Value::as_u64).unwrap_or(0)
}
