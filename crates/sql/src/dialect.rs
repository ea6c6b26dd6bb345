//! How files of text are written, as options say it.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::config::CsvOptions;
use datafusion::common::parsers::CompressionTypeVariant;
use datafusion::common::{DFSchema, DataFusionError, Result, plan_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::ExprSchemable;

/// How CSV is read.
#[derive(Clone, Debug)]
pub struct Dialect {
    /// The separator of fields.
    pub delimiter: u8,
    /// The quote around fields.
    pub quote: u8,
    /// The byte before a quote within a quoted field; else such quotes are doubled.
    pub escape: Option<u8>,
    /// The byte that begins a line which is no row.
    pub comment: Option<u8>,
    /// Whether the first line has the names.
    pub has_header: bool,
    /// Whether a quoted field may hold a newline.
    pub has_newlines: bool,
    /// Words that stand for a missing value, beside the empty field.
    pub missing: Vec<String>,
    /// The rows that types are taken from.
    pub sample_rows: usize,
}

impl Dialect {
    /// As the engine takes it, for files with this separator.
    pub fn options(&self, delimiter: u8, compression: CompressionTypeVariant) -> CsvOptions {
        CsvOptions {
            has_header: Some(self.has_header),
            delimiter,
            quote: self.quote,
            escape: self.escape,
            comment: self.comment,
            // Else it would not be cut; cuts are moved to records before they are read (`records`).
            newlines_in_values: Some(false),
            compression,
            ..CsvOptions::default()
        }
    }
}

/// Types that options give columns by their names.
#[derive(Debug, Default)]
pub struct Types {
    named: Vec<(String, DataType)>,
    used: Mutex<BTreeSet<usize>>,
}

impl Types {
    /// Names with types in the words of SQL.
    ///
    /// # Errors
    /// One is no type of a column.
    pub fn new(named: &[(String, String)], state: &SessionState) -> Result<Self> {
        let typed = |(name, text): &(String, String)| Ok((name.clone(), type_of(text, state)?));
        Ok(Self { named: named.iter().map(typed).collect::<Result<_>>()?, used: Mutex::default() })
    }

    /// The type that a column has by option.
    pub fn of(&self, column: &str) -> Option<&DataType> {
        let at = self.named.iter().position(|(name, _)| name == column)?;
        self.used.lock().unwrap_or_else(PoisonError::into_inner).insert(at);
        Some(&self.named[at].1)
    }

    /// Whether one is a decimal.
    pub fn have_decimals(&self) -> bool {
        self.named.iter().any(|(_, own)| own.is_decimal())
    }

    /// The columns of a table with these types.
    pub fn applied(&self, columns: &Schema) -> SchemaRef {
        let own = |field: &Field| match self.of(field.name()) {
            Some(own) => field.clone().with_data_type(own.clone()).with_nullable(true),
            None => field.clone(),
        };
        Schema::new(columns.fields().iter().map(|field| own(field)).collect::<Vec<_>>()).into()
    }

    /// Whether each name is that of a column.
    ///
    /// # Errors
    /// One is not.
    pub fn check(&self) -> Result<()> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        match (0..self.named.len()).find(|at| !used.contains(at)) {
            Some(at) => {
                let name = &self.named[at].0;
                plan_err!(
                    "--types: no CSV or JSON file of the statement has a column {name}, nor do names of its directories"
                )
            }
            None => Ok(()),
        }
    }
}

fn type_of(text: &str, state: &SessionState) -> Result<DataType> {
    let none = DFSchema::empty();
    let parsed = state.create_logical_expr(&format!("CAST(NULL AS {text})"), &none);
    let own = parsed.and_then(|cast| cast.get_type(&none));
    let own = own.map_err(|_| {
        DataFusionError::Plan(format!("--types: {text} is no type of SQL, such as bigint, double or date"))
    })?;
    match own {
        DataType::Utf8View | DataType::LargeUtf8 => Ok(DataType::Utf8),
        DataType::Utf8 | DataType::Boolean => Ok(own),
        own if own.is_numeric() => Ok(own),
        DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_) | DataType::Timestamp(..) => {
            Ok(own)
        }
        _ => plan_err!("--types: a column of a file cannot be {text}"),
    }
}
