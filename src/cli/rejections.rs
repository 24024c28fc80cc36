//! `railbird rejections`.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::sleep;

use super::Outcome;
use super::admin::Admin;
use super::report::{line, result};

/// How often a service is asked for more.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);
/// What is looked for from the end is held in memory until all of it is found.
const LAST_MAX: i64 = 10_000;
/// The service gives no more in one answer.
const PAGE_MAX: usize = 1000;

/// Which of them, and of which service.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  railbird rejections --follow\n  railbird rejections --subject racing.odds.2026-11-21.ST --source tote --last 1000\n  railbird rejections --after 0 --json >rejections.ndjson"
)]
pub(super) struct Rejections {
    /// The admin address of the running service.
    #[arg(long, env = "RAILBIRD_ADMIN", default_value = "127.0.0.1:9090")]
    admin: SocketAddr,
    /// So many of the latest, the newest last.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(..=LAST_MAX))]
    last: u32,
    /// All behind this place in the log; 0 for all there are.
    #[arg(long, value_name = "SEQ", conflicts_with = "last")]
    after: Option<u64>,
    /// Those with this code, such as invalid_data.
    #[arg(long)]
    code: Option<String>,
    /// Those of this feeder.
    #[arg(long)]
    source: Option<String>,
    /// Those on this subject and under it, such as racing.odds.2026-11-21.
    #[arg(long)]
    subject: Option<String>,
    /// Go on with those to come. With --last 0, show those alone.
    #[arg(long)]
    follow: bool,
    /// Print each as JSON, with its payload.
    #[arg(long)]
    json: bool,
}

/// What the admin address answers.
#[derive(Deserialize)]
struct Page {
    rejections: Vec<Value>,
    next: u64,
    more: bool,
}

impl Rejections {
    pub(super) async fn run(self) -> anyhow::Result<Outcome> {
        let mut after = match self.after {
            Some(after) => after,
            None => self.show_latest().await?,
        };
        if self.after.is_none() && !self.follow {
            return Ok(Outcome::Done);
        }
        loop {
            let page = self.page("after", after, PAGE_MAX).await?;
            page.rejections.iter().for_each(|found| self.print(found));
            after = page.next;
            if page.more {
                continue;
            }
            if !self.follow {
                return Ok(Outcome::Done);
            }
            sleep(FOLLOW_EVERY).await;
        }
    }

    /// Shows the latest, and returns the place behind which others will come.
    async fn show_latest(&self) -> anyhow::Result<u64> {
        let status = Admin(self.admin).get("/status").await?;
        let now = status.pointer("/log/seq").and_then(Value::as_u64);
        let now = now.context("/status does not say how far the views are")?;
        let mut pages = Vec::new();
        let (mut wanted, mut before, mut more) = (self.last as usize, now + 1, true);
        while wanted > 0 && more {
            let page = self.page("before", before, wanted).await?;
            (before, more) = (page.next, page.more);
            wanted = wanted.saturating_sub(page.rejections.len());
            pages.push(page.rejections);
        }
        for found in pages.iter().rev().flatten() {
            self.print(found);
        }
        if more && !self.follow {
            line(format_args!(
                "there are older ones: --last N, or --after 0 for all"
            ));
        }
        Ok(now)
    }

    /// A page on one side of a place.
    async fn page(&self, side: &str, place: u64, limit: usize) -> anyhow::Result<Page> {
        let limit = limit.min(PAGE_MAX);
        let mut path = format!("/rejections?{side}={place}&limit={limit}");
        let filters = [
            ("code", &self.code),
            ("source", &self.source),
            ("subject", &self.subject),
        ];
        for (name, value) in filters {
            if let Some(value) = value {
                let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
                path.push_str(&format!("&{name}={value}"));
            }
        }
        let page = Admin(self.admin).get(&path).await?;
        Ok(serde_json::from_value(page)?)
    }

    fn print(&self, rejection: &Value) {
        if self.json {
            return result(format_args!("{rejection}"));
        }
        // What a feeder wrote may hold what a terminal obeys.
        let text = |name: &str| {
            let text = rejection.get(name).and_then(Value::as_str);
            text.unwrap_or_default()
                .replace(char::is_control, "\u{fffd}")
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
