//! [`MeetingFields`] and [`LogFields`], which all messages about a race have.

use events::{Moment, RaceKey, RacingDate, VenueCode};
use schemars::JsonSchema;
use serde::Serialize;

use crate::quotes::EventTimes;
use crate::race::Race;

/// The fields of every message that name the meeting.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct MeetingFields<'a> {
    /// The meeting's date.
    date: RacingDate,
    /// The racecourse's name.
    venue: &'a str,
    /// The racecourse's code.
    venue_code: &'a VenueCode,
}

/// The fields of every message that say when its event happened, and where it is in the log.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct LogFields {
    /// When it happened according to the feeder, RFC 3339.
    timestamp: Moment,
    /// When the log stored it, RFC 3339, to the microsecond.
    recorded_at: Moment,
    /// The log sequence of the change.
    seq: u64,
    /// The `seq` of the previous message of the same `event` about the same race, and in a quote of the same source and
    /// market; 0 if there is none.
    prev_seq: u64,
}

impl<'a> MeetingFields<'a> {
    pub(super) fn of(key: &'a RaceKey, race: &'a Race) -> Self {
        Self {
            date: key.date,
            venue: race.venue_name(key),
            venue_code: &key.venue,
        }
    }
}

impl LogFields {
    pub(super) fn of(event: EventTimes, prev_seq: u64) -> Self {
        Self {
            timestamp: event.time,
            recorded_at: event.recorded_at,
            seq: event.seq,
            prev_seq,
        }
    }
}
