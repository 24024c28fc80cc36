//! [`JsonRace`]: a race of a JSON file of results, and the fields that results and cards share.

use std::collections::BTreeSet;

use events::{
    DeclaredRunner, Dividend, FinishTime, HorseNo, Margin, Odds, ParseError, RaceDeclared, RaceKey,
    RaceNumber, RacingDate, ResultRunner, Text, VenueCode,
};
use serde_json::{Map, Value};

use super::brand::{is_name, split_brands};
use super::course::surface_and_course;
use super::dividends::dividends;
use super::hong_kong::{time_of_meeting, venue_name};
use super::horse_ids;
use crate::input::fields::Fields;
use crate::input::race_heading::{RaceHeading, known};
use crate::input::race_rows::{RaceRows, known_number};
use crate::item::{Location, Omitted, Result};
use crate::placing::Placing;
use crate::units;

/// A race of a result or of a card, with the brands of each runner.
#[derive(Debug)]
pub(crate) struct JsonRace {
    pub(crate) rows: RaceRows,
    pub(crate) brands: Vec<BTreeSet<String>>,
    /// The runners that a card has as scratched.
    pub(crate) scratched: Vec<HorseNo>,
    pub(crate) dividends: Vec<Dividend>,
    /// The runners that finished a nose or a neck behind the winner.
    vague_margins: Vec<HorseNo>,
    omitted: Omitted,
}

impl JsonRace {
    pub(crate) fn read(race: &Map<String, Value>, location: &Location) -> Result<Self> {
        let race = Fields::root(race);
        let key = race_key(&race, KEY)?;
        let runners = race.objects("runners")?;
        let heading = heading(&race, &key)?;
        let mut rows = RaceRows::new(key, heading, location.clone());
        let mut scratched = Vec::new();
        let mut vague_margins = Vec::new();
        for fields in &runners {
            let runner = runner(fields, &mut vague_margins)?;
            let has_number = |(_, other): &&(_, ResultRunner)| other.number == runner.number;
            if let Some(number) = runner.number
                && let Some((_, other)) = rows.runners.iter().find(has_number)
            {
                let other = &other.horse_no;
                let reason = format!("{number} is the number of {other} too");
                return Err(fields.error("horseNo", reason));
            }
            if is_scratched(fields) {
                scratched.push(runner.horse_no.clone());
            }
            let card_runner = DeclaredRunner {
                rating: fields.whole("rating")?,
                ..DeclaredRunner::of(runner.horse_no.clone())
            };
            (rows.card_runners).insert(runner.horse_no.clone(), card_runner);
            rows.runners.push((location.clone(), runner));
        }
        let brands = runners.iter().map(brands).collect::<Result<_, _>>()?;
        let mut omitted = Omitted::new();
        let dividends = dividends(&race, &mut omitted)?;
        for fields in runners.iter().chain([&race]) {
            fields.omit(&mut omitted);
        }
        Ok(Self {
            brands,
            rows,
            scratched,
            dividends,
            vague_margins,
            omitted,
        })
    }

    /// The values for which no event has a place.
    pub(crate) fn omitted(&self) -> Omitted {
        let mut omitted = self.omitted.clone();
        let runners = self.rows.runners.iter().map(|(_, runner)| runner);
        let vague = runners.filter(|runner| {
            runner.margin.is_none() && self.vague_margins.contains(&runner.horse_no)
        });
        let vague = vague.count() as u64;
        if vague > 0 {
            omitted.insert("lbw 0.05".to_owned(), vague);
        }
        omitted
    }

    /// Whether any runner has a placing: a card has none.
    pub(crate) fn is_result(&self) -> bool {
        let mut runners = self.rows.runners.iter();
        runners.any(|(_, runner)| runner.position.is_some() || runner.outcome.is_some())
    }
}

fn heading(race: &Fields<'_>, key: &RaceKey) -> Result<RaceHeading> {
    let (surface, course) = surface_and_course(race.text("course")?.as_str())?;
    Ok(RaceHeading::of(RaceDeclared {
        venue_name: venue_name(&key.venue),
        race_name: race.text("raceName")?,
        distance: race.whole("distance")?.unwrap_or(0),
        class: race.text("raceClass")?,
        going: known(race.text("going")?),
        surface: known(race.text("surface")?).or(known(surface)),
        course: known(course),
        rating_band: known(race.text("ratingBand")?),
        off_time: match race.text("startTime")?.as_str() {
            "" => None,
            clock => Some(
                time_of_meeting(key.date, clock).map_err(|error| race.error("startTime", error))?,
            ),
        },
        ..RaceDeclared::of(key.clone())
    }))
}

