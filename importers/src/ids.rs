//! [`Ids`]: which horse_no a brand and a name mean, learnt from JSON files.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use events::{HorseNo, RacingDate, Text};
use serde_json::{Map, Value};

use crate::names::{same_name, split_brands};
use crate::{Item, Location};

/// The horses of some races by their brands. A short brand is given again after some years, hence names and days.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    by_brand: HashMap<String, BTreeMap<(HorseNo, String), Option<Days>>>,
}

/// The days between which a horse raced under a name.
#[derive(Debug, Clone, Copy)]
struct Days {
    first: RacingDate,
    last: RacingDate,
}

impl Days {
    fn and(earlier: Option<Self>, day: RacingDate) -> Self {
        Self {
            first: earlier.map_or(day, |days| days.first.min(day)),
            last: earlier.map_or(day, |days| days.last.max(day)),
        }
    }

    /// How many days another one is away; 0 where it lies between, or is not known.
    fn away(self, day: Option<RacingDate>) -> i64 {
        let Some(day) = day else { return 0 };
        let days = |from: RacingDate, to: RacingDate| {
            to.civil().duration_since(from.civil()).as_hours() / 24
        };
        days(day, self.first).max(days(self.last, day)).max(0)
    }
}

/// A brand is the letter of a season and a number, and comes again when sixteen letters have had their turn. A horse that
/// raced nearer than half of that is the one.
const SAME_HORSE_DAYS_MAX: i64 = 8 * 365;

/// What a brand and a name mean.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Known {
    /// This horse.
    Horse(HorseNo),
    /// Nobody has said: the brand itself is the horse's number.
    Nothing,
    /// The brand is known only with other names: it is not taken from them.
    OtherNames(Vec<String>),
    /// Several horses.
    Several(Vec<HorseNo>),
}

impl Ids {
    /// Learns from a race of a results file or a card. What is not well formed teaches nothing.
    pub(crate) fn learn(&mut self, race: &Map<String, Value>) {
        let day = race.get("date").and_then(Value::as_str);
        let day = day.and_then(|day| RacingDate::parse(day).ok());
        let runners = race.get("runners").and_then(Value::as_array);
        for runner in runners.into_iter().flatten() {
            let text = |field: &str| runner.get(field).and_then(Value::as_str);
            let (Some(id), Some(name)) = (text("horseId"), text("horseName")) else {
                continue;
            };
            let Ok(horse_no) = HorseNo::parse(id) else {
                continue;
            };
            let Ok(clean) = Text::parse(split_brands(name).0) else {
                continue;
            };
            for brand in brands(id, text("brandNo"), name) {
                let horses = self.by_brand.entry(brand).or_default();
                let days = horses
                    .entry((horse_no.clone(), clean.to_string()))
                    .or_default();
                *days = day.map(|day| Days::and(*days, day)).or(*days);
            }
        }
    }

    /// The number of a horse that a CSV names by brand and name: the one that was learnt, else the brand.
    pub(crate) fn horse_no(
        &self,
        brand: &str,
        name: &str,
        place: &Location,
        said: &mut Vec<Item>,
    ) -> Result<HorseNo, String> {
        match self.find(brand, name) {
            Known::Horse(horse_no) => return Ok(horse_no),
            Known::Nothing => {}
            Known::OtherNames(names) => {
                said.push(place.note(format!(
                "{name}: brand {brand} is known as {} only, so the brand is taken as its number",
                names.join(", ")
            )));
            }
            Known::Several(horses) => {
                let horses: Vec<&str> = horses.iter().map(HorseNo::as_str).collect();
                return Err(format!(
                    "{name} ({brand}) may be any of {}",
                    horses.join(", ")
                ));
            }
        }
        HorseNo::parse(brand).map_err(|error| error.to_string())
    }

    /// The number and the name of a horse that a file names by its brand, in another language: those of the horse that
    /// raced under this brand about that day, else the brand and the name of the file.
    pub(crate) fn horse_on(
        &self,
        brand: &str,
        name: Text,
        day: Option<RacingDate>,
        place: &Location,
        said: &mut Vec<Item>,
    ) -> Result<(HorseNo, Text), String> {
        let known = self.by_brand.get(brand).into_iter().flatten();
        let away = |(horse, days): (_, &Option<Days>)| Some(((*days)?.away(day), horse));
        let mut near: Vec<(i64, &(HorseNo, String))> = known
            .filter_map(away)
            .filter(|(away, _)| *away <= SAME_HORSE_DAYS_MAX)
            .collect();
        near.sort_by_key(|(away, _)| *away);
        let Some((nearest, (horse_no, horse_name))) = near.first() else {
            if self.by_brand.contains_key(brand) {
                said.push(place.note(format!(
                    "{name}: brand {brand} is known of another time only, so the brand is taken as its number"
                )));
            }
            return Ok((
                HorseNo::parse(brand).map_err(|error| error.to_string())?,
                name,
            ));
        };
        let as_near = near.iter().take_while(|(away, _)| away == nearest);
        let others: BTreeSet<&str> = as_near.map(|(_, (horse, _))| horse.as_str()).collect();
        if others.len() > 1 {
            let horses: Vec<&str> = others.into_iter().collect();
            return Err(format!(
                "{name} ({brand}) may be any of {}",
                horses.join(", ")
            ));
        }
        let horse_name = Text::parse(horse_name).map_err(|error| error.to_string())?;
        Ok((horse_no.clone(), horse_name))
    }

