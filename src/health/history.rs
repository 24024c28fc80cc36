//! [`History`]: the last hour, minute by minute, and the incidents since the start.
//!
//! It has no clock: the time comes with each sample.

use std::collections::{BTreeMap, VecDeque};

use events::Moment;
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use strum::VariantArray;

use crate::accounts::{CONTINUES_WITHIN, Incident, IncidentKind, Incidents};

/// The minutes that are kept: an hour.
pub(crate) const MINUTES_MAX: usize = 60;
/// An incident that has lasted for this long is recorded before it is over, so that a crash does not lose it.
const RECORDED_AFTER: SignedDuration = SignedDuration::from_secs(3);

/// The last hour and the incidents since the start.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The time of the latest sample.
    now: Option<Timestamp>,
    totals: Totals,
    /// The minutes with samples, oldest first: at most [`MINUTES_MAX`], the latest one included.
    pub(crate) minutes: VecDeque<Minute>,
    /// Those since the start.
    pub(crate) incidents: Incidents,
    /// The latest incident of each kind that is in the log, as it is there, and since when.
    recorded: BTreeMap<IncidentKind, (Incident, Moment)>,
    /// The occurrences that were known at the latest sample.
    occurrences: BTreeMap<IncidentKind, u64>,
}

/// The state of the service at a time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample {
    pub(crate) totals: Totals,
    pub(crate) sockets: u64,
    /// The age of the data.
    pub(crate) age_ms: u64,
    pub(crate) conditions: Vec<Condition>,
}

/// Counts since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Responses.
    pub(crate) requests: u64,
    /// Responses with status 4xx.
    pub(crate) refused: u64,
    /// Responses with status 5xx.
    pub(crate) errors: u64,
    /// Events that were folded.
    pub(crate) events: u64,
}

/// Whether there is an incident of a kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Condition {
    pub(crate) kind: IncidentKind,
    pub(crate) is_active: bool,
    /// How many there have been since the start, where that is counted. It reveals those that begin and end between two
    /// samples.
    pub(crate) occurrences: u64,
}

/// One minute. Counts are those of the minute; levels are the highest in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "StatusMinute")]
pub(crate) struct Minute {
    /// The beginning of the minute.
    pub(crate) time: Moment,
    /// Responses of the API and the pages, those of `refused` and `errors` included.
    pub(crate) requests: u64,
    /// Responses with status 4xx.
    pub(crate) refused: u64,
    /// Responses with status 5xx.
    pub(crate) errors: u64,
    /// Events of the log that were processed. Rejected messages are not among them.
    pub(crate) events: u64,
    /// The most open connections to the live odds channel.
    pub(crate) sockets: u64,
    /// The greatest age of the data, in milliseconds.
    pub(crate) age_ms: u64,
}

impl History {
    /// Adds a sample. A clock that was set back counts as one that stands still.
    pub(crate) fn add(&mut self, now: Timestamp, sample: &Sample) {
        let now = self.now.map_or(now, |last| last.max(now));
        self.now = Some(now);
        self.count(now, sample);
        for condition in &sample.conditions {
            self.note(now, *condition);
        }
    }

    /// The incidents that the log may lack at a time: those that have lasted for a while, and those that are over. What
    /// begins and ends again and again is there once a minute.
    pub(crate) fn unrecorded(&self, now: Moment) -> Vec<Incident> {
        let since = |time: Moment| now.timestamp().duration_since(time.timestamp());
        let is_due = |known: &&Incident| {
            let recorded = self.recorded.get(&known.kind);
            let is_rare = recorded.is_none_or(|(_, at)| since(*at) >= CONTINUES_WITHIN);
            let recorded = recorded.map(|(recorded, _)| (recorded.started_at, recorded.ended_at));
            let is_new = match (recorded, known.ended_at) {
                // Another replica may have ended what lasts.
                (Some((start, None)), _) => start <= known.started_at,
                (Some((_, recorded)), Some(end)) => is_rare && recorded < Some(end),
                _ => is_rare,
            };
            is_new && (known.ended_at.is_some() || since(known.started_at) >= RECORDED_AFTER)
        };
        self.incidents.iter().filter(is_due).cloned().collect()
    }

    /// Notes that the log has an incident as it was at a time.
    pub(crate) fn note_recorded(&mut self, incident: Incident, at: Moment) {
        self.recorded.insert(incident.kind, (incident, at));
    }

