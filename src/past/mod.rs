//! [`Past`]: the views of some races and horses as of an earlier message of the log.
//!
//! Their messages are read from the log, and folded into a store in memory by the code that folds the whole log. So an
//! answer costs what its races and horses have had, however long the log is.

mod kept;
mod part;
mod playback;

use std::collections::BTreeSet;
use std::sync::Arc;

use events::{Envelope, Event, HorseNo, Moment, RaceKey, RaceStatus, Recorded};
use futures::{StreamExt, TryStreamExt, stream};
use projections::horse_form::horses_in;
use projections::{Checkpoint, Projection, Store, StoreError};
use tokio::sync::{Semaphore, watch};

use crate::log::{Log, LogError, LogMessage, RACING};
use crate::task::spawn_blocking;

pub(crate) use kept::Kept;
pub(crate) use part::Part;
pub(crate) use playback::{Playback, PlaybackControl, PlaybackSpan, SPEED};

const ANY_SUBJECT: &str = ">";
/// Subjects that are read at a time: more save no time on two cores of a server.
const READS_CONCURRENT: usize = 16;
/// The messages of one part: a month of a busy country, or the odds of the busiest race.
const MESSAGES_MAX: usize = 200_000;
/// Parts that are folded at a time, so that the live views are never short of threads.
const FOLDS_MAX: usize = 2;
/// The payload bytes of the parts that are kept, if there are several: about a quarter of what they take in memory.
const KEPT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The payload bytes of all messages that are played at a time, in KiB: about a quarter of what they take in memory.
const PLAYED_KIB_MAX: usize = 128 * 1024;
/// The KiB that a replay counts at least: its thread and its clients.
const PLAYED_KIB_MIN: usize = 1024;

/// Why there is no answer about the past.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PastError {
    #[error(
        "the answer depends on more than {MESSAGES_MAX} messages of the log: ask for fewer days"
    )]
    TooLarge,
    /// The log's clock stepped back, or sources were ranked, too often since.
    #[error("the log was corrected too often since then: what was served cannot be made again")]
    Gone,
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("too many messages are played at the moment: ask for a race or a venue, or later")]
    Busy,
    #[error("the fold ended: {0}")]
    Ended(#[from] tokio::task::JoinError),
}

/// What is made of the past.
type PastResult<T> = Result<T, PastError>;

/// Where a replay begins.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PlayFrom {
    Start,
    /// With the first message that was stored at this time or later.
    Time(Moment),
    /// With the first message after a sequence.
    After(u64),
}

/// Folds parts of the log up to earlier messages.
#[derive(Debug)]
pub struct Past {
    /// A connection of its own: messages of feeders may close the one on which they are read.
    log: Log,
    /// KiB of messages that are played.
    played: Arc<Semaphore>,
    /// Parts in memory, with names or without, as of a message.
    kept: Arc<Kept<(Part, bool, u64), Arc<Store>>>,
}

impl Past {
    pub(crate) fn new(log: Log) -> Arc<Self> {
        Arc::new(Self {
            log,
            played: Arc::new(Semaphore::new(PLAYED_KIB_MAX)),
            kept: Kept::new(KEPT_BYTES_MAX, FOLDS_MAX),
        })
    }

    /// The views of a part as of the message `seq`, which is not after the checkpoint `whole` of all views. `has_names`
    /// adds the registrations of all horses in the part, which have their names in other languages.
    ///
    /// # Errors
    /// Returns a [`PastError`].
    pub(crate) async fn store(
        self: &Arc<Self>,
        whole: Checkpoint,
        part: Part,
        has_names: bool,
        seq: u64,
    ) -> PastResult<Arc<Store>> {
        let (this, key) = (Arc::clone(self), (part.clone(), has_names, seq));
        let make = async move { this.folded(&whole, &part, has_names, seq).await };
        self.kept.get_or_make(key, make).await
    }

    /// The views of [`store`](Self::store), and the payload bytes of their messages.
    async fn folded(
        &self,
        whole: &Checkpoint,
        part: &Part,
        has_names: bool,
        seq: u64,
    ) -> PastResult<(Arc<Store>, u64)> {
        let mut subjects = part.subjects();
        let mut messages = self.messages(subjects.clone(), seq).await?;
        let mut store = fold(whole, messages.clone()).await?;
        if has_names {
            let horses = horses_in(&store)?;
            subjects = horses.iter().map(part::subject_of_horse).collect();
            subjects.retain(|subject| !part.subjects().contains(subject));
            messages.extend(self.messages(subjects, seq).await?);
            messages.sort_unstable_by_key(|message| message.seq);
            store = fold(whole, messages.clone()).await?;
        }
        let bytes = messages.iter().map(|message| message.payload.len() as u64);
        Ok((store, bytes.sum()))
    }

