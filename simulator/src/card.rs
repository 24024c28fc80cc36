//! [`RacePlan`]: a race before the betting: its card, its horses and their chances.

use std::cmp::Reverse;
use std::ops::RangeInclusive;

use events::{
    Career, DeclaredRunner, Foaled, HorseNo, HorseRegistered, Moment, RaceDeclared, RaceKey, Text,
};

use crate::day::MeetingTime;
use crate::meeting::{MeetingPlan, STABLED_PER_RACE};
use crate::rng::Rng;
use crate::units::{MINUTE_MS, SECOND_MS};
use crate::words::{
    COLOURS, COUNTRIES, DISTANCES_METRES, GOINGS, JOCKEYS, OWNERS, RACE_KINDS, SECOND_WORDS, SEXES,
    SURNAMES, TRAINERS, horse_name, text,
};

/// The first races open this long after the cards are out.
const OPEN_AFTER_CARDS_MS: u64 = 2 * SECOND_MS;
/// Races of a meeting that are open at a time.
const OPEN_AT_A_TIME: u64 = 2;
/// Betting closes this long before the off.
const CLOSE_BEFORE_MS: u64 = 5 * SECOND_MS;
/// It rains in the afternoon, this long after the off of the race in the middle.
const RAIN_AFTER_MS: u64 = 6 * MINUTE_MS;

const RUNNERS: RangeInclusive<u64> = 8..=STABLED_PER_RACE;

pub(crate) struct RacePlan {
    /// Its position within the meeting, from 1.
    pub(crate) nth: u64,
    pub(crate) key: RaceKey,
    pub(crate) card: RaceDeclared,
    /// In the order of the card.
    pub(crate) horses: Vec<HorseRegistered>,
    /// The weights of their chances to win, in the order of the card.
    pub(crate) chances: Vec<u64>,
    pub(crate) stakes: u64,
    pub(crate) open_ms: u64,
    pub(crate) off_ms: u64,
    /// When the going changes, and the new going.
    pub(crate) rain: Option<(u64, Text)>,
}

/// Plans all races of a meeting. No horse runs twice.
pub(crate) fn plan_races(meeting: &MeetingPlan<'_>, at: &impl Fn(u64) -> Moment) -> Vec<RacePlan> {
    let mut rng = Rng::new(&meeting.label("fields"));
    let mut stabled: Vec<u64> = meeting.stabled().collect();
    rng.shuffle(&mut stabled);
    let mut stabled = stabled.into_iter();
    let going = rng.index(GOINGS.len() - 1);
    let mut race = |nth: u64| {
        let count = usize::try_from(rng.between(RUNNERS)).unwrap_or(8);
        let runners = stabled.by_ref().take(count);
        let mut field: Vec<(u64, HorseRegistered)> = runners
            .map(|number| (rng.between(12..=100).pow(2), meeting.horse(number)))
            .collect();
        // Better horses carry more weight, and number 1 carries most.
        field.sort_by_key(|(chance, _)| Reverse(*chance));
        let (chances, horses): (Vec<_>, Vec<_>) = field.into_iter().unzip();
        let class = rng.between(1..=5);
        let off_ms = meeting.off_ms(nth);
        let rain_ms = meeting.rain_ms().filter(|rain_ms| *rain_ms < off_ms);
        let key = RaceKey {
            date: meeting.day.date,
            venue: meeting.venue(),
            race_number: meeting.race_number(nth),
        };
        let stakes = 3_600_000 - class * 540_000;
        let declared = RaceDeclared {
            venue_name: Some(meeting.venue_name()),
            race_name: race_name(&mut rng),
            distance: rng.pick(&DISTANCES_METRES),
            class: text(&format!("Class {class}")),
            going: Some(text(GOINGS[going])),
            prize: Some(stakes),
            off_time: Some(at(off_ms)),
            runners: declared_runners(&chances, &horses, &mut rng),
            ..RaceDeclared::of(key.clone())
        };
        RacePlan {
            nth,
            key,
            card: declared,
            horses,
            chances,
            stakes,
            open_ms: meeting.open_ms(nth),
            off_ms,
            rain: rain_ms.map(|rain_ms| (rain_ms, text(GOINGS[going + 1]))),
        }
    };
    (1..=meeting.races()).map(&mut race).collect()
}

