//! [`Newest`]: which events are new, however often and however much later they are repeated.

use std::collections::BTreeMap;

use events::{Envelope, Moment, Recorded};
use serde::{Deserialize, Serialize};

/// The sources whose events about one thing are ordered apart: a race has a few feeders. More share one order.
const SOURCES_MAX: usize = 16;

/// The key of the sources that share one order. No source is empty.
const OTHER_SOURCES: &str = "";

/// The identities that are kept of a source. Usually one is enough; more are of events with equal times, such as those
/// of an import without times, or with times that the log has not reached.
const IDENTITIES_MAX: usize = 512;

/// Microseconds since 1970: shorter in the stored state than RFC 3339.
type Micros = i64;

/// The identity of an event: a hash of its source and its id.
pub(crate) fn identity(envelope: &Envelope) -> u64 {
    identity_of(&envelope.source, &envelope.id)
}

/// The identity of an event with this source and id. Two feeders may use the same id.
pub(crate) fn identity_of(source: &str, id: &str) -> u64 {
    let mut hash = blake3::Hasher::new();
    // Neither of the two contains a line feed.
    for part in [source, "\n", id] {
        hash.update(part.as_bytes());
    }
    let mut identity = [0; 8];
    hash.finalize_xof().fill(&mut identity);
    u64::from_le_bytes(identity)
}

/// The order of events that replace each other, such as the statuses of a race.
///
/// Sources are ordered apart, because their clocks differ: between two sources the order of the log is in force. Of one
/// source an event is stale if its `time` is before that of the latest one. Of equal times the later in the log is the
/// newer, unless it is known. A clock that is ahead counts as that of the log, so that the events after it are not
/// stale; the identities of such events are kept until the log has passed their times.
///
/// So an event that was new once is never new again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Newest<const MAX: usize = IDENTITIES_MAX> {
    by_source: BTreeMap<String, SourceOrder<MAX>>,
}

/// The order of the events of one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SourceOrder<const MAX: usize> {
    /// The time of the latest event, but not later than the log.
    time: Micros,
    /// The events at `time` or later: their times, ascending, and their identities.
    known: Vec<(Micros, u64)>,
    /// The latest time of an event at `time` or later whose identity was dropped. No event up to it is new again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dropped: Option<Micros>,
}

/// What an event is among those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    New,
    /// It is one of those before.
    Repeated,
    /// It is older than the latest one, or may be one of those before.
    Stale,
}

impl<const MAX: usize> Newest<MAX> {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_source.is_empty()
    }

    /// Takes an event. One before `since` is stale; `since` never goes back.
    pub(crate) fn take(
        &mut self,
        recorded: &Recorded,
        identity: u64,
        since: Option<Moment>,
    ) -> Order {
        let since = since.map_or(Micros::MIN, micros);
        let Envelope { source, time, .. } = &recorded.envelope;
        let recorded_at = micros(recorded.recorded_at);
        self.take_at(source, micros(*time), recorded_at, identity, since)
    }

    /// Takes an event whose time does not matter. After `MAX` of a source, all of it are stale.
    pub(crate) fn take_untimed(&mut self, recorded: &Recorded, identity: u64) -> Order {
        self.take_at(&recorded.envelope.source, 0, 0, identity, Micros::MIN)
    }

    fn take_at(
        &mut self,
        source: &str,
        time: Micros,
        recorded_at: Micros,
        identity: u64,
        since: Micros,
    ) -> Order {
        let source = match self.by_source.len() < SOURCES_MAX {
            true => source,
            false if self.by_source.contains_key(source) => source,
            false => OTHER_SOURCES,
        };
        if let Some(order) = self.by_source.get_mut(source) {
            return order.take(time, recorded_at, identity, since);
        }
        if time < since {
            return Order::Stale;
        }
        let first = SourceOrder {
            time: time.min(recorded_at),
            known: vec![(time, identity)],
            dropped: None,
        };
        self.by_source.insert(source.to_owned(), first);
        Order::New
    }
}

