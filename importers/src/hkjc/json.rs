//! [`JsonRace`]: a race of a JSON file of results, and the fields that results and cards share.

use std::collections::BTreeSet;

use events::{
    FinishTime, HorseNo, Odds, ParseError, RaceKey, RaceNumber, RacingDate, ResultDeclared,
    ResultRunner, Text, VenueCode,
};
use serde_json::{Map, Value};

use super::brand::split_brands;
use super::hong_kong::venue_name;
use super::horse_ids;
use crate::input::fields::Fields;
use crate::input::race_heading::RaceHeading;
use crate::item::InputError;
use crate::placing::Placing;

/// A race, with the brands of each runner beside its result.
#[derive(Debug)]
pub(crate) struct JsonRace {
    pub(crate) key: RaceKey,
    pub(crate) result: ResultDeclared,
    pub(crate) brands: Vec<BTreeSet<String>>,
}

impl JsonRace {
    pub(crate) fn read(race: &Map<String, Value>) -> Result<Self, InputError> {
        let race = Fields::root(race);
        let key = race_key(&race)?;
        let runners = race.objects("runners")?;
        let heading = RaceHeading {
            venue_name: venue_name(&key.venue),
            race_name: race.text("raceName")?,
            distance: race.whole("distance")?.unwrap_or(0),
            going: race.text("going")?,
            ..RaceHeading::default()
        };
        let result = runners.iter().map(runner).collect::<Result<_, _>>()?;
        Ok(Self {
            result: heading.result(key.clone(), result),
            brands: runners.iter().map(brands).collect::<Result<_, _>>()?,
            key,
        })
    }
}

/// The race that an object is about.
pub(crate) fn race_key(race: &Fields<'_>) -> Result<RaceKey, InputError> {
    let number: Option<u16> = race.whole("raceNo")?;
    let number = number.ok_or_else(|| race.error("raceNo", "is missing"))?;
    Ok(RaceKey {
        date: race.parsed("date", RacingDate::parse)?,
        venue: race.parsed("racecourse", VenueCode::parse)?,
        race_number: RaceNumber::try_from(number).map_err(|error| race.error("raceNo", error))?,
    })
}

/// A horse's name without the brand behind it.
pub(crate) fn horse_name(runner: &Fields<'_>) -> Result<Text, InputError> {
    runner.parsed("horseName", |text| match split_brands(text).0 {
        "" => Err(ParseError::new("a name", text)),
        name => Text::parse(name),
    })
}

fn runner(runner: &Fields<'_>) -> Result<ResultRunner, InputError> {
    let placing = match runner.optional("placing") {
        Some(Value::String(_)) => Some(runner.parsed("placing", Placing::parse)?),
        _ => runner.whole("placing")?.map(|position| Placing::At {
            position,
            dead_heat: false,
        }),
    };
    Ok(ResultRunner {
        horse_no: runner.parsed("horseId", HorseNo::parse)?,
        horse_name: horse_name(runner)?,
        number: runner.whole("horseNo")?,
        position: placing.as_ref().and_then(Placing::position),
        outcome: placing.as_ref().and_then(Placing::outcome).cloned(),
        jockey: runner.text("jockey")?,
        trainer: runner.text("trainer")?,
        finish_time: runner.number("finishSeconds", finish_time)?,
        win_odds: runner.number("winOdds", Odds::from_number)?,
        stakes: None,
        stakes_currency: None,
    })
}

/// Seconds are floats with rounding errors: 100.78999999999999 is 1:40.79.
fn finish_time(seconds: f64) -> Result<FinishTime, ParseError> {
    let hundredths = (seconds * 100.0).round();
    // Out of range becomes 0 or the largest number, which the type rejects.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates"
    )]
    let time = FinishTime::from_hundredths(hundredths as u32);
    time.map_err(|_| ParseError::new("a time is above 0 and under an hour", seconds))
}

fn brands(runner: &Fields<'_>) -> Result<BTreeSet<String>, InputError> {
    let text = |name: &str| runner.parsed(name, |text| Ok(text.to_owned()));
    let field = runner.optional("brandNo").and_then(Value::as_str);
    let (id, name) = (text("horseId")?, text("horseName")?);
    Ok(horse_ids::brands(&id, field, &name))
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

    fn check_rejected(pointer: &str, value: Value, reason: &str) {
        let mut race = race();
        *race.pointer_mut(pointer).expect(pointer) = value;
        let error = JsonRace::read(race.as_object().expect("an object"))
            .expect_err(pointer)
            .to_string();
        assert!(error.starts_with(reason), "{pointer}: {error}");
        assert!(error.len() < 300, "{pointer}: a message stays short");
    }

    #[test]
    fn a_race_becomes_a_result() {
        let read = JsonRace::read(race().as_object().expect("an object")).expect("a race");
        let result = read.result;
        assert_eq!(result.venue_name.expect("known").as_str(), "Sha Tin");
        assert_eq!((result.distance, result.race_name), (None, None));
        let [first, second] = &result.runners[..] else {
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
    fn an_invalid_field_is_named_by_its_path() {
        check_rejected("/date", json!("0000-13-99"), "date: a date is YYYY-MM-DD");
        check_rejected("/racecourse", json!("st"), "racecourse: ");
        check_rejected("/raceNo", json!(0), "raceNo: a race number");
        check_rejected("/raceNo", json!(null), "raceNo: is missing");
        check_rejected("/distance", json!(-1200), "distance: ");
        check_rejected("/runners", json!("none"), "runners: an array");
        check_rejected("/runners/1", json!(7), "runners[1]: an object");
        check_rejected(
            "/runners/1/winOdds",
            json!(-3.5),
            "runners[1].winOdds: odds",
        );
        check_rejected(
            "/runners/1/winOdds",
            json!("3.5"),
            "runners[1].winOdds: a number",
        );
        check_rejected(
            "/runners/0/horseName",
            json!("X".repeat(1 << 20)),
            "runners[0].horseName: at most 256",
        );
        check_rejected(
            "/runners/0/horseName",
            json!(" (A123)"),
            "runners[0].horseName: a name",
        );
        check_rejected("/runners/0/horseId", json!("HK 1"), "runners[0].horseId: ");
        check_rejected(
            "/runners/0/finishSeconds",
            json!(1e300),
            "runners[0].finishSeconds: a time",
        );
        check_rejected(
            "/runners/0/finishSeconds",
            json!(-5),
            "runners[0].finishSeconds: a time",
        );
        check_rejected(
            "/runners/0/placing",
            json!(1.5),
            "runners[0].placing: a whole number",
        );
        check_rejected("/runners/0/placing", json!("first"), "runners[0].placing: ");
    }
}