    /// Plays a part of the log up to the checkpoint `whole`: the messages from a place on that were stored before `to`.
    ///
    /// # Errors
    /// Returns a [`PastError`].
    pub(crate) async fn play(
        &self,
        whole: Checkpoint,
        part: &Part,
        from: PlayFrom,
        to: Option<Moment>,
        control: watch::Receiver<PlaybackControl>,
    ) -> PastResult<Playback> {
        let _permit = self.kept.permit().await;
        let mut messages = self.messages(part.subjects(), whole.seq).await?;
        let first = messages.first().map_or(whole.seq, |first| first.seq);
        if !whole.can_fold_after(first.saturating_sub(1)) {
            return Err(PastError::Gone);
        }
        messages.truncate(to.map_or(usize::MAX, |to| playback::first_at(&messages, to)));
        let next = match from {
            PlayFrom::Start => 0,
            PlayFrom::Time(time) => playback::first_at(&messages, time),
            PlayFrom::After(seq) => messages.partition_point(|message| message.seq <= seq),
        };
        let bytes: usize = messages.iter().map(|message| message.payload.len()).sum();
        let kib = u32::try_from(PLAYED_KIB_MIN.max(bytes / 1024)).map_err(|_| PastError::Busy)?;
        let permit = Arc::clone(&self.played).try_acquire_many_owned(kib);
        let permit = permit.map_err(|_| PastError::Busy)?;
        let playback =
            spawn_blocking(move || Playback::new(messages, next, whole, control, permit));
        Ok(playback.await??)
    }

    /// The messages on some subjects up to the one with a sequence, in the order of the log.
    async fn messages(&self, subjects: Vec<String>, up_to: u64) -> PastResult<Vec<LogMessage>> {
        let reading = stream::iter(subjects)
            .map(|subject| async move { self.messages_on(&subject, up_to).await })
            .buffer_unordered(READS_CONCURRENT);
        let all = reading.try_fold(Vec::new(), async |mut all, messages| {
            all.extend(messages);
            if all.len() > MESSAGES_MAX {
                return Err(PastError::TooLarge);
            }
            Ok(all)
        });
        let mut all = all.await?;
        all.sort_unstable_by_key(|message: &LogMessage| message.seq);
        Ok(all)
    }

    async fn messages_on(&self, subject: &str, up_to: u64) -> PastResult<Vec<LogMessage>> {
        let mut messages: Vec<LogMessage> = Vec::new();
        loop {
            let from = messages.last().map_or(1, |last| last.seq + 1);
            let page = self.log.messages_on(RACING, subject, from, usize::MAX);
            let page = page.await?;
            messages.extend(page.messages.into_iter().map(|(_, message)| message));
            let end = messages.partition_point(|message| message.seq <= up_to);
            if end > MESSAGES_MAX {
                return Err(PastError::TooLarge);
            }
            if end < messages.len() {
                messages.truncate(end);
                return Ok(messages);
            }
            if page.has_more {
                continue;
            }
            // A server of a cluster may lack the last ones.
            let from = messages.last().map_or(1, |last| last.seq + 1);
            if !self.log.is_clustered() {
                return Ok(messages);
            }
            match self.log.next_message(RACING, from, subject).await? {
                Some(next) if next.seq <= up_to => messages.push(next),
                _ => return Ok(messages),
            }
        }
    }

    /// The events of the next messages after a sequence, at most `max`, up to the message `last`, and the sequence up
    /// to which they are all there are. Rejected messages are left out.
    ///
    /// # Errors
    /// Returns a [`PastError`].
    pub(crate) async fn events_after(
        &self,
        seq: u64,
        last: u64,
        max: usize,
    ) -> PastResult<(Vec<Recorded>, u64)> {
        let page = self.log.messages_on(RACING, ANY_SUBJECT, seq + 1, max);
        let page = page.await?.messages.into_iter();
        let mut messages: Vec<LogMessage> = page.map(|(_, message)| message).collect();
        if messages.is_empty() {
            // A server of a cluster may lack the last ones.
            messages.extend(self.log.next_message(RACING, seq + 1, ANY_SUBJECT).await?);
        }
        messages.retain(|message| message.seq <= last);
        let reached = messages.last().map_or(last, |message| message.seq);
        Ok((decode(messages).await?, reached))
    }

