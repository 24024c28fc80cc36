//! The race card: the declared runners of a race.

use events::{EachWayTerms, HorseNo, RaceKey, RaceNumber, RaceStatus};
use schemars::JsonSchema;
use serde::Serialize;

use crate::conditions::Conditions;
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
    #[serde(flatten)]
    conditions: Conditions<'a>,
    /// The terms of each-way bets; left out if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    each_way: Option<EachWayTerms>,
    /// In the order of the card, without withdrawn runners.
    runners: Vec<RacecardRunner<'a>>,
    /// Withdrawn runners.
    withdrawn: Vec<WithdrawnRunner<'a>>,
}

/// A runner on a card.
#[serde_with::skip_serializing_none]
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
    /// Its rating.
    rating: Option<u16>,
    /// Its own weight, in pounds.
    body_weight: Option<u16>,
    /// Its gear, as the authority writes it.
    gear: Option<&'a str>,
    /// Its age on the day.
    age: Option<u8>,
    /// Whether it is a reserve.
    reserve: Option<bool>,
    /// The current jockey's identifier.
    jockey_id: Option<&'a str>,
    /// The trainer's identifier.
    trainer_id: Option<&'a str>,
    /// Its owner.
    owner: Option<&'a str>,
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
    of(key, race).map(|card| json::render(&card))
}

pub(crate) fn of<'a>(key: &'a RaceKey, race: &'a Race) -> Option<RacecardRace<'a>> {
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
            rating: runner.rating,
            body_weight: runner.body_weight,
            gear: json::known(runner.gear.as_ref()),
            age: runner.age,
            reserve: runner.reserve,
            jockey_id: json::known(runner.jockey_id.as_ref()).filter(|_| *jockey == runner.jockey),
            trainer_id: json::known(runner.trainer_id.as_ref()),
            owner: json::known(runner.owner.as_ref()),
        };
        match race.withdrawal(&runner.horse_no) {
            None => runners.push(row),
            Some(reason) => withdrawn.push(WithdrawnRunner {
                runner: row,
                reason: reason.as_str(),
            }),
        }
    }
    Some(RacecardRace {
        race_number: key.race_number,
        race_name: race.name(),
        distance: race.distance(),
        class: race.class(),
        going: race.going(),
        status: race.status(),
        status_reason: race.status_reason.as_str(),
        off_time: json::text(card.off_time),
        time_zone: race.time_zone(key),
        conditions: Conditions::of(race),
        each_way: card.each_way,
        runners,
        withdrawn,
    })
}
