//! `railbird publish`.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use blake3::Hash;
use clap::Args;
use events::{EVENT_BYTES_MAX, Envelope};
use tokio::sync::mpsc;

use super::Nats;
use super::report::{Progress, Summary, line};
use crate::log::{Appender, LogError, Outgoing, RACING};

/// Maximum number of lines in a batch. Messages that are sent together leave in few writes.
const BATCH_LINES_MAX: usize = 256;
/// Batches that are read and checked ahead of the one that is sent.
const BATCHES_AHEAD: usize = 4;
/// Size of the read buffer: about one batch of quotes.
const READ_BYTES: usize = 64 * 1024;

/// Events whose contents are compared with later ones under the same id: about 20 MB.
const IDS_MAX: usize = 100_000;

const KNOWN_IDS: &str = "an event whose id is in the log changes nothing, even where a later one has replaced it: to \
                         state it again, give it a new id";

/// Checked lines: a message, or the reason why the line is rejected. A read error ends the input.
type LineBatch = anyhow::Result<Vec<Result<Outgoing, String>>>;

#[derive(Debug, Args)]
pub(super) struct Publish {
    /// File of CloudEvents, one JSON object per line; `-` reads standard input.
    file: PathBuf,
    /// Show that this source is alive while the command runs, such as tote.
    #[arg(long, value_name = "SOURCE")]
    alive: Option<String>,
    #[command(flatten)]
    nats: Nats,
}

impl Publish {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let name = self.file.display().to_string();
        let input: Box<dyn Read + Send> = if name == "-" {
            Box::new(io::stdin())
        } else {
            Box::new(File::open(&self.file).with_context(|| format!("{name} cannot be read"))?)
        };
        let log = self.nats.connect().await?;
        log.state_or_create(RACING).await?;
        let _alive = (self.alive).map(|source| log.show_alive(move || vec![source.clone()]));
        let mut appender = log.appender();
        let mut summary = Summary::default();
        let mut progress = Progress::new("publishing", 0);
        let mut batches = read_ahead(LineBatches {
            input: BufReader::with_capacity(READ_BYTES, input),
            name,
            line_number: 0,
            line: Vec::new(),
            contents: Contents::default(),
        });
        while let Some(batch) = next_batch(&mut batches, &mut appender).await? {
            for line in batch? {
                summary.read += 1;
                match line {
                    Ok(outgoing) => appender.append(outgoing).await?,
                    Err(reason) => summary.reject(reason),
                }
            }
            summary.count(appender.take_done());
            progress.set(summary.read);
        }
        summary.count(appender.finish().await?);
        log.close().await;
        drop(progress);
        if summary.duplicates > 0 {
            line(KNOWN_IDS);
        }
        Ok(summary.print())
    }
}

/// Reads on a detached thread, which may block on its input forever.
fn read_ahead(batches: LineBatches<impl Read + Send + 'static>) -> mpsc::Receiver<LineBatch> {
    let (sender, receiver) = mpsc::channel(BATCHES_AHEAD);
    std::thread::spawn(move || {
        for batch in batches {
            let failed = batch.is_err();
            if sender.blocking_send(batch).is_err() || failed {
                return;
            }
        }
    });
    receiver
}

/// Waits for the next batch. If none is there yet, what waits is published first: a feed may be silent for hours.
async fn next_batch(
    batches: &mut mpsc::Receiver<LineBatch>,
    appender: &mut Appender,
) -> Result<Option<LineBatch>, LogError> {
    if batches.is_empty() {
        appender.flush().await?;
    }
    Ok(batches.recv().await)
}

/// Reads and checks the lines of an input, in batches.
struct LineBatches<R> {
    input: BufReader<R>,
    name: String,
    /// Number of the latest line.
    line_number: u64,
    line: Vec<u8>,
    contents: Contents,
}

impl<R: Read> Iterator for LineBatches<R> {
    type Item = LineBatch;

    /// Waits for a line, and adds the complete lines that are in the buffer.
    fn next(&mut self) -> Option<LineBatch> {
        let mut batch = Vec::new();
        loop {
            self.line_number += 1;
            let location = || format!("{}:{}", self.name, self.line_number);
            let complete = match read_line(&mut self.input, &mut self.line) {
                Ok(complete) => complete?,
                Err(error) => return Some(Err(error).with_context(location)),
            };
            if !complete || !self.line.iter().all(u8::is_ascii_whitespace) {
                let checked = check(&self.line, complete)
                    .and_then(|envelope| {
                        self.contents.check(envelope, &self.line, self.line_number)
                    })
                    .map(|envelope| Outgoing::new(&envelope, self.line.clone()));
                batch.push(checked.map_err(|reason| format!("{}: {reason}", location())));
            }
            if batch.len() == BATCH_LINES_MAX || !self.input.buffer().contains(&b'\n') {
                return Some(Ok(batch));
            }
        }
    }
}

/// Reads a line without its end, and drops a line that is longer than any event. Returns whether the line is complete,
/// or `None` at the end of the input.
fn read_line(mut input: impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<bool>> {
    line.clear();
    let with_end_max = EVENT_BYTES_MAX as u64 + 1;
    let read = input.by_ref().take(with_end_max).read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() > EVENT_BYTES_MAX {
        input.skip_until(b'\n')?;
        return Ok(Some(false));
    }
    Ok((read > 0).then_some(true))
}

/// The contents of the latest events by their id. An id stands for one event: of two contents under it, one would be
/// ignored as a repetition.
#[derive(Debug, Default)]
struct Contents {
    by_id: HashMap<EventId, (Hash, u64)>,
    /// The ids, oldest first.
    order: VecDeque<EventId>,
}

/// The hash of source and id.
type EventId = Hash;

impl Contents {
    /// # Errors
    /// Returns the reason if an earlier line has the id of this one, and another content.
    fn check(&mut self, envelope: Envelope, line: &[u8], number: u64) -> Result<Envelope, String> {
        let Envelope { source, id, .. } = &envelope;
        let event_id = blake3::hash(format!("{source}\n{id}").as_bytes());
        let content = blake3::hash(line.trim_ascii());
        match self.by_id.get(&event_id) {
            Some((known, _)) if *known == content => return Ok(envelope),
            Some((_, earlier)) => {
                return Err(format!(
                    "the id {id:?} is that of line {earlier}, which has another content"
                ));
            }
            None => {}
        }
        self.by_id.insert(event_id, (content, number));
        self.order.push_back(event_id);
        if self.order.len() > IDS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_id.remove(&oldest);
        }
        Ok(envelope)
    }
}

/// Checks that a line is an event.
fn check(line: &[u8], complete: bool) -> Result<Envelope, String> {
    if !complete {
        return Err(format!(
            "the line is longer than {EVENT_BYTES_MAX} bytes, the maximum size of an event"
        ));
    }
    Envelope::from_json(line).map_err(|error| error.to_string())
}
