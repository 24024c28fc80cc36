//! [`RpscrapeMeetings`]: numbers races, as the files have no numbers.

use std::collections::HashMap;

use events::{Moment, RaceNumber, RacingDate, VenueCode};
use jiff::ToSpan;
use jiff::civil::Time;
use jiff::tz::TimeZone;

use super::values::OffClock;
use crate::item::Result;

/// A race as a file identifies it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct RpscrapeRace {
    pub(super) date: RacingDate,
    pub(super) venue: VenueCode,
    pub(super) clock: OffClock,
    pub(super) slot: RaceSlot,
}

/// The order of a race within its meeting.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RaceSlot {
    pub(super) off: Time,
    /// The id of the race, 0 where the file has none.
    pub(super) race_id: u64,
    /// Empty if the race has an id.
    pub(super) race_name: String,
}

/// The races of each meeting.
#[derive(Debug, Default)]
pub(super) struct RpscrapeMeetings {
    by_day: HashMap<(RacingDate, VenueCode), RpscrapeMeeting>,
}

/// By the clock, and after [`RpscrapeMeeting::number_races`] in the order of the numbers.
#[derive(Debug, Default)]
struct RpscrapeMeeting {
    slots: Vec<RaceSlot>,
    has_12_hours: bool,
    has_24_hours: bool,
    /// Why the races cannot be numbered.
    unclear: Option<&'static str>,
}

/// The highest race number, which bounds the memory for a meeting.
const RACES_MAX: usize = 999;
/// On a 12-hour clock the longest pause must be longer than any other by so many minutes.
const CLEAR_BY: i32 = 60;

impl RpscrapeMeetings {
    pub(super) fn add(&mut self, race: &RpscrapeRace) {
        let meeting = self.by_day.entry((race.date, race.venue.clone()));
        let meeting = meeting.or_default();
        meeting.has_12_hours |= race.clock == OffClock::Of12Hours;
        meeting.has_24_hours |= race.clock == OffClock::Of24Hours;
        let slots = &mut meeting.slots;
        if slots.len() < RACES_MAX
            && let Err(at) = slots.binary_search(&race.slot)
        {
            slots.insert(at, race.slot.clone());
        }
    }

    /// Numbers the races, when all have been added.
    pub(super) fn number_races(&mut self) {
        let meetings = self.by_day.values_mut();
        meetings.for_each(RpscrapeMeeting::number_races);
    }

    fn meeting(&self, race: &RpscrapeRace) -> Option<&RpscrapeMeeting> {
        self.by_day.get(&(race.date, race.venue.clone()))
    }

    /// # Errors
    /// Returns an error if the race was not added, and if the order of the meeting's races is not clear.
    pub(super) fn number_of(&self, race: &RpscrapeRace) -> Result<RaceNumber> {
        let meeting = self.meeting(race);
        if let Some(reason) = meeting.and_then(|meeting| meeting.unclear) {
            return Err(format!("off: the meeting's off times are {reason}").into());
        }
        let index = meeting.and_then(|m| m.slots.iter().position(|slot| *slot == race.slot));
        let number = index.and_then(|index| u16::try_from(index + 1).ok());
        Ok(RaceNumber::try_from(number.unwrap_or(0))?)
    }

    /// A note about a race that is later than its time says.
    pub(super) fn note(&self, race: &RpscrapeRace) -> Option<String> {
        let meeting = self.meeting(race)?;
        let off = race.slot.off;
        let is_later = meeting.cycle() == NOON && off < meeting.slots.first()?.off;
        is_later.then(|| {
            let [written, meant] = [off, off + 12.hours()].map(|time| time.strftime("%H:%M"));
            format!("the off times of this meeting are by a 12-hour clock: {written} is {meant}")
        })
    }

    /// When a race was off, by a clock in a zone.
    pub(super) fn off_time(&self, race: &RpscrapeRace, zone: &TimeZone) -> Option<Moment> {
        let meeting = self.meeting(race)?;
        let first = meeting.slots.first()?.off;
        let after = (minutes(race.slot.off) - minutes(first)).rem_euclid(meeting.cycle());
        let clock = race.date.civil().to_datetime(first);
        let clock = clock.checked_add(after.minutes()).ok()?;
        Some(clock.to_zoned(zone.clone()).ok()?.timestamp().into())
    }
}

const NOON: i32 = 12 * 60;

/// Minutes since midnight.
fn minutes(time: Time) -> i32 {
    i32::from(time.hour()) * 60 + i32::from(time.minute())
}

impl RpscrapeMeeting {
    /// The minutes after which the times repeat themselves. On a 12-hour clock, 10:00 to 12:59 may be either half of
    /// the day.
    fn cycle(&self) -> i32 {
        let is_either = |slot: &RaceSlot| (10..=12).contains(&slot.off.hour());
        let by_12_hours = self.has_12_hours && !self.has_24_hours;
        if by_12_hours && self.slots.iter().any(is_either) {
            NOON
        } else {
            2 * NOON
        }
    }

    /// Orders the races from the longest pause, so that one at 00:20 follows one at 23:50.
    fn number_races(&mut self) {
        let cycle = self.cycle();
        let at = |slot: &RaceSlot| minutes(slot.off) % cycle;
        (self.slots).sort_by(|a, b| at(a).cmp(&at(b)).then_with(|| a.cmp(b)));
        let before_first = self.slots.last().map_or(0, |last| at(last) - cycle);
        let before = std::iter::once(before_first).chain(self.slots.iter().map(at));
        let pauses = self.slots.iter().zip(before);
        let pauses = pauses.map(|(slot, before)| at(slot) - before).zip(0..);
        let mut pauses: Vec<(i32, usize)> = pauses.collect();
        pauses.sort_by_key(|(pause, index)| (-pause, *index));
        let is_morning = |slot: &RaceSlot| (10..=11).contains(&slot.off.hour());
        if self.has_12_hours && self.has_24_hours && self.slots.iter().any(is_morning) {
            self.unclear = Some("by two clocks, and 10:00 to 11:59 may be morning or evening");
        } else if let [(longest, _), (second, _), ..] = pauses[..]
            && cycle == NOON
            && longest - second < CLEAR_BY
        {
            self.unclear = Some(
                "by a 12-hour clock, and two pauses are about equally long, so their order is not clear",
            );
        }
        let first = pauses.first().map_or(0, |(_, index)| *index);
        self.slots.rotate_left(first);
    }
}

#[cfg(test)]
mod tests {
    use events::{RacingDate, VenueCode};
    use jiff::tz::TimeZone;
    use proptest::prelude::*;

    use super::super::values::off_time;
    use super::{RaceSlot, RpscrapeMeetings, RpscrapeRace};

    fn race(off: &str, race_id: u64) -> RpscrapeRace {
        let (off, clock) = off_time(off).expect(off);
        RpscrapeRace {
            date: RacingDate::parse("2020-06-03").expect("a date"),
            venue: VenueCode::parse("YORK").expect("a code"),
            clock,
            slot: RaceSlot {
                off,
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
        // By a 12-hour clock, the evening's races of ten and later are the last.
        check(&["6:30", "7:05", "9:30", "10:00", "10:35"]);
        check(&["1:30", "2:15", "4:00", "5:50", "7:40", "9:30", "10:00"]);
        check(&["7:00", "9:50", "11:20", "12:10"]);
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
