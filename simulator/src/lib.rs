//! A synthetic race day: two meetings on one date, with all that happens on one.
//!
//! Pure: the same [`RaceDay`] at the same [`Pace`] is the same events, to the byte. Horses and people are invented; a
//! horse keeps its number, name and people from one date of a venue to the next.

mod betting;
mod card;
mod finish;
mod meeting;
mod pool;
mod race_script;
mod rng;
#[cfg(test)]
mod tests;
mod twists;
mod words;

use events::{Envelope, Event, Moment, RacingDate};
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use card::{Race, draw_up};
use meeting::Meeting;
use race_script::RaceScript;
use rng::Rng;
use twists::Twists;

/// Races of a meeting at most: it has to fit into a day.
pub const RACES_MAX: u16 = 20;

/// The racecourses that do not exist, of the afternoon and of the evening: code and name. The first by code is what is
/// served where no venue is asked for.
pub const VENUES: [(&str, &str); 2] = [("RB", "Railbird Park"), ("SM", "Saltmarsh")];

/// The `source` of every event.
pub const SOURCE: &str = "railbird-simulate";

/// A race number has three digits.
const RACE_NUMBER_MAX: u16 = 999;

const SECOND_MS: u64 = 1_000;
const MINUTE_MS: u64 = 60 * SECOND_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;

/// Slower than this is not played.
const SPEED_MIN: f64 = 0.01;

/// The namespace of the identities of simulated events (a random UUID, fixed for ever).
const NAMESPACE: Uuid = Uuid::from_u128(0x2f0c_5a91_77de_4d0b_8b1a_90c4_e63d_15f2);

/// A race day to be made up: a meeting in the afternoon, and one in the evening that ends after midnight.
///
/// With [`RaceDay::FULL_RACES`] or more races at each there is everything on it that a day can have: see `twists.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RaceDay {
    date: RacingDate,
    /// Of each meeting.
    races: u16,
    /// How many races each had before these, under lower numbers.
    races_before: u16,
    seed: u64,
}

impl RaceDay {
    /// From so many races at each meeting on, everything happens that can.
    pub const FULL_RACES: u16 = 4;

    /// A day with so many races at each meeting, 1 to [`RACES_MAX`]: what is outside is taken as the nearest.
    #[must_use]
    pub fn new(date: RacingDate, races: u16, seed: u64) -> Self {
        Self {
            date,
            races: races.clamp(1, RACES_MAX),
            races_before: 0,
            seed,
        }
    }

    /// As many races more on the same date, on other horses, while there are numbers for them.
    #[must_use]
    pub fn more(self) -> Option<Self> {
        let races_before = self.races_before + self.races;
        (races_before + self.races <= RACE_NUMBER_MAX).then_some(Self {
            races_before,
            ..self
        })
    }

    /// As in life: the last race is off twenty minutes after the date is over, which begins at `midnight`.
    #[must_use]
    pub fn as_in_life(&self, midnight: Timestamp) -> Pace {
        Pace {
            begins: after(midnight, self.begins_ms()),
            speed: 1.0,
        }
    }

    /// When the last race is off.
    #[must_use]
    pub fn last_off(&self, pace: &Pace) -> Timestamp {
        pace.at(meeting::LAST_OFF_MS - self.begins_ms())
    }

    /// When the cards are out, after midnight.
    fn begins_ms(&self) -> u64 {
        Meeting::afternoon(self).cards_out_ms()
    }
}

/// When a day begins, and how much faster than in life it goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// When the cards are out, some minutes before the first race.
    pub begins: Timestamp,
    /// What is not a number above 0.01 counts as that.
    pub speed: f64,
}

impl Pace {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a day has under 2^53 ms, and a float is cast to the nearest integer that there is"
    )]
    fn at(&self, since_ms: u64) -> Timestamp {
        let speed = self.speed.max(SPEED_MIN);
        after(self.begins, (since_ms as f64 / speed).round() as u64)
    }
}

fn after(time: Timestamp, ms: u64) -> Timestamp {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    time.saturating_add(SignedDuration::from_millis(ms))
        .unwrap_or(Timestamp::MAX)
}

/// All that happens on a day, in the order of publication, each at its time.
///
/// Another pace changes nothing but the times: `time` of every event, and `off_time` of the cards, which is when the
/// race will be off.
#[must_use]
pub fn script(day: &RaceDay, pace: &Pace) -> Vec<Envelope> {
    let begins_ms = day.begins_ms();
    let clock = |at_ms: u64| Moment::from(pace.at(at_ms - begins_ms));
    let mut facts = Vec::new();
    for meeting in [Meeting::afternoon(day), Meeting::evening(day)] {
        facts.extend(tell(&meeting, &clock));
    }
    // Stable: what happens at one moment stays in the order in which it was made up.
    facts.sort_by_key(|(at_ms, _)| *at_ms);
    let envelope = |(index, (at_ms, event)): (usize, (u64, Event))| Envelope {
        id: Uuid::new_v5(&NAMESPACE, day.label(index).as_bytes()).to_string(),
        source: SOURCE.to_owned(),
        time: clock(at_ms),
        event,
    };
    facts.into_iter().enumerate().map(envelope).collect()
}

/// All that happens at a meeting, each with its milliseconds after midnight; race by race, not yet in order.
fn tell(meeting: &Meeting<'_>, clock: &impl Fn(u64) -> Moment) -> Vec<(u64, Event)> {
    let races = draw_up(meeting, clock);
    let cards_out_ms = meeting.cards_out_ms();
    let mut horses: Vec<_> = races.iter().flat_map(|race| &race.horses).collect();
    horses.sort_by(|a, b| a.horse_no.cmp(&b.horse_no));
    let registered = horses
        .into_iter()
        .map(|horse| (cards_out_ms, Event::HorseRegistered(horse.clone())));
    let declared = |race: &Race| {
        let card = Event::RaceDeclared(race.card.clone());
        (cards_out_ms + SECOND_MS, card)
    };
    let mut facts: Vec<_> = registered.chain(races.iter().map(declared)).collect();
    for race in &races {
        let mut rng = Rng::new(&meeting.label(&format!("race {}", race.card.race_number)));
        let twists = Twists::of(meeting, race, &mut rng);
        facts.extend(RaceScript::new(race, &twists).all(&mut rng));
    }
    facts
}

impl RaceDay {
    /// Names something of this day, and of no other.
    fn label(&self, what: impl std::fmt::Display) -> String {
        let Self {
            date,
            races,
            races_before,
            seed,
        } = self;
        format!("{seed}/{date}/{races_before}+{races}/{what}")
    }
}
