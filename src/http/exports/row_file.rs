//! [`RowFile`]: a file of rows as CSV, NDJSON or Parquet.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};

use parquet::basic::Type;

use super::parquet_rows::ParquetRows;
use crate::http::formats::{BodyFormat, RowFields};

enum RowWriter {
    Csv(Box<csv::Writer<BufWriter<File>>>),
    NdJson(BufWriter<File>),
    Parquet(Box<ParquetRows>),
}

pub(super) struct RowFile {
    writer: RowWriter,
    /// The position of each column.
    indices: HashMap<String, usize>,
}

impl RowFile {
    pub(super) fn create(
        file: File,
        format: BodyFormat,
        columns: &[(String, Type)],
    ) -> anyhow::Result<Self> {
        let file = BufWriter::new(file);
        let names = columns.iter().map(|(name, _)| name);
        let indices = names.clone().cloned().zip(0..).collect();
        let writer = match format {
            BodyFormat::Parquet => RowWriter::Parquet(Box::new(ParquetRows::new(file, columns)?)),
            BodyFormat::Csv => {
                let mut csv = csv::WriterBuilder::new();
                let mut csv = csv.terminator(csv::Terminator::CRLF).from_writer(file);
                csv.write_record(names)?;
                RowWriter::Csv(Box::new(csv))
            }
            BodyFormat::NdJson | BodyFormat::Json => RowWriter::NdJson(file),
        };
        Ok(Self { writer, indices })
    }

    /// Adds a row. Fields without a column are left out, but in NDJSON.
    pub(super) fn write(&mut self, row: &RowFields<'_>) -> anyhow::Result<()> {
        if let RowWriter::NdJson(file) = &mut self.writer {
            return Ok(file.write_all(&row.line())?);
        }
        let mut texts = vec![None; self.indices.len()];
        for (name, text) in row.columns()? {
            if let Some(index) = self.indices.get(&name) {
                texts[*index] = Some(text);
            }
        }
        match &mut self.writer {
            RowWriter::Parquet(parquet) => parquet.write(texts)?,
            RowWriter::Csv(csv) => {
                csv.write_record(texts.into_iter().map(Option::unwrap_or_default))?;
            }
            RowWriter::NdJson(_) => {}
        }
        Ok(())
    }

    /// Writes what is left, and returns the file.
    pub(super) fn finish(self) -> anyhow::Result<File> {
        let file = match self.writer {
            RowWriter::Csv(csv) => csv.into_inner().map_err(csv::IntoInnerError::into_error)?,
            RowWriter::NdJson(file) => file,
            RowWriter::Parquet(parquet) => parquet.finish()?,
        };
        let file = file.into_inner();
        Ok(file.map_err(std::io::IntoInnerError::into_error)?)
    }
}
