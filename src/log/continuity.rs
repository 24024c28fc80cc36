//! [`Continuity`]: whether the streams are those that this data folder has seen.
//!
//! `DIR/log.json` remembers the identity of each stream and how far it was read. A stream that was seen is never
//! created again, and no other history takes its place, until an operator accepts that.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use projections::LogIdentity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::backoff::Backoff;
use super::connection::Log;
use super::error::{LogError, LogResult};
use super::position::{Compared, LogReplaced, ReadPosition, Suspicion};
use super::stream::{ACCOUNTS, ADDRESSES, BESIDE, LogState, RACING, StreamName};
use crate::atomic_file::{read_json, replace_json};
use crate::metrics;
use crate::task;

const FILE: &str = "log.json";

/// The wait before a stream is looked up again.
const RETRY: Duration = Duration::from_millis(500);
/// How often it is checked that no stream is missing, besides once per connection.
const CHECK_EVERY: Duration = Duration::from_secs(5);
/// The waits before a stream is created that could not be: a server may have no room for it.
const CREATE: Backoff = Backoff::new(RETRY, Duration::from_secs(60));

/// The file is written at most this often. It costs a sync of the disk, and what it lacks after a crash is only how far
/// a stream was read.
const WRITE_EVERY: Duration = Duration::from_secs(1);

/// The streams that this data folder has seen. Clones share it.
#[derive(Debug, Clone)]
pub struct Continuity(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    /// Whether the file was found whole, not damaged; `None` if it was missing.
    found_whole: Option<bool>,
    /// Whether a stream that the file does not name may be created; `None` until the views are known.
    creates_streams: watch::Sender<Option<bool>>,
    /// By the names of the streams.
    seen: watch::Sender<BTreeMap<String, ReadPosition>>,
    /// The streams that have another history, by name.
    divergences: watch::Sender<BTreeMap<&'static str, Divergence>>,
}

/// A stream that does not continue what was read of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Divergence {
    /// What was found.
    pub reason: String,
    /// The last message that was read; null if that is not known.
    pub read: Option<ReadPosition>,
    /// The stream that was found; null if it is missing.
    pub found: Option<FoundStream>,
    /// How many of the messages that were read are lost; null if that cannot be known.
    pub lost: Option<u64>,
    /// An operator has accepted this.
    accepted: bool,
}

/// A stream that was found in the place of the one that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundStream {
    /// Its identity.
    pub log: LogIdentity,
    /// The sequence of its last message.
    pub seq: u64,
}

/// How a divergence ended.
#[derive(Debug)]
pub enum Resolution {
    /// The stream that was read is back.
    Continued,
    /// An operator accepted the stream as it is now. It is in force once its [start](ReadPosition::start_of) is
    /// [noted](Continuity::note).
    Accepted(LogState),
}

impl Continuity {
    /// Reads the file of a data folder. No stream is looked up before the views are [known](Self::begin).
    ///
    /// A damaged file counts as one that has seen both streams: none is created, and existing ones are adopted.
    ///
    /// # Errors
    /// Returns an I/O error if the file exists and cannot be read.
    pub fn open(data: &Path) -> io::Result<Self> {
        let path = data.join(FILE);
        let (seen, found_whole) = match read_json(&path) {
            Ok(Some(seen)) => (seen, Some(true)),
            Ok(None) => (BTreeMap::new(), None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                tracing::error!(path = %path.display(), %error, "the file of seen streams is damaged");
                (BTreeMap::new(), Some(false))
            }
            Err(error) => return Err(error),
        };
        Ok(Self(Arc::new(Shared {
            path,
            found_whole,
            creates_streams: watch::Sender::new(None),
            seen: watch::Sender::new(seen),
            divergences: watch::Sender::new(BTreeMap::new()),
        })))
    }

    /// Notes the position of the views in their stream, if there are any. Streams are looked up from now on.
    pub fn begin(&self, checkpoint: Option<ReadPosition>) {
        let creates_streams = self.0.found_whole.unwrap_or(checkpoint.is_none());
        if let Some(checkpoint) = checkpoint {
            self.note_views(&checkpoint);
        }
        self.0.creates_streams.send_replace(Some(creates_streams));
    }

    /// Notes the position of the views in force, unless that of the same log is further.
    pub fn note_views(&self, checkpoint: &ReadPosition) {
        let known = self.read_position_of(&checkpoint.log.name);
        // The file may be ahead of views that were not flushed. Of another log than the views it says nothing.
        if known.is_none_or(|known| known.log != checkpoint.log || known.seq < checkpoint.seq) {
            self.note(checkpoint);
        }
    }

