//! Results as JSON, an array of races a file: each race becomes a statement of its result.

use std::collections::BTreeSet;
use std::path::Path;

use events::{
    FinishTime, HorseNo, ParseError, RaceKey, RaceNumber, RacingDate, ResultDeclared, ResultRunner,
    ResultStatus, Text, VenueCode,
};
use serde_json::{Map, Value};

use crate::ids::{self, Ids};
use crate::input::fields::{FieldError, Fields};
use crate::input::files;
use crate::input::json_array::Elements;
use crate::placing::Placing;
use crate::{Item, Location};

/// A race as its file tells it, with the brands of each runner beside the statement.
#[derive(Debug)]
pub(crate) struct JsonRace {
    pub(crate) statement: ResultDeclared,
    pub(crate) brands: Vec<BTreeSet<String>>,
}

impl JsonRace {
    pub(crate) fn read(race: &Map<String, Value>) -> Result<Self, FieldError> {
        let race = Fields::root(race);
        let key = race_key(&race)?;
        let runners = race.objects("runners")?;
        let known = |text: Text| (!text.is_empty()).then_some(text);
        let statement = ResultDeclared {
            venue_name: venue_name(&key.venue),
            race_name: known(race.text("raceName")?),
            distance: race.whole("distance")?.filter(|metres| *metres > 0),
            going: known(race.text("going")?),
            revision: REVISION,
            status: ResultStatus::Official,
            reason: None,
            runners: runners.iter().map(runner).collect::<Result<_, _>>()?,
            date: key.date,
            venue: key.venue,
            race_number: key.race_number,
        };
        let brands = runners.iter().map(brands).collect::<Result<_, _>>()?;
        Ok(Self { statement, brands })
    }
}

/// What a file says is the last word: the files do not tell earlier statements.
pub(crate) const REVISION: u32 = 1;

/// Opens a file of races.
pub(crate) fn open(path: &Path) -> Result<(Location, Elements), Item> {
    let place = Location::whole(path);
    match files::read(path) {
        Ok(bytes) => Ok((place, Elements::new(bytes))),
        Err(error) => Err(place.refused(error)),
    }
}

/// Which race an object is about.
pub(crate) fn race_key(race: &Fields<'_>) -> Result<RaceKey, FieldError> {
    let number: u16 = race
        .whole("raceNo")?
        .ok_or_else(|| race.error("raceNo", "is missing"))?;
    Ok(RaceKey {
        date: race.parsed("date", RacingDate::parse)?,
        venue: race.parsed("racecourse", VenueCode::parse)?,
        race_number: RaceNumber::try_from(number).map_err(|error| race.error("raceNo", error))?,
    })
}

pub(crate) fn venue_name(code: &VenueCode) -> Option<Text> {
    let (_, name) = VENUES.iter().find(|(known, _)| *known == code.as_str())?;
    Text::parse(name).ok()
}

/// The racecourses of Hong Kong whose names the files leave out (JSON) or give alone (CSV).
pub(crate) const VENUES: [(&str, &str); 2] = [("ST", "Sha Tin"), ("HV", "Happy Valley")];

/// Learns horse numbers from files of results or cards.
pub(crate) fn learn(
    paths: &[impl AsRef<Path>],
    ids: &mut Ids,
    mut also: impl FnMut(&Map<String, Value>),
) -> Vec<Item> {
    let mut said = Vec::new();
    for path in paths {
        match open(path.as_ref()) {
            Err(item) => said.push(item),
            Ok((place, elements)) => {
                for (line, element) in elements {
                    match element {
                        Err(reason) => said.push(place.at(line).refused(reason)),
                        Ok(race) => {
                            ids.learn(&race);
                            also(&race);
                        }
                    }
                }
            }
        }
    }
    said
}

fn runner(runner: &Fields<'_>) -> Result<ResultRunner, FieldError> {
    let placing = match runner.optional("placing") {
        Some(Value::String(_)) => Some(runner.parsed("placing", Placing::parse)?),
        _ => runner.whole("placing")?.map(|position| Placing::At {
            position,
            dead_heat: false,
        }),
    };
    Ok(ResultRunner {
        horse_no: runner.parsed("horseId", HorseNo::parse)?,
        horse_name: runner.horse_name("horseName")?,
        number: runner.whole("horseNo")?,
        position: placing.as_ref().and_then(Placing::position),
        outcome: placing.as_ref().and_then(Placing::outcome).cloned(),
        jockey: runner.text("jockey")?,
        trainer: runner.text("trainer")?,
        finish_time: finish_time(runner)?,
        win_odds: runner.odds("winOdds")?,
        stakes: None,
    })
}

