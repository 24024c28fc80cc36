//! [`RpscrapeColumns`]: the columns of a file. The tool has named them in three ways, and lets people choose them.

use events::{FinishTime, Odds, ParseError};

use crate::input::cells::Cells;
use crate::input::csv_table::CsvTable;
use crate::item::InputError;
use crate::units;

/// The names of columns that differ between files.
#[derive(Debug, Clone, Copy)]
pub(super) struct RpscrapeColumns {
    pub(super) off: &'static str,
    pub(super) race_name: &'static str,
    pub(super) horse: &'static str,
    finish_time: &'static str,
}

impl RpscrapeColumns {
    /// The columns that a file must have, under any of these names.
    pub(super) const REQUIRED: &'static [&'static str] = &[
        "date",
        "course",
        "off|time",
        "race_name|name",
        "horse|horse_name|name",
        "pos",
        "jockey",
        "trainer",
    ];

    pub(super) fn of(table: &CsvTable) -> Self {
        let first = |names: &[&'static str]| {
            let found = names.iter().find(|name| table.has(name));
            *found.unwrap_or(&names[0])
        };
        // Without `off`, `time` is the off time of the race.
        let finish_time = if table.has("off") { "time" } else { "fin_time" };
        Self {
            off: first(&["off", "time"]),
            race_name: first(&["race_name", "name"]),
            horse: first(&["horse", "horse_name", "name"]),
            finish_time,
        }
    }

    /// Metres; 0 where it is not known. Exact columns come first: `dist` is rounded.
    pub(super) fn distance(cells: &Cells) -> Result<u32, InputError> {
        type Convert = fn(&str) -> Result<u32, ParseError>;
        let columns: [(&str, Convert); 5] = [
            ("dist_y", units::yards),
            ("dist", units::distance),
            ("distance", units::distance),
            ("dist_f", units::furlongs),
            ("dist(f)", units::furlongs),
        ];
        if let Some(metres) = cells.whole("dist_m")? {
            return Ok(metres);
        }
        for (column, convert) in columns {
            if let Some(metres) = cells.optional(column, convert)? {
                return Ok(metres);
            }
        }
        Ok(0)
    }

    /// Pounds; 0 where it is not known.
    pub(super) fn weight(cells: &Cells) -> Result<u16, InputError> {
        for column in ["lbs", "wgt", "weight"] {
            if let Some(pounds) = cells.optional(column, units::pounds)? {
                return Ok(pounds);
            }
        }
        Ok(0)
    }

    /// The starting price. The fraction is exact, and the decimal was computed from it.
    pub(super) fn win_odds(cells: &Cells) -> Result<Option<Odds>, InputError> {
        let fraction = cells.optional("sp", units::starting_price)?.flatten();
        match fraction {
            Some(odds) => Ok(Some(odds)),
            None => cells.optional("dec", Odds::parse),
        }
    }

    pub(super) fn finish_time(self, cells: &Cells) -> Result<Option<FinishTime>, InputError> {
        match cells.optional(self.finish_time, units::clock)? {
            Some(time) => Ok(Some(time)),
            None => cells.optional("secs", units::seconds),
        }
    }

    /// The prize in whole units, and the sign of its currency.
    pub(super) fn prize(cells: &Cells) -> Result<Option<(u64, Option<char>)>, InputError> {
        match cells.optional("prize", units::money)? {
            Some(prize) => Ok(Some(prize)),
            None => cells.optional("prize(£)", units::money),
        }
    }
}
