//! The columns of files of text: names from the first file of CSV or all objects of JSON, and types that fit the first rows.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::csv::reader::Format;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::json::reader::infer_json_schema;
use datafusion::common::parsers::CompressionTypeVariant;
use datafusion::common::{DataFusionError, Result, plan_err};
use regex::Regex;

use crate::dialect::Dialect;
use crate::inflate::reader;
use crate::opening;

/// The columns of files, by as many rows as the dialect says. A column without a value there is text.
///
/// # Errors
/// A file cannot be read, is not as the dialect says, or has other columns than the first.
pub fn of_csv(
    files: &[PathBuf],
    dialect: &Dialect,
    delimiter: u8,
    compression: CompressionTypeVariant,
) -> Result<Schema> {
    let format = format(dialect, delimiter)?;
    let mut left = dialect.sample_rows;
    let mut columns: Vec<Field> = vec![];
    for path in files {
        let failed = |error: DataFusionError| error.context(path.display().to_string());
        let file = opening::open(path).map_err(|error| failed(error.into()))?;
        let text = reader(BufReader::new(file), compression).map_err(|error| failed(error.into()))?;
        let (own, rows) = format.infer_schema(text, Some(left)).map_err(|error| failed(error.into()))?;
        let own: Vec<Field> = own.fields().iter().map(|field| (**field).clone()).collect();
        left -= rows;
        if columns.is_empty() {
            columns = own;
        } else if !own.is_empty() {
            merge(&mut columns, own, dialect.has_header).map_err(failed)?;
        }
        if left == 0 {
            break;
        }
    }
    let typed = columns.into_iter().map(|field| match field.data_type() {
        // The reader of the engine takes every value of a column of type Null for none.
        DataType::Null => field.with_data_type(DataType::Utf8),
        _ => field,
    });
    Ok(Schema::new(typed.collect::<Vec<_>>()))
}

fn format(dialect: &Dialect, delimiter: u8) -> Result<Format> {
    let format = Format::default().with_header(dialect.has_header).with_delimiter(delimiter).with_quote(dialect.quote);
    let format = dialect.escape.into_iter().fold(format, Format::with_escape);
    let format = dialect.comment.into_iter().fold(format, Format::with_comment);
    if dialect.missing.is_empty() {
        return Ok(format);
    }
    let words: Vec<_> = dialect.missing.iter().map(|word| regex::escape(word)).collect();
    let words = Regex::new(&format!("^(?:|{})$", words.join("|")));
    words.map(|words| format.with_null_regex(words)).map_err(|error| DataFusionError::Plan(error.to_string()))
}

fn merge(columns: &mut [Field], others: Vec<Field>, has_names: bool) -> Result<()> {
    let is_same = |(one, other): (&Field, &Field)| !has_names || one.name() == other.name();
    if columns.len() != others.len() || !columns.iter().zip(&others).all(is_same) {
        return plan_err!("its columns are not those of the table's first file");
    }
    for (column, other) in columns.iter_mut().zip(others) {
        let merged = both(column.data_type(), other.data_type());
        column.set_data_type(merged);
    }
    Ok(())
}

/// The type that values of both types have.
fn both(one: &DataType, other: &DataType) -> DataType {
    match (one, other) {
        (one, other) if one == other => one.clone(),
        (DataType::Null, other) | (other, DataType::Null) => other.clone(),
        (DataType::Int64, DataType::Float64) | (DataType::Float64, DataType::Int64) => DataType::Float64,
        (DataType::Date32, time @ DataType::Timestamp(..)) | (time @ DataType::Timestamp(..), DataType::Date32) => {
            time.clone()
        }
        (DataType::Timestamp(one, None), DataType::Timestamp(other, None)) => {
            DataType::Timestamp(*one.max(other), None)
        }
        _ => DataType::Utf8,
    }
}

/// The columns of files with an object of JSON in each line, by as many lines; those that are named in any of them.
///
/// # Errors
/// A file cannot be read, or holds something else.
pub fn of_json(files: &[PathBuf], sample_rows: usize, compression: CompressionTypeVariant) -> Result<Schema> {
    let mut left = sample_rows;
    let mut found = vec![];
    for path in files {
        let failed = |error: DataFusionError| error.context(path.display().to_string());
        let file = opening::open(path).map_err(|error| failed(error.into()))?;
        let text = reader(BufReader::new(file), compression).map_err(|error| failed(error.into()))?;
        let mut text = BufReader::new(text);
        let begin = text.fill_buf().map_err(|error| failed(error.into()))?;
        if begin.trim_ascii_start().starts_with(b"[") {
            let text = "JSON is read as an object a line, not as an array (jq -c '.[]' converts it)";
            return Err(failed(DataFusionError::Plan(text.to_owned())));
        }
        let (own, rows) = infer_json_schema(text, Some(left)).map_err(|error| failed(error.into()))?;
        found.push(own);
        left -= rows;
        if left == 0 {
            break;
        }
    }
    let all = Schema::try_merge(found)?;
    let typed = |field: &Arc<Field>| match field.data_type() {
        DataType::Null => field.as_ref().clone().with_data_type(DataType::Utf8),
        _ => field.as_ref().clone(),
    };
    Ok(Schema::new(all.fields().iter().map(typed).collect::<Vec<_>>()))
}
