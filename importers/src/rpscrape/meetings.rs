//! [`RpscrapeMeetings`]: numbers races, as the files have no numbers.

use std::collections::HashMap;

use events::{Moment, ParseError, RaceNumber, RacingDate, VenueCode};
use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, ToSpan};

/// A race as a file identifies it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RpscrapeRace {
    pub(super) date: RacingDate,
    pub(super) venue: VenueCode,
    pub(super) slot: RaceSlot,
}

/// The order of a race within its meeting.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RaceSlot {
    pub(super) off: Time,
    /// The id of the race, 0 where the file has none.
    pub(super) race_id: u64,
    /// Empty if the race has an id.
    pub(super) race_name: String,
}

/// The races of each meeting: by the clock, and after [`RpscrapeMeetings::number_races`] in the order of their numbers.
#[derive(Debug, Default)]
pub(super) struct RpscrapeMeetings {
    by_day: HashMap<(RacingDate, VenueCode), Vec<RaceSlot>>,
}

/// The highest race number, which bounds the memory for a meeting.
const RACES_MAX: usize = 999;

impl RpscrapeMeetings {
    pub(super) fn add(&mut self, race: &RpscrapeRace) {
        let meeting = self.by_day.entry((race.date, race.venue.clone()));
        let slots = meeting.or_default();
        if slots.len() < RACES_MAX
            && let Err(at) = slots.binary_search(&race.slot)
        {
            slots.insert(at, race.slot.clone());
        }
    }

    /// Numbers the races, when all have been added.
    pub(super) fn number_races(&mut self) {
        for slots in self.by_day.values_mut() {
            let first = first(slots);
            slots.rotate_left(first);
        }
    }

    /// # Errors
    /// Returns an error if the race was not added.
    pub(super) fn number_of(&self, race: &RpscrapeRace) -> Result<RaceNumber, ParseError> {
        let slots = self.by_day.get(&(race.date, race.venue.clone()));
        let index = slots.and_then(|slots| slots.iter().position(|slot| *slot == race.slot));
        let number = index.and_then(|index| u16::try_from(index + 1).ok());
        RaceNumber::try_from(number.unwrap_or(0))
    }

    /// When a race was off, by a clock in a zone.
    pub(super) fn off_time(&self, race: &RpscrapeRace, zone: &TimeZone) -> Option<Moment> {
        let slots = self.by_day.get(&(race.date, race.venue.clone()))?;
        let after_midnight = race.slot.off < slots.first()?.off;
        let day = race.date.civil();
        let day = day.checked_add(i64::from(after_midnight).days()).ok()?;
        let clock = day.to_datetime(race.slot.off);
        Some(clock.to_zoned(zone.clone()).ok()?.timestamp().into())
    }
}

/// The first of the races of a meeting, which are given by the clock: that behind the longest pause, so that a race at
/// 00:20 follows one at 23:50.
fn first(slots: &[RaceSlot]) -> usize {
    let mut longest = (SignedDuration::ZERO, 0);
    let mut before = slots.last().map_or(Time::MIN, |slot| slot.off);
    for (index, slot) in slots.iter().enumerate() {
        let mut pause = slot.off.duration_since(before);
        if index == 0 {
            pause += SignedDuration::from_hours(24);
        }
        if pause > longest.0 {
            longest = (pause, index);
        }
        before = slot.off;
    }
    longest.1
}

#[cfg(test)]
mod tests {
    use events::{RacingDate, VenueCode};
    use jiff::tz::TimeZone;
    use proptest::prelude::*;

    use super::super::values::off_time;
    use super::{RaceSlot, RpscrapeMeetings, RpscrapeRace};

    fn race(off: &str, race_id: u64) -> RpscrapeRace {
        RpscrapeRace {
            date: RacingDate::parse("2020-06-03").expect("a date"),
            venue: VenueCode::parse("YORK").expect("a code"),
            slot: RaceSlot {
                off: off_time(off).expect(off),
                race_id,
                race_name: String::new(),
            },
        }
    }

