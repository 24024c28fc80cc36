//! [`RowFile`]: a file of rows, which is written under another name until it is whole.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use strum::Display;

use super::columns::ExportColumns;
use super::parquet_rows::ParquetRows;
use crate::atomic_file::{draft_of, put_in_place};
use crate::http::formats::RowFields;

/// The format of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub(super) enum FileFormat {
    /// RFC 4180, with a header.
    Csv,
    /// A JSON object on each line, as of the API: with its objects and lists.
    Ndjson,
    /// Compressed by Snappy.
    Parquet,
}

/// A file that is in place.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ExportedFile {
    pub(super) path: String,
    pub(super) rows: u64,
    pub(super) bytes: u64,
    /// BLAKE3, hexadecimal.
    pub(super) blake3: String,
    /// The horses of a file of form. Only the journal has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) horses: Vec<String>,
}

enum RowWriter {
    Csv(Box<csv::Writer<BufWriter<File>>>),
    Ndjson(BufWriter<File>),
    Parquet(Box<ParquetRows>),
}

pub(super) struct RowFile {
    path: PathBuf,
    writer: RowWriter,
    /// The position of each column.
    indices: HashMap<String, usize>,
    rows: u64,
}

impl RowFile {
    pub(super) fn create(
        path: PathBuf,
        format: FileFormat,
        columns: &ExportColumns,
    ) -> anyhow::Result<Self> {
        let draft = draft_of(&path);
        let file = File::create(&draft);
        let file = file.with_context(|| format!("cannot write {}", draft.display()))?;
        let file = BufWriter::new(file);
        let names = columns.0.iter().map(|(name, _)| name);
        let indices = names.clone().cloned().zip(0..).collect();
        let writer = match format {
            FileFormat::Ndjson => RowWriter::Ndjson(file),
            FileFormat::Parquet => RowWriter::Parquet(Box::new(ParquetRows::new(file, columns)?)),
            FileFormat::Csv => {
                let mut csv = csv::WriterBuilder::new();
                let mut csv = csv.terminator(csv::Terminator::CRLF).from_writer(file);
                csv.write_record(names)?;
                RowWriter::Csv(Box::new(csv))
            }
        };
        Ok(Self {
            path,
            writer,
            indices,
            rows: 0,
        })
    }

    /// Adds a row. Fields without a column are left out.
    pub(super) fn write(&mut self, row: &RowFields<'_>) -> anyhow::Result<()> {
        self.rows += 1;
        let mut texts = vec![None; self.indices.len()];
        for (name, text) in row.columns()? {
            if let Some(index) = self.indices.get(&name) {
                texts[*index] = Some(text);
            }
        }
        match &mut self.writer {
            RowWriter::Parquet(parquet) => parquet.write(texts)?,
            RowWriter::Csv(csv) => {
                csv.write_record(texts.into_iter().map(Option::unwrap_or_default))?
            }
            RowWriter::Ndjson(file) => file.write_all(&row.line())?,
        }
        Ok(())
    }

    /// Puts the file in place, and returns what it is at this path in the export.
    pub(super) fn finish(self, path: &str, horses: Vec<String>) -> anyhow::Result<ExportedFile> {
        let mut file = match self.writer {
            RowWriter::Csv(csv) => csv.into_inner().map_err(csv::IntoInnerError::into_error)?,
            RowWriter::Ndjson(file) => file,
            RowWriter::Parquet(parquet) => parquet.finish()?,
        };
        file.flush()?;
        let mut digest = blake3::Hasher::new();
        digest.update_reader(File::open(draft_of(&self.path))?)?;
        put_in_place(file.get_ref(), &self.path)?;
        Ok(ExportedFile {
            path: path.to_owned(),
            rows: self.rows,
            bytes: digest.count(),
            blake3: digest.finalize().to_hex().to_string(),
            horses,
        })
    }
}
