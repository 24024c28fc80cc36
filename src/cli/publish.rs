//! `railbird publish`.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use events::{EVENT_BYTES_MAX, Envelope};

use super::report::{Progress, Summary};
use super::{Nats, Outcome};
use crate::log::{Appender, Outgoing, RACING};

/// Messages under way at a time.
const WINDOW: usize = 256;

/// What is published.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  railbird publish events.ndjson\n  my-feed | railbird publish -"
)]
pub(super) struct Publish {
    /// CloudEvents, a line each; `-` reads standard input.
    file: PathBuf,
    #[command(flatten)]
    nats: Nats,
}

impl Publish {
    pub(super) async fn run(self) -> anyhow::Result<Outcome> {
        let name = self.file.display().to_string();
        let mut input: Box<dyn BufRead> = if name == "-" {
            Box::new(BufReader::new(io::stdin()))
        } else {
            Box::new(BufReader::new(
                File::open(&self.file).with_context(|| format!("{name} cannot be read"))?,
            ))
        };
        let log = self.nats.connect().await?;
        log.state_or_create(RACING).await?;
        let mut appender = log.appender(WINDOW);
        let (mut summary, mut progress) = (Summary::new(), Progress::new("publishing", 0));
        let mut line = Vec::new();
        for number in 1_u64.. {
            let whole =
                read_line(&mut input, &mut line).with_context(|| format!("{name}:{number}"))?;
            let Some(whole) = whole else { break };
            if line.iter().all(u8::is_ascii_whitespace) && whole {
                continue;
            }
            summary.read += 1;
            match check(&line, whole) {
                Ok(outgoing) => appender.append(outgoing).await?,
                Err(reason) => summary.refuse(format!("{name}:{number}: {reason}")),
            }
            count(&mut appender, &mut summary);
            progress.set(summary.read);
        }
        for appended in appender.finish().await? {
            summary.count(appended);
        }
        log.close().await;
        drop(progress);
        summary.say();
        Ok(if summary.refused() > 0 {
            Outcome::Refused
        } else {
            Outcome::Done
        })
    }
}

fn count(appender: &mut Appender, summary: &mut Summary) {
    for appended in appender.take_done() {
        summary.count(appended);
    }
}

/// Reads a line, without its end, and drops what is longer than any event. Returns whether it was whole; `None` at the
/// end.
fn read_line(input: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<Option<bool>> {
    line.clear();
    let (mut any, mut whole) = (false, true);
    loop {
        let available = input.fill_buf()?;
        if available.is_empty() {
            return Ok(any.then_some(whole));
        }
        any = true;
        let end = available.iter().position(|byte| *byte == b'\n');
        let piece = &available[..end.unwrap_or(available.len())];
        if line.len() + piece.len() > EVENT_BYTES_MAX {
            whole = false;
        } else if whole {
            line.extend_from_slice(piece);
        }
        let used = end.map_or(available.len(), |end| end + 1);
        input.consume(used);
        if end.is_some() {
            return Ok(Some(whole));
        }
    }
}

/// A line as it goes to the log: the very bytes, on the subject that they ask for.
fn check(line: &[u8], whole: bool) -> Result<Outgoing, String> {
    if !whole {
        return Err(format!(
            "more than {EVENT_BYTES_MAX} bytes, no event is so large"
        ));
    }
    let envelope = Envelope::from_json(line).map_err(|error| error.to_string())?;
    Ok(Outgoing {
        subject: envelope.event.subject().to_string(),
        id: envelope.id,
        payload: line.to_vec(),
    })
}
