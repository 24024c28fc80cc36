//! [`ParquetRows`]: rows as Parquet, in groups that are kept in memory one by one.

use std::sync::Arc;

use anyhow::{Context, anyhow};
use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::columns::{ColumnType, Columns};
use super::row_file::DigestFile;

/// The rows of a group: some megabytes in memory, and enough for readers to work in parallel.
const GROUP_ROWS_MAX: usize = 16 * 1024;

enum Values {
    Integers(Vec<i64>),
    Numbers(Vec<f64>),
    Booleans(Vec<bool>),
    Texts(Vec<ByteArray>),
}

/// A column of the group that is filled.
struct GroupColumn {
    name: String,
    values: Values,
    /// Of each row, 1 if it has a value.
    levels: Vec<i16>,
}

impl GroupColumn {
    fn new((name, of): &(String, ColumnType)) -> Self {
        Self {
            name: name.clone(),
            values: match of {
                ColumnType::Integer => Values::Integers(Vec::new()),
                ColumnType::Number => Values::Numbers(Vec::new()),
                ColumnType::Boolean => Values::Booleans(Vec::new()),
                ColumnType::Text => Values::Texts(Vec::new()),
            },
            levels: Vec::new(),
        }
    }

    fn schema(&self) -> String {
        let of = match self.values {
            Values::Integers(_) => "INT64",
            Values::Numbers(_) => "DOUBLE",
            Values::Booleans(_) => "BOOLEAN",
            Values::Texts(_) => return format!("OPTIONAL BYTE_ARRAY {} (UTF8);", self.name),
        };
        format!("OPTIONAL {of} {};", self.name)
    }

    /// Adds the value of a row. An empty text is one only in a column of texts.
    fn push(&mut self, text: Option<String>) -> anyhow::Result<()> {
        let text = text.filter(|text| !text.is_empty() || matches!(self.values, Values::Texts(_)));
        self.levels.push(text.is_some().into());
        let Some(text) = text else {
            return Ok(());
        };
        let wrong = || format!("{} is {text:?}", self.name);
        match &mut self.values {
            Values::Integers(values) => values.push(text.parse().with_context(wrong)?),
            Values::Numbers(values) => values.push(text.parse().with_context(wrong)?),
            Values::Booleans(values) => values.push(text.parse().with_context(wrong)?),
            Values::Texts(values) => values.push(text.into_bytes().into()),
        }
        Ok(())
    }
}

pub(super) struct ParquetRows {
    writer: SerializedFileWriter<DigestFile>,
    group: Vec<GroupColumn>,
}

impl ParquetRows {
    pub(super) fn new(file: DigestFile, columns: &Columns) -> anyhow::Result<Self> {
        let group: Vec<_> = columns.0.iter().map(GroupColumn::new).collect();
        let schema: String = group.iter().map(GroupColumn::schema).collect();
        let schema = parse_message_type(&format!("message rows {{ {schema} }}"))?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
        let properties = Arc::new(properties.build());
        let writer = SerializedFileWriter::new(file, Arc::new(schema), properties)?;
        Ok(Self { writer, group })
    }

    /// Adds a row, with the text of each column that it has.
    pub(super) fn write(&mut self, texts: Vec<Option<String>>) -> anyhow::Result<()> {
        for (column, text) in self.group.iter_mut().zip(texts) {
            column.push(text)?;
        }
        let rows = self.group.first().map_or(0, |column| column.levels.len());
        if rows == GROUP_ROWS_MAX {
            self.write_group()?;
        }
        Ok(())
    }

    fn write_group(&mut self) -> anyhow::Result<()> {
        let mut writer = self.writer.next_row_group()?;
        for column in &mut self.group {
            let next = writer.next_column()?;
            let mut chunk = next.ok_or_else(|| anyhow!("no column {}", column.name))?;
            let levels = Some(&*column.levels);
            match &mut column.values {
                Values::Integers(values) => {
                    chunk
                        .typed::<Int64Type>()
                        .write_batch(values, levels, None)?;
                    values.clear();
                }
                Values::Numbers(values) => {
                    chunk
                        .typed::<DoubleType>()
                        .write_batch(values, levels, None)?;
                    values.clear();
                }
                Values::Booleans(values) => {
                    chunk
                        .typed::<BoolType>()
                        .write_batch(values, levels, None)?;
                    values.clear();
                }
                Values::Texts(values) => {
                    chunk
                        .typed::<ByteArrayType>()
                        .write_batch(values, levels, None)?;
                    values.clear();
                }
            }
            column.levels.clear();
            chunk.close()?;
        }
        writer.close()?;
        Ok(())
    }

    pub(super) fn finish(mut self) -> anyhow::Result<DigestFile> {
        if self.group.iter().any(|column| !column.levels.is_empty()) {
            self.write_group()?;
        }
        Ok(self.writer.into_inner()?)
    }
}
