//! Reading files: folders, lines, tables, JSON arrays, and the cells and fields in them.

pub(crate) mod cells;
pub(crate) mod csv_races;
pub(crate) mod csv_table;
pub(crate) mod fields;
pub(crate) mod files;
pub(crate) mod json_array;
pub(crate) mod lines;
pub(crate) mod race_rows;
pub(crate) mod rows;