    /// The horses on any card and in any result of a race, among the messages up to `last`.
    ///
    /// # Errors
    /// Returns a [`PastError`].
    pub(crate) async fn horses_of(
        &self,
        race: &RaceKey,
        last: u64,
    ) -> PastResult<BTreeSet<HorseNo>> {
        let subjects = ["race", "result"].map(|kind| format!("racing.{kind}.{race}"));
        let mut horses = BTreeSet::new();
        for recorded in decode(self.messages(subjects.into(), last).await?).await? {
            match recorded.envelope.event {
                Event::RaceDeclared(card) => {
                    horses.extend(card.runners.into_iter().map(|runner| runner.horse_no));
                }
                Event::ResultDeclared(result) => {
                    horses.extend(result.runners.into_iter().map(|runner| runner.horse_no));
                }
                _ => {}
            }
        }
        Ok(horses)
    }

    /// The events about the odds of a race, among the messages up to `last`.
    ///
    /// # Errors
    /// Returns a [`PastError`].
    pub(crate) async fn quotes(&self, race: &RaceKey, last: u64) -> PastResult<Vec<Recorded>> {
        let subject = format!("racing.odds.{race}");
        decode(self.messages(vec![subject], last).await?).await
    }

    /// The message that the log stored last at or before a time, among those up to `last`: its sequence. 0 if there is
    /// none. Where the log's clock stepped back, one of those that a step is after.
    ///
    /// # Errors
    /// Returns [`PastError::Log`].
    pub(crate) async fn seq_at(&self, time: Moment, last: u64) -> PastResult<u64> {
        let (mut before, mut after) = (0, last + 1);
        while before + 1 < after {
            let middle = before + (after - before) / 2;
            match self.log.next_message(RACING, middle, ANY_SUBJECT).await? {
                Some(found) if found.seq < after && found.recorded_at <= time => before = found.seq,
                _ => after = middle,
            }
        }
        Ok(before)
    }

    /// When the log stored the last message up to a sequence. `None` before the first.
    ///
    /// # Errors
    /// Returns [`PastError::Log`].
    pub(crate) async fn recorded_at(&self, seq: u64) -> PastResult<Option<Moment>> {
        let found = self.log.next_message(RACING, seq, ANY_SUBJECT).await?;
        Ok(found.map(|found| found.recorded_at))
    }

    /// The event by which a race was off, among those up to `last`. `None` if there is none.
    ///
    /// # Errors
    /// Returns a [`PastError`].
    pub(crate) async fn off(&self, race: &RaceKey, last: u64) -> PastResult<Option<u64>> {
        let subject = format!("racing.race.{race}");
        let messages = self.messages_on(&subject, last).await?;
        let mut offs = messages.iter().filter(|message| {
            let decoded = Envelope::decode(message.subject(), &message.payload);
            let event = decoded.map(|envelope| envelope.event);
            matches!(event, Ok(Event::RaceStatusChanged(change)) if change.status == RaceStatus::Off)
        });
        Ok(offs.next().map(|message| message.seq))
    }
}

/// The events of messages, without the rejected ones.
async fn decode(messages: Vec<LogMessage>) -> PastResult<Vec<Recorded>> {
    let decoding = spawn_blocking(move || {
        let decoded = messages.iter().map(|message| message.as_message().decode());
        decoded.filter_map(Result::ok).collect()
    });
    Ok(decoding.await?)
}

/// Folds a part of the log of whose views `whole` is a checkpoint.
async fn fold(whole: &Checkpoint, messages: Vec<LogMessage>) -> PastResult<Arc<Store>> {
    let first = messages.first().map_or(whole.seq, |first| first.seq);
    if !whole.can_fold_after(first.saturating_sub(1)) {
        return Err(PastError::Gone);
    }
    let store = Arc::new(Store::in_memory());
    let mut projection = Projection::of_part(Arc::clone(&store), whole);
    let folding = spawn_blocking(move || {
        let messages = messages.iter().map(LogMessage::as_message);
        projection.step(messages, false).map(drop)
    });
    folding.await??;
    Ok(store)
}