/// Seconds come as a float with dust: 100.78999999999999 is 1:40.79.
fn finish_time(runner: &Fields<'_>) -> Result<Option<FinishTime>, FieldError> {
    const NAME: &str = "finishSeconds";
    let Some(seconds) = runner.float(NAME)? else {
        return Ok(None);
    };
    let hundredths = (seconds * 100.0).round();
    // Out of range becomes 0 or the largest number, which the type refuses.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates"
    )]
    let time = FinishTime::from_hundredths(hundredths as u32);
    time.map(Some).map_err(|_| {
        runner.error(
            NAME,
            ParseError::new("a time is above 0 and under an hour", seconds),
        )
    })
}

fn brands(runner: &Fields<'_>) -> Result<BTreeSet<String>, FieldError> {
    let text = |name: &str| runner.parsed(name, |text| Ok(text.to_owned()));
    let field = runner.optional("brandNo").and_then(Value::as_str);
    Ok(ids::brands(&text("horseId")?, field, &text("horseName")?))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::JsonRace;

    fn race() -> Value {
        json!({
            "date": "2016-09-03", "racecourse": "ST", "raceNo": 1, "raceClass": null, "distance": null, "going": "GOOD",
            "runners": [
                {"placing": 1, "horseNo": 10, "horseId": "HK_2014_T032", "brandNo": "T032", "horseName": "QUIET RIVER",
                 "jockey": "A Rider", "trainer": "B Trainer", "finishSeconds": 100.789_999_999_999_99, "winOdds": 9.4},
                {"placing": 2, "horseNo": 2, "horseId": "HK_2010_M199", "brandNo": null, "horseName": "LONG FLIGHT  (CM199)",
                 "jockey": "---", "trainer": "B Trainer", "finishSeconds": 101, "winOdds": 120},
            ],
        })
    }

    fn check_refused(pointer: &str, value: Value, reason: &str) {
        let mut race = race();
        *race.pointer_mut(pointer).expect(pointer) = value;
        let error = JsonRace::read(race.as_object().expect("an object"))
            .expect_err(pointer)
            .to_string();
        assert!(error.starts_with(reason), "{pointer}: {error}");
        assert!(error.len() < 300, "{pointer}: a message stays short");
    }

    #[test]
    fn a_race_becomes_a_statement() {
        let read = JsonRace::read(race().as_object().expect("an object")).expect("a race");
        let statement = read.statement;
        assert_eq!(statement.venue_name.expect("known").as_str(), "Sha Tin");
        assert_eq!((statement.distance, statement.race_name), (None, None));
        let [first, second] = &statement.runners[..] else {
            panic!("two runners")
        };
        assert_eq!(first.finish_time.expect("a time").to_string(), "1:40.79");
        assert_eq!(first.win_odds.expect("odds").thousandths(), 9_400);
        assert_eq!((first.number, first.position), (Some(10), Some(1)));
        assert_eq!(
            (second.horse_name.as_str(), second.jockey.as_str()),
            ("LONG FLIGHT", "")
        );
        assert!(read.brands[1].contains("M199") && read.brands[1].contains("CM199"));
    }

    #[test]
    fn what_is_wrong_is_named_by_its_path() {
        check_refused("/date", json!("0000-13-99"), "date: a date is YYYY-MM-DD");
        check_refused("/racecourse", json!("st"), "racecourse: ");
        check_refused("/raceNo", json!(0), "raceNo: a race number");
        check_refused("/raceNo", json!(null), "raceNo: is missing");
        check_refused("/distance", json!(-1200), "distance: ");
        check_refused("/runners", json!("none"), "runners: an array");
        check_refused("/runners/1", json!(7), "runners[1]: an object");
        check_refused(
            "/runners/1/winOdds",
            json!(-3.5),
            "runners[1].winOdds: odds",
        );
        check_refused(
            "/runners/1/winOdds",
            json!("3.5"),
            "runners[1].winOdds: a number",
        );
        check_refused(
            "/runners/0/horseName",
            json!("X".repeat(1 << 20)),
            "runners[0].horseName: at most 256",
        );
        check_refused(
            "/runners/0/horseName",
            json!(" (A123)"),
            "runners[0].horseName: a name",
        );
        check_refused("/runners/0/horseId", json!("HK 1"), "runners[0].horseId: ");
        check_refused(
            "/runners/0/finishSeconds",
            json!(1e300),
            "runners[0].finishSeconds: a time",
        );
        check_refused(
            "/runners/0/finishSeconds",
            json!(-5),
            "runners[0].finishSeconds: a time",
        );
        check_refused(
            "/runners/0/placing",
            json!(1.5),
            "runners[0].placing: a whole number",
        );
        check_refused("/runners/0/placing", json!("first"), "runners[0].placing: ");
    }
}
