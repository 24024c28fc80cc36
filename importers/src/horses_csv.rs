//! Horses as CSV, a row a horse: who it is, whose it is, and what it looks like.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use events::{Event, HorseNo, HorseRegistered, Moment, ParseError, RacingDate, Text};
use jiff::Timestamp;

use crate::hkjc::json;
use crate::ids::Ids;
use crate::input::cells::Cells;
use crate::input::csv_table::Table;
use crate::input::files::{self, Kind};
use crate::names::name_and_brand;
use crate::{Item, Items, Location, hong_kong, sealed};

const FORMAT: &str = "horses-csv";
const CURRENCY: &str = "HKD";

/// Reads horses: a registration for each.
///
/// `ids` are JSON files of results or cards that say which horse a brand and a name mean; without one the brand is the
/// horse's number. `as_of` is the day on which the ages were true; without it they are left out.
#[must_use]
pub fn horses_csv(paths: &[PathBuf], ids: &[PathBuf], as_of: Option<RacingDate>) -> Items {
    let found = files::find(paths, &[Kind::Csv]);
    let id_files = files::find(ids, &[Kind::Json]);
    let (paths, id_paths) = (found.of(Kind::Csv), id_files.of(Kind::Json));
    let said = found.said.into_iter().chain(id_files.said);
    let rows = std::iter::once_with(move || {
        let mut ids = Ids::default();
        let said = json::learn(&id_paths, &mut ids, |_| {});
        let mut registry = Registry {
            ids,
            as_of,
            seen: HashMap::new(),
        };
        said.into_iter()
            .chain(paths.into_iter().flat_map(move |path| registry.read(&path)))
    });
    Box::new(said.chain(rows.flatten()))
}

struct Registry {
    ids: Ids,
    as_of: Option<RacingDate>,
    /// The events said in this call: a horse that stands twice with different words is worth a note.
    seen: HashMap<HorseNo, String>,
}

const WANTED: [&str; 6] = ["horse", "country", "trainer", "colour", "sex", "owner"];

impl Registry {
    fn read(&mut self, path: &Path) -> Vec<Item> {
        let file = Location::whole(path);
        let table = match files::open(path) {
            Ok(file) => Table::open(file, &WANTED),
            Err(error) => return vec![file.refused(error)],
        };
        let table = match table {
            Ok(table) => table,
            Err(reason) => return vec![file.at(1).refused(reason)],
        };
        let mut said = Vec::new();
        let mut ages_left_out = 0_usize;
        for (line, cells) in table {
            let place = file.at(line);
            let read = cells.and_then(|cells| {
                let age = cells.whole::<u8>("age")?;
                ages_left_out += usize::from(self.as_of.is_none() && age.is_some());
                self.horse(&cells, age, &place, &mut said)
            });
            match read {
                Ok(horse) => self.seal(horse, &place, &mut said),
                Err(reason) => said.push(place.refused(reason)),
            }
        }
        if ages_left_out > 0 {
            said.push(file.note(format!(
                "{ages_left_out} ages are left out: say with --as-of on which day they were true"
            )));
        }
        said
    }

    fn horse(
        &self,
        cells: &Cells,
        age: Option<u8>,
        place: &Location,
        said: &mut Vec<Item>,
    ) -> Result<HorseRegistered, String> {
        let (horse_name, brand) = cells.parsed("horse", name_and_brand)?;
        let (colour, sex) = colour_and_sex(cells.text("colour")?, cells.text("sex")?, place, said);
        Ok(HorseRegistered {
            horse_no: self
                .ids
                .horse_no(&brand, horse_name.as_str(), place, said)?,
            horse_name,
            country_of_origin: cells.text("country")?,
            colour,
            sex,
            foaled: None,
            age: age.filter(|_| self.as_of.is_some()),
            age_as_of: self.as_of.filter(|_| age.is_some()),
            trainer: cells.text("trainer")?,
            owner: cells.text("owner")?,
            stakes_currency: Text::parse(CURRENCY).ok(),
            career: None,
        })
    }

    fn seal(&mut self, horse: HorseRegistered, place: &Location, said: &mut Vec<Item>) {
        let horse_no = horse.horse_no.clone();
        let item = match self.said_at() {
            Ok(time) => sealed(FORMAT, time, Event::HorseRegistered(horse), place),
            Err(error) => place.refused(error),
        };
        if let Item::Event(envelope) = &item
            && let Some(earlier) = self.seen.insert(horse_no, envelope.id.clone())
            && earlier != envelope.id
        {
            said.push(place.note("this horse was read before with other words: these stand"));
        }
        said.push(item);
    }

    /// The file has no date of its own. A fixed one keeps the identity of an event the same from run to run.
    fn said_at(&self) -> Result<Moment, ParseError> {
        self.as_of
            .map_or(Ok(Timestamp::UNIX_EPOCH.into()), |day| hong_kong(day, 0, 0))
    }
}

