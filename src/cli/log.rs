//! `railbird log`.

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::admin::AdminClient;
use super::report::result;

#[derive(Debug, Args)]
pub(super) struct LogCommand {
    #[command(subcommand)]
    command: LogSubcommand,
}

#[derive(Debug, Subcommand)]
enum LogSubcommand {
    /// Accept streams that are missing, replaced or shorter than what the service has read.
    ///
    /// The service then gives up what it has read of them. It creates a missing stream, folds the views from the log as
    /// it is now, and sends the socket message `resync`. Put the old log back instead if you can: the service then
    /// continues by itself. Run this for each replica.
    #[command(after_help = "Example:\n  railbird log accept --admin 127.0.0.1:9090")]
    Accept(AdminClient),
}

impl LogCommand {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let LogSubcommand::Accept(admin) = self.command;
        let answer = admin.post("/log/accept").await?;
        let accepted = answer["accepted"].as_object();
        for (stream, divergence) in accepted.unwrap_or(&Map::new()) {
            result(format_args!(
                "{}",
                line(stream, divergence).context("the answer of /log/accept is incomplete")?
            ));
        }
        result(format_args!(
            "the service folds the accepted log; /readyz shows its progress"
        ));
        Ok(())
    }
}

/// What was given up of a stream, and what takes its place.
fn line(stream: &str, divergence: &Value) -> Option<String> {
    let read = match &divergence["read"] {
        Value::Null => "what was read".to_owned(),
        read => {
            let (seq, created) = (read["seq"].as_u64()?, read["log"]["created"].as_str()?);
            format!("the history up to event {seq} of the stream created at {created}")
        }
    };
    let lost = match divergence["lost"].as_u64() {
        Some(lost) => lost.to_string(),
        None => "unknown".to_owned(),
    };
    let found = match &divergence["found"] {
        Value::Null => "A new stream".to_owned(),
        found => {
            let (created, last_seq) = (found["log"]["created"].as_str()?, found["seq"].as_u64()?);
            format!("The stream created at {created}, which ends at event {last_seq},")
        }
    };
    let reason = divergence["reason"].as_str()?;
    Some(format!(
        "{stream}: {reason}. {found} takes the place of {read}. Events given up: {lost}"
    ))
}
