//! [`Cursor`]: the position of one client in the feed.

use std::sync::Arc;

use serde_json::Value;

use crate::feed::{FeedMessage, Position};
use crate::live::batch::FeedCursor;

pub(super) struct Cursor {
    pub(super) generation: u64,
    /// The index of the next message. While the client is current, messages after it may have passed that it did not
    /// want.
    pub(super) next_index: u64,
    /// Every message for this client up to this log sequence has been sent. While the client is current, it may be
    /// more.
    pub(super) through_seq: u64,
    /// Everything that its shard has delivered has been sent to this client, too.
    pub(super) is_current: bool,
    pub(super) replay: Option<Replay>,
}

/// Messages that a client is sent again after a resume.
pub(super) struct Replay {
    /// The index of the first message that is new.
    until: u64,
    /// Messages sent so far.
    pub(super) sent: usize,
    /// The id of the client message that requested the replay.
    pub(super) id: Option<Value>,
}

impl Cursor {
    /// After the last message.
    pub(super) fn new(position: &Position) -> Self {
        Self {
            generation: position.generation,
            next_index: position.head,
            through_seq: position.seq,
            is_current: true,
            replay: None,
        }
    }

    /// Moves to the end of the feed: everything up to there has been sent.
    pub(super) fn move_to(&mut self, position: &Position) {
        self.next_index = position.head;
        self.through_seq = position.seq;
        self.is_current = true;
    }

    /// Moves back to the message at `from`, to replay those up to `until`.
    pub(super) fn start_replay(&mut self, from: u64, since: u64, until: u64, id: Option<Value>) {
        self.next_index = from;
        self.through_seq = since;
        self.is_current = false;
        self.replay = Some(Replay { until, sent: 0, id });
    }

    /// The replay, once all of it has been sent.
    pub(super) fn finish_replay(&mut self) -> Option<Replay> {
        let next_index = self.next_index;
        self.replay.take_if(|replay| next_index >= replay.until)
    }

    /// Notes that the messages after `delivered` are not sent yet.
    pub(super) fn fall_behind(&mut self, delivered: FeedCursor) {
        if std::mem::take(&mut self.is_current) {
            self.next_index = self.next_index.max(delivered.next_index);
            self.through_seq = self.through_seq.max(delivered.seq);
        }
    }

    /// Notes that everything that its shard has delivered reflects `seq`.
    pub(super) fn reflect(&mut self, seq: u64) {
        if self.is_current {
            self.through_seq = self.through_seq.max(seq);
        }
    }

    /// Notes that the messages before `offset` were sent or not wanted. They end before the index `end`.
    pub(super) fn advance(&mut self, messages: &[Arc<FeedMessage>], offset: usize, end: u64) {
        match messages.get(offset) {
            Some(next) => {
                self.next_index = next.index;
                self.through_seq = next.seq - 1;
                self.is_current = false;
            }
            None => self.next_index = end,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Cursor;
    use crate::feed::Position;
    use crate::live::batch::FeedCursor;

    fn position(head: u64, seq: u64) -> Position {
        Position {
            generation: 0,
            epoch: Arc::from(""),
            head,
            seq,
        }
    }

    #[test]
    fn only_a_current_client_falls_behind_and_never_backwards() {
        let mut cursor = Cursor::new(&position(5, 50));
        cursor.reflect(60);
        cursor.fall_behind(FeedCursor::from(&position(3, 55)));
        assert_eq!((cursor.next_index, cursor.through_seq), (5, 60));
        assert!(!cursor.is_current);
        cursor.fall_behind(FeedCursor::from(&position(9, 90)));
        cursor.reflect(90);
        assert_eq!((cursor.next_index, cursor.through_seq), (5, 60));
        cursor.move_to(&position(9, 90));
        assert!(cursor.is_current);
        assert_eq!((cursor.next_index, cursor.through_seq), (9, 90));
    }

    #[test]
    fn a_replay_ends_where_new_messages_begin() {
        let mut cursor = Cursor::new(&position(5, 50));
        cursor.start_replay(2, 20, 5, Some("a".into()));
        cursor.replay.as_mut().expect("a replay").sent = 2;
        cursor.advance(&[], 0, 4);
        assert!(cursor.finish_replay().is_none() && cursor.replay.is_some());
        cursor.advance(&[], 0, 5);
        let replay = cursor.finish_replay().expect("all is sent");
        assert_eq!((replay.sent, replay.id), (2, Some("a".into())));
        assert!(cursor.replay.is_none());
    }
}
