//! [`Oracle`]: the views of the log, folded once more from its messages, one by one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use events::Moment;
use jiff::Timestamp;
use projections::{Announcement, Checkpoint, Digest, LiveQuote, LogIdentity, Projection, Store};

use super::streams::Stream;
use crate::feed::epoch;
use crate::feed::frame::Frame;
use crate::log::LogMessage;

pub(super) struct Oracle {
    folder: PathBuf,
    folds: Vec<Fold>,
    digests: BTreeMap<String, Digest>,
    /// Messages were deleted: there may be a history that no fold has.
    pub(super) has_holes: bool,
}

struct Fold {
    created: Timestamp,
    projection: Projection,
    /// When the last message was recorded.
    recorded_at: Option<Timestamp>,
    /// When the log stored the rejected messages, by the clock that nobody sets.
    announcements: Vec<(Duration, Announcement)>,
    /// When each message was recorded.
    times: BTreeMap<u64, Moment>,
    /// The frames of the live channel of each event that has some.
    messages: BTreeMap<u64, Vec<Frame>>,
}

impl Oracle {
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            folds: Vec::new(),
            digests: BTreeMap::new(),
            has_holes: false,
        }
    }

    /// Folds what the log has. Another history is folded from its beginning.
    pub(super) fn follow(&mut self, stream: &Stream) {
        let digests = &mut self.digests;
        let mut is_followed = false;
        for fold in &mut self.folds {
            if fold.is_of(stream) {
                fold.follow(stream, digests);
                is_followed = true;
            }
        }
        if !is_followed {
            self.begin(stream);
        }
    }

    /// Folds the log from its beginning.
    pub(super) fn begin(&mut self, stream: &Stream) {
        let path = self.folder.join(self.folds.len().to_string());
        fs::create_dir_all(&path).expect("a folder");
        let store = Arc::new(Store::open(&path).expect("a store"));
        let mut fold = Fold {
            created: stream.created,
            projection: Projection::new(store, identity(stream)),
            recorded_at: None,
            announcements: Vec::new(),
            times: BTreeMap::new(),
            messages: BTreeMap::new(),
        };
        fold.follow(stream, &mut self.digests);
        self.folds.push(fold);
    }

    /// The digest that views must have; `None` if that is not known.
    pub(super) fn digest(&self, checkpoint: &Checkpoint) -> Option<Digest> {
        self.digests.get(&key(checkpoint)).copied()
    }

    /// The histories with an event that was recorded at a time.
    pub(super) fn histories(&self, of: &str, seq: u64, recorded_at: Option<Moment>) -> Vec<usize> {
        let has = |fold: &Fold| {
            *epoch(&fold.projection.checkpoint().log) == *of
                && fold.times.get(&seq).copied() == recorded_at
        };
        let folds = self.folds.iter().enumerate();
        folds
            .filter(|(_, fold)| has(fold))
            .map(|(n, _)| n)
            .collect()
    }

    /// The messages of the live channel in a history, by the sequences of their events.
    pub(super) fn messages(&self, history: usize) -> &BTreeMap<u64, Vec<Frame>> {
        &self.folds[history].messages
    }

    /// The latest fold.
    pub(super) fn announcements(
        &self,
    ) -> impl Iterator<Item = (LogIdentity, Duration, &Announcement)> {
        let last = self.folds.last();
        last.into_iter().flat_map(|fold| {
            let log = fold.projection.checkpoint().log.clone();
            let all = fold.announcements.iter();
            all.map(move |(at, one)| (log.clone(), *at, one))
        })
    }
}

impl Fold {
    fn is_of(&self, stream: &Stream) -> bool {
        let seq = self.projection.checkpoint().seq;
        let last = stream.messages.get(&seq).map(|message| message.recorded_at);
        self.created == stream.created && (seq == 0 || last == self.recorded_at)
    }

    fn follow(&mut self, stream: &Stream, digests: &mut BTreeMap<String, Digest>) {
        let after = self.projection.checkpoint().seq + 1;
        for (seq, message) in stream.messages.range(after..) {
            let (at, stored_at) = (message.recorded_at, message.at);
            let message = LogMessage::of(*seq, at, &message.subject, message.payload.clone());
            let step = self
                .projection
                .step([message.as_message()], true)
                .expect("a healthy store");
            self.times.insert(*seq, at.into());
            for update in &step.updates {
                let messages = update.messages.iter().map(|message| message.json.clone());
                let quote = update.quote.as_ref().map(LiveQuote::message);
                for message in messages.chain(quote) {
                    let frames = self.messages.entry(*seq).or_default();
                    frames.push(Frame::text(&[&message]));
                }
            }
            let rejected = step.announcements.into_iter();
            self.announcements
                .extend(rejected.map(|one| (stored_at, one)));
            self.recorded_at = Some(at);
            let checkpoint = self.projection.checkpoint();
            digests.insert(key(checkpoint), checkpoint.digest);
        }
    }
}

pub(super) fn identity(stream: &Stream) -> LogIdentity {
    LogIdentity {
        name: "RACING".to_owned(),
        created: events::Moment::from(stream.created).timestamp().to_string(),
    }
}

fn key(checkpoint: &Checkpoint) -> String {
    let at = checkpoint.recorded_at.map(|at| at.to_string());
    let history = serde_json::to_string(&checkpoint.history).expect("JSON");
    format!(
        "{} {} {at:?} {history}",
        checkpoint.log.created, checkpoint.seq
    )
}
