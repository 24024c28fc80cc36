//! [`ParquetRows`]: rows as Parquet, in groups that are kept in memory one by one.

use std::fs::File;
use std::io::BufWriter;
use std::sync::Arc;

use anyhow::{Context, ensure};
use parquet::basic::{Compression, Type};
use parquet::data_type::{BoolType, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

use super::columns::ExportColumns;

/// The rows of a group: some ten megabytes in memory, and enough for readers to work in parallel.
const GROUP_ROWS_MAX: usize = 8 * 1024;

pub(super) struct ParquetRows {
    writer: SerializedFileWriter<BufWriter<File>>,
    columns: ExportColumns,
    /// The texts of each column in the rows of the group that is filled.
    group: Vec<Vec<Option<String>>>,
}

impl ParquetRows {
    pub(super) fn new(file: BufWriter<File>, columns: &[(String, Type)]) -> anyhow::Result<Self> {
        let fields = columns.iter().map(|(name, of)| match of {
            Type::BYTE_ARRAY => format!("OPTIONAL BYTE_ARRAY {name} (UTF8);"),
            of => format!("OPTIONAL {of:?} {name};"),
        });
        let schema = format!("message rows {{ {} }}", fields.collect::<String>());
        let schema = Arc::new(parse_message_type(&schema)?);
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
        Ok(Self {
            writer: SerializedFileWriter::new(file, schema, Arc::new(properties.build()))?,
            columns: columns.to_vec(),
            group: vec![Vec::new(); columns.len()],
        })
    }

    /// Adds a row, with the text of each column that it has.
    pub(super) fn write(&mut self, texts: Vec<Option<String>>) -> anyhow::Result<()> {
        for (column, text) in self.group.iter_mut().zip(texts) {
            column.push(text);
        }
        if self.group[0].len() == GROUP_ROWS_MAX {
            self.write_group()?;
        }
        Ok(())
    }

    fn write_group(&mut self) -> anyhow::Result<()> {
        let mut writer = self.writer.next_row_group()?;
        for ((name, of), texts) in self.columns.iter().zip(&mut self.group) {
            let column = writer.next_column()?.context("more columns than fields")?;
            match of {
                Type::INT64 => write::<Int64Type>(column, texts, |text| text.parse().ok()),
                Type::DOUBLE => write::<DoubleType>(column, texts, |text| text.parse().ok()),
                Type::BOOLEAN => write::<BoolType>(column, texts, |text| text.parse().ok()),
                _ => write::<ByteArrayType>(column, texts, |text| {
                    Some(text.as_bytes().to_vec().into())
                }),
            }
            .with_context(|| format!("cannot write the column {name}"))?;
            texts.clear();
        }
        writer.close()?;
        Ok(())
    }

    pub(super) fn finish(mut self) -> anyhow::Result<BufWriter<File>> {
        if !self.group[0].is_empty() {
            self.write_group()?;
        }
        Ok(self.writer.into_inner()?)
    }
}

/// Writes the values of a column. A row without it has none, and `null` is an empty text.
fn write<T: DataType>(
    mut column: SerializedColumnWriter<'_>,
    texts: &[Option<String>],
    parse: impl Fn(&str) -> Option<T::T>,
) -> anyhow::Result<()> {
    let mut values = Vec::new();
    let mut levels = Vec::with_capacity(texts.len());
    for text in texts {
        let value = text.as_deref().and_then(&parse);
        let text = text.as_deref().unwrap_or_default();
        ensure!(
            value.is_some() || text.is_empty(),
            "{text:?} is of another type"
        );
        levels.push(value.is_some().into());
        values.extend(value);
    }
    let typed = column.typed::<T>();
    typed.write_batch(&values, Some(&levels), None)?;
    Ok(column.close()?)
}
