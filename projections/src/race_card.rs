//! The race card: the declared runners of a race.

use events::{HorseNo, RaceKey, RaceNumber, RaceStatus};
use schemars::JsonSchema;
use serde::Serialize;

use crate::json;
use crate::race::Race;

/// A race of a card. The meeting's fields are put before these in a response.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RacecardRace<'a> {
    /// The race's number.
    race_number: RaceNumber,
    /// Empty if unknown.
    race_name: &'a str,
    /// Metres; 0 if unknown.
    distance: u32,
    /// Empty if unknown.
    class: &'a str,
    /// Empty if unknown.
    going: &'a str,
    /// The status of the race.
    status: RaceStatus,
    /// Empty if no reason was given.
    status_reason: &'a str,
    /// The scheduled off, RFC 3339 in UTC; empty if unknown.
    #[schemars(extend("pattern" = json::TIME_OR_EMPTY))]
    off_time: String,
    /// The racecourse's time zone, IANA; empty if unknown.
    time_zone: &'a str,
    /// In the order of the card, without withdrawn runners.
    runners: Vec<RacecardRunner<'a>>,
    /// Withdrawn runners.
    withdrawn: Vec<WithdrawnRunner<'a>>,
}

/// A runner on a card.
#[derive(Debug, Serialize, JsonSchema)]
struct RacecardRunner<'a> {
    /// The horse.
    horse_no: &'a HorseNo,
    /// Its name; empty if unknown.
    horse_name: &'a str,
    /// Its saddle-cloth number; 0 if unknown.
    number: u16,
    /// Its current jockey; empty if unknown.
    jockey: &'a str,
    /// Its trainer; empty if unknown.
    trainer: &'a str,
    /// Its draw; 0 if unknown.
    draw: u16,
    /// Pounds carried; 0 if unknown.
    weight: u16,
}

/// A withdrawn runner.
#[derive(Debug, Serialize, JsonSchema)]
struct WithdrawnRunner<'a> {
    #[serde(flatten)]
    runner: RacecardRunner<'a>,
    /// Why it was withdrawn; empty if no reason was given.
    reason: &'a str,
}

/// The card of a race; `None` before one is declared.
pub(crate) fn render(key: &RaceKey, race: &Race) -> Option<Vec<u8>> {
    let card = race.card.as_ref()?;
    let mut runners = Vec::with_capacity(card.runners.len());
    let mut withdrawn = Vec::new();
    for runner in &card.runners {
        let (jockey, weight) = race.rider(runner);
        let row = RacecardRunner {
            horse_no: &runner.horse_no,
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
    Some(json::render(&RacecardRace {
        race_number: key.race_number,
        race_name: race.name(),
        distance: race.distance(),
        class: race.class(),
        going: race.going(),
        status: race.status(),
        status_reason: race.status_reason.as_str(),
        off_time: json::text(card.off_time),
        time_zone: race.time_zone(key),
        runners,
        withdrawn,
    }))
}
