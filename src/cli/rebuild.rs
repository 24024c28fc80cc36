//! `railbird rebuild`.

use std::time::{Duration, Instant};

use anyhow::bail;
use serde_json::Value;
use tokio::time::sleep;

use super::admin::AdminClient;
use super::report::{Progress, result};

const POLL_EVERY: Duration = Duration::from_millis(200);
/// A rebuild shows up in the status within this time, or has failed.
const START_TIMEOUT: Duration = Duration::from_secs(2);

/// Has a running service rebuild its views, and waits until the new ones are in force.
pub(super) async fn rebuild(admin: &AdminClient) -> anyhow::Result<()> {
    let began = Instant::now();
    let status = admin.get("/status").await?;
    let rebuilds = |status: &Value| status["rebuilds"].as_u64().unwrap_or(0);
    let before = rebuilds(&status);
    let total = status["log"]["seq"].as_u64().unwrap_or(0);
    admin.post("/rebuild").await?;
    let mut progress = Progress::new("rebuilding", total);
    loop {
        sleep(POLL_EVERY).await;
        let status = admin.get("/status").await?;
        if let Some(seq) = status["rebuild"]["seq"].as_u64() {
            progress.set(seq);
        } else if rebuilds(&status) > before {
            break;
        } else if began.elapsed() > START_TIMEOUT {
            bail!("the rebuild failed and the live views stay in force; see the service's log");
        }
    }
    drop(progress);
    let seconds = began.elapsed().as_secs_f64();
    result(format_args!(
        "rebuilt {total} events in {seconds:.1} s; the new views are in force"
    ));
    Ok(())
}
