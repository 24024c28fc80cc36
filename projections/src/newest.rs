//! [`Newest`]: which events are new, however often and however much later they are repeated.

use std::collections::BTreeMap;

use events::{Envelope, Recorded, SOURCES_MAX};
use serde::{Deserialize, Serialize};

use crate::json;
use crate::log_clock::{LogClock, Micros};

/// The key of the sources beyond [`SOURCES_MAX`], which share one order. No source is empty.
const OTHER_SOURCES: &str = "";

/// The identities that are kept of a source. Usually a few are enough; more are of events with equal times, such as
/// those of an import without times, or with times that the log has not reached.
const IDENTITIES_MAX: usize = 512;

/// The identities that are kept of events before the latest one: those of all statuses of a race. Without them, some
/// could be new again once the log's clock has stepped back.
const EARLIER_MAX: usize = 8;

/// The identity of an event: a hash of its source and its id.
pub(crate) fn identity(envelope: &Envelope) -> u64 {
    identity_of(&envelope.source, &envelope.id)
}

/// The identity of an event with this source and id. Two feeders may use the same id.
pub(crate) fn identity_of(source: &str, id: &str) -> u64 {
    // Neither of the two contains a line feed.
    let mut hash = blake3::Hasher::new();
    hash.update(source.as_bytes()).update(b"\n");
    hash.update(id.as_bytes());
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
/// So an event that was new once is never new again, unless the log's clock has stepped back: then no time that was
/// taken before makes an event stale that happened since, and one whose identity was dropped may be new again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Newest<const MAX: usize = IDENTITIES_MAX> {
    by_source: BTreeMap<String, SourceOrder<MAX>>,
    /// The steps back of the log's clock that the times reflect.
    #[serde(default, skip_serializing_if = "json::is_default")]
    steps: u32,
}

/// The order of the events of one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SourceOrder<const MAX: usize> {
    /// The time of the latest event, but not later than the log.
    time: Micros,
    /// The events at `time` or later, and the latest before: their times, ascending, and their identities.
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

/// An event as it is ordered.
#[derive(Debug, Clone, Copy)]
struct TimedEvent<'a> {
    source: &'a str,
    time: Micros,
    recorded_at: Micros,
    identity: u64,
}

impl<const MAX: usize> Newest<MAX> {
    /// Takes an event.
    pub(crate) fn take(&mut self, recorded: &Recorded, clock: &LogClock) -> Order {
        let event = TimedEvent {
            source: &recorded.envelope.source,
            time: recorded.envelope.time.microseconds(),
            recorded_at: recorded.recorded_at.microseconds(),
            identity: identity(&recorded.envelope),
        };
        let Some((steps, time_max)) = clock.steps_after(self.steps, recorded.seq) else {
            return self.take_event(event);
        };
        // Only a new event changes the state, which is not stored after any other.
        let mut corrected = self.clone();
        corrected.steps = steps;
        for order in corrected.by_source.values_mut() {
            order.time = order.time.min(time_max);
            order.dropped = order.dropped.map(|dropped| dropped.min(time_max));
        }
        let order = corrected.take_event(event);
        if order == Order::New {
            *self = corrected;
        }
        order
    }

    /// Takes an event whose time does not matter. After `MAX` of a source, all of it are stale.
    pub(crate) fn take_untimed(&mut self, recorded: &Recorded, identity: u64) -> Order {
        self.take_event(TimedEvent {
            source: &recorded.envelope.source,
            time: 0,
            recorded_at: 0,
            identity,
        })
    }

    fn take_event(&mut self, event: TimedEvent<'_>) -> Order {
        let is_full = self.by_source.len() >= SOURCES_MAX;
        let is_other = is_full && !self.by_source.contains_key(event.source);
        let source = match is_other {
            true => OTHER_SOURCES,
            false => event.source,
        };
        if let Some(order) = self.by_source.get_mut(source) {
            return order.take(event);
        }
        let first = SourceOrder {
            time: event.time.min(event.recorded_at),
            known: vec![(event.time, event.identity)],
            dropped: None,
        };
        self.by_source.insert(source.to_owned(), first);
        Order::New
    }
}

impl<const MAX: usize> SourceOrder<MAX> {
    /// Takes an event.
    fn take(&mut self, event: TimedEvent<'_>) -> Order {
        let (time, identity) = (event.time, event.identity);
        if self.known.iter().any(|(_, known)| *known == identity) {
            return Order::Repeated;
        }
        if time < self.time || self.dropped.is_some_and(|dropped| time <= dropped) {
            return Order::Stale;
        }
        // The servers of a cluster differ: the latest time is the lower bound of the log's clock.
        self.time = time.min(event.recorded_at.max(self.time));
        let index = self.known.partition_point(|(known, _)| *known <= time);
        self.known.insert(index, (time, identity));
        let old = self.known.partition_point(|(known, _)| *known < self.time);
        self.known.drain(..old.saturating_sub(EARLIER_MAX));
        if self.known.len() > MAX {
            let (dropped, _) = self.known.remove(0);
            self.dropped = Some(dropped);
        }
        Order::New
    }
}

#[cfg(test)]
mod tests {
    use events::{Event, GoingChanged, Moment, RaceNumber, RacingDate, Text, VenueCode};
    use proptest::prelude::*;

    use super::*;

    /// So many tenths of a second after the beginning.
    fn moment(tenths: u32) -> Moment {
        let begin = Moment::parse("2026-11-21T06:00:00Z").expect("a time");
        let micros = begin.microseconds() + i64::from(tenths) * 100_000;
        Moment::from_microseconds(micros).expect("in range")
    }