    fn find(&self, brand: &str, name: &str) -> Known {
        let Some(horses) = self.by_brand.get(brand) else {
            return Known::Nothing;
        };
        let mut named: Vec<&HorseNo> = horses
            .keys()
            .filter(|(_, n)| same_name(n, name))
            .map(|(h, _)| h)
            .collect();
        // A horse whose name is spelled in two ways stands here twice.
        named.dedup();
        match named[..] {
            [] => Known::OtherNames(horses.keys().map(|(h, n)| format!("{h} {n}")).collect()),
            [horse_no] => Known::Horse(horse_no.clone()),
            _ => Known::Several(named.into_iter().cloned().collect()),
        }
    }
}

/// All brands that a runner of the JSON goes by: the field, the end of its id, and what stands behind its name (which
/// may have a letter in front: `CM401` for `M401`).
pub(crate) fn brands(id: &str, field: Option<&str>, name: &str) -> BTreeSet<String> {
    let of_id = id.rsplit_once('_').map(|(_, brand)| brand);
    let of_name = split_brands(name).1;
    field
        .into_iter()
        .chain(of_id)
        .chain(of_name)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use events::{RacingDate, Text};
    use serde_json::json;

    use super::{Ids, Known};
    use crate::Location;

    #[test]
    fn a_brand_and_a_name_mean_one_horse() {
        let race = json!({"runners": [
            {"horseId": "HK_1999_A123", "brandNo": "A123", "horseName": "OLD TIMER"},
            {"horseId": "HK_2016_A123", "brandNo": "A123", "horseName": "QUIET RIVER"},
            {"horseId": "HK_2010_M401", "brandNo": null, "horseName": "TALL STORM  (CM401)"},
            {"horseId": "HK_1998_B001", "brandNo": "B001", "horseName": "TWICE"},
            {"horseId": "HK_2015_B001", "brandNo": "B001", "horseName": "TWICE"},
            {"horseId": "not a number", "brandNo": "B002", "horseName": "NOBODY"},
            {"horseId": 7}, null,
        ]});
        let mut ids = Ids::default();
        ids.learn(race.as_object().expect("an object"));
        let horse = |no: &str| Known::Horse(events::HorseNo::parse(no).expect(no));
        assert_eq!(ids.find("A123", "QUIET RIVER"), horse("HK_2016_A123"));
        assert_eq!(ids.find("A123", "Old Timer"), horse("HK_1999_A123"));
        assert_eq!(ids.find("M401", "TALL STORM"), horse("HK_2010_M401"));
        assert_eq!(ids.find("CM401", "TALL STORM"), horse("HK_2010_M401"));
        assert_eq!(ids.find("B002", "NOBODY"), Known::Nothing);
        assert!(matches!(ids.find("B001", "TWICE"), Known::Several(horses) if horses.len() == 2));
        assert!(
            matches!(ids.find("A123", "STRANGER"), Known::OtherNames(names) if names.len() == 2)
        );
    }
    #[test]
    fn a_brand_and_a_day_mean_the_horse_that_raced_then() {
        let mut ids = Ids::default();
        for (date, id, name) in [
            ("1999-05-01", "HK_1998_A123", "OLD TIMER"),
            ("2001-05-01", "HK_1998_A123", "OLD TIMER"),
            ("2016-09-03", "HK_2016_A123", "QUIET RIVER"),
            ("2017-07-16", "HK_2016_A123", "LOUD RIVER"),
            ("2016-09-03", "HK_2016_B001", "ONE"),
            ("2016-09-03", "HK_2015_B001", "ANOTHER"),
        ] {
            let race = json!({"date": date, "runners": [{"horseId": id, "horseName": name}]});
            ids.learn(race.as_object().expect("an object"));
        }
        let place = Location::whole(std::path::Path::new("zh.csv"));
        let horse = |brand: &str, day: Option<&str>| {
            let day = day.map(|day| RacingDate::parse(day).expect(day));
            let name = Text::parse("靜河").expect("a text");
            let mut said = Vec::new();
            let horse = ids.horse_on(brand, name, day, &place, &mut said);
            (horse.map(|(h, n)| format!("{h} {n}")), said.len())
        };
        let known = |horse: &str| (Ok(horse.to_owned()), 0);
        for (brand, day, horse_no) in [
            ("A123", "2016-12-01", "HK_2016_A123 QUIET RIVER"),
            ("A123", "2017-07-16", "HK_2016_A123 LOUD RIVER"),
            ("A123", "2019-01-01", "HK_2016_A123 LOUD RIVER"),
            ("A123", "2000-01-01", "HK_1998_A123 OLD TIMER"),
            ("C001", "2016-09-03", "C001 靜河"),
        ] {
            assert_eq!(horse(brand, Some(day)), known(horse_no), "{brand} {day}");
        }
        assert_eq!(
            horse("A123", Some("2034-01-01")),
            (Ok("A123 靜河".to_owned()), 1),
            "the letter is used again"
        );
        assert!(horse("B001", Some("2016-09-03")).0.is_err());
        assert!(horse("A123", None).0.is_err(), "any of two");
    }
}
