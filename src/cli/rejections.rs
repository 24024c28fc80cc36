//! `railbird rejections`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tokio::time::sleep;

use super::Outcome;
use super::admin::Admin;
use super::report::result;

/// How often a service is asked for more.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);

/// Which service is asked.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  railbird rejections --follow")]
pub(super) struct Rejections {
    /// The admin address of the running service.
    #[arg(long, env = "RAILBIRD_ADMIN", default_value = "127.0.0.1:9090")]
    admin: SocketAddr,
    /// Go on with those to come.
    #[arg(long)]
    follow: bool,
    /// Print each as JSON, with its payload.
    #[arg(long)]
    json: bool,
}

impl Rejections {
    pub(super) async fn run(self) -> anyhow::Result<Outcome> {
        let admin = Admin(self.admin);
        let mut after = 0;
        loop {
            let page = admin.get(&format!("/rejections?after={after}")).await?;
            let rejections = page
                .get("rejections")
                .and_then(Value::as_array)
                .map_or(&[][..], Vec::as_slice);
            for rejection in rejections {
                after = rejection
                    .get("seq")
                    .and_then(Value::as_u64)
                    .unwrap_or(after);
                self.print(rejection);
            }
            if rejections.is_empty() {
                if !self.follow {
                    return Ok(Outcome::Done);
                }
                sleep(FOLLOW_EVERY).await;
            }
        }
    }

    fn print(&self, rejection: &Value) {
        if self.json {
            return result(format_args!("{rejection}"));
        }
        let text = |name: &str| {
            rejection
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let seq = rejection
            .get("seq")
            .and_then(Value::as_u64)
            .unwrap_or_default();
        let source = text("source");
        let source = if source.is_empty() { "?" } else { &source };
        result(format_args!(
            "{seq} {} {} from {source}: {} ({})",
            text("recorded_at"),
            text("subject"),
            text("reason"),
            text("code")
        ));
    }
}