    fn event(source: &str, id: &str, time: u32, recorded_at: u32) -> Recorded {
        let event = Event::GoingChanged(GoingChanged {
            date: RacingDate::parse("2026-11-21").expect("a date"),
            venue: VenueCode::parse("ST").expect("a code"),
            race_number: RaceNumber::parse("1").expect("a number"),
            going: Text::default(),
        });
        Recorded {
            seq: 0,
            recorded_at: moment(recorded_at),
            envelope: Envelope {
                id: id.to_owned(),
                source: source.to_owned(),
                time: moment(time),
                event,
            },
        }
    }

    /// A log, and the events that were taken of it.
    #[derive(Default)]
    struct Taken<const MAX: usize> {
        newest: Newest<MAX>,
        clock: LogClock,
        seq: u64,
    }

    impl<const MAX: usize> Taken<MAX> {
        /// Takes an event of a source: its id, its time, and when the log stores it, in tenths of a second.
        fn take(&mut self, source: &str, id: &str, time: u32, recorded_at: u32) -> Order {
            self.seq += 1;
            let mut recorded = event(source, id, time, recorded_at);
            recorded.seq = self.seq;
            self.clock.record(self.seq, recorded.recorded_at);
            self.newest.take(&recorded, &self.clock)
        }
    }

    #[test]
    fn a_source_is_ordered_by_its_own_times_and_two_sources_by_the_log() {
        let mut taken = Taken::<4>::default();
        for (source, id, time, order) in [
            ("a", "1", 10, Order::New),
            ("a", "2", 9, Order::Stale),
            ("b", "2", 9, Order::New),
            ("a", "1", 10, Order::Repeated),
            ("a", "3", 10, Order::New),
            ("a", "1", 10, Order::Repeated),
            ("b", "1", 10, Order::New),
        ] {
            assert_eq!(taken.take(source, id, time, 30), order);
        }
    }

    #[test]
    fn a_clock_that_is_corrected_and_a_log_whose_clock_steps_back_lose_nothing() {
        let mut taken = Taken::<IDENTITIES_MAX>::default();
        for (id, time, recorded_at) in [
            // Ahead, then corrected.
            ("1", 500, 100),
            ("2", 110, 110),
            // The log steps back.
            ("3", 120, 20),
            ("4", 130, 30),
            // The clock that both share is ahead, then corrected.
            ("5", 440, 440),
            ("6", 50, 50),
            // It is so while NATS is away.
            ("7", 460, 460),
            ("8", 70, 90),
        ] {
            assert_eq!(taken.take("a", id, time, recorded_at), Order::New, "{id}");
        }
        for (id, time) in [("1", 500), ("7", 460), ("8", 70)] {
            assert_eq!(taken.take("a", id, time, 590), Order::Repeated, "{id}");
        }
    }

    #[test]
    fn many_events_with_one_time_or_from_many_sources_stay_bounded() {
        let mut taken = Taken::<4>::default();
        for n in 0..100 {
            taken.take("a", &n.to_string(), 10, 30);
            taken.take(&n.to_string(), "1", 10 + n % 40, 30);
        }
        let orders = &taken.newest.by_source;
        assert_eq!(orders.len(), SOURCES_MAX + 1);
        assert!(orders.values().all(|order| order.known.len() <= 4));
        assert_eq!(taken.take("a", "later", 11, 30), Order::New);
        let mut taken = Taken::<IDENTITIES_MAX>::default();
        for n in 0..1_000 {
            taken.take("a", &n.to_string(), n, n);
        }
        assert!(taken.newest.by_source["a"].known.len() <= EARLIER_MAX + 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// The log's clock does not step back.
        #[test]
        fn an_event_is_new_at_most_once_at_any_distance(
            events in prop::collection::vec((0..3_u32, 0..30_u32, 0..200_u32, 0..10_u32), 1..120),
        ) {
            let mut taken = Taken::<3>::default();
            let mut new = std::collections::HashSet::new();
            let mut now = 10;
            for (source, id, time, passed) in events {
                now += passed;
                // An event has one time.
                let time = (time + id * 7) % 600;
                let id = format!("{id} {time}");
                if taken.take(&source.to_string(), &id, time, now) == Order::New {
                    prop_assert!(new.insert((source, id)));
                }
            }
        }

        /// The feeder has the clock of the log, which is ahead for a while, again and again.
        #[test]
        fn every_event_is_new_whatever_a_shared_clock_does(
            events in prop::collection::vec((0..30_u32, prop_oneof![4 => Just(0), 1 => 1..9_000_u32], 0..5_u32), 1..120),
        ) {
            let mut taken = Taken::<IDENTITIES_MAX>::default();
            let mut now = 10;
            let mut last = 0;
            let mut last_time = 0;
            for ((passed, ahead, late), id) in events.into_iter().zip(1..) {
                now += passed;
                let stored = now + ahead;
                let time = now + ahead - late;
                // Unless the log's clock stepped back, the feeder's times are in the order of its events.
                let time = if stored < last { time } else { time.max(last_time) };
                (last, last_time) = (stored, time);
                let id = format!("{id}");
                prop_assert_eq!(taken.take("a", &id, time, stored), Order::New, "{}", id);
                prop_assert_eq!(taken.take("a", &id, time, stored), Order::Repeated, "{}", id);
            }
        }
    }
}