    /// Writes the file whenever it is out of date, until dropped. A failed write is tried again.
    pub async fn keep(self) {
        let mut seen = self.0.seen.subscribe();
        seen.mark_changed();
        let mut failing = false;
        // The sender lives as long as this task.
        while seen.changed().await.is_ok() {
            let positions = seen.borrow_and_update().clone();
            let path = self.0.path.clone();
            let write = task::spawn_blocking(move || replace_json(&path, &positions));
            let written = write.await;
            let written = written.unwrap_or_else(|panic| Err(io::Error::other(panic)));
            if let Err(error) = &written
                && !failing
            {
                tracing::error!(path = %self.0.path.display(), %error, "cannot write the file of seen streams");
            }
            failing = written.is_err();
            if failing {
                seen.mark_changed();
            }
            sleep(WRITE_EVERY).await;
        }
    }

    /// The last message that was read of a stream.
    pub fn read_position(&self, stream: StreamName) -> Option<ReadPosition> {
        self.read_position_of(stream.name)
    }

    fn read_position_of(&self, stream: &str) -> Option<ReadPosition> {
        self.0.seen.borrow().get(stream).cloned()
    }

    /// Notes how far a stream was read.
    pub fn note(&self, position: &ReadPosition) {
        self.0.seen.send_if_modified(|seen| {
            let changed = seen.get(&position.log.name) != Some(position);
            if changed {
                seen.insert(position.log.name.clone(), position.clone());
            }
            changed
        });
    }