fn race_name(rng: &mut Rng) -> Text {
    let word = rng.pick(&SECOND_WORDS);
    let kind = rng.pick(&RACE_KINDS);
    text(&format!("THE {word} {kind}"))
}

fn declared_runners(
    chances: &[u64],
    horses: &[HorseRegistered],
    rng: &mut Rng,
) -> Vec<DeclaredRunner> {
    let mut draws: Vec<u16> = (1..).take(horses.len()).collect();
    let mut jockeys = JOCKEYS;
    rng.shuffle(&mut draws);
    rng.shuffle(&mut jockeys);
    let runner = |(index, horse): (usize, &HorseRegistered)| DeclaredRunner {
        horse_name: horse.horse_name.clone(),
        number: number(index),
        jockey: text(jockeys[index]),
        trainer: horse.trainer.clone(),
        draw: draws[index],
        weight: u16::try_from(113 + 22 * chances[index] / 10_000).unwrap_or(113),
        owner: Some(horse.owner.clone()),
        ..DeclaredRunner::of(horse.horse_no.clone())
    };
    horses.iter().enumerate().map(runner).collect()
}

/// The saddle-cloth number of a runner by its index on the card.
pub(crate) fn number(runner: usize) -> u16 {
    u16::try_from(runner + 1).unwrap_or(0)
}

impl RacePlan {
    pub(crate) fn close_ms(&self) -> u64 {
        self.off_ms - CLOSE_BEFORE_MS
    }
}

impl MeetingPlan<'_> {
    fn open_ms(&self, nth: u64) -> u64 {
        match nth.checked_sub(OPEN_AT_A_TIME) {
            None | Some(0) => self.day.cards_out_ms() + OPEN_AFTER_CARDS_MS,
            Some(earlier) => self.off_ms(earlier),
        }
    }

    fn rain_ms(&self) -> Option<u64> {
        let run = self.races() / 2;
        (self.session == MeetingTime::Afternoon && run > 0)
            .then(|| self.off_ms(run) + RAIN_AFTER_MS)
    }

    /// A horse of the venue, the same on every date of its career.
    fn horse(&self, number: u64) -> HorseRegistered {
        let venue = self.venue_label();
        let mut rng = Rng::new(&format!("{venue}/horse {number}"));
        let trainer = rng.pick(&TRAINERS);
        let owner = rng.pick(&SURNAMES);
        let starts = rng.between(0..=24);
        let wins = rng.between(0..=3);
        let foaled = foaled(self.day.date.civil().year(), &mut rng);
        let horse_no = HorseNo::parse(&format!("{}_{number:03}", self.venue()))
            .expect("a code and a number make one");
        HorseRegistered {
            horse_name: horse_name(Rng::new(&venue).next() / 2 + number),
            country_of_origin: text(rng.pick(&COUNTRIES)),
            colour: text(rng.pick(&COLOURS)),
            sex: text(rng.pick(&SEXES)),
            foaled: Some(Foaled::Year(foaled)),
            trainer: text(trainer),
            owner: text(&format!("{owner} {}", rng.pick(&OWNERS))),
            stakes_currency: Some(text("HKD")),
            career: Some(career(starts, wins.min(starts), &mut rng)),
            ..HorseRegistered::of(horse_no)
        }
    }
}

/// The year of foaling. A horse races from three to eight years of age; then its number is reused.
fn foaled(this_year: i16, rng: &mut Rng) -> i16 {
    const AGE_MIN: i16 = 3;
    const YEARS: i16 = 6;
    let cycle = i16::try_from(rng.between(1..=6)).unwrap_or(1);
    let youngest = this_year - AGE_MIN;
    youngest - (youngest - cycle).rem_euclid(YEARS)
}

fn career(starts: u64, wins: u64, rng: &mut Rng) -> Career {
    let places = rng.between(0..=starts - wins) / 2;
    let count = |n: u64| u32::try_from(n).unwrap_or(0);
    Career {
        starts: count(starts),
        wins: count(wins),
        places: count(places),
        total_stakes: wins * 560_000 + places * 165_000,
    }
}
