//! [`HorseIds`]: which horse_no a brand and a name mean, read from JSON files.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use events::{HorseNo, RacingDate, Text};
use serde_json::{Map, Value};

use super::brand::{same_name, split_brands};
use crate::input::{files, json_array};
use crate::item::{Item, LineItems, Result};

/// The horses of some races by their brands. Brands are reused after some years, so names and days distinguish them.
#[derive(Debug, Default)]
pub(crate) struct HorseIds {
    by_brand: HashMap<String, BTreeMap<(HorseNo, String), Option<RacingDays>>>,
}

/// The days between which a horse raced under a name.
#[derive(Debug, Clone, Copy)]
struct RacingDays {
    first: RacingDate,
    last: RacingDate,
}

impl RacingDays {
    fn with(earlier: Option<Self>, day: RacingDate) -> Self {
        Self {
            first: earlier.map_or(day, |days| days.first.min(day)),
            last: earlier.map_or(day, |days| days.last.max(day)),
        }
    }

    /// The number of days to another day; 0 if it is among them, or not known.
    fn distance(self, day: Option<RacingDate>) -> i64 {
        let Some(day) = day else { return 0 };
        let days = |from: RacingDate, to: RacingDate| {
            to.civil().duration_since(from.civil()).as_hours() / 24
        };
        days(day, self.first).max(days(self.last, day)).max(0)
    }
}

/// A brand is the letter of a season and a number, and is reused after sixteen letters. A horse that raced within half
/// of that time is the same one.
const SAME_HORSE_DAYS_MAX: i64 = 8 * 365;

impl HorseIds {
    /// Reads JSON files of results or cards. The items are about what cannot be read.
    pub(crate) fn read(paths: &[PathBuf]) -> (Self, Vec<Item>) {
        let (files, mut items) = files::find(paths, &["json"]);
        let mut ids = Self::default();
        for (location, race) in json_array::elements(files) {
            match race {
                Ok(race) => ids.add(&race),
                Err(reason) => items.push(location.rejected(reason)),
            }
        }
        (ids, items)
    }

    /// Adds the horses of a race of a results file or a card. Whatever is not well formed is ignored.
    pub(crate) fn add(&mut self, race: &Map<String, Value>) {
        let day = race.get("date").and_then(Value::as_str);
        let day = day.and_then(|day| RacingDate::parse(day).ok());
        let runners = race.get("runners").and_then(Value::as_array);
        for runner in runners.into_iter().flatten() {
            let text = |field: &str| runner.get(field).and_then(Value::as_str);
            if let (Some(id), Some(name)) = (text("horseId"), text("horseName"))
                && let Ok(horse_no) = HorseNo::parse(id)
                && let Ok(clean) = Text::parse(split_brands(name).0)
            {
                for brand in brands(id, text("brandNo"), name) {
                    let horses = self.by_brand.entry(brand).or_default();
                    let horse = (horse_no.clone(), clean.to_string());
                    let days = horses.entry(horse).or_default();
                    *days = day.map(|day| RacingDays::with(*days, day)).or(*days);
                }
            }
        }
    }

    /// The number of a horse that a row names by brand and name. A brand that is not known with this name is the
    /// number.
    pub(crate) fn horse_no(&self, brand: &str, name: &str, out: &mut LineItems) -> Result<HorseNo> {
        let Some(horses) = self.by_brand.get(brand) else {
            return Ok(HorseNo::parse(brand)?);
        };
        let named = horses.keys().filter(|(_, known)| same_name(known, name));
        // A horse whose name has two spellings has two keys.
        let named: BTreeSet<&HorseNo> = named.map(|(horse_no, _)| horse_no).collect();
        check_unique(&named, name, brand)?;
        if let Some(&horse_no) = named.first() {
            return Ok(horse_no.clone());
        }
        let known: Vec<String> = horses.keys().map(|(h, n)| format!("{h} {n}")).collect();
        let known = known.join(", ");
        out.note(format!(
            "{name}: brand {brand} is known only as {known}, so the brand becomes the horse_no"
        ));
        Ok(HorseNo::parse(brand)?)
    }

    /// The number and the name of a horse that a row names in another language: those of the horse that raced under
    /// this brand nearest to the day, else the brand and the name of the row.
    pub(crate) fn horse_on(
        &self,
        brand: &str,
        name: Text,
        day: Option<RacingDate>,
        out: &mut LineItems,
    ) -> Result<(HorseNo, Text)> {
        let known = self.by_brand.get(brand).into_iter().flatten();
        let distance =
            |(horse, days): (_, &Option<RacingDays>)| Some(((*days)?.distance(day), horse));
        let near: Vec<(i64, &(HorseNo, String))> = known
            .filter_map(distance)
            .filter(|(distance, _)| *distance <= SAME_HORSE_DAYS_MAX)
            .collect();
        let Some((nearest, (horse_no, horse_name))) = near.iter().min_by_key(|(days, _)| *days)
        else {
            if self.by_brand.contains_key(brand) {
                out.note(format!(
                    "{name}: brand {brand} is known only from other years, so the brand becomes the horse_no"
                ));
            }
            return Ok((HorseNo::parse(brand)?, name));
        };
        let as_near = near.iter().filter(|(days, _)| days == nearest);
        let horses = as_near.map(|(_, (horse_no, _))| horse_no).collect();
        check_unique(&horses, name.as_str(), brand)?;
        Ok((horse_no.clone(), Text::parse(horse_name)?))
    }
}