/// `Bay / Brown` was cut in two in some files, so that the second colour stands where the sex belongs.
fn colour_and_sex(colour: Text, sex: Text, place: &Location, said: &mut Vec<Item>) -> (Text, Text) {
    const COLOURS: [&str; 7] = [
        "bay", "black", "brown", "chestnut", "dark bay", "grey", "roan",
    ];
    if !COLOURS.contains(&sex.as_str().to_lowercase().as_str()) {
        return (colour, sex);
    }
    match Text::parse(&format!("{colour} / {sex}")) {
        Ok(both) => {
            said.push(place.note(format!(
                "the sex {sex} is a colour: the colour is taken as {both}, the sex as not known"
            )));
            (both, Text::default())
        }
        Err(_) => (colour, Text::default()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use events::{Event, HorseRegistered, RacingDate};

    use super::horses_csv;
    use crate::Item;

    const IDS: &str = r#"[{"date": "2016-09-03", "racecourse": "ST", "raceNo": 1, "runners": [
        {"horseId": "HK_2016_A001", "brandNo": "A001", "horseName": "QUIET RIVER"},
        {"horseId": "HK_2001_A002", "brandNo": "A002", "horseName": "ANCIENT ONE"}]}]"#;

    const HORSES: &str = ",horse,country,trainer,colour,sex,owner,age\n\
        1,QUIET RIVER(A001),AUS,A Trainer,Bay,Gelding,\"Owner, Sons & Co\",6.0\n\
        2,YOUNG ONE(A002),NZ,,Grey,Roan,B Owner,\n\
        3,DOUBLE          (V291)(S424),GB,,Bay,Mare,C Owner,5.0\n\
        4,UNKNOWN(B001),IRE,,Chestnut,Colt,D Owner,banana\n\
        5,STRANGER(B002),IRE,,Chestnut,Colt,D Owner,3.0\n";

    fn read(as_of: Option<&str>) -> (Vec<HorseRegistered>, Vec<String>, Vec<String>) {
        let folder = tempfile::tempdir().expect("a folder");
        let (horses, ids) = (folder.path().join("h.csv"), folder.path().join("ids.json"));
        fs::write(&horses, HORSES).expect("a file");
        fs::write(&ids, IDS).expect("a file");
        let mut read = (Vec::new(), Vec::new(), Vec::new());
        for item in horses_csv(
            &[horses],
            &[ids],
            as_of.map(|day| RacingDate::parse(day).expect(day)),
        ) {
            match item {
                Item::Event(envelope) => match envelope.event {
                    Event::HorseRegistered(horse) => read.0.push(horse),
                    other => panic!("{other:?}"),
                },
                Item::Refused(r) => read.1.push(format!("{}: {}", r.line, r.reason)),
                Item::Note(r) => read.2.push(format!("{}: {}", r.line, r.reason)),
            }
        }
        read
    }

    #[test]
    fn horses_are_known_by_brand_and_name() {
        let (horses, refused, notes) = read(Some("2017-07-16"));
        let numbers: Vec<&str> = horses.iter().map(|h| h.horse_no.as_str()).collect();
        assert_eq!(numbers, ["HK_2016_A001", "A002", "B002"]);
        assert_eq!(horses[0].owner.as_str(), "Owner, Sons & Co");
        assert_eq!(
            (horses[0].age, horses[0].age_as_of),
            (Some(6), RacingDate::parse("2017-07-16").ok())
        );
        assert_eq!((horses[1].age, horses[1].age_as_of), (None, None));
        assert_eq!(
            (horses[1].colour.as_str(), horses[1].sex.as_str()),
            ("Grey / Roan", "")
        );
        assert_eq!(refused.len(), 2, "{refused:?}");
        assert!(
            refused[0].starts_with("4: horse: a horse has one brand"),
            "{refused:?}"
        );
        assert!(refused[1].starts_with("5: age: "), "{refused:?}");
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(
            notes[0].starts_with("3: the sex Roan is a colour"),
            "{notes:?}"
        );
        assert!(
            notes[1]
                .starts_with("3: YOUNG ONE: brand A002 is known as HK_2001_A002 ANCIENT ONE only"),
            "{notes:?}"
        );
    }

    #[test]
    fn an_age_without_its_day_is_left_out_with_one_note() {
        let (horses, _, notes) = read(None);
        assert!(
            horses
                .iter()
                .all(|h| h.age.is_none() && h.age_as_of.is_none())
        );
        let whole_file: Vec<&String> = notes.iter().filter(|n| n.starts_with("0: ")).collect();
        assert_eq!(whole_file.len(), 1, "{notes:?}");
    }
}
