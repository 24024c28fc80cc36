//! [`Columns`]: where a file has what. The tool has written its files in three ways over the years, and lets people choose
//! columns.

use events::{FinishTime, Odds, ParseError};

use crate::input::cells::Cells;
use crate::input::csv_table::Table;
use crate::units;

/// The names of columns that are not the same in all files.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    pub(super) off: &'static str,
    pub(super) race_name: &'static str,
    pub(super) horse: &'static str,
    finish_time: &'static str,
}

impl Columns {
    /// What a file has to have, under any of these names.
    pub(super) const WANTED: &'static [&'static str] = &[
        "date",
        "course",
        "off|time",
        "race_name|name",
        "horse|horse_name|name",
        "pos",
        "jockey",
        "trainer",
    ];

    pub(super) fn of(table: &Table) -> Self {
        let first = |names: &[&'static str]| {
            let found = names.iter().find(|name| table.has(name));
            *found.unwrap_or(&names[0])
        };
        // Where there is no `off`, `time` is the off time, and not that of the runner.
        let finish_time = if table.has("off") { "time" } else { "fin_time" };
        Self {
            off: first(&["off", "time"]),
            race_name: first(&["race_name", "name"]),
            horse: first(&["horse", "horse_name", "name"]),
            finish_time,
        }
    }

    /// Metres; 0 where it is not known. The full distance comes first, `dist` is rounded.
    pub(super) fn distance(cells: &Cells) -> Result<u32, String> {
        type Convert = fn(&str) -> Result<u32, ParseError>;
        let said: [(&str, Convert); 5] = [
            ("dist_y", units::yards),
            ("dist", units::distance),
            ("distance", units::distance),
            ("dist_f", units::furlongs),
            ("dist(f)", units::furlongs),
        ];
        if let Some(metres) = cells.whole("dist_m")? {
            return Ok(metres);
        }
        for (column, convert) in said {
            if let Some(metres) = cells.optional(column, convert)? {
                return Ok(metres);
            }
        }
        Ok(0)
    }

    /// Pounds; 0 where it is not known.
    pub(super) fn weight(cells: &Cells) -> Result<u16, String> {
        for column in ["lbs", "wgt", "weight"] {
            if let Some(pounds) = cells.optional(column, units::pounds)? {
                return Ok(pounds);
            }
        }
        Ok(0)
    }

    /// The starting price: the fraction is exact, the decimal was made of it.
    pub(super) fn win_odds(cells: &Cells) -> Result<Option<Odds>, String> {
        let fraction = cells.optional("sp", units::starting_price)?.flatten();
        match fraction {
            Some(odds) => Ok(Some(odds)),
            None => cells.optional("dec", Odds::parse),
        }
    }

    pub(super) fn finish_time(self, cells: &Cells) -> Result<Option<FinishTime>, String> {
        match cells.optional(self.finish_time, units::clock)? {
            Some(time) => Ok(Some(time)),
            None => cells.optional("secs", units::seconds),
        }
    }

    /// What was won, in whole units, and the sign of the currency.
    pub(super) fn prize(cells: &Cells) -> Result<Option<(u64, Option<char>)>, String> {
        match cells.optional("prize", units::money)? {
            Some(prize) => Ok(Some(prize)),
            None => cells.optional("prize(£)", units::money),
        }
    }
}
