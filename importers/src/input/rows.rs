//! [`rows`]: goes through CSV files row by row, and hands out what comes of them.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use crate::input::cells::Cells;
use crate::input::csv_table::Table;
use crate::input::files;
use crate::{Item, Items, Location};

/// What an importer makes of rows.
pub(crate) trait ReadRows: Send + 'static {
    /// The columns that a file has to have.
    const WANTED: &'static [&'static str];

    /// A file begins.
    fn begin(&mut self, table: Table) -> Table {
        table
    }

    /// A row. What is wrong with it is the error.
    fn row(&mut self, cells: &Cells, place: &Location, said: &mut Vec<Item>) -> Result<(), String>;

    /// A file ends.
    fn end(&mut self, said: &mut Vec<Item>);

    /// All files have ended.
    fn finish(&mut self, _said: &mut Vec<Item>) {}
}

/// Goes through files in their order. One row is held at a time, and what the importer holds.
pub(crate) fn rows<R: ReadRows>(files: Vec<PathBuf>, reader: R) -> Items {
    Box::new(Rows {
        files: files.into_iter(),
        open: None,
        reader: Some(reader),
        ready: VecDeque::new(),
    })
}

/// Opens a file as a table with the columns that are wanted.
pub(crate) fn open(path: &Path, wanted: &[&str]) -> Result<(Location, Table), Item> {
    let file = Location::whole(path);
    let bytes = files::open(path).map_err(|error| file.refused(error))?;
    match Table::open(bytes, wanted) {
        Ok(table) => Ok((file, table)),
        Err(reason) => Err(file.at(1).refused(reason)),
    }
}

struct Rows<R> {
    files: std::vec::IntoIter<PathBuf>,
    open: Option<(Location, Table)>,
    /// None when all is said.
    reader: Option<R>,
    ready: VecDeque<Item>,
}

impl<R: ReadRows> Rows<R> {
    /// Reads one row more, or opens the next file; false at the end.
    fn step(&mut self) -> bool {
        let Some(reader) = &mut self.reader else {
            return false;
        };
        let mut said = Vec::new();
        if let Some((file, table)) = &mut self.open {
            if let Some((line, cells)) = table.next() {
                let place = file.at(line);
                let read = cells.and_then(|cells| reader.row(&cells, &place, &mut said));
                said.extend(read.err().map(|reason| place.refused(reason)));
            } else {
                reader.end(&mut said);
                self.open = None;
            }
        } else if let Some(path) = self.files.next() {
            match open(&path, R::WANTED) {
                Ok((file, table)) => self.open = Some((file, reader.begin(table))),
                Err(item) => said.push(item),
            }
        } else {
            reader.finish(&mut said);
            self.reader = None;
        }
        self.ready.extend(said);
        true
    }
}

impl<R: ReadRows> Iterator for Rows<R> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(item);
            }
            if !self.step() {
                return None;
            }
        }
    }
}
