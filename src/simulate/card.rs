//! The cards of a meeting: who runs where.

use std::cmp::Reverse;
use std::ops::RangeInclusive;

use events::{
    Career, DeclaredRunner, Foaled, HorseNo, HorseRegistered, RaceDeclared, RaceNumber, Text,
};

use super::rng::Rng;
use super::words::{
    COLOURS, COUNTRIES, DISTANCES_METRES, GOINGS, JOCKEYS, RACE_KINDS, SECOND_WORDS, SEXES,
    SURNAMES, TRAINERS, horse_name, text,
};
use super::{MINUTE_MS, Meeting, SECOND_MS};

/// Cards are out, and the first races open.
const OPEN_FIRST_MS: u64 = 2 * SECOND_MS;
const OFF_FIRST_MS: u64 = 10 * MINUTE_MS;
const BETWEEN_RACES_MS: u64 = 30 * MINUTE_MS;
/// A race opens when the third before it has closed.
const OPEN_AT_A_TIME: u64 = 3;
/// Betting closes this long before the off.
const CLOSE_BEFORE_MS: u64 = 5 * SECOND_MS;

const RUNNERS: RangeInclusive<u64> = 8..=14;
/// Horses of a venue for each race of its meetings: as many as the fullest field.
const STABLED_PER_RACE: u64 = 14;

/// A race as it is drawn up, before anyone bets.
pub(super) struct Race {
    pub(super) card: RaceDeclared,
    /// In the order of the card.
    pub(super) horses: Vec<HorseRegistered>,
    /// How good each of them is, in the order of the card; twice as high wins twice as often.
    pub(super) chances: Vec<u64>,
    pub(super) stakes: u64,
    pub(super) open_ms: u64,
    pub(super) off_ms: u64,
}

/// Draws up all races of a meeting. No horse runs twice.
pub(super) fn draw_up(meeting: &Meeting) -> Vec<Race> {
    let mut rng = Rng::new(&meeting.label("fields"));
    let mut stabled: Vec<u64> = (1..=meeting.races() * STABLED_PER_RACE).collect();
    rng.shuffle(&mut stabled);
    let mut stabled = stabled.into_iter();
    let going = rng.pick(&GOINGS);
    let mut race = |number: u64| {
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
        let off_ms = OFF_FIRST_MS + (number - 1) * BETWEEN_RACES_MS;
        let opens_after_off_ms = off_ms.checked_sub(OPEN_AT_A_TIME * BETWEEN_RACES_MS);
        let class = rng.between(1..=5);
        Race {
            card: card(meeting, number, class, going, &chances, &horses, &mut rng),
            horses,
            chances,
            stakes: 3_600_000 - class * 540_000,
            open_ms: opens_after_off_ms.unwrap_or(0).max(OPEN_FIRST_MS),
            off_ms,
        }
    };
    (1..=meeting.races()).map(&mut race).collect()
}

fn card(
    meeting: &Meeting,
    number: u64,
    class: u64,
    going: &str,
    chances: &[u64],
    horses: &[HorseRegistered],
    rng: &mut Rng,
) -> RaceDeclared {
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
    RaceDeclared {
        date: meeting.date,
        venue: meeting.venue.clone(),
        race_number: u16::try_from(number)
            .ok()
            .and_then(|n| RaceNumber::try_from(n).ok())
            .expect("1 to RACES_MAX"),
        venue_name: Some(meeting.venue_name.clone()),
        race_name: text(&format!(
            "THE {} {}",
            rng.pick(&SECOND_WORDS),
            rng.pick(&RACE_KINDS)
        )),
        distance: rng.pick(&DISTANCES_METRES),
        class: text(&format!("Class {class}")),
        going: Some(text(going)),
        // The clock is scaled when the meeting is played, so no time of day would be true.
        off_time: None,
        runners: horses.iter().enumerate().map(runner).collect(),
    }
}

impl Race {
    pub(super) fn riders(&self) -> Vec<Text> {
        self.card
            .runners
            .iter()
            .map(|runner| runner.jockey.clone())
            .collect()
    }

    pub(super) fn close_ms(&self) -> u64 {
        self.off_ms - CLOSE_BEFORE_MS
    }
}

impl Meeting {
    /// A horse of the venue, the same on every date of a year.
    fn horse(&self, number: u64) -> HorseRegistered {
        let venue = format!("{}/{}", self.seed, self.venue);
        let mut rng = Rng::new(&format!("{venue}/horse {number}"));
        let (trainer, owner) = (rng.pick(&TRAINERS), rng.pick(&SURNAMES));
        let (starts, wins) = (rng.between(0..=24), rng.between(0..=3));
        let age = i16::try_from(rng.between(3..=8)).unwrap_or(3);
        HorseRegistered {
            horse_no: HorseNo::parse(&format!("{}_{number:03}", self.venue))
                .expect("a code and a number make one"),
            horse_name: horse_name(Rng::new(&venue).next() / 2 + number),
            country_of_origin: text(rng.pick(&COUNTRIES)),
            colour: text(rng.pick(&COLOURS)),
            sex: text(rng.pick(&SEXES)),
            foaled: Some(Foaled::Year(self.date.civil().year() - age)),
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
