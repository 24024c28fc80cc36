//! [`Freshness`]: when a reader was last known to be at the end of its stream.

use std::collections::VecDeque;
use std::time::Duration;

use super::stream::LogState;
use crate::clock::Uptime;

/// Ends of the stream that are not reached yet. Older ones are dropped: a reader that is so far behind is stale anyway.
const HEADS_MAX: usize = 16;

/// The silence of a mirror that has never heard from its source: longer than any feed is called live.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

/// The end of a stream, as the server reported it.
#[derive(Debug, Clone, Copy)]
pub struct Head {
    /// The sequence of the last message; 0 if there is none.
    pub last_seq: u64,
    /// The messages after that which a mirror has not received yet.
    pub lag: u64,
    /// When the server was asked; of a mirror, when it had last heard from its source. There was no later message then.
    pub asked_at: Uptime,
}

impl Head {
    /// The end of a stream that a server was asked for at this time.
    pub(super) fn new(state: &LogState, asked_at: Uptime) -> Self {
        let mirror = state.mirror;
        let silent = mirror.map_or(Duration::ZERO, |of| of.silent.unwrap_or(NEVER));
        Self {
            last_seq: state.last_seq,
            lag: mirror.map_or(0, |mirror| mirror.lag),
            asked_at: asked_at - silent,
        }
    }
}

/// When what was read was last known to be all that the stream had.
///
/// It rests on answers of the server alone. A connection without errors proves nothing: a frozen server sends none.
#[derive(Debug, Clone)]
pub struct Freshness {
    heads: VecDeque<Head>,
    /// The time of the latest proof, at first of the start.
    proved_at: Uptime,
}

impl Freshness {
    /// Notes the end of the stream, if the server reported it, and how far the reader is.
    pub fn advance(&mut self, head: Option<Head>, seq: u64) {
        self.heads.extend(head);
        while let Some(head) = self.heads.front()
            && head.last_seq + head.lag <= seq
        {
            self.proved_at = head.asked_at;
            self.heads.pop_front();
        }
        if self.heads.len() > HEADS_MAX {
            self.heads.pop_front();
        }
    }

    /// Takes what another reader of the stream has proved, if that is later.
    pub fn join(&mut self, other: Self) {
        if other.proved_at > self.proved_at {
            *self = other;
        }
    }

    /// Whether a question that was asked at this time or later has proved it.
    pub fn is_proved_since(&self, time: Uptime) -> bool {
        self.proved_at >= time
    }

    /// The time since the latest proof; since the start if there is none.
    pub fn age(&self) -> Duration {
        self.age_at(Uptime::now())
    }

    fn age_at(&self, time: Uptime) -> Duration {
        time.since(self.proved_at)
    }
}

impl Default for Freshness {
    /// A reader that starts now.
    fn default() -> Self {
        Self {
            heads: VecDeque::new(),
            proved_at: Uptime::now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use projections::LogIdentity;

    use super::{Freshness, HEADS_MAX, Head, LogState, NEVER};
    use crate::clock::Uptime;
    use crate::log::MirrorState;

    fn head(last_seq: u64, seconds_ago: u64) -> Option<Head> {
        Some(Head {
            last_seq,
            lag: 0,
            asked_at: Uptime::now() - Duration::from_secs(seconds_ago),
        })
    }

    fn age(freshness: &Freshness) -> u64 {
        freshness.age().as_secs()
    }

    #[test]
    fn a_reader_at_the_end_is_as_fresh_as_the_question() {
        let mut freshness = Freshness::default();
        freshness.advance(head(7, 20), 7);
        assert_eq!(age(&freshness), 20);
        freshness.advance(head(7, 5), 7);
        assert_eq!(age(&freshness), 5);
    }

    #[test]
    fn a_proof_grows_older_while_the_machine_sleeps() {
        let mut freshness = Freshness::default();
        let asked_at = Uptime::now();
        let head = Head {
            last_seq: 7,
            lag: 0,
            asked_at,
        };
        freshness.advance(Some(head), 7);
        let hour = Duration::from_secs(60 * 60);
        assert_eq!(freshness.age_at(asked_at + hour), hour);
        assert_eq!(freshness.age_at(asked_at - hour), Duration::ZERO);
    }

    #[test]
    fn progress_without_an_answer_of_the_server_proves_nothing() {
        let mut freshness = Freshness::default();
        freshness.advance(head(7, 20), 7);
        for seq in 8..100 {
            freshness.advance(None, seq);
        }
        assert_eq!(age(&freshness), 20);
    }

    #[test]
    fn a_reader_that_lags_is_as_fresh_as_the_last_end_that_it_reached() {
        let mut freshness = Freshness::default();
        freshness.advance(head(10, 30), 10);
        freshness.advance(head(20, 20), 10);
        freshness.advance(head(30, 10), 19);
        assert_eq!(age(&freshness), 30);
        freshness.advance(None, 29);
        assert_eq!(age(&freshness), 20);
        freshness.advance(None, 30);
        assert_eq!(age(&freshness), 10);
    }

    #[test]
    fn a_mirror_is_as_fresh_as_the_last_word_of_its_source() {
        let state = |lag, silent: Option<u64>| LogState {
            identity: LogIdentity {
                name: "RACING".to_owned(),
                created: String::new(),
            },
            last_seq: 7,
            messages: 7,
            mirror: Some(MirrorState {
                lag,
                silent: silent.map(Duration::from_secs),
            }),
        };
        let mut freshness = Freshness::default();
        let mut asked = |state, seq| {
            freshness.advance(Some(Head::new(&state, Uptime::now())), seq);
            age(&freshness)
        };
        assert_eq!(asked(state(0, Some(40)), 7), 40);
        assert_eq!(asked(state(0, Some(0)), 7), 0);
        // It does not have what it knows of.
        assert_eq!(asked(state(3, Some(0)), 7), 0, "the proof before holds");
        assert_eq!(asked(state(0, None), 10), NEVER.as_secs());
    }

    #[test]
    fn the_ends_that_wait_are_bounded() {
        let mut freshness = Freshness::default();
        for n in 0..1_000 {
            freshness.advance(head(10 + n, 0), 1);
            assert!(freshness.heads.len() <= HEADS_MAX);
        }
    }
}
