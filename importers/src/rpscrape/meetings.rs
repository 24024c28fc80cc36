//! [`Meetings`]: the numbers of races, which the files do not have.

use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;

use events::{Moment, ParseError, RaceNumber, RacingDate, VenueCode};
use jiff::ToSpan;
use jiff::tz::TimeZone;

/// A race as a file names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RaceName {
    pub(super) date: RacingDate,
    pub(super) venue: VenueCode,
    pub(super) slot: Slot,
}

/// A race's place in its meeting.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot {
    pub(super) off: Off,
    /// The id of the race, 0 where the file has none.
    pub(super) race_id: u64,
    /// The name of a race without an id.
    pub(super) race_name: String,
}

/// When a race went off, in minutes of the day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Off(u16);

const HOUR: u16 = 60;
const DAY: u16 = 24 * HOUR;
const HALF_DAY: u16 = 12 * HOUR;

impl Off {
    /// `14:10`, or `2:10` on a clock of 12 hours: an hour of one digit is after noon.
    pub(super) fn parse(text: &str) -> Result<Self, ParseError> {
        let wrong = || ParseError::new("an off time is H:MM or HH:MM", text);
        let (hour, minute) = text.trim().split_once(':').ok_or_else(wrong)?;
        let number = |text: &str, digits: RangeInclusive<usize>, end: u16| {
            let plain = digits.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
            let number: Option<u16> = text.parse().ok().filter(|n| plain && *n < end);
            number.ok_or_else(wrong)
        };
        let after_noon = hour.len() == 1 && hour != "0";
        let minute = number(hour, 1..=2, 24)? * HOUR + number(minute, 2..=2, HOUR)?;
        Ok(Self(minute + if after_noon { HALF_DAY } else { 0 }))
    }
}

/// The races of each meeting that the files of a call tell of.
#[derive(Debug, Default)]
pub(super) struct Meetings {
    by_day: HashMap<(RacingDate, VenueCode), Meeting>,
}

#[derive(Debug, Default)]
struct Meeting {
    slots: BTreeSet<Slot>,
    /// In the order in which they are run, once all are known.
    in_order: Vec<Slot>,
}

/// The highest race number, and so a bound for what is held of one meeting.
const RACES_MAX: usize = 999;

impl Meetings {
    pub(super) fn learn(&mut self, race: &RaceName) {
        let meeting = self.by_day.entry((race.date, race.venue.clone()));
        let slots = &mut meeting.or_default().slots;
        if slots.len() < RACES_MAX {
            slots.insert(race.slot.clone());
        }
    }

    /// Puts the races in order, when all are known.
    pub(super) fn number(&mut self) {
        for meeting in self.by_day.values_mut() {
            meeting.in_order = in_order(std::mem::take(&mut meeting.slots).into_iter().collect());
        }
    }

    /// A race's number.
    pub(super) fn number_of(&self, race: &RaceName) -> Result<RaceNumber, ParseError> {
        let meeting = self.by_day.get(&(race.date, race.venue.clone()));
        let place = meeting.and_then(|m| m.in_order.iter().position(|slot| *slot == race.slot));
        let number = place.and_then(|place| u16::try_from(place + 1).ok());
        RaceNumber::try_from(number.unwrap_or(0))
    }

    /// When a race went off, where the clock is that of a zone.
    pub(super) fn off_time(&self, race: &RaceName, zone: &TimeZone) -> Option<Moment> {
        let meeting = self.by_day.get(&(race.date, race.venue.clone()))?;
        let Off(minute) = race.slot.off;
        let after_midnight = race.slot.off < meeting.in_order.first()?.off;
        let day = race.date.civil();
        let day = day.checked_add(i64::from(after_midnight).days()).ok()?;
        let (hour, minute) = (minute / HOUR, minute % HOUR);
        let clock = day.at(i8::try_from(hour).ok()?, i8::try_from(minute).ok()?, 0, 0);
        Some(clock.to_zoned(zone.clone()).ok()?.timestamp().into())
    }
}

