//! Reading files of any format: folders, lines, tables, JSON arrays, their cells and fields, and races given row by
//! row.

pub(crate) mod cells;
pub(crate) mod csv_table;
pub(crate) mod fields;
pub(crate) mod files;
pub(crate) mod json_array;
pub(crate) mod lines;
pub(crate) mod race_heading;
pub(crate) mod race_parts;
pub(crate) mod race_rows;
pub(crate) mod repeats;
pub(crate) mod rows;