/// Rejects a row that may mean several horses.
fn check_unique(horses: &BTreeSet<&HorseNo>, name: &str, brand: &str) -> Result<()> {
    if horses.len() > 1 {
        let horses: Vec<&str> = horses.iter().map(|horse| horse.as_str()).collect();
        return Err(format!("{name} ({brand}) may be any of {}", horses.join(", ")).into());
    }
    Ok(())
}

/// All brands of a runner of the JSON: the field, the end of its id, and those behind its name, which may have a letter
/// in front: `CM401` for `M401`.
pub(crate) fn brands(id: &str, field: Option<&str>, name: &str) -> BTreeSet<String> {
    let of_id = id.rsplit_once('_').map(|(_, brand)| brand);
    let of_name = split_brands(name).1;
    let brands = field.into_iter().chain(of_id).chain(of_name);
    brands.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use events::{RacingDate, Text};
    use serde_json::json;

    use super::HorseIds;
    use crate::item::{LineItems, Location};

    #[test]
    fn a_brand_and_a_name_identify_a_horse() {
        let race = json!({"runners": [
            {"horseId": "HK_1999_A123", "brandNo": "A123", "horseName": "OLD TIMER"},
            {"horseId": "HK_2016_A123", "brandNo": "A123", "horseName": "QUIET RIVER"},
            {"horseId": "HK_2010_M401", "brandNo": null, "horseName": "TALL STORM  (CM401)"},
            {"horseId": "HK_1998_B001", "brandNo": "B001", "horseName": "TWICE"},
            {"horseId": "HK_2015_B001", "brandNo": "B001", "horseName": "TWICE"},
            {"horseId": "not a number", "brandNo": "B002", "horseName": "NOBODY"},
            {"horseId": 7}, null,
        ]});
        let mut ids = HorseIds::default();
        ids.add(race.as_object().expect("an object"));
        let mut out = LineItems::new(Location::file(std::path::Path::new("horses.csv")));
        let mut find = |brand: &str, name: &str| {
            out.items.clear();
            let horse_no = ids.horse_no(brand, name, &mut out);
            let notes: Vec<String> = out.items.iter().map(|item| format!("{item:?}")).collect();
            (horse_no.map_err(|error| error.to_string()), notes)
        };
        let horse = |no: &str| (Ok(events::HorseNo::parse(no).expect(no)), Vec::new());
        assert_eq!(find("A123", "QUIET RIVER"), horse("HK_2016_A123"));
        assert_eq!(find("A123", "Old Timer"), horse("HK_1999_A123"));
        assert_eq!(find("M401", "TALL STORM"), horse("HK_2010_M401"));
        assert_eq!(find("CM401", "TALL STORM"), horse("HK_2010_M401"));
        assert_eq!(find("B002", "NOBODY"), horse("B002"));
        let (several, notes) = find("B001", "TWICE");
        assert_eq!(
            several.expect_err("two horses"),
            "TWICE (B001) may be any of HK_1998_B001, HK_2015_B001"
        );
        assert!(notes.is_empty());
        let (stranger, notes) = find("A123", "STRANGER");
        assert_eq!(stranger, horse("A123").0);
        let names = "known only as HK_1999_A123 OLD TIMER, HK_2016_A123 QUIET RIVER";
        assert!(notes.len() == 1 && notes[0].contains(names), "{notes:?}");
    }

    #[test]
    fn a_brand_and_a_day_identify_the_horse_that_raced_then() {
        let mut ids = HorseIds::default();
        for (date, id, name) in [
            ("1999-05-01", "HK_1998_A123", "OLD TIMER"),
            ("2001-05-01", "HK_1998_A123", "OLD TIMER"),
            ("2016-09-03", "HK_2016_A123", "QUIET RIVER"),
            ("2017-07-16", "HK_2016_A123", "LOUD RIVER"),
            ("2016-09-03", "HK_2016_B001", "ONE"),
            ("2016-09-03", "HK_2015_B001", "ANOTHER"),
        ] {
            let race = json!({"date": date, "runners": [{"horseId": id, "horseName": name}]});
            ids.add(race.as_object().expect("an object"));
        }
        let location = Location::file(std::path::Path::new("zh.csv"));
        let horse = |brand: &str, day: Option<&str>| {
            let day = day.map(|day| RacingDate::parse(day).expect(day));
            let name = Text::parse("靜河").expect("a text");
            let mut out = LineItems::new(location.clone());
            let horse = ids.horse_on(brand, name, day, &mut out);
            (horse.map(|(h, n)| format!("{h} {n}")), out.items.len())
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
