//! A synthetic meeting: cards, odds that move as a pool does, a late withdrawal, a dead heat, an amended result.
//!
//! Pure: the same [`Meeting`] is the same events, whenever and however fast it is played. Horses and people are
//! invented; a horse keeps its number, name and people from one date of a venue to the next.

mod card;
mod finish;
mod pool;
mod rng;
#[cfg(test)]
mod tests;
mod told;
mod words;

use std::time::Duration;

use events::{Envelope, Event, HorseRegistered, Moment, RacingDate, Text, VenueCode};
use jiff::Timestamp;
use uuid::Uuid;

use card::draw_up;
use rng::Rng;
use told::{Told, Twists};

/// The racecourses that do not exist: code and name.
pub const VENUES: [(&str, &str); 3] = [
    ("RB", "Railbird Park"),
    ("GL", "Gallery Downs"),
    ("MW", "Millwater"),
];

/// The `source` of every event.
pub const SOURCE: &str = "railbird-simulate";

/// A race number has three digits.
pub const RACES_MAX: u16 = 999;

const SECOND_MS: u64 = 1_000;
const MINUTE_MS: u64 = 60 * SECOND_MS;

/// Slower than this is not played.
const SPEED_MIN: f64 = 0.01;

/// The namespace of the identities of simulated events (a random UUID, fixed for ever).
const NAMESPACE: Uuid = Uuid::from_u128(0x2f0c_5a91_77de_4d0b_8b1a_90c4_e63d_15f2);

/// A meeting to be made up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meeting {
    /// The meeting's date.
    pub date: RacingDate,
    /// The venue's code: one of [`VENUES`], or any other.
    pub venue: VenueCode,
    /// The venue's name.
    pub venue_name: Text,
    /// How many races, 1 to [`RACES_MAX`]: what is outside is taken as the nearest.
    pub races: u16,
    /// What chance makes of it.
    pub seed: u64,
}

/// The whole meeting in the order of publication: when, after the start, at this speed, and what.
///
/// At speed 1 the races are 30 minutes apart. A higher speed changes nothing but the clock: offsets and `time` are
/// divided by it. What is not a number above 0.01 counts as that. With no change but of `start` and `speed`, the
/// events are the same but for their `time`.
#[must_use]
pub fn script(meeting: &Meeting, start: Timestamp, speed: f64) -> Vec<(Duration, Envelope)> {
    let speed = if speed > SPEED_MIN { speed } else { SPEED_MIN };
    let mut facts = facts(meeting);
    // Stable: what happens at one moment stays in the order in which it was made up.
    facts.sort_by_key(|(at_ms, _)| *at_ms);
    let envelope = |(index, (at_ms, event)): (usize, (u64, Event))| {
        let offset_ms = scaled(at_ms, speed);
        let time = i64::try_from(offset_ms)
            .ok()
            .and_then(|offset| {
                Timestamp::from_millisecond(start.as_millisecond().saturating_add(offset)).ok()
            })
            .unwrap_or(Timestamp::MAX);
        let id = Uuid::new_v5(&NAMESPACE, meeting.label(&index.to_string()).as_bytes()).to_string();
        let envelope = Envelope {
            id,
            source: SOURCE.to_owned(),
            time: Moment::from(time),
            event,
        };
        (Duration::from_millis(offset_ms), envelope)
    };
    facts.into_iter().enumerate().map(envelope).collect()
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a meeting lasts under 2^53 ms, and a float is cast to the nearest integer that there is"
)]
fn scaled(at_ms: u64, speed: f64) -> u64 {
    (at_ms as f64 / speed).round() as u64
}

/// All that happens, each with its milliseconds after the start at speed 1; race by race, not yet in order.
fn facts(meeting: &Meeting) -> Vec<(u64, Event)> {
    let races = draw_up(meeting);
    let mut facts = Vec::new();
    let mut horses: Vec<&HorseRegistered> = races.iter().flat_map(|race| &race.horses).collect();
    horses.sort_by(|a, b| a.horse_no.cmp(&b.horse_no));
    facts.extend(
        horses
            .into_iter()
            .map(|horse| (0, Event::HorseRegistered(horse.clone()))),
    );
    facts.extend(
        races
            .iter()
            .map(|race| (SECOND_MS, Event::RaceDeclared(race.card.clone()))),
    );
    for race in &races {
        let mut rng = Rng::new(&meeting.label(&format!("race {}", race.card.race_number)));
        let twists = Twists::of(race, races.len() as u64, &mut rng);
        Told::new(race, &mut facts).bet_and_run(&twists, &mut rng);
    }
    facts
}

impl Meeting {
    fn races(&self) -> u64 {
        self.races.clamp(1, RACES_MAX).into()
    }

    /// Names something of this meeting, and of no other.
    fn label(&self, what: &str) -> String {
        format!(
            "{}/{}/{}/{}/{what}",
            self.seed,
            self.date,
            self.venue,
            self.races()
        )
    }
}
