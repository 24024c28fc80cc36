//! [`Ids`]: which horse_no a brand and a name mean, learnt from JSON files.

use std::collections::{BTreeSet, HashMap};

use events::{HorseNo, Text};
use serde_json::{Map, Value};

use super::names::{same_name, split_brands};
use super::{Item, Place};

/// The horses of some races by their brands. A short brand is given again after some years, hence the names.
#[derive(Debug, Default)]
pub(super) struct Ids {
    by_brand: HashMap<String, BTreeSet<(HorseNo, String)>>,
}

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
    pub(super) fn learn(&mut self, race: &Map<String, Value>) {
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
                self.by_brand
                    .entry(brand)
                    .or_default()
                    .insert((horse_no.clone(), clean.to_string()));
            }
        }
    }

    /// The number of a horse that a CSV names by brand and name: the one that was learnt, else the brand.
    pub(super) fn horse_no(
        &self,
        brand: &str,
        name: &str,
        place: &Place,
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

    fn find(&self, brand: &str, name: &str) -> Known {
        let Some(horses) = self.by_brand.get(brand) else {
            return Known::Nothing;
        };
        let mut named: Vec<&HorseNo> = horses
            .iter()
            .filter(|(_, n)| same_name(n, name))
            .map(|(h, _)| h)
            .collect();
        // A horse whose name is spelled in two ways stands here twice.
        named.dedup();
        match named[..] {
            [] => Known::OtherNames(horses.iter().map(|(h, n)| format!("{h} {n}")).collect()),
            [horse_no] => Known::Horse(horse_no.clone()),
            _ => Known::Several(named.into_iter().cloned().collect()),
        }
    }
}

/// All brands that a runner of the JSON goes by: the field, the end of its id, and what stands behind its name (which
/// may have a letter in front: `CM401` for `M401`).
pub(super) fn brands(id: &str, field: Option<&str>, name: &str) -> BTreeSet<String> {
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
    use serde_json::json;

    use super::{Ids, Known};

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
}