/// The race that an object is about: the names of its date, its venue and its number.
pub(crate) fn race_key(race: &Fields<'_>, [date, venue, number]: [&str; 3]) -> Result<RaceKey> {
    let race_number: Option<u16> = race.whole(number)?;
    let race_number = race_number.ok_or_else(|| race.error(number, "is missing"))?;
    Ok(RaceKey {
        date: race.parsed(date, RacingDate::parse)?,
        venue: race.parsed(venue, VenueCode::parse)?,
        race_number: RaceNumber::try_from(race_number)
            .map_err(|error| race.error(number, error))?,
    })
}

/// Those of the files of results and cards.
pub(crate) const KEY: [&str; 3] = ["date", "racecourse", "raceNo"];

/// A horse's name without the brand behind it.
fn horse_name(runner: &Fields<'_>) -> Result<Text> {
    runner.parsed("horseName", |text| match split_brands(text).0 {
        name if is_name(name) => Text::parse(name),
        _ => Err(ParseError::new("a name", text)),
    })
}

/// What stands in a field of a runner that does not take part.
fn is_scratched_value(value: &Value) -> bool {
    let text = value.as_str().map(str::trim);
    text.is_some_and(|text| text.eq_ignore_ascii_case("scratched"))
}

fn is_scratched(runner: &Fields<'_>) -> bool {
    let mut values = ["status", "jockey", "draw"].iter();
    values.any(|name| runner.optional(name).is_some_and(is_scratched_value))
}

fn runner(runner: &Fields<'_>, vague_margins: &mut Vec<HorseNo>) -> Result<ResultRunner> {
    let placing = match runner.optional("placing") {
        Some(Value::String(_)) => Some(runner.parsed("placing", Placing::parse)?),
        _ => {
            let at = |position| Placing::at(position, false);
            let placing = runner.whole("placing")?.map(at).transpose();
            placing.map_err(|error| runner.error("placing", error))?
        }
    };
    let horse_no = runner.parsed("horseId", HorseNo::parse)?;
    let margin = match runner.number("lbw", lengths_behind)? {
        Some(LengthsBehind::NoseOrNeck) => {
            vague_margins.push(horse_no.clone());
            None
        }
        Some(LengthsBehind::Exact(margin)) => Some(margin),
        Some(LengthsBehind::None) | None => None,
    };
    let has = |name: &str| !runner.optional(name).is_some_and(is_scratched_value);
    let (position, outcome) = placing.map_or((None, None), Placing::split);
    Ok(ResultRunner {
        horse_name: horse_name(runner)?,
        number: known_number(runner.whole("horseNo")?),
        position,
        outcome,
        jockey: if has("jockey") {
            runner.text("jockey")?
        } else {
            Text::default()
        },
        trainer: runner.text("trainer")?,
        draw: if has("draw") {
            known_number(runner.whole("draw")?)
        } else {
            None
        },
        weight: known_number(runner.whole("actualWeight")?),
        finish_time: runner.number("finishSeconds", finish_time)?,
        win_odds: runner.number("winOdds", Odds::from_number)?,
        margin,
        running_positions: runner.wholes("runningPosition")?,
        body_weight: runner.whole("declaredHorseWeight")?,
        gear: known(runner.text("gear")?),
        ..ResultRunner::of(horse_no)
    })
}

/// The meaning of `lbw`, lengths behind the winner.
enum LengthsBehind {
    /// 0: the winner, and any runner for which it is not known.
    None,
    /// 0.05 is both.
    NoseOrNeck,
    Exact(Margin),
}

/// 0.1 is a short head, 0.2 a head. Longer ones are quarters of a length.
fn lengths_behind(lengths: f64) -> Result<LengthsBehind, ParseError> {
    match lengths.to_string().as_str() {
        "0" => Ok(LengthsBehind::None),
        "0.05" => Ok(LengthsBehind::NoseOrNeck),
        "0.1" => Margin::parse("SH").map(LengthsBehind::Exact),
        "0.2" => Margin::parse("HD").map(LengthsBehind::Exact),
        lengths => units::lengths(lengths).map(LengthsBehind::Exact),
    }
}