    /// Ends what lasts at the latest sample: there are no more samples.
    pub(crate) fn finish(&mut self) {
        for kind in IncidentKind::VARIANTS {
            self.incidents
                .end(*kind, self.now.unwrap_or_default().into());
        }
    }

    fn count(&mut self, now: Timestamp, sample: &Sample) {
        let time = Moment::from(minute_of(now));
        let earliest = minute_of(now) - SignedDuration::from_mins(MINUTES_MAX as i64 - 1);
        let earliest = Moment::from(earliest);
        while self.minutes.front().is_some_and(|m| m.time < earliest) {
            self.minutes.pop_front();
        }
        if self.minutes.back().is_none_or(|last| last.time < time) {
            self.minutes.push_back(Minute::at(time));
        }
        let before = std::mem::replace(&mut self.totals, sample.totals);
        if let Some(minute) = self.minutes.back_mut() {
            minute.add(before, sample);
        }
    }

    fn note(&mut self, now: Timestamp, condition: Condition) {
        let (kind, is_active) = (condition.kind, condition.is_active);
        let occurrences = condition.occurrences;
        let known = self.occurrences.insert(kind, occurrences).unwrap_or(0);
        let at = Moment::from(now);
        let lasts = self.incidents.lasts(kind);
        if !lasts && (is_active || occurrences > known) {
            self.incidents.add(Incident::new(kind, at));
        }
        if !is_active {
            self.incidents.end(kind, at);
        }
        self.incidents.forget(at);
    }
}

impl Minute {
    /// A minute in which nothing happened.
    pub(crate) fn at(time: Moment) -> Self {
        Self {
            time,
            requests: 0,
            refused: 0,
            errors: 0,
            events: 0,
            sockets: 0,
            age_ms: 0,
        }
    }

    /// Adds what was counted since earlier totals.
    fn add(&mut self, before: Totals, sample: &Sample) {
        let totals = sample.totals;
        self.requests += totals.requests.saturating_sub(before.requests);
        self.refused += totals.refused.saturating_sub(before.refused);
        self.errors += totals.errors.saturating_sub(before.errors);
        self.events += totals.events.saturating_sub(before.events);
        self.sockets = self.sockets.max(sample.sockets);
        self.age_ms = self.age_ms.max(sample.age_ms);
    }
}

