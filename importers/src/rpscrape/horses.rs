//! [`RpscrapeHorses`]: the horses of an import by their latest rows, and the currency of their stakes.

use std::collections::BTreeMap;

use events::{Event, HorseNo, HorseRegistered, ParseError, RacingDate, Text};

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
    age: Option<u8>,
    owner: Text,
    date: RacingDate,
    /// That of the runner.
    pub(super) prize: Option<(u64, Currency)>,
    /// Numbers of prizes in pounds and in euros.
    prizes: [u32; 2],
    location: Location,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Currency {
    Pounds,
    Euros,
}

impl Currency {
    fn code(self) -> &'static str {
        match self {
            Self::Pounds => "GBP",
            Self::Euros => "EUR",
        }
    }

    /// The currency of the sign, else of the region: the source of the files has Irish prizes in euros, and all others
    /// in pounds.
    fn of(sign: Option<char>, region: &str) -> Result<Self, ParseError> {
        match (sign, region) {
            (Some('€'), _) | (None, "IRE") => Ok(Self::Euros),
            (Some('£') | None, _) => Ok(Self::Pounds),
            (Some(other), _) => Err(ParseError::new("a prize is in pounds or euros", other)),
        }
    }
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
        let prize = prize(cells)?;
        let mut prizes = [0; 2];
        if let Some((_, currency)) = prize {
            prizes[currency as usize] = 1;
        }
        Ok(Self {
            horse_no: names::horse_no(id.as_str(), name, country).map_err(wrong)?,
            horse_name: Text::parse(name).map_err(wrong)?,
            trainer: cells.text("trainer")?,
            country: Text::parse(country).map_err(wrong)?,
            sex: cells.text("sex")?,
            age: cells.whole("age")?,
            owner: cells.text("owner")?,
            date: cells.parsed("date", date)?,
            prize,
            prizes,
            location: location.clone(),
        })
    }

    fn currency(&self) -> Currency {
        let [pounds, euros] = self.prizes;
        match euros > pounds {
            true => Currency::Euros,
            false => Currency::Pounds,
        }
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
            stakes_currency: Text::parse(self.currency().code()).ok(),
            horse_no: self.horse_no,
            horse_name: self.horse_name,
            country_of_origin: self.country,
            colour: Text::default(),
            sex,
            foaled: None,
            age: self.age,
            age_as_of: self.age.map(|_| self.date),
            trainer: self.trainer,
            owner: self.owner,
            career: None,
        };
        out.event(FORMAT, midnight(self.date), Event::HorseRegistered(horse));
        out.items
    }
}

fn prize(cells: &Cells) -> Result<Option<(u64, Currency)>, InputError> {
    let Some((amount, sign)) = cells.first(&["prize", "prize(£)"], units::money)? else {
        return Ok(None);
    };
    let region = cells.text("region")?.as_str().to_uppercase();
    let currency = Currency::of(sign, &region).map_err(|error| format!("prize: {error}"))?;
    Ok(Some((amount, currency)))
}

impl RpscrapeHorses {
    /// Adds a row. The row of the latest day is kept; of one day the row that was read last.
    pub(super) fn add(&mut self, mut row: RpscrapeHorse) {
        if let Some(known) = self.by_no.get_mut(&row.horse_no) {
            let [pounds, euros] = known.prizes;
            row.prizes = [row.prizes[0] + pounds, row.prizes[1] + euros];
            if row.date < known.date {
                known.prizes = row.prizes;
                return;
            }
        }
        self.by_no.insert(row.horse_no.clone(), row);
    }

    /// The currency of a horse's stakes: that of most of its prizes.
    pub(super) fn currency(&self, horse_no: &HorseNo) -> Currency {
        let known = self.by_no.get(horse_no);
        known.map_or(Currency::Pounds, RpscrapeHorse::currency)
    }

    /// A registration for each horse.
    pub(super) fn register(&mut self) -> Vec<Item> {
        let horses = std::mem::take(&mut self.by_no).into_values();
        horses.flat_map(RpscrapeHorse::register).collect()
    }
}
