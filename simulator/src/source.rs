//! The sources of a day, each with a clock of its own, and when one of them is down.

use std::ops::Range;

use events::{Envelope, Moment};
use jiff::{SignedDuration, Timestamp};

use crate::day::{MeetingTime, Pace, RaceDay};
use crate::units::MINUTE_MS;

/// Publishes horses, cards, announcements, statuses and results.
pub(crate) const RACECOURSE: &str = "simulated-racecourse";
/// Publishes the odds of its pools, and their dividends.
pub(crate) const TOTE: &str = "simulated-tote";
pub(crate) const BOOKMAKER: &str = "simulated-bookmaker";
pub(crate) const EXCHANGE: &str = "simulated-exchange";

/// The bookmaker is down this long, from so long before the off of the second race of the afternoon. At ten times real
/// speed it is long enough that the service shows it.
const OUTAGE_MS: u64 = 8 * MINUTE_MS;
const OUTAGE_BEFORE_OFF_MS: u64 = 9 * MINUTE_MS;

/// How far the clock of a source is ahead, in milliseconds.
fn clock_ahead_ms(source: &str) -> i64 {
    match source {
        BOOKMAKER => -1_400,
        EXCHANGE => 250,
        _ => 0,
    }
}

/// The time by the clock of a source.
pub(crate) fn time_of(source: &str, at: Moment) -> Moment {
    Moment::from(shifted(at, clock_ahead_ms(source)))
}

/// When an event of a [`script`](crate::script) is published, by a clock that is right.
pub fn publish_at(envelope: &Envelope) -> Timestamp {
    shifted(envelope.time, -clock_ahead_ms(&envelope.source))
}

fn shifted(time: Moment, ms: i64) -> Timestamp {
    let by = SignedDuration::from_millis(ms);
    let shifted = time.timestamp().saturating_add(by);
    shifted.unwrap_or(Timestamp::MAX)
}

impl RaceDay {
    /// The names of the sources of a day that are up at this time.
    pub fn sources_alive(&self, pace: &Pace, now: Timestamp) -> Vec<&'static str> {
        let outage = self.outage_ms();
        let at = |ms: u64| pace.at(ms.saturating_sub(self.cards_out_ms()));
        let is_down = (at(outage.start)..at(outage.end)).contains(&now);
        let mut sources = vec![RACECOURSE, TOTE, BOOKMAKER, EXCHANGE];
        sources.retain(|source| !is_down || *source != BOOKMAKER);
        sources
    }

    /// When the bookmaker is down, in milliseconds after midnight. A day of one race has it there.
    pub(crate) fn outage_ms(&self) -> Range<u64> {
        let off_ms = self.off_ms(MeetingTime::Afternoon, self.races.min(2).into());
        let start = off_ms - OUTAGE_BEFORE_OFF_MS;
        start..start + OUTAGE_MS
    }
}
