//! Rows as Apache Parquet: typed columns, so that no reader has to guess what is a decimal.

use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::Compression;
use ::parquet::file::properties::WriterProperties;
use arrow_array::builder::{Decimal128Builder, StringBuilder, TimestampMillisecondBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, TimeUnit};

use super::super::ReportError;
use super::super::csv::broken;
use super::columns::{COLUMNS, Cell, Kind};
use super::rows::Row;

/// Rows that are encoded together.
const BATCH_ROWS: usize = 8_192;
/// Rows that are kept in memory, encoded, until they are written: a reader's unit of skipping.
const GROUP_ROWS: usize = 65_536;
/// The widest decimal there is.
const PRECISION: u8 = 38;

/// Values of a column that are not encoded yet.
enum Values {
    Text(StringBuilder),
    Decimal(Decimal128Builder),
    Time(TimestampMillisecondBuilder),
}

/// A file under way.
pub(super) struct Sheet {
    schema: Arc<Schema>,
    writer: ArrowWriter<Vec<u8>>,
    columns: Vec<Values>,
    waiting: usize,
}

fn scale(digits: usize) -> Result<i8, ReportError> {
    i8::try_from(digits).map_err(broken)
}

fn data_type(kind: Kind) -> Result<DataType, ReportError> {
    Ok(match kind {
        Kind::Text => DataType::Utf8,
        Kind::Decimal(digits) => DataType::Decimal128(PRECISION, scale(digits)?),
        Kind::Time => DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
    })
}

fn values(kind: Kind) -> Result<Values, ReportError> {
    Ok(match kind {
        Kind::Text => Values::Text(StringBuilder::new()),
        Kind::Decimal(digits) => {
            let builder = Decimal128Builder::new().with_precision_and_scale(PRECISION, scale(digits)?);
            Values::Decimal(builder.map_err(broken)?)
        }
        Kind::Time => Values::Time(TimestampMillisecondBuilder::new().with_timezone("UTC")),
    })
}

impl Sheet {
    pub(super) fn new() -> Result<Self, ReportError> {
        let field = |column: &super::columns::Column| {
            let nullable = matches!(column.kind, Kind::Text | Kind::Decimal(_));
            Ok(Field::new(column.name, data_type(column.kind)?, nullable))
        };
        let fields = COLUMNS.iter().map(field).collect::<Result<Vec<_>, ReportError>>()?;
        let schema = Arc::new(Schema::new(fields));
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            .set_created_by("runtab".to_owned())
            .build();
        let writer = ArrowWriter::try_new(Vec::new(), Arc::clone(&schema), Some(properties)).map_err(broken)?;
        let columns = COLUMNS.iter().map(|column| values(column.kind)).collect::<Result<_, _>>()?;
        Ok(Self { schema, writer, columns, waiting: 0 })
    }

    pub(super) fn put(&mut self, row: &Row<'_>) -> Result<(), ReportError> {
        for (column, values) in COLUMNS.iter().zip(&mut self.columns) {
            match (values, (column.get)(row)) {
                (Values::Text(values), Cell::Text(text)) => values.append_option(text),
                (Values::Decimal(values), Cell::Decimal(found)) => values.append_option(found.map(|(value, _)| value)),
                (Values::Time(values), Cell::Time(at)) => values.append_value(at.ms()),
                _ => return Err(ReportError::Broken(format!("{} is of another type", column.name))),
            }
        }
        self.waiting = self.waiting.saturating_add(1);
        if self.waiting >= BATCH_ROWS { self.encode() } else { Ok(()) }
    }

    fn encode(&mut self) -> Result<(), ReportError> {
        if self.waiting == 0 {
            return Ok(());
        }
        let arrays: Vec<ArrayRef> = self
            .columns
            .iter_mut()
            .map(|values| -> ArrayRef {
                match values {
                    Values::Text(values) => Arc::new(values.finish()),
                    Values::Decimal(values) => Arc::new(values.finish()),
                    Values::Time(values) => Arc::new(values.finish()),
                }
            })
            .collect();
        self.waiting = 0;
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays).map_err(broken)?;
        self.writer.write(&batch).map_err(broken)
    }

    /// The bytes since they were taken last: whole groups of rows.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(self.writer.inner_mut())
    }

    /// Writes what waits and the file's end; the last bytes.
    pub(super) fn finish(&mut self) -> Result<Vec<u8>, ReportError> {
        self.encode()?;
        self.writer.finish().map_err(broken)?;
        Ok(self.take())
    }
}
