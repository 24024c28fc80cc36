//! `railbird rejections`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};
use events::Envelope;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::sleep;

use super::Nats;
use super::admin::AdminClient;
use super::report::{Progress, Summary, line, result};
use crate::log::{Log, Outgoing, RACING};

/// Interval between requests for new rejections.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);
/// Maximum of `--last`: the latest rejections are held in memory until all of them are found.
const LAST_MAX: i64 = 10_000;
/// Maximum number of rejections in one answer of the service.
const PAGE_MAX: usize = 1000;

#[derive(Debug, Args)]
pub(super) struct Rejections {
    #[command(flatten)]
    admin: AdminClient,
    /// Number of latest rejections to show, at most 10000; the newest comes last.
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u32).range(..=LAST_MAX))]
    last: u32,
    /// Show all rejections after this log sequence; 0 shows all that are kept.
    #[arg(long, value_name = "SEQ", conflicts_with = "last")]
    after: Option<u64>,
    /// Show only rejections with this code, such as invalid_data.
    #[arg(long)]
    code: Option<String>,
    /// Show only rejections of this feeder.
    #[arg(long)]
    source: Option<String>,
    /// Show only rejections on this subject and below it, such as racing.odds.2026-11-21.
    #[arg(long)]
    subject: Option<String>,
    /// Keep running and show new rejections; with --last 0 only new ones.
    #[arg(long)]
    follow: bool,
    /// Print each rejection as a JSON object, with its payload.
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Option<RejectionsCommand>,
}

#[derive(Debug, Subcommand)]
enum RejectionsCommand {
    /// Read rejected events again, and publish those that are valid by now, with their ids.
    ///
    /// Without --after it reads all that are kept. Use it after an upgrade.
    Retry {
        #[command(flatten)]
        nats: Nats,
    },
}

/// An answer of `GET /rejections`.
#[derive(Deserialize)]
struct RejectionPage {
    rejections: Vec<Value>,
    next: u64,
    more: bool,
}

impl Rejections {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(RejectionsCommand::Retry { nats }) = &self.command {
            return self.retry(&nats.connect().await?).await;
        }
        let (mut after, mut more) = match self.after {
            Some(after) => (after, true),
            None => (self.print_latest().await?, false),
        };
        while more || self.follow {
            let page = self.page("after", after, PAGE_MAX).await?;
            for rejection in &page.rejections {
                self.print(rejection);
            }
            (after, more) = (page.next, page.more);
            if !more && self.follow {
                sleep(FOLLOW_EVERY).await;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Publishes the rejected events that are valid by now.
    async fn retry(&self, log: &Log) -> anyhow::Result<ExitCode> {
        let mut appender = log.appender();
        let mut summary = Summary::default();
        let mut progress = Progress::new("reading rejections", 0);
        let (mut after, mut more) = (self.after.unwrap_or(0), true);
        while more {
            let page = self.page("after", after, PAGE_MAX).await?;
            for rejection in &page.rejections {
                let seq = rejection["seq"].as_u64().unwrap_or_default();
                summary.read += 1;
                match valid_by_now(log, seq).await? {
                    Ok(outgoing) => appender.append(outgoing).await?,
                    Err(reason) => summary.reject(format!("{seq}: {reason}")),
                }
                progress.set(summary.read);
            }
            (after, more) = (page.next, page.more);
        }
        summary.count(appender.finish().await?);
        log.close().await;
        drop(progress);
        Ok(summary.print())
    }

    /// Prints the latest rejections, and returns the sequence after which new ones come.
    async fn print_latest(&self) -> anyhow::Result<u64> {
        let status = self.admin.get("/status").await?;
        let seq = status["log"]["seq"].as_u64();
        let seq = seq.context("the answer of /status has no log.seq")?;
        let mut pages = Vec::new();
        let mut wanted = self.last as usize;
        let mut before = seq + 1;
        let mut more = true;
        while wanted > 0 && more {
            let page = self.page("before", before, wanted).await?;
            (before, more) = (page.next, page.more);
            wanted = wanted.saturating_sub(page.rejections.len());
            pages.push(page.rejections);
        }
        for rejection in pages.iter().rev().flatten() {
            self.print(rejection);
        }
        if more && !self.follow {
            line("there are older ones: use --last N, or --after 0 for all");
        }
        Ok(seq)
    }

    /// A page before or after a sequence.
    async fn page(&self, side: &str, seq: u64, limit: usize) -> anyhow::Result<RejectionPage> {
        let limit = limit.min(PAGE_MAX);
        let mut path = format!("/rejections?{side}={seq}&limit={limit}");
        let mut filter = |name: &str, value: &Option<String>| {
            if let Some(value) = value {
                path += &format!("&{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC));
            }
        };
        filter("code", &self.code);
        filter("source", &self.source);
        filter("subject", &self.subject);
        Ok(serde_json::from_value(self.admin.get(&path).await?)?)
    }

    fn print(&self, rejection: &Value) {
        if self.json {
            return result(rejection);
        }
        let text = |name: &str| rejection[name].as_str().unwrap_or_default();
        let seq = rejection["seq"].as_u64().unwrap_or_default();
        let fields = ["recorded_at", "subject", "source", "reason", "code"];
        let [recorded_at, subject, source, reason, code] = fields.map(text);
        let source = if source.is_empty() { "?" } else { source };
        result(format_args!(
            "{seq} {recorded_at} {subject} from {source}: {reason} ({code})"
        ));
    }
}

/// The event at a sequence, to be published again; or why it is still not valid.
async fn valid_by_now(log: &Log, seq: u64) -> anyhow::Result<Result<Outgoing, String>> {
    let Some(message) = log.message_at(RACING, seq).await? else {
        return Ok(Err("the log has no such message any more".to_owned()));
    };
    let payload = message.as_message().payload;
    let envelope = Envelope::decode(message.subject(), payload);
    let outgoing = envelope.map(|envelope| Outgoing::new(&envelope, payload.to_vec()));
    Ok(outgoing.map_err(|error| error.to_string()))
}
