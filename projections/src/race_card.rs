//! The race card: the declared runners of a race.

use events::RaceKey;
use schemars::JsonSchema;
use serde::Serialize;

use crate::json;
use crate::race::Race;

/// A race of a card. The meeting's fields are put before these in a response.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RaceCard<'a> {
    race_number: u16,
    race_name: &'a str,
    /// Metres; 0 if unknown.
    distance: u32,
    class: &'a str,
    going: &'a str,
    /// scheduled, open, closed, off, finished, result or abandoned
    status: &'a str,
    status_reason: &'a str,
    /// RFC 3339; empty if unknown.
    off_time: String,
    /// The racecourse's time zone, IANA; empty if unknown.
    time_zone: &'a str,
    runners: Vec<CardRunner<'a>>,
    /// Withdrawn runners.
    withdrawn: Vec<WithdrawnRunner<'a>>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CardRunner<'a> {
    horse_no: &'a str,
    horse_name: &'a str,
    number: u16,
    jockey: &'a str,
    trainer: &'a str,
    draw: u16,
    /// Pounds carried.
    weight: u16,
}

#[derive(Debug, Serialize, JsonSchema)]
struct WithdrawnRunner<'a> {
    #[serde(flatten)]
    runner: CardRunner<'a>,
    reason: &'a str,
}

/// The card of a race; `None` before one is declared.
pub(crate) fn render(key: &RaceKey, race: &Race) -> Option<Vec<u8>> {
    let card = race.card.as_ref()?;
    let (mut runners, mut withdrawn) = (Vec::with_capacity(card.runners.len()), Vec::new());
    for runner in &card.runners {
        let (jockey, weight) = race.rider(runner);
        let row = CardRunner {
            horse_no: runner.horse_no.as_str(),
            horse_name: runner.horse_name.as_str(),
            number: runner.number,
            jockey: jockey.as_str(),
            trainer: runner.trainer.as_str(),
            draw: runner.draw,
            weight,
        };
        match race.withdrawal(&runner.horse_no) {
            None => runners.push(row),
            Some(reason) => withdrawn.push(WithdrawnRunner {
                runner: row,
                reason: reason.as_str(),
            }),
        }
    }
    Some(json::render(&RaceCard {
        race_number: key.race_number.get(),
        race_name: race.name(),
        distance: race.distance(),
        class: race.class(),
        going: race.going(),
        status: race.status().as_str(),
        status_reason: race.status_reason.as_str(),
        off_time: json::text(card.off_time),
        time_zone: race.time_zone(key),
        runners,
        withdrawn,
    }))
}
