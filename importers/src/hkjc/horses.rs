//! Horse profiles as CSV with a row for each horse.

use std::path::PathBuf;

use events::{Event, HorseRegistered, RacingDate, Text};

use super::brand::name_and_brand;
use super::hong_kong;
use super::horse_ids::HorseIds;
use crate::input::cells::Cells;
use crate::input::files;
use crate::input::repeats::Repeats;
use crate::input::rows::{ReadRows, rows};
use crate::item::{Items, LineItems, Result};

const FORMAT: &str = "horses-csv";

/// Reads horse profiles: a registration for each.
///
/// `ids` are JSON files of results or cards that map brands and names to horses. Without them the brand is the
/// horse's number. `as_of` is the day on which the ages were true. Without it the ages are omitted.
pub fn horses_csv(paths: &[PathBuf], ids: &[PathBuf], as_of: Option<RacingDate>) -> Items {
    let ids = ids.to_vec();
    files::import(paths, &["csv"], move |files| {
        let (ids, items) = HorseIds::read(&ids);
        let horses = HkjcHorses {
            ids,
            as_of,
            omitted_ages: 0,
            repeats: Repeats::default(),
        };
        items.into_iter().chain(rows(files, horses))
    })
}

struct HkjcHorses {
    ids: HorseIds,
    as_of: Option<RacingDate>,
    /// Of the file that is being read.
    omitted_ages: u64,
    repeats: Repeats,
}

impl ReadRows for HkjcHorses {
    const REQUIRED: &'static [&'static str] =
        &["horse", "country", "trainer", "colour", "sex", "owner"];

    fn row(&mut self, cells: &Cells, out: &mut LineItems) -> Result<()> {
        let horse = Event::HorseRegistered(self.horse(cells, out)?);
        let time = hong_kong::time(self.as_of);
        let item = out.location.event(FORMAT, time, horse);
        self.repeats.push("horse", item, out);
        Ok(())
    }

    fn end(&mut self, out: &mut LineItems) {
        let ages = std::mem::take(&mut self.omitted_ages);
        if ages > 0 {
            let how = "give --as-of with the day on which they were true";
            out.note(format!("{ages} ages are omitted: {how}"));
        }
    }
}

impl HkjcHorses {
    fn horse(&mut self, cells: &Cells, out: &mut LineItems) -> Result<HorseRegistered> {
        let age = cells.whole::<u8>("age")?;
        self.omitted_ages += u64::from(self.as_of.is_none() && age.is_some());
        let (horse_name, brand) = cells.parsed("horse", name_and_brand)?;
        let colour = cells.text("colour")?;
        let sex = cells.text("sex")?;
        let (colour, sex) = colour_and_sex(colour, sex, out);
        let horse_no = self.ids.horse_no(&brand, horse_name.as_str(), out)?;
        Ok(HorseRegistered {
            horse_name,
            country_of_origin: cells.text("country")?,
            colour,
            sex,
            age: age.filter(|_| self.as_of.is_some()),
            age_as_of: self.as_of.filter(|_| age.is_some()),
            trainer: cells.text("trainer")?,
            owner: cells.text("owner")?,
            stakes_currency: Text::parse(hong_kong::currency().as_str()).ok(),
            ..HorseRegistered::of(horse_no)
        })
    }
}

/// In some files `Bay / Brown` is split, so that the second colour is in the column of the sex.
fn colour_and_sex(colour: Text, sex: Text, out: &mut LineItems) -> (Text, Text) {
    const COLOURS: [&str; 7] = [
        "bay", "black", "brown", "chestnut", "dark bay", "grey", "roan",
    ];
    if !COLOURS.contains(&sex.as_str().to_lowercase().as_str()) {
        return (colour, sex);
    }
    match Text::parse(&format!("{colour} / {sex}")) {
        Ok(both) => {
            let becomes = format!("the colour becomes {both}, and the sex is unknown");
            out.note(format!("the sex {sex} is a colour: {becomes}"));
            (both, Text::default())
        }
        Err(_) => (colour, Text::default()),
    }
}

#[cfg(test)]
mod tests {
    use events::RacingDate;

    use super::horses_csv;
    use crate::testing::{Imported, check_starts, folder_of};

    const IDS: &str = r#"[{"date": "2016-09-03", "racecourse": "ST", "raceNo": 1, "runners": [
        {"horseId": "HK_2016_A001", "brandNo": "A001", "horseName": "QUIET RIVER"},
        {"horseId": "HK_2001_A002", "brandNo": "A002", "horseName": "ANCIENT ONE"}]}]"#;

    const HORSES: &str = ",horse,country,trainer,colour,sex,owner,age\n\
        1,QUIET RIVER(A001),AUS,A Trainer,Bay,Gelding,\"Owner, Sons & Co\",6.0\n\
        2,YOUNG ONE(A002),NZ,,Grey,Roan,B Owner,\n\
        3,DOUBLE          (V291)(S424),GB,,Bay,Mare,C Owner,5.0\n\
        4,UNKNOWN(B001),IRE,,Chestnut,Colt,D Owner,banana\n\
        5,STRANGER(B002),IRE,,Chestnut,Colt,D Owner,3.0\n\
        6,()(S259),NZ,,Bay,Gelding,E Owner,\n";

    fn read(as_of: Option<&str>) -> Imported {
        let files = [("h.csv", HORSES.as_bytes()), ("ids.json", IDS.as_bytes())];
        let (_folder, paths) = folder_of(&files);
        let as_of = as_of.map(|day| RacingDate::parse(day).expect(day));
        Imported::all(horses_csv(&paths[..1], &paths[1..], as_of))
    }

    #[test]
    fn horses_are_identified_by_brand_and_name() {
        let Imported {
            horses,
            rejected,
            notes,
            ..
        } = read(Some("2017-07-16"));
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
        check_starts(
            &rejected,
            &[
                "4: horse: a horse has one brand",
                "5: age: ",
                "7: horse: a horse is NAME(BRAND)",
            ],
        );
        check_starts(
            &notes,
            &[
                "3: the sex Roan is a colour",
                "3: YOUNG ONE: brand A002 is known only as HK_2001_A002 ANCIENT ONE",
            ],
        );
    }

    #[test]
    fn ages_without_their_day_are_omitted_with_one_note() {
        let Imported { horses, notes, .. } = read(None);
        assert!(
            horses
                .iter()
                .all(|h| h.age.is_none() && h.age_as_of.is_none())
        );
        let whole_file: Vec<&String> = notes.iter().filter(|n| n.starts_with("0: ")).collect();
        assert_eq!(whole_file.len(), 1, "{notes:?}");
    }
}
