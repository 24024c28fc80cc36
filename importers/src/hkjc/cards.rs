//! Race cards as JSON, an array of races a file.

use std::path::{Path, PathBuf};

use events::{DeclaredRunner, Event, HorseNo, Moment, ParseError, RaceDeclared, RacingDate};
use jiff::ToSpan;
use serde_json::{Map, Value};

use crate::hkjc::json::{open, race_key, venue_name};
use crate::input::fields::{FieldError, Fields};
use crate::input::files::{self, Kind};
use crate::{Item, Items, Location, hong_kong, sealed};

const FORMAT: &str = "hkjc-cards";

/// Reads race cards: a declaration for each race.
#[must_use]
pub fn hkjc_cards(paths: &[PathBuf]) -> Items {
    let found = files::find(paths, &[Kind::Json]);
    let files = found.of(Kind::Json).into_iter();
    Box::new(
        found
            .said
            .into_iter()
            .chain(files.flat_map(|path| cards(&path))),
    )
}

fn cards(path: &Path) -> Items {
    match open(path) {
        Err(item) => Box::new(std::iter::once(item)),
        Ok((file, elements)) => Box::new(elements.map(move |(line, element)| {
            let place = file.at(line);
            match element {
                Ok(race) => card(&race, &place),
                Err(reason) => place.refused(reason),
            }
        })),
    }
}

fn card(race: &Map<String, Value>, place: &Location) -> Item {
    let race = Fields::root(race);
    let read = declared(&race).and_then(|card| {
        let midnight = hong_kong(card.date, 0, 0).map_err(|error| race.error("date", error))?;
        Ok((card, midnight))
    });
    match read {
        Ok((card, midnight)) => sealed(FORMAT, midnight, Event::RaceDeclared(card), place),
        Err(error) => place.refused(error),
    }
}

fn declared(race: &Fields<'_>) -> Result<RaceDeclared, FieldError> {
    let key = race_key(race)?;
    let going = race.text("going")?;
    Ok(RaceDeclared {
        venue_name: venue_name(&key.venue),
        race_name: race.text("raceName")?,
        distance: race.whole("distance")?.unwrap_or(0),
        class: race.text("raceClass")?,
        going: (!going.is_empty()).then_some(going),
        off_time: match race.text("startTime")?.as_str() {
            "" => None,
            clock => {
                Some(off_time(key.date, clock).map_err(|error| race.error("startTime", error))?)
            }
        },
        runners: race
            .objects("runners")?
            .iter()
            .map(runner)
            .collect::<Result<_, _>>()?,
        date: key.date,
        venue: key.venue,
        race_number: key.race_number,
    })
}

fn runner(runner: &Fields<'_>) -> Result<DeclaredRunner, FieldError> {
    Ok(DeclaredRunner {
        horse_no: runner.parsed("horseId", HorseNo::parse)?,
        horse_name: runner.horse_name("horseName")?,
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
    let wrong = || ParseError::new("a start time is HH:MM", clock);
    let (hour, minute) = clock.split_once(':').ok_or_else(wrong)?;
    let two_digits = |text: &str, end: i8| {
        let plain = text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
        text.parse()
            .ok()
            .filter(|n| plain && *n < end)
            .ok_or_else(wrong)
    };
    let (hour, minute) = (two_digits(hour, 24)?, two_digits(minute, 60)?);
    let nights = i64::from(hour < FIRST_HOUR);
    let day = meeting
        .civil()
        .checked_add(nights.days())
        .map_err(|_| wrong())?;
    hong_kong(day.into(), hour, minute)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use events::{Event, Moment};
    use serde_json::{Value, json};

    use super::card;
    use crate::{Item, Location};

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
            &Location::whole(Path::new("card.json")).at(7),
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
    fn the_off_is_in_hong_kong_and_after_midnight_on_the_next_day() {
        check_off_time(json!("18:40"), Some("2026-06-24T18:40:00+08:00"));
        check_off_time(json!("00:20"), Some("2026-06-25T00:20:00+08:00"));
        check_off_time(json!(null), None);
    }

    #[test]
    fn what_is_not_known_is_zero_or_empty() {
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
    fn a_bad_card_is_refused_with_its_line() {
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
            let Item::Refused(refused) = read(&race) else {
                panic!("{race}")
            };
            assert!(refused.to_string().contains(part), "{refused}");
        }
    }
}