    /// The streams that do not continue what was read of them.
    pub fn divergences(&self) -> BTreeMap<&'static str, Divergence> {
        self.0.divergences.borrow().clone()
    }

    /// Accepts the streams as they are now: what was read of them is given up. Returns what is accepted.
    pub fn accept(&self) -> BTreeMap<&'static str, Divergence> {
        let mut accepted = BTreeMap::new();
        self.0.divergences.send_modify(|divergences| {
            for (stream, divergence) in &mut *divergences {
                let reason = &divergence.reason;
                tracing::warn!(stream, reason, "an operator accepted another history");
                divergence.accepted = true;
            }
            // Here, because a follower removes them as soon as it sees that they are accepted.
            accepted.clone_from(divergences);
        });
        accepted
    }

    /// Finds a stream, and creates it if this data folder has never seen it. Waits until a server answers.
    ///
    /// # Errors
    /// Returns [`LogReplaced`] if the stream does not continue what was read of it.
    pub async fn find(&self, log: &Log, stream: StreamName) -> Result<LogState, LogReplaced> {
        let mut suspicion = Suspicion::default();
        let mut logged = String::new();
        loop {
            let found = self.try_find(log, stream).await;
            match suspicion.judge(log, stream, found) {
                Ok(found) => {
                    let state = found?;
                    if self.read_position(stream).is_none() {
                        self.note(&ReadPosition::start_of(&state));
                    }
                    return Ok(state);
                }
                // The connection logs that, once, and what is not confirmed may be wrong.
                Err(error @ (LogError::Unreachable(_) | LogError::Unconfirmed(_))) => {
                    tracing::debug!(%error, stream = stream.name, "cannot open the log");
                }
                Err(error) if logged != error.to_string() => {
                    tracing::error!(%error, stream = stream.name, "cannot open the log; trying again");
                    logged = error.to_string();
                }
                Err(_) => {}
            }
            sleep(RETRY).await;
        }
    }

    async fn try_find(&self, log: &Log, stream: StreamName) -> Compared {
        log.check_version()?;
        let mut creates_streams = self.0.creates_streams.subscribe();
        // The sender lives as long as this.
        let known = creates_streams.wait_for(Option::is_some).await;
        let creates_streams = known.is_ok_and(|creates| *creates == Some(true));
        match self.read_position(stream) {
            Some(position) => {
                let found = log.compare(stream, &position).await?;
                log.refuse_foreign(stream).await?;
                Ok(found)
            }
            None if creates_streams => {
                log.refuse_foreign_streams().await?;
                log.ensure(stream).await.map(Ok)
            }
            None => log.state(stream).await.map(Ok),
        }
    }

    /// Creates the other streams where they are missing, until dropped: at once, at each connection, and within seconds
    /// where one is lost. None of them waits until it is needed, because whoever creates a stream decides what the
    /// server does with its messages.
    pub async fn keep_streams(self, log: Log) {
        tokio::join!(self.keep_addresses(&log), self.keep_beside(&log));
    }

    /// [`ADDRESSES`] is created once: without its messages nobody can read [`ACCOUNTS`].
    async fn keep_addresses(&self, log: &Log) {
        loop {
            let connection_number = log.connection_number();
            if self.read_position(ADDRESSES).is_none() {
                self.until_continued(log).await;
            }
            if let Err(replaced) = self.find(log, ADDRESSES).await
                && let Resolution::Accepted(state) = self.resolve(log, ADDRESSES, replaced).await
            {
                self.note(&ReadPosition::start_of(&state));
            }
            log.pause(connection_number, CHECK_EVERY).await;
        }
    }

    /// The streams that may be lost are created again.
    async fn keep_beside(&self, log: &Log) {
        let mut failures = 0;
        let mut logged = String::new();
        loop {
            let connection_number = log.connection_number();
            self.until_continued(log).await;
            let mut failure = None;
            for stream in BESIDE {
                // One that cannot be created keeps no other one from it.
                if let Err(error) = log.ensure(stream).await {
                    failure = Some(error.to_string());
                }
            }
            failures = if failure.is_some() { failures + 1 } else { 0 };
            let delay = failure.as_ref().map(|_| CREATE.delay(failures));
            let failure = failure.unwrap_or_default();
            if !failure.is_empty() && failure != logged {
                tracing::error!(error = failure, "cannot create a stream; trying again");
            }
            logged = failure;
            let time = delay.unwrap_or(CHECK_EVERY);
            log.pause(connection_number, time).await;
        }
    }

    /// Waits until both logs are there and continue what was read of them. Before that, they may be about to be
    /// restored, or those of another service.
    async fn until_continued(&self, log: &Log) {
        let mut seen = self.0.seen.subscribe();
        for stream in [RACING, ACCOUNTS] {
            loop {
                // An error means that the service ends.
                let _ = seen.wait_for(|seen| seen.contains_key(stream.name)).await;
                if let Some(position) = self.read_position(stream)
                    && let Ok(Ok(_)) = log.compare(stream, &position).await
                {
                    break;
                }
                sleep(RETRY).await;
            }
        }
    }

    /// Waits until a stream continues what was read of it, or an operator accepts it as it is. Until then it is in
    /// [`divergences`](Self::divergences).
    pub async fn resolve(&self, log: &Log, stream: StreamName, found: LogReplaced) -> Resolution {
        let mut reason = found.to_string();
        tracing::error!(
            reason,
            "the log has another history than the service; it waits for the old one or for `railbird log accept`"
        );
        let resolution = loop {
            if let Err(error) = self.report(log, stream, &reason).await {
                tracing::debug!(%error, stream = stream.name, "cannot look at the log");
            }
            if self.wait_for_acceptance(stream).await {
                match self.adopt(log, stream).await {
                    Ok(Some(state)) => break Resolution::Accepted(state),
                    Ok(None) => {}
                    Err(error) => {
                        tracing::warn!(%error, stream = stream.name, "cannot adopt the log");
                        sleep(RETRY).await;
                    }
                }
            }
            match self.try_find(log, stream).await {
                Ok(Ok(_)) => break Resolution::Continued,
                Ok(Err(replaced)) => reason = replaced.to_string(),
                Err(LogError::NoStream(_)) => reason = LogReplaced::missing(stream).to_string(),
                Err(error) => {
                    tracing::debug!(%error, stream = stream.name, "cannot look at the log")
                }
            }
        };
        self.0.divergences.send_modify(|divergences| {
            divergences.remove(stream.name);
        });
        if let Resolution::Accepted(_) = resolution {
            metrics::log_reset(stream.name);
        }
        let stream = stream.name;
        tracing::info!(stream, ?resolution, "the log is followed again");
        resolution
    }

    /// Waits a moment. True if an operator has accepted the stream.
    async fn wait_for_acceptance(&self, stream: StreamName) -> bool {
        let mut divergences = self.0.divergences.subscribe();
        let is_accepted = |divergences: &BTreeMap<_, Divergence>| {
            let divergence = divergences.get(stream.name);
            divergence.is_some_and(|divergence| divergence.accepted)
        };
        let accepted = async { divergences.wait_for(is_accepted).await.is_ok() };
        timeout(RETRY, accepted).await.unwrap_or(false)
    }

    /// Publishes what is found in place of a stream. Another finding needs another decision of the operator.
    async fn report(&self, log: &Log, stream: StreamName, reason: &str) -> LogResult<()> {
        let found = match log.state(stream).await {
            Ok(state) => Some(FoundStream {
                log: state.identity,
                seq: state.last_seq,
            }),
            Err(LogError::NoStream(_)) => None,
            Err(error) => return Err(error),
        };
        let read = self.read_position(stream);
        let mut divergence = Divergence {
            reason: reason.to_owned(),
            lost: lost(read.as_ref(), found.as_ref()),
            read,
            found,
            accepted: false,
        };
        self.0.divergences.send_if_modified(|divergences| {
            let known = divergences.get(stream.name);
            // The operator's decision holds for one log, which may grow.
            divergence.accepted = known.is_some_and(|d| d.accepted && d.is_of_log(&divergence));
            let changed = known != Some(&divergence);
            divergences.insert(stream.name, divergence);
            changed
        });
        Ok(())
    }

    /// Takes the stream as it is, if it is still the one that the operator accepted, and creates it if it is missing.
    async fn adopt(&self, log: &Log, stream: StreamName) -> LogResult<Option<LogState>> {
        let accepted = self.divergences().remove(stream.name).and_then(|d| d.found);
        let state = log.ensure(stream).await?;
        let is_other = accepted.is_some_and(|found| found.log != state.identity);
        Ok((!is_other).then_some(state))
    }
}

