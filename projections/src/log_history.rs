//! [`LogHistory`]: which messages of the log were folded.

use derive_more::Display;
use events::Moment;
use serde::{Deserialize, Serialize};

/// Which messages of the log were folded, as a hash of their sequences and times in their order. The identity of a
/// stream and a sequence do not determine that: an operator can delete messages, and a stream can lose its end and grow
/// again. Folds of the same stream with the same history hold the same views.
#[derive(Debug, Display, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[display("{hash:016x}")]
pub struct LogHistory {
    hash: u64,
    /// How many sequences up to the last message had none.
    pub missing: u64,
}

impl LogHistory {
    /// Adds the message that follows the one with the sequence `last`.
    pub(crate) fn add(&mut self, last: u64, seq: u64, recorded_at: Moment) {
        // The low 64 bits of a time in nanoseconds repeat only after 584 years.
        let nanoseconds = recorded_at.timestamp().as_nanosecond() as u64;
        self.hash = mix(mix(self.hash ^ seq).wrapping_add(nanoseconds));
        self.missing += (seq - last).saturating_sub(1);
    }
}

/// The finalizer of SplitMix64: each bit of the input changes half of the output. It guards against accidents, not
/// against forgery.
fn mix(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use events::Moment;
    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::LogHistory;

    fn at(nanoseconds: i64) -> Moment {
        let time = Timestamp::from_nanosecond(nanoseconds.into());
        time.expect("an i64 is in range").into()
    }

    /// The history of messages with these sequences and times.
    fn history(messages: &[(u64, i64)]) -> LogHistory {
        let mut history = LogHistory::default();
        let mut last = 0;
        for (seq, time) in messages {
            history.add(last, *seq, at(*time));
            last = *seq;
        }
        history
    }

    proptest! {
        /// A deleted message, another time, or another message at one place make another history.
        #[test]
        fn another_set_of_messages_is_another_history(
            times in proptest::collection::vec(any::<i64>(), 2..40),
            index in any::<prop::sample::Index>(),
            change in 1_i64..1_000_000_000_000,
        ) {
            let all: Vec<(u64, i64)> = (1..).zip(times).collect();
            let index = index.index(all.len() - 1);
            let mut with_hole = all.clone();
            with_hole.remove(index);
            prop_assert_eq!(history(&with_hole).missing, 1);
            prop_assert_ne!(history(&with_hole).to_string(), history(&all).to_string());
            let mut changed = all.clone();
            changed[index].1 = changed[index].1.wrapping_add(change);
            prop_assert_ne!(history(&changed), history(&all));
            prop_assert_eq!(history(&all).missing, 0);
        }
    }
}
