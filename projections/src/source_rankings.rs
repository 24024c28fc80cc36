//! [`SourceRankings`]: the operator's rankings of sources, of which the latest is in force.

use events::{Recorded, SourcesRanked, Text};
use serde::{Deserialize, Serialize};

use crate::log_clock::LogClock;
use crate::newest::{Newest, Order};

/// The rankings that are kept, so that a replay of the latest messages knows the one at each of them. An operator
/// changes a ranking a few times a day.
const RANKINGS_KEPT: usize = 16;

/// The identities of rankings with one time that are known.
const RANKING_IDS_MAX: usize = 16;

/// The place of a source in a ranking, 0 for the highest. Sources that are not ranked share the last one.
pub(crate) fn rank(ranking: &[Text], source: &str) -> usize {
    let place = ranking.iter().position(|of| of.as_str() == source);
    place.unwrap_or(ranking.len())
}

/// A fold of the rankings of sources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRankings {
    order: Newest<RANKING_IDS_MAX>,
    /// The latest ones, each with the sequence of its event.
    latest: Vec<(u64, Vec<Text>)>,
}

impl SourceRankings {
    pub(crate) fn take(
        &mut self,
        recorded: &Recorded,
        ranked: &SourcesRanked,
        clock: &LogClock,
    ) -> Order {
        let order = self.order.take(recorded, clock);
        if order == Order::New {
            if self.latest.len() == RANKINGS_KEPT {
                self.latest.remove(0);
            }
            self.latest.push((recorded.seq, ranked.sources.clone()));
        }
        order
    }

    /// The ranking in force at a sequence.
    pub(crate) fn at(&self, seq: u64) -> &[Text] {
        let begun = self.latest.partition_point(|(first, _)| *first <= seq);
        let in_force = self.latest[..begun].last();
        in_force.map_or(&[], |(_, sources)| sources)
    }

    /// Whether the rankings in force at a sequence and at all later ones are known.
    pub(crate) fn are_known_from(&self, seq: u64) -> bool {
        self.latest.len() < RANKINGS_KEPT || self.latest[0].0 <= seq
    }
}