    fn check(offs: &[&str]) {
        let mut meetings = RpscrapeMeetings::default();
        let races: Vec<RpscrapeRace> = offs.iter().map(|off| race(off, 0)).collect();
        // The order in the file does not matter.
        races.iter().rev().for_each(|race| meetings.add(race));
        meetings.number_races();
        for (race, number) in races.iter().zip(1..) {
            assert_eq!(
                meetings.number_of(race).expect("a number").get(),
                number,
                "{race:?} of {offs:?}"
            );
        }
    }

    #[test]
    fn races_are_numbered_by_the_clock_from_the_longest_pause() {
        check(&["1:00", "1:35", "2:10", "2:45"]);
        check(&["12:30", "1:05", "1:40", "5:20"]);
        check(&["11:40", "12:15", "12:50", "1:25", "4:00"]);
        check(&["5:45", "6:15", "9:15"]);
        check(&["10:30", "11:05", "12:40", "13:15"]);
        check(&["17:30", "18:00", "20:30"]);
        check(&["22:50", "23:20", "23:50", "00:20"]);
        check(&["00:50", "01:20", "05:30", "06:10", "07:30"]);
        check(&["16:00", "19:00", "23:00", "00:30"]);
        check(&["2:10"]);
        check(&["12:30", "13:05", "1:40", "14:10"]);
    }

    #[test]
    fn races_at_one_time_are_ordered_by_their_ids() {
        let mut meetings = RpscrapeMeetings::default();
        let races = [
            race("2:10", 700_001),
            race("2:10", 700_002),
            race("2:40", 5),
        ];
        races.iter().rev().for_each(|race| meetings.add(race));
        meetings.number_races();
        let numbers = races
            .iter()
            .map(|r| meetings.number_of(r).expect("a number").get());
        assert_eq!(numbers.collect::<Vec<_>>(), [1, 2, 3]);
        assert!(
            meetings.number_of(&race("2:10", 1)).is_err(),
            "it was not added"
        );
    }

    #[test]
    fn an_off_time_is_converted_from_its_zone() {
        let zone = TimeZone::get("Europe/London").expect("a zone");
        let shown = |offs: &[&str]| -> Vec<String> {
            let mut meetings = RpscrapeMeetings::default();
            let races: Vec<RpscrapeRace> = offs.iter().map(|off| race(off, 0)).collect();
            races.iter().for_each(|race| meetings.add(race));
            meetings.number_races();
            let off_time = |race| meetings.off_time(race, &zone).expect("a time").to_string();
            races.iter().map(off_time).collect()
        };
        assert_eq!(
            shown(&["11:40", "12:15", "2:10"]),
            [
                "2020-06-03T10:40:00Z",
                "2020-06-03T11:15:00Z",
                "2020-06-03T13:10:00Z"
            ]
        );
        assert_eq!(
            shown(&["23:50", "00:20"]),
            ["2020-06-03T22:50:00Z", "2020-06-03T23:20:00Z"]
        );
    }

    #[test]
    fn an_invalid_time_is_rejected() {
        for text in [
            "", "2", "2.10", "2:1", "2:60", "24:00", "-1:00", "2:10pm", "002:10",
        ] {
            assert!(off_time(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_meeting_that_begins_at_any_time_is_numbered_in_its_order(
            start in 0_u32..1440,
            pauses in prop::collection::vec(1_u32..60, 1..12),
            rest in any::<prop::sample::Index>(),
        ) {
            // The meeting is shorter than the rest of the day.
            let minutes = pauses.iter().scan(start, |at, pause| { *at += pause; Some(*at % 1440) });
            let offs: Vec<String> = minutes.map(|m| format!("{:02}:{:02}", m / 60, m % 60)).collect();
            let mut turned = offs.clone();
            turned.rotate_left(rest.index(offs.len()));
            let mut meetings = RpscrapeMeetings::default();
            turned.iter().for_each(|off| meetings.add(&race(off, 0)));
            meetings.number_races();
            for (off, number) in offs.iter().zip(1..) {
                prop_assert_eq!(meetings.number_of(&race(off, 0)).expect("a number").get(), number);
            }
        }
    }
}