/// The order in which the races of a meeting are run: that of the clock, beginning behind the longest pause. So a race at
/// 00:20 comes behind one at 23:50.
fn in_order(mut slots: Vec<Slot>) -> Vec<Slot> {
    slots.sort();
    let minutes: Vec<u16> = slots.iter().map(|slot| slot.off.0).collect();
    let mut longest = (0, 0);
    for (place, minute) in minutes.iter().enumerate() {
        let pause = match place.checked_sub(1) {
            Some(before) => minute - minutes[before],
            None => minute + DAY - minutes.last().copied().unwrap_or(0),
        };
        if pause > longest.0 {
            longest = (pause, place);
        }
    }
    slots.rotate_left(longest.1);
    slots
}

#[cfg(test)]
mod tests {
    use events::{RacingDate, VenueCode};
    use jiff::tz::TimeZone;
    use proptest::prelude::*;

    use super::{Meetings, Off, RaceName, Slot};

    fn race(off: &str, race_id: u64) -> RaceName {
        RaceName {
            date: RacingDate::parse("2020-06-03").expect("a date"),
            venue: VenueCode::parse("YORK").expect("a code"),
            slot: Slot {
                off: Off::parse(off).expect(off),
                race_id,
                race_name: String::new(),
            },
        }
    }

    fn check(offs: &[&str]) {
        let mut meetings = Meetings::default();
        let races: Vec<RaceName> = offs.iter().map(|off| race(off, 0)).collect();
        // However the file has them.
        races.iter().rev().for_each(|race| meetings.learn(race));
        meetings.number();
        for (race, number) in races.iter().zip(1..) {
            assert_eq!(
                meetings.number_of(race).expect("a number").get(),
                number,
                "{race:?} of {offs:?}"
            );
        }
    }

    #[test]
    fn races_are_numbered_by_the_clock_behind_the_longest_pause() {
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
    fn races_at_one_time_are_told_apart_by_their_ids() {
        let mut meetings = Meetings::default();
        let races = [
            race("2:10", 700_001),
            race("2:10", 700_002),
            race("2:40", 5),
        ];
        races.iter().rev().for_each(|race| meetings.learn(race));
        meetings.number();
        let numbers = races
            .iter()
            .map(|r| meetings.number_of(r).expect("a number").get());
        assert_eq!(numbers.collect::<Vec<_>>(), [1, 2, 3]);
        assert!(
            meetings.number_of(&race("2:10", 1)).is_err(),
            "nobody knows it"
        );
    }

    #[test]
    fn an_off_time_is_a_moment_of_its_zone_and_the_date_is_the_meetings() {
        let zone = TimeZone::get("Europe/London").expect("a zone");
        let shown = |offs: &[&str]| -> Vec<String> {
            let mut meetings = Meetings::default();
            let races: Vec<RaceName> = offs.iter().map(|off| race(off, 0)).collect();
            races.iter().for_each(|race| meetings.learn(race));
            meetings.number();
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
    fn what_is_no_time_is_refused() {
        for text in [
            "", "2", "2.10", "2:1", "2:60", "24:00", "-1:00", "2:10pm", "002:10",
        ] {
            assert!(Off::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_meeting_that_begins_at_any_time_is_numbered_in_its_order(
            start in 0_u32..1440,
            pauses in prop::collection::vec(1_u32..60, 1..12),
            rest in any::<prop::sample::Index>(),
        ) {
            // All of it is shorter than the rest of the day.
            let minutes = pauses.iter().scan(start, |at, pause| { *at += pause; Some(*at % 1440) });
            let offs: Vec<String> = minutes.map(|m| format!("{:02}:{:02}", m / 60, m % 60)).collect();
            let mut turned = offs.clone();
            turned.rotate_left(rest.index(offs.len()));
            let mut meetings = Meetings::default();
            turned.iter().for_each(|off| meetings.learn(&race(off, 0)));
            meetings.number();
            for (off, number) in offs.iter().zip(1..) {
                prop_assert_eq!(meetings.number_of(&race(off, 0)).expect("a number").get(), number);
            }
        }
    }
}
