//! [`Playback`]: plays past messages of the log to a feed of its own, at any speed.

use std::sync::Arc;
use std::time::Duration;

use events::Moment;
use futures::future::OptionFuture;
use jiff::Timestamp;
use projections::{Checkpoint, Projection, Store, StoreError, open_races};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep_until};

use crate::feed::{EventTime, Feed, Replayed};
use crate::log::LogMessage;

/// Seconds of the log that are played in one second.
pub(crate) const SPEED: std::ops::RangeInclusive<f64> = 0.1..=1_000.0;
/// The longest pause between two messages: a replay of several days does not wait through the nights for longer.
const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How a client wants its messages played.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PlaybackControl {
    /// In [`SPEED`].
    pub(crate) speed: f64,
    pub(crate) is_paused: bool,
    /// How often the client has sought a place, and the last one.
    pub(crate) sought: (u32, Option<Moment>),
    /// `None` before the messages are read, and without any.
    pub(crate) span: Option<PlaybackSpan>,
}

/// All messages of a replay, wherever it begins.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub(crate) struct PlaybackSpan {
    /// When the log stored the first message.
    first_at: Moment,
    /// When the log stored the last message.
    last_at: Moment,
    /// The sequence of the last message: a heartbeat with this `seq` is the end.
    last_seq: u64,
}

/// Messages that are played to a feed.
pub(crate) struct Playback {
    messages: Vec<LogMessage>,
    /// The index of the next one.
    next: usize,
    /// A later checkpoint of all views.
    whole: Checkpoint,
    projection: Projection,
    pub(crate) feed: Feed,
    control: watch::Receiver<PlaybackControl>,
    /// For the memory of the messages.
    _permit: OwnedSemaphorePermit,
}

impl Playback {
    /// Makes the feed that of the messages before a place.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the fold fails.
    pub(super) fn new(
        messages: Vec<LogMessage>,
        next: usize,
        whole: Checkpoint,
        control: watch::Receiver<PlaybackControl>,
        permit: OwnedSemaphorePermit,
    ) -> Result<Self, StoreError> {
        let mut playback = Self {
            messages,
            next,
            projection: Projection::of_part(Arc::new(Store::in_memory()), &whole),
            whole,
            feed: Feed::default(),
            control,
            _permit: permit,
        };
        playback.move_to(next)?;
        Ok(playback)
    }

    pub(crate) fn span(&self) -> Option<PlaybackSpan> {
        let (first, last) = (self.messages.first()?, self.messages.last()?);
        Some(PlaybackSpan {
            first_at: first.recorded_at,
            last_at: last.recorded_at,
            last_seq: last.seq,
        })
    }

    /// Plays until the client has left.
    pub(crate) async fn run(mut self) {
        if let Err(error) = self.play().await {
            tracing::error!(%error, "a replay ended");
        }
    }

    async fn play(&mut self) -> Result<(), StoreError> {
        let next = self.messages.get(self.next).or(self.messages.last());
        let mut time = next.map_or(Timestamp::MIN, |next| next.recorded_at.timestamp());
        let mut moves = 0;
        loop {
            let control = *self.control.borrow_and_update();
            // Also what was sought before this ran, or while it moved.
            if let (count, Some(sought)) = control.sought
                && count > moves
            {
                moves = count;
                self.move_to(first_at(&self.messages, sought))?;
                // The first message follows at once, however long before it the place is.
                let first = self.messages.first().map(|first| first.recorded_at);
                time = first.unwrap_or(sought).max(sought).timestamp();
            }
            let begun = Instant::now();
            loop {
                let due = (self.messages.get(self.next)).filter(|_| !control.is_paused);
                let due = due.map(|next| begun + wait(time, next.recorded_at, control.speed));
                let due = OptionFuture::from(due.map(sleep_until));
                tokio::select! {
                    biased;
                    changed = self.control.changed() => {
                        if changed.is_err() {
                            return Ok(());
                        }
                        break;
                    }
                    Some(()) = due => self.play_next()?,
                }
            }
            if !control.is_paused {
                let played = begun.elapsed().mul_f64(control.speed);
                time = time.saturating_add(played).unwrap_or(Timestamp::MAX);
            }
        }
    }

    /// Starts the feed again with what was before a message. The last message before it is played: a client that was
    /// sent it resumes there.
    fn move_to(&mut self, next: usize) -> Result<(), StoreError> {
        let last = next.saturating_sub(1);
        let store = Arc::new(Store::in_memory());
        self.projection = Projection::of_part(Arc::clone(&store), &self.whole);
        let before = self.messages[..last].iter();
        (self.projection).step(before.map(LogMessage::as_message), false)?;
        self.next = last;
        let checkpoint = self.projection.checkpoint();
        let replayed = Replayed::nothing(checkpoint);
        (self.feed).reset(checkpoint, open_races(&store)?, replayed);
        match last < next {
            true => self.play_next(),
            false => Ok(()),
        }
    }

    fn play_next(&mut self) -> Result<(), StoreError> {
        let message = &self.messages[self.next];
        self.next += 1;
        let step = self.projection.step([message.as_message()], true)?;
        let log_time = self.projection.checkpoint().clock.latest_time();
        let event = EventTime::of(message);
        self.feed.publish(step.updates, &[event], log_time);
        Ok(())
    }
}

/// The index of the first message that was stored at a time or later.
pub(super) fn first_at(messages: &[LogMessage], time: Moment) -> usize {
    let is_first = |message: &LogMessage| message.recorded_at >= time;
    messages.iter().position(is_first).unwrap_or(messages.len())
}

/// How long it takes from a time of the log to another one.
fn wait(from: Timestamp, to: Moment, speed: f64) -> Duration {
    let wait = Duration::try_from(to.timestamp().duration_since(from));
    (wait.unwrap_or_default().div_f64(speed)).min(WAIT_MAX)
}

#[cfg(test)]
mod tests {
    use projections::LogIdentity;
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn a_place_that_is_sought_before_it_plays_is_moved_to() {
        let log = LogIdentity {
            name: "RACING".to_owned(),
            created: "now".to_owned(),
        };
        let whole = Projection::new(Arc::new(Store::in_memory()), log);
        let whole = whole.checkpoint().clone();
        let memory = Arc::new(Semaphore::new(1));
        let permit = memory.try_acquire_owned().unwrap();
        let (control, controlled) = watch::channel(PlaybackControl {
            speed: 1.0,
            is_paused: false,
            sought: (0, None),
            span: None,
        });
        let playback = Playback::new(Vec::new(), 0, whole, controlled, permit).unwrap();
        let feed = playback.feed.clone();
        let generation = feed.position().generation;
        let place = Timestamp::UNIX_EPOCH.into();
        control.send_modify(|control| control.sought = (1, Some(place)));
        drop(control);
        playback.run().await;
        assert_eq!(feed.position().generation, generation + 1);
    }
}
