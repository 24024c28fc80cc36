//! [`Horses`]: who the horses are, as their latest row tells it, and in which currency their stakes are.

use std::collections::BTreeMap;

use events::{Event, HorseNo, HorseRegistered, Moment, ParseError, RacingDate, Text};
use jiff::tz::Offset;

use super::columns::Columns;
use super::{FORMAT, names};
use crate::input::cells::Cells;
use crate::{Item, Location, sealed};

/// The horses of a call.
#[derive(Debug, Default)]
pub(super) struct Horses {
    by_no: BTreeMap<HorseNo, Horse>,
}

/// A horse as a row tells of it.
#[derive(Debug, Clone)]
pub(super) struct Horse {
    pub(super) horse_no: HorseNo,
    pub(super) horse_name: Text,
    pub(super) trainer: Text,
    country: Text,
    sex: Text,
    age: Option<u8>,
    owner: Text,
    date: RacingDate,
    pub(super) prize: Option<Prize>,
    /// Prizes in pounds and in euros.
    prizes: [u32; 2],
    place: Location,
}

/// What a runner won.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prize {
    pub(super) amount: u64,
    pub(super) currency: Currency,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Currency {
    Pounds,
    Euros,
}

impl Currency {
    pub(super) fn code(self) -> &'static str {
        match self {
            Self::Pounds => "GBP",
            Self::Euros => "EUR",
        }
    }

    /// That of the sign, else of the region: the source of the files has Irish prizes in euros, and all others in pounds.
    fn of(sign: Option<char>, region: &str) -> Result<Self, ParseError> {
        match (sign, region) {
            (Some('€'), _) | (None, "IRE") => Ok(Self::Euros),
            (Some('£') | None, _) => Ok(Self::Pounds),
            (Some(other), _) => Err(ParseError::new("a prize is in pounds or euros", other)),
        }
    }
}

impl Horse {
    pub(super) fn read(cells: &Cells, columns: Columns, place: &Location) -> Result<Self, String> {
        let named = cells.text(columns.horse)?;
        let (name, country) = names::split_country(named.as_str());
        if name.is_empty() {
            return Err(format!("{}: is missing", columns.horse));
        }
        let wrong = |error: ParseError| format!("{}: {error}", columns.horse);
        let id = cells.text("horse_id")?;
        let prize = match Columns::prize(cells)? {
            None => None,
            Some((amount, sign)) => {
                let region = cells.text("region")?.as_str().to_uppercase();
                let currency = Currency::of(sign, &region);
                let currency = currency.map_err(|error| format!("prize: {error}"))?;
                Some(Prize { amount, currency })
            }
        };
        let mut prizes = [0; 2];
        if let Some(prize) = prize {
            prizes[prize.currency as usize] = 1;
        }
        Ok(Self {
            horse_no: names::horse_no(id.as_str(), name, country).map_err(wrong)?,
            horse_name: Text::parse(name).map_err(wrong)?,
            trainer: cells.text("trainer")?,
            country: Text::parse(country).map_err(wrong)?,
            sex: cells.text("sex")?,
            age: cells.whole("age")?,
            owner: cells.text("owner")?,
            date: cells.parsed("date", super::date)?,
            prize,
            prizes,
            place: place.clone(),
        })
    }

    fn currency(&self) -> Currency {
        let [pounds, euros] = self.prizes;
        match euros > pounds {
            true => Currency::Euros,
            false => Currency::Pounds,
        }
    }

    fn registered(self, said: &mut Vec<Item>) -> Item {
        let sex = SEXES
            .iter()
            .find(|(letter, _)| *letter == self.sex.as_str());
        let sex = sex.and_then(|(_, word)| Text::parse(word).ok());
        if sex.is_none() && !self.sex.is_empty() {
            let note = format!(
                "{}: no word is known for the sex {}",
                self.horse_name, self.sex
            );
            said.push(self.place.note(note));
        }
        let at = midnight(self.date);
        let horse = HorseRegistered {
            stakes_currency: Text::parse(self.currency().code()).ok(),
            horse_no: self.horse_no,
            horse_name: self.horse_name,
            country_of_origin: self.country,
            colour: Text::default(),
            sex: sex.unwrap_or(self.sex),
            foaled: None,
            age: self.age,
            age_as_of: self.age.map(|_| self.date),
            trainer: self.trainer,
            owner: self.owner,
            career: None,
        };
        match at {
            Ok(at) => sealed(FORMAT, at, Event::HorseRegistered(horse), &self.place),
            Err(error) => self.place.refused(error),
        }
    }
}

/// Sexes by their letters.
const SEXES: [(&str, &str); 6] = [
    ("C", "Colt"),
    ("F", "Filly"),
    ("G", "Gelding"),
    ("H", "Horse"),
    ("M", "Mare"),
    ("R", "Rig"),
];

/// Midnight, Greenwich time.
pub(super) fn midnight(date: RacingDate) -> Result<Moment, ParseError> {
    Offset::UTC
        .to_timestamp(date.civil().at(0, 0, 0, 0))
        .map(Moment::from)
        .map_err(|_| ParseError::new("a time that the clock can show", date))
}

impl Horses {
    /// Takes in a row. The latest day stands; of one day the row that was read last.
    pub(super) fn learn(&mut self, mut row: Horse) {
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
        known.map_or(Currency::Pounds, Horse::currency)
    }

    /// A registration for each.
    pub(super) fn registered(&mut self, said: &mut Vec<Item>) {
        for (_, horse) in std::mem::take(&mut self.by_no) {
            let item = horse.registered(said);
            said.push(item);
        }
    }
}
