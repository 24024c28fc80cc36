//! Race cards as JSON: a file is an array of races.

use std::path::PathBuf;

use events::{DeclaredRunner, Event, HorseNo, Moment, ParseError, RaceDeclared, RacingDate};
use jiff::ToSpan;
use serde_json::{Map, Value};

use super::hong_kong::{midnight, moment, venue_name};
use super::json::{horse_name, race_key};
use crate::input::fields::Fields;
use crate::input::race_heading::RaceHeading;
use crate::input::{files, json_array};
use crate::item::{InputError, Item, Items, Location};
use crate::units::time_of_day;

const FORMAT: &str = "hkjc-cards";

/// Reads race cards: a declaration for each race.
#[must_use]
pub fn hkjc_cards(paths: &[PathBuf]) -> Items {
    files::import(paths, &["json"], |files| {
        json_array::elements(files).map(|(location, race)| match race {
            Ok(race) => card(&race, &location),
            Err(reason) => location.rejected(reason),
        })
    })
}

fn card(race: &Map<String, Value>, location: &Location) -> Item {
    match declared(&Fields::root(race)) {
        Ok(card) => location.event(FORMAT, midnight(card.date), Event::RaceDeclared(card)),
        Err(reason) => location.rejected(reason),
    }
}

fn declared(race: &Fields<'_>) -> Result<RaceDeclared, InputError> {
    let key = race_key(race)?;
    let heading = RaceHeading {
        venue_name: venue_name(&key.venue),
        race_name: race.text("raceName")?,
        distance: race.whole("distance")?.unwrap_or(0),
        class: race.text("raceClass")?,
        going: race.text("going")?,
        off_time: match race.text("startTime")?.as_str() {
            "" => None,
            clock => Some(off_time(key.date, clock).map_err(|e| race.error("startTime", e))?),
        },
        time_zone: None,
    };
    let runners = race.objects("runners")?;
    let runners = runners.iter().map(runner).collect::<Result<_, _>>()?;
    Ok(heading.card(key, runners))
}

fn runner(runner: &Fields<'_>) -> Result<DeclaredRunner, InputError> {
    Ok(DeclaredRunner {
        horse_no: runner.parsed("horseId", HorseNo::parse)?,
        horse_name: horse_name(runner)?,
        number: runner.whole("horseNo")?.unwrap_or(0),
        jockey: runner.text("jockey")?,
        trainer: runner.text("trainer")?,
        draw: runner.whole("draw")?.unwrap_or(0),
        weight: runner.whole("actualWeight")?.unwrap_or(0),
    })
}

/// A race before this hour belongs to the meeting of the evening before.
const FIRST_HOUR: i8 = 6;

fn off_time(meeting: RacingDate, clock: &str) -> Result<Moment, ParseError> {
    let time = time_of_day(clock)
        .filter(|_| clock.len() == 5)
        .ok_or_else(|| ParseError::new("a start time is HH:MM", clock))?;
    let nights = i64::from(time.hour() < FIRST_HOUR);
    let day = meeting.civil().saturating_add(nights.days());
    Ok(moment(day.to_datetime(time)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use events::{Event, Moment};
    use serde_json::{Value, json};

    use super::card;
    use crate::item::{Item, Location};

    fn race() -> Value {
        json!({
            "date": "2026-06-24", "racecourse": "HV", "raceNo": 1, "raceName": "EXAMPLE HANDICAP", "startTime": "18:40",
            "raceClass": 5, "distance": 2200, "going": null,
            "runners": [{"horseNo": 1, "horseId": "HK_2021_G001", "horseName": "QUIET RIVER", "actualWeight": 134,
                         "jockey": "A Rider", "draw": 4, "trainer": "B Trainer"}],
        })
    }

    fn read(race: &Value) -> Item {
        card(
            race.as_object().expect("an object"),
            &Location::file(Path::new("card.json")).at(7),
        )
    }

    fn check_off_time(clock: Value, expected: Option<&str>) {
        let mut race = race();
        race["startTime"] = clock;
        let Item::Event(envelope) = read(&race) else {
            panic!("{race}")
        };
        let Event::RaceDeclared(card) = envelope.event else {
            panic!("a card")
        };
        let moment = |text| Moment::parse(text).expect(text);
        assert_eq!(card.off_time, expected.map(moment));
        assert_eq!(envelope.time, moment("2026-06-24T00:00:00+08:00"));
    }

    #[test]
    fn the_off_time_is_in_hong_kong_and_after_midnight_on_the_next_day() {
        check_off_time(json!("18:40"), Some("2026-06-24T18:40:00+08:00"));
        check_off_time(json!("00:20"), Some("2026-06-25T00:20:00+08:00"));
        check_off_time(json!(null), None);
    }

    #[test]
    fn unknown_values_are_zero_or_empty() {
        let mut race = race();
        race["raceClass"] = json!(null);
        race["distance"] = json!(null);
        race["runners"][0]["draw"] = json!(null);
        let Item::Event(envelope) = read(&race) else {
            panic!("{race}")
        };
        let Event::RaceDeclared(card) = envelope.event else {
            panic!("a card")
        };
        assert_eq!(
            (card.class.as_str(), card.distance, card.going),
            ("", 0, None)
        );
        assert_eq!((card.runners[0].draw, card.runners[0].weight), (0, 134));
    }

    #[test]
    fn an_invalid_card_is_rejected_with_its_line() {
        for (field, value, part) in [
            (
                "startTime",
                json!("24:00"),
                "card.json:7: startTime: a start time is HH:MM",
            ),
            ("startTime", json!("+1:00"), "startTime"),
            ("runners", json!([]), "data.runners: 0 runners"),
            ("distance", json!(999_999_999), "data.distance"),
        ] {
            let mut race = race();
            race[field] = value;
            let Item::Rejected(rejected) = read(&race) else {
                panic!("{race}")
            };
            assert!(rejected.to_string().contains(part), "{rejected}");
        }
    }
}
