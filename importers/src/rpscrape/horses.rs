//! [`RpscrapeHorses`]: the horses of an import by their latest rows.

use std::collections::BTreeMap;

use events::{Currency, Event, HorseNo, HorseRegistered, ParseError, RacingDate, Text};

use super::names;
use super::values::{FORMAT, HORSE, date, midnight};
use crate::input::cells::Cells;
use crate::item::{Item, LineItems, Location, Result};
use crate::units;

#[derive(Debug, Default)]
pub(super) struct RpscrapeHorses {
    by_no: BTreeMap<HorseNo, RpscrapeHorse>,
}

/// A horse as a row describes it.
#[derive(Debug, Clone)]
pub(super) struct RpscrapeHorse {
    /// With the letter of its sex. The results state the currency of its stakes.
    pub(super) horse: HorseRegistered,
    date: RacingDate,
    /// That of the runner.
    pub(super) prize: Option<(u64, Currency)>,
    location: Location,
}

impl RpscrapeHorse {
    pub(super) fn read(cells: &Cells, location: &Location) -> Result<Self> {
        let full_name = cells.text(HORSE)?;
        let (name, country) = names::split_country(full_name.as_str());
        if !name.contains(char::is_alphanumeric) {
            return Err(cells.error(HORSE, "is missing"));
        }
        let wrong = |error: ParseError| cells.error(HORSE, error);
        let id = cells.text("horse_id")?;
        let horse_no = names::horse_no(id.as_str(), name, country).map_err(wrong)?;
        let age = cells.whole("age")?;
        let date = cells.parsed("date", date)?;
        let horse = HorseRegistered {
            horse_name: Text::parse(name).map_err(wrong)?,
            country_of_origin: Text::parse(country).map_err(wrong)?,
            sex: cells.text("sex")?,
            age,
            age_as_of: age.map(|_| date),
            trainer: cells.text("trainer")?,
            owner: cells.text("owner")?,
            ..HorseRegistered::of(horse_no)
        };
        Ok(Self {
            horse,
            date,
            prize: prize(cells)?,
            location: location.clone(),
        })
    }

    fn register(self) -> Vec<Item> {
        let mut out = LineItems::new(self.location);
        let mut horse = self.horse;
        let sex = match horse.sex.as_str() {
            "" => "",
            "C" => "Colt",
            "F" => "Filly",
            "G" => "Gelding",
            "H" => "Horse",
            "M" => "Mare",
            "R" => "Rig",
            sex => {
                let name = &horse.horse_name;
                out.note(format!("{name}: no word is known for the sex {sex}"));
                sex
            }
        };
        horse.sex = Text::parse(sex).expect("a word is a text");
        out.event(FORMAT, midnight(self.date), Event::HorseRegistered(horse));
        out.items
    }
}

/// A prize, in the currency of its sign, else of the region: the source of the files has Irish prizes in euros, and all
/// others in pounds.
fn prize(cells: &Cells) -> Result<Option<(u64, Currency)>> {
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
        let horse_no = row.horse.horse_no.clone();
        let known = self.by_no.get(&horse_no);
        if known.is_none_or(|known| known.date <= row.date) {
            self.by_no.insert(horse_no, row);
        }
    }

    /// A registration for each horse.
    pub(super) fn register(&mut self) -> Vec<Item> {
        let horses = std::mem::take(&mut self.by_no).into_values();
        horses.flat_map(RpscrapeHorse::register).collect()
    }
}
