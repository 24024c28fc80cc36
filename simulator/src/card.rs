//! The cards of a meeting: who runs where.

use std::cmp::Reverse;
use std::ops::RangeInclusive;

use events::{
    Career, DeclaredRunner, Foaled, HorseNo, HorseRegistered, Moment, RaceDeclared, Text,
};

use super::meeting::{Meeting, STABLED_PER_RACE, Session};
use super::rng::Rng;
use super::words::{
    COLOURS, COUNTRIES, DISTANCES_METRES, GOINGS, JOCKEYS, RACE_KINDS, SECOND_WORDS, SEXES,
    SURNAMES, TRAINERS, horse_name, text,
};
use super::{MINUTE_MS, SECOND_MS};

/// The first races open so long after the cards are out.
const OPEN_AFTER_CARDS_MS: u64 = 2 * SECOND_MS;
/// A race opens when the second before it at its meeting has closed.
const OPEN_AT_A_TIME: u64 = 2;
/// Betting closes this long before the off.
const CLOSE_BEFORE_MS: u64 = 5 * SECOND_MS;
/// It rains in the afternoon, when half of the races are run: so long after the off of the last of those.
const RAIN_AFTER_MS: u64 = 6 * MINUTE_MS;

const RUNNERS: RangeInclusive<u64> = 8..=STABLED_PER_RACE;

/// A race as it is drawn up, before anyone bets.
pub(super) struct Race {
    /// Which race of the day's it is at its meeting, from 1.
    pub(super) nth: u64,
    pub(super) card: RaceDeclared,
    /// In the order of the card.
    pub(super) horses: Vec<HorseRegistered>,
    /// How good each of them is, in the order of the card; twice as high wins twice as often.
    pub(super) chances: Vec<u64>,
    pub(super) stakes: u64,
    pub(super) open_ms: u64,
    pub(super) off_ms: u64,
    /// When the going changes, and to what.
    pub(super) rain: Option<(u64, Text)>,
}

/// Draws up all races of a meeting. No horse runs twice.
pub(super) fn draw_up(meeting: &Meeting<'_>, clock: &impl Fn(u64) -> Moment) -> Vec<Race> {
    let mut rng = Rng::new(&meeting.label("fields"));
    let mut stabled: Vec<u64> = meeting.stabled().collect();
    rng.shuffle(&mut stabled);
    let mut stabled = stabled.into_iter();
    let going = rng.index(GOINGS.len() - 1);
    let mut race = |nth: u64| {
        let count = usize::try_from(rng.between(RUNNERS)).unwrap_or(8);
        let mut field: Vec<(u64, HorseRegistered)> = stabled
            .by_ref()
            .take(count)
            .map(|n| (0, meeting.horse(n)))
            .collect();
        field
            .iter_mut()
            .for_each(|(chance, _)| *chance = rng.between(12..=100).pow(2));
        // The better horse carries more, and number 1 carries most.
        field.sort_by_key(|(chance, _)| Reverse(*chance));
        let (chances, horses): (Vec<_>, Vec<_>) = field.into_iter().unzip();
        let class = rng.between(1..=5);
        let off_ms = meeting.off_ms(nth);
        let declared = RaceDeclared {
            date: meeting.date(),
            venue: meeting.venue(),
            race_number: meeting.race_number(nth),
            venue_name: Some(meeting.venue_name()),
            race_name: race_name(&mut rng),
            distance: rng.pick(&DISTANCES_METRES),
            class: text(&format!("Class {class}")),
            going: Some(text(GOINGS[going])),
            off_time: Some(clock(off_ms)),
            runners: declared_runners(&chances, &horses, &mut rng),
        };
        Race {
            nth,
            card: declared,
            horses,
            chances,
            stakes: 3_600_000 - class * 540_000,
            open_ms: meeting.open_ms(nth),
            off_ms,
            rain: meeting
                .rain_ms()
                .filter(|rain_ms| *rain_ms < off_ms)
                .map(|rain_ms| (rain_ms, text(GOINGS[going + 1]))),
        }
    };
    (1..=meeting.races()).map(&mut race).collect()
}

fn race_name(rng: &mut Rng) -> Text {
    let (word, kind) = (rng.pick(&SECOND_WORDS), rng.pick(&RACE_KINDS));
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
        horse_no: horse.horse_no.clone(),
        horse_name: horse.horse_name.clone(),
        number: u16::try_from(index + 1).unwrap_or(0),
        jockey: text(jockeys[index]),
        trainer: horse.trainer.clone(),
        draw: draws[index],
        weight: u16::try_from(113 + 22 * chances[index] / 10_000).unwrap_or(113),
    };
    horses.iter().enumerate().map(runner).collect()
}

impl Race {
    pub(super) fn close_ms(&self) -> u64 {
        self.off_ms - CLOSE_BEFORE_MS
    }
}

impl Meeting<'_> {
    fn open_ms(&self, nth: u64) -> u64 {
        match nth.checked_sub(OPEN_AT_A_TIME) {
            None | Some(0) => self.cards_out_ms() + OPEN_AFTER_CARDS_MS,
            Some(earlier) => self.off_ms(earlier),
        }
    }

    fn rain_ms(&self) -> Option<u64> {
        let run = self.races() / 2;
        (self.session == Session::Afternoon && run > 0).then(|| self.off_ms(run) + RAIN_AFTER_MS)
    }

    /// A horse of the venue, the same on every date of some years.
    fn horse(&self, number: u64) -> HorseRegistered {
        let venue = self.venue_label();
        let mut rng = Rng::new(&format!("{venue}/horse {number}"));
        let (trainer, owner) = (rng.pick(&TRAINERS), rng.pick(&SURNAMES));
        let (starts, wins) = (rng.between(0..=24), rng.between(0..=3));
        let foaled = foaled(self.date().civil().year(), &mut rng);
        HorseRegistered {
            horse_no: HorseNo::parse(&format!("{}_{number:03}", self.venue()))
                .expect("a code and a number make one"),
            horse_name: horse_name(Rng::new(&venue).next() / 2 + number),
            country_of_origin: text(rng.pick(&COUNTRIES)),
            colour: text(rng.pick(&COLOURS)),
            sex: text(rng.pick(&SEXES)),
            foaled: Some(Foaled::Year(foaled)),
            age: None,
            age_as_of: None,
            trainer: text(trainer),
            owner: text(&format!(
                "{owner} {}",
                rng.pick(&["Stable", "Syndicate", "& Sons", "Racing"])
            )),
            stakes_currency: Some(text("HKD")),
            career: Some(career(starts, wins.min(starts), &mut rng)),
        }
    }
}

/// A horse races from three to eight years of age, and ages with the years; then its number is given again.
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