impl<const MAX: usize> SourceOrder<MAX> {
    fn take(&mut self, time: Micros, recorded_at: Micros, identity: u64, since: Micros) -> Order {
        if self.known.iter().any(|(_, known)| *known == identity) {
            return Order::Repeated;
        }
        if time < self.time.max(since) || self.dropped.is_some_and(|dropped| time <= dropped) {
            return Order::Stale;
        }
        // The log's clock may step back: the latest time is the lower bound of it.
        self.time = time.min(recorded_at.max(self.time));
        let index = self.known.partition_point(|(known, _)| *known <= time);
        self.known.insert(index, (time, identity));
        let passed = self.time.max(since);
        let old = self.known.partition_point(|(known, _)| *known < passed);
        self.known.drain(..old);
        if self.known.len() > MAX {
            let (dropped, _) = self.known.remove(0);
            self.dropped = Some(dropped);
        }
        Order::New
    }
}

fn micros(time: Moment) -> Micros {
    time.timestamp().as_microsecond()
}

#[cfg(test)]
mod tests {
    use events::{Event, GoingChanged, RaceNumber, RacingDate, Text, VenueCode};
    use proptest::prelude::*;

    use super::*;

    fn moment(second: u32) -> Moment {
        Moment::parse(&format!("2026-11-21T06:00:{second:02}Z")).expect("a time")
    }

    fn event(source: &str, id: &str, time: u32, recorded_at: u32) -> Recorded {
        let event = Event::GoingChanged(GoingChanged {
            date: RacingDate::parse("2026-11-21").expect("a date"),
            venue: VenueCode::parse("ST").expect("a code"),
            race_number: RaceNumber::parse("1").expect("a number"),
            going: Text::default(),
        });
        Recorded {
            seq: 1,
            recorded_at: moment(recorded_at),
            envelope: Envelope {
                id: id.to_owned(),
                source: source.to_owned(),
                time: moment(time),
                event,
            },
        }
    }

    fn take<const MAX: usize>(newest: &mut Newest<MAX>, recorded: &Recorded) -> Order {
        newest.take(recorded, identity(&recorded.envelope), None)
    }

    #[test]
    fn a_source_is_ordered_by_its_own_times_and_two_sources_by_the_log() {
        let mut newest = Newest::<4>::default();
        for (source, id, time, order) in [
            ("a", "1", 10, Order::New),
            ("a", "2", 9, Order::Stale),
            ("b", "2", 9, Order::New),
            ("a", "1", 10, Order::Repeated),
            ("a", "3", 10, Order::New),
            ("a", "1", 10, Order::Repeated),
            ("b", "1", 10, Order::New),
        ] {
            assert_eq!(take(&mut newest, &event(source, id, time, 30)), order);
        }
    }

    #[test]
    fn a_clock_that_is_corrected_and_a_log_whose_clock_steps_back_lose_nothing() {
        let mut newest = Newest::<4>::default();
        for (id, time, recorded_at) in [
            // Ahead, then corrected.
            ("1", 50, 10),
            ("2", 11, 11),
            // The log steps back.
            ("3", 12, 2),
            ("4", 13, 3),
        ] {
            let event = event("a", id, time, recorded_at);
            assert_eq!(take(&mut newest, &event), Order::New, "{id}");
        }
        assert_eq!(take(&mut newest, &event("a", "1", 50, 59)), Order::Repeated);
    }

    #[test]
    fn many_events_with_one_time_or_from_many_sources_stay_bounded() {
        let mut newest = Newest::<4>::default();
        for n in 0..100 {
            take(&mut newest, &event("a", &n.to_string(), 10, 30));
            take(&mut newest, &event(&n.to_string(), "1", 10 + n % 40, 30));
        }
        assert_eq!(newest.by_source.len(), SOURCES_MAX + 1);
        assert!(
            newest
                .by_source
                .values()
                .all(|order| order.known.len() <= 4)
        );
        let later = event("a", "later", 11, 30);
        assert_eq!(take(&mut newest, &later), Order::New);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn an_event_is_new_at_most_once_at_any_distance(
            events in prop::collection::vec((0..3_u32, 0..30_u32, 0..20_u32, 0..60_u32), 1..120),
        ) {
            let mut newest = Newest::<3>::default();
            let mut new = std::collections::HashSet::new();
            for (source, id, time, recorded_at) in events {
                // An event has one time.
                let time = (time + id * 7) % 60;
                let event = event(&source.to_string(), &format!("{id} {time}"), time, recorded_at);
                if take(&mut newest, &event) == Order::New {
                    prop_assert!(new.insert(event.envelope.clone().id + &event.envelope.source));
                }
            }
        }
    }
}