/// The beginning of the minute of a time.
fn minute_of(time: Timestamp) -> Timestamp {
    let second = time.as_second();
    Timestamp::from_second(second - second.rem_euclid(60)).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::{SignedDuration, Timestamp};
    use proptest::prelude::*;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::constant(1_700_000_040, 0) + SignedDuration::from_secs(second)
    }

    fn condition(is_active: bool, occurrences: u64) -> Sample {
        let kind = IncidentKind::FoldRestart;
        Sample {
            conditions: vec![Condition {
                kind,
                is_active,
                occurrences,
            }],
            ..Sample::default()
        }
    }

    /// Start, end and times of each incident, in seconds.
    fn incidents(history: &History) -> Vec<(i64, Option<i64>, u64)> {
        let second = |moment: Moment| moment.timestamp().as_second() - at(0).as_second();
        let incidents = history.incidents.iter();
        incidents
            .map(|i| (second(i.started_at), i.ended_at.map(second), i.times))
            .collect()
    }

    #[test]
    fn an_incident_lasts_from_the_first_sample_that_has_it_to_the_first_that_has_not() {
        let mut history = History::default();
        for (second, is_active) in [(0, false), (1, true), (2, true), (30, true)] {
            history.add(at(second), &condition(is_active, 0));
        }
        assert_eq!(incidents(&history), [(1, None, 1)]);
        history.add(at(31), &condition(false, 0));
        history.add(at(32), &condition(false, 0));
        assert_eq!(incidents(&history), [(1, Some(31), 1)]);
    }

    #[test]
    fn an_incident_that_returns_soon_continues_and_one_that_returns_later_is_another() {
        let mut history = History::default();
        for (second, is_active) in [(0, true), (10, false), (70, true), (75, false)] {
            history.add(at(second), &condition(is_active, 0));
        }
        assert_eq!(incidents(&history), [(0, Some(75), 2)]);
        history.add(at(136), &condition(true, 0));
        assert_eq!(incidents(&history), [(0, Some(75), 2), (136, None, 1)]);
    }

    #[test]
    fn an_incident_between_two_samples_is_listed_by_its_count() {
        let mut history = History::default();
        history.add(at(0), &condition(false, 0));
        history.add(at(1), &condition(false, 2));
        history.add(at(2), &condition(false, 2));
        assert_eq!(incidents(&history), [(1, Some(1), 1)]);
        // One that was seen is not counted again when it is over.
        history.add(at(100), &condition(true, 3));
        history.add(at(101), &condition(false, 4));
        assert_eq!(incidents(&history), [(1, Some(1), 1), (100, Some(101), 1)]);
    }

    #[test]
    fn of_many_incidents_the_latest_and_those_that_last_are_kept() {
        let mut history = History::default();
        let lasting = Condition {
            kind: IncidentKind::Diverged,
            is_active: true,
            occurrences: 0,
        };
        for n in 0..1_000 {
            let mut sample = condition(n % 2 == 0, 0);
            sample.conditions.push(lasting);
            history.add(at(n * 100), &sample);
        }
        let kept = &history.incidents;
        let dropped = kept.dropped;
        let kept: Vec<_> = kept.iter().collect();
        assert_eq!((kept.len(), dropped), (100, 401));
        assert_eq!(kept[0].kind, IncidentKind::Diverged);
        assert_eq!(kept[0].ended_at, None);
        let last = kept[kept.len() - 1];
        assert_eq!(last.started_at, Moment::from(at(998 * 100)));
    }

    #[test]
    fn an_incident_is_recorded_when_it_begins_and_ends_and_at_times_if_it_continues() {
        let mut history = History::default();
        let moment = |second| Moment::from(at(second));
        // Records what is due. Returns start, end and times of each incident.
        let mut recorded = |second: i64, is_active| {
            history.add(at(second), &condition(is_active, 0));
            let due = history.unrecorded(moment(second));
            let found: Vec<_> = due
                .iter()
                .map(|it| (it.started_at, it.ended_at, it.times))
                .collect();
            for incident in due {
                history.note_recorded(incident, moment(second));
            }
            found
        };
        let lasts = |start, times| vec![(moment(start), None, times)];
        let over = |start, end, times| vec![(moment(start), Some(moment(end)), times)];
        assert_eq!(recorded(0, true), []);
        assert_eq!(recorded(2, true), []);
        assert_eq!(recorded(3, true), lasts(0, 1));
        assert_eq!(
            recorded(4, true),
            lasts(0, 1),
            "another replica may have ended it"
        );
        assert_eq!(recorded(5, false), over(0, 5, 1), "at once");
        assert_eq!(recorded(6, false), []);
        for second in (10..60).step_by(10) {
            assert_eq!(recorded(second, true), [], "it is rarely recorded");
            assert_eq!(recorded(second + 1, false), []);
        }
        assert_eq!(recorded(65, false), over(0, 51, 6));
        assert_eq!(recorded(100, true), []);
        assert_eq!(recorded(125, true), lasts(0, 7));
    }

    proptest! {
        /// Of any steps of the clock, also back, and any counts, each is in its minute for an hour and once.
        #[test]
        fn each_count_is_in_one_minute_of_the_last_hour(
            steps in prop::collection::vec((-90_i64..5_000, 0_u64..9, 0_u64..9), 1..200),
        ) {
            let mut history = History::default();
            let mut sample = Sample::default();
            let mut clock = 0;
            let mut latest = i64::MIN;
            let mut expected: BTreeMap<i64, (u64, u64)> = BTreeMap::new();
            for (step, requests, sockets) in steps {
                // Most steps are seconds.
                clock += if step > 900 { step - 900 } else { step / 60 };
                latest = clock.max(latest);
                sample.totals.requests += requests;
                sample.sockets = sockets;
                history.add(at(clock), &sample);
                let minute = expected.entry(latest.div_euclid(60)).or_default();
                *minute = (minute.0 + requests, minute.1.max(sockets));
                let hour = latest.div_euclid(60) - (MINUTES_MAX as i64 - 1);
                expected = expected.split_off(&hour);
                let found: Vec<_> = history.minutes.iter().map(|m| {
                    let minute = m.time.timestamp().as_second() - at(0).as_second();
                    (minute / 60, (m.requests, m.sockets))
                }).collect();
                prop_assert!(found.len() <= MINUTES_MAX);
                prop_assert_eq!(found, expected.clone().into_iter().collect::<Vec<_>>());
            }
        }
    }
}