impl Divergence {
    /// Whether another one found the same log.
    fn is_of_log(&self, other: &Self) -> bool {
        let identity = |of: &Self| of.found.as_ref().map(|found| found.log.clone());
        identity(self) == identity(other)
    }
}

/// How many messages were lost: all of a stream that is gone, or those after the end of one that became shorter. One
/// that became shorter and grew again does not show how many.
fn lost(read: Option<&ReadPosition>, found: Option<&FoundStream>) -> Option<u64> {
    let read = read?;
    match found {
        Some(found) if found.log == read.log => {
            read.seq.checked_sub(found.seq).filter(|lost| *lost > 0)
        }
        _ => Some(read.seq),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use projections::LogIdentity;

    use super::{Continuity, Divergence, FILE, FoundStream, lost, replace_json};
    use crate::log::{ACCOUNTS, RACING, ReadPosition};

    impl Divergence {
        pub(crate) fn for_a_reason(reason: &str) -> Self {
            Self {
                reason: reason.to_owned(),
                read: None,
                found: None,
                lost: None,
                accepted: false,
            }
        }
    }

    fn position(created: &str, seq: u64) -> ReadPosition {
        let log = LogIdentity {
            name: RACING.name.to_owned(),
            created: created.to_owned(),
        };
        ReadPosition {
            log,
            seq,
            recorded_at: None,
        }
    }

    #[test]
    fn streams_are_created_only_for_a_folder_that_never_saw_them() {
        let data = tempfile::tempdir().expect("a folder");
        let open = |checkpoint| {
            let continuity = Continuity::open(data.path()).expect("a folder");
            continuity.begin(checkpoint);
            continuity
        };
        let creates =
            |continuity: &Continuity| continuity.0.creates_streams.borrow().expect("begun");
        assert!(creates(&open(None)));
        let upgraded = open(Some(position("a", 7)));
        assert!(!creates(&upgraded), "views of a version without the file");
        assert_eq!(upgraded.read_position(RACING), Some(position("a", 7)));

        replace_json(&upgraded.0.path, &*upgraded.0.seen.borrow()).expect("a folder");
        let again = open(None);
        assert_eq!(again.read_position(RACING), Some(position("a", 7)));
        assert!(creates(&again) && again.read_position(ACCOUNTS).is_none());
        // The checkpoint counts, unless it lacks what was not flushed.
        for (checkpoint, counts) in [
            (position("a", 6), position("a", 7)),
            (position("a", 8), position("a", 8)),
            (position("b", 1), position("b", 1)),
        ] {
            assert_eq!(open(Some(checkpoint)).read_position(RACING), Some(counts));
        }

        fs::write(data.path().join(FILE), "{").expect("a folder");
        assert!(!creates(&open(None)), "a damaged file");
    }

    #[test]
    fn the_number_of_lost_events_is_known_unless_the_stream_grew_again() {
        let read = position("a", 20);
        let stream = |log: &LogIdentity, seq| FoundStream {
            log: log.clone(),
            seq,
        };
        let same = |seq| Some(stream(&read.log, seq));
        let lost = |found: Option<FoundStream>| lost(Some(&read), found.as_ref());
        assert_eq!(lost(None), Some(20));
        assert_eq!(lost(same(12)), Some(8));
        assert_eq!(lost(same(25)), None);
        assert_eq!(lost(Some(stream(&position("b", 0).log, 99))), Some(20));
    }
}
