//! `railbird publish`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use events::{EVENT_BYTES_MAX, Envelope};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::report::{Progress, Summary};
use super::{Nats, Outcome};
use crate::log::{Appender, LogError, Outgoing, RACING};

/// Messages under way at a time.
const WINDOW: usize = 256;
/// Lines in a chunk at most. Messages that are sent one right behind the other leave in few writes.
const CHUNK: usize = 256;
/// Chunks that are read and checked while one is sent.
const CHUNKS_AHEAD: usize = 4;
/// How much is read at a time: about a chunk of quotes.
const READ_BYTES: usize = 64 * 1024;
/// When nothing comes for so long, what is under way is settled: a feed may be silent for hours.
const PAUSE: Duration = Duration::from_millis(20);

/// Lines as they go to the log, and why others do not. An error is the end.
type Chunk = anyhow::Result<Vec<Result<Outgoing, String>>>;

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
        let input: Box<dyn Read + Send> = if name == "-" {
            Box::new(io::stdin())
        } else {
            Box::new(File::open(&self.file).with_context(|| format!("{name} cannot be read"))?)
        };
        let log = self.nats.connect().await?;
        log.state_or_create(RACING).await?;
        let mut appender = log.appender(WINDOW);
        let (mut summary, mut progress) = (Summary::new(), Progress::new("publishing", 0));
        let mut chunks = read_ahead(Chunks {
            input: BufReader::with_capacity(READ_BYTES, input),
            name,
            number: 0,
            line: Vec::new(),
        });
        while let Some(chunk) = next(&mut chunks, &mut appender).await? {
            for line in chunk? {
                summary.read += 1;
                match line {
                    Ok(outgoing) => appender.append(outgoing).await?,
                    Err(reason) => summary.refuse(reason),
                }
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

/// Reads on a thread that nobody waits for: it may hang on its input for ever.
fn read_ahead(chunks: Chunks<impl Read + Send + 'static>) -> mpsc::Receiver<Chunk> {
    let (send, receiver) = mpsc::channel(CHUNKS_AHEAD);
    std::thread::spawn(move || {
        for chunk in chunks {
            let over = chunk.is_err();
            if send.blocking_send(chunk).is_err() || over {
                return;
            }
        }
    });
    receiver
}

/// The next chunk, before which everything is settled if it takes its time.
async fn next(
    chunks: &mut mpsc::Receiver<Chunk>,
    appender: &mut Appender,
) -> Result<Option<Chunk>, LogError> {
    if let Ok(next) = timeout(PAUSE, chunks.recv()).await {
        return Ok(next);
    }
    appender.flush().await?;
    Ok(chunks.recv().await)
}

fn count(appender: &mut Appender, summary: &mut Summary) {
    for appended in appender.take_done() {
        summary.count(appended);
    }
}

/// The chunks of an input.
struct Chunks<R> {
    input: BufReader<R>,
    name: String,
    /// The line that was read last.
    number: u64,
    line: Vec<u8>,
}

impl<R: Read> Iterator for Chunks<R> {
    type Item = Chunk;

    /// Waits for a line, and takes what else is there: the next one may be long in coming.
    fn next(&mut self) -> Option<Chunk> {
        let mut chunk = Vec::new();
        loop {
            self.number += 1;
            let place = || format!("{}:{}", self.name, self.number);
            let whole = match read_line(&mut self.input, &mut self.line) {
                Ok(whole) => whole?,
                Err(error) => return Some(Err(error).with_context(place)),
            };
            if !whole || !self.line.iter().all(u8::is_ascii_whitespace) {
                let checked = check(&self.line, whole);
                chunk.push(checked.map_err(|reason| format!("{}: {reason}", place())));
            }
            if chunk.len() == CHUNK || !self.input.buffer().contains(&b'\n') {
                return Some(Ok(chunk));
            }
        }
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
