//! [`RaceParts`]: the races of a file whose rows are apart, found before the file is imported.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::input::cells::Cells;
use crate::item::Result;

/// The races of a file: more than all of a country in a century.
const RACES_MAX: usize = 1_000_000;
/// The rows of a race that are known again when they are repeated.
const ROWS_MAX: usize = 1_000;

/// Where a file has the rows of its races. An importer reads a race, or all races of a day, until other rows begin;
/// rows that come later would make another, mutilated result. Equal rows count once, wherever they are.
pub(crate) struct RaceParts<G, R> {
    /// The race or the day of the last row, and how often it has changed.
    group: Option<G>,
    changes: u64,
    races: HashMap<R, RacePart>,
    has_too_many: bool,
}

/// The first part of a race.
#[derive(Debug, Default)]
struct RacePart {
    changes: u64,
    first: u64,
    last: u64,
    /// Hashes of its rows.
    rows: Vec<u64>,
    is_repeated: bool,
    /// The line of the first row of another part that the first part does not have.
    apart: Option<u64>,
}

impl<G, R> Default for RaceParts<G, R> {
    fn default() -> Self {
        Self {
            group: None,
            changes: 0,
            races: HashMap::new(),
            has_too_many: false,
        }
    }
}

impl<G: PartialEq, R: Eq + Hash> RaceParts<G, R> {
    pub(crate) fn add(&mut self, group: G, race: R, cells: &Cells, line: u64) {
        if self.group.as_ref() != Some(&group) {
            self.group = Some(group);
            self.changes += 1;
        }
        if self.races.len() >= RACES_MAX && !self.races.contains_key(&race) {
            self.has_too_many = true;
            return;
        }
        let part = self.races.entry(race).or_insert(RacePart {
            changes: self.changes,
            first: line,
            last: line,
            ..RacePart::default()
        });
        let mut hash = DefaultHasher::new();
        cells.record.iter().for_each(|cell| cell.hash(&mut hash));
        let row = hash.finish();
        if part.changes == self.changes {
            part.last = line;
            if part.rows.len() < ROWS_MAX {
                part.rows.push(row);
            }
        } else if part.rows.contains(&row) {
            part.is_repeated = true;
        } else {
            part.apart.get_or_insert(line);
        }
    }

    /// Ends the file. Only the races with several parts are held from here on.
    pub(crate) fn finish(mut self) -> Self {
        (self.races).retain(|_, part| part.is_repeated || part.apart.is_some());
        self.races.shrink_to_fit();
        self
    }

    /// Whether the row of a race on a line is to be read, and is not a repeated one.
    ///
    /// # Errors
    /// Returns the reason for which the race is refused, for its first row only.
    pub(crate) fn is_read(&self, race: &R, line: u64) -> Result<bool> {
        if self.has_too_many {
            return Err(format!("the file has more than {RACES_MAX} races: split it").into());
        }
        match self.races.get(race) {
            None => Ok(true),
            Some(part) => match part.apart {
                None => Ok(line <= part.last),
                Some(apart) if line == part.first => Err(format!(
                    "its rows are apart, on lines {line} to {} and from line {apart}, so the race is refused: put them \
                     together",
                    part.last
                )
                .into()),
                Some(_) => Ok(false),
            },
        }
    }
}
