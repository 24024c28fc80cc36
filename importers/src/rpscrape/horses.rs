//! [`RpscrapeHorses`]: the horses of an import by their latest rows.

use std::collections::BTreeMap;

use events::{Currency, Event, HorseNo, HorseRegistered, ParseError, RacingDate, Text};

use super::names;
use super::values::{FORMAT, HORSE, date, midnight};
use crate::input::cells::Cells;
use crate::item::{InputError, Item, LineItems, Location};
use crate::units;

#[derive(Debug, Default)]
pub(super) struct RpscrapeHorses {
    by_no: BTreeMap<HorseNo, RpscrapeHorse>,
}

/// A horse as a row describes it.
#[derive(Debug, Clone)]
pub(super) struct RpscrapeHorse {
    pub(super) horse_no: HorseNo,
    pub(super) horse_name: Text,
    pub(super) trainer: Text,
    country: Text,
    sex: Text,
    pub(super) age: Option<u8>,
    pub(super) owner: Text,
    date: RacingDate,
    /// That of the runner.
    pub(super) prize: Option<(u64, Currency)>,
    location: Location,
}

impl RpscrapeHorse {
    pub(super) fn read(cells: &Cells, location: &Location) -> Result<Self, InputError> {
        let full_name = cells.text(HORSE)?;
        let (name, country) = names::split_country(full_name.as_str());
        if !name.contains(char::is_alphanumeric) {
            return Err(cells.error(HORSE, "is missing"));
        }
        let wrong = |error: ParseError| cells.error(HORSE, error);
        let id = cells.text("horse_id")?;
        Ok(Self {
            horse_no: names::horse_no(id.as_str(), name, country).map_err(wrong)?,
            horse_name: Text::parse(name).map_err(wrong)?,
            trainer: cells.text("trainer")?,
            country: Text::parse(country).map_err(wrong)?,
            sex: cells.text("sex")?,
            age: cells.whole("age")?,
            owner: cells.text("owner")?,
            date: cells.parsed("date", date)?,
            prize: prize(cells)?,
            location: location.clone(),
        })
    }

    fn register(self) -> Vec<Item> {
        let mut out = LineItems::new(self.location.clone());
        let sex = match self.sex.as_str() {
            "" => "",
            "C" => "Colt",
            "F" => "Filly",
            "G" => "Gelding",
            "H" => "Horse",
            "M" => "Mare",
            "R" => "Rig",
            sex => {
                let name = &self.horse_name;
                out.note(format!("{name}: no word is known for the sex {sex}"));
                sex
            }
        };
        let sex = Text::parse(sex).expect("a word is a text");
        let horse = HorseRegistered {
            horse_name: self.horse_name,
            country_of_origin: self.country,
            sex,
            age: self.age,
            age_as_of: self.age.map(|_| self.date),
            trainer: self.trainer,
            owner: self.owner,
            // The results state the currency.
            ..HorseRegistered::of(self.horse_no)
        };
        out.event(FORMAT, midnight(self.date), Event::HorseRegistered(horse));
        out.items
    }
}

/// A prize, in the currency of its sign, else of the region: the source of the files has Irish prizes in euros, and all
/// others in pounds.
fn prize(cells: &Cells) -> Result<Option<(u64, Currency)>, InputError> {
    let Some((amount, sign)) = cells.first(&["prize", "prize(£)"], units::money)? else {
        return Ok(None);
    };
    let region = cells.text("region")?.as_str().to_uppercase();
    let currency = match (sign, region.as_str()) {
        (Some('€'), _) | (None, "IRE") => Currency::parse("EUR"),
        (Some('£') | None, _) => Currency::parse("GBP"),
        (Some(other), _) => Err(ParseError::new("a prize is in pounds or euros", other)),
    };
    let currency = currency.map_err(|error| format!("prize: {error}"))?;
    Ok(Some((amount, currency)))
}

impl RpscrapeHorses {
    /// Adds a row. The row of the latest day is kept; of one day the row that was read last.
    pub(super) fn add(&mut self, row: RpscrapeHorse) {
        let known = self.by_no.get(&row.horse_no);
        if known.is_none_or(|known| known.date <= row.date) {
            self.by_no.insert(row.horse_no.clone(), row);
        }
    }

    /// A registration for each horse.
    pub(super) fn register(&mut self) -> Vec<Item> {
        let horses = std::mem::take(&mut self.by_no).into_values();
        horses.flat_map(RpscrapeHorse::register).collect()
    }
}