/// Seconds are floats with rounding errors: 100.78999999999999 is 1:40.79.
fn finish_time(seconds: f64) -> Result<FinishTime, ParseError> {
    let hundredths = (seconds * 100.0).round();
    // Out of range becomes 0 or the largest number, which the type rejects.
    let time = FinishTime::from_hundredths(hundredths as u32);
    time.map_err(|_| ParseError::new("a time is above 0 and under an hour", seconds))
}

fn brands(runner: &Fields<'_>) -> Result<BTreeSet<String>> {
    let text = |name: &str| runner.parsed(name, |text| Ok(text.to_owned()));
    let field = runner.optional("brandNo").and_then(Value::as_str);
    let id = text("horseId")?;
    let name = text("horseName")?;
    Ok(horse_ids::brands(&id, field, &name))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::JsonRace;
    use crate::item::Location;

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
        let location = Location::file(Path::new("a.json"));
        let error = JsonRace::read(race.as_object().expect("an object"), &location)
            .expect_err(pointer)
            .to_string();
        assert!(error.starts_with(reason), "{pointer}: {error}");
        assert!(error.len() < 300, "{pointer}: a message stays short");
    }

    #[test]
    fn a_race_becomes_a_result() {
        let location = Location::file(Path::new("a.json"));
        let race = race();
        let race = race.as_object().expect("an object");
        let read = JsonRace::read(race, &location).expect("a race");
        let heading = &read.rows.heading.card;
        assert_eq!(
            heading.venue_name.as_ref().expect("known").as_str(),
            "Sha Tin"
        );
        assert_eq!((heading.distance, heading.race_name.as_str()), (0, ""));
        let [(_, first), (_, second)] = &read.rows.runners[..] else {
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
    fn what_has_no_place_is_counted_by_name() {
        let mut race = race();
        race["course"] = json!("TURF - \"C+3\" Course");
        race["raceIndex"] = json!(7);
        race["source"] = json!("");
        for (index, lbw) in [(0, json!(0)), (1, json!(0.05))] {
            race["runners"][index]["lbw"] = lbw;
            race["runners"][index]["priority"] = json!("+ 1");
            race["runners"][index]["gear"] = json!("B/TT");
        }
        race["runners"][0]["silks"] = json!(null);
        race["dividends"] = json!({"win": [{"pool": "WIN", "combination": [10], "dividendPer10": 87.5, "note": "x"}]});
        let location = Location::file(Path::new("a.json"));
        let read = JsonRace::read(race.as_object().expect("an object"), &location).expect("a race");
        let omitted: Vec<_> = read.omitted().into_iter().collect();
        assert_eq!(
            omitted,
            [
                ("lbw 0.05", 1),
                ("note", 1),
                ("priority", 2),
                ("raceIndex", 1)
            ]
            .map(|(name, count)| (name.to_owned(), count))
        );
        let card = read.rows.heading.card;
        assert_eq!(card.course.expect("known").as_str(), "C+3");
        assert_eq!(card.surface.expect("known").as_str(), "TURF");
        assert_eq!(read.dividends[0].pool.as_str(), "win");
    }

    #[test]
    fn a_margin_is_exact() {
        for (lbw, margin) in [
            (json!(0), None),
            (json!(0.1), Some("SH")),
            (json!(0.2), Some("HD")),
            (json!(0.75), Some("3/4")),
            (json!(12.25), Some("12-1/4")),
            (json!(0.05), None),
            (json!(null), None),
        ] {
            let mut race = race();
            race["runners"][1]["lbw"] = lbw;
            let location = Location::file(Path::new("a.json"));
            let read = JsonRace::read(race.as_object().expect("an object"), &location);
            let read = read.expect("a race");
            let (_, second) = &read.rows.runners[1];
            let shown = second.margin.map(|margin| margin.to_string());
            assert_eq!(shown.as_deref(), margin);
        }
        let lbw = "runners[1].lbw: a margin is quarters of a length";
        for wrong in [json!(0.3), json!(-1), json!(4000), json!(1e300)] {
            check_rejected("/runners/1", with_lbw(wrong), lbw);
        }
    }

    fn with_lbw(lbw: Value) -> Value {
        let mut runner = race()["runners"][1].clone();
        runner["lbw"] = lbw;
        runner
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
        check_rejected(
            "/runners/0/placing",
            json!(99),
            "runners[0].placing: a placing",
        );
        check_rejected("/runners/0/placing", json!("first"), "runners[0].placing: ");
    }
}
