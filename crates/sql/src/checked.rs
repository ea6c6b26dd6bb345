//! Looks at the bytes of text on their way to the engine, for what its readers pass over in silence: a quote that is never closed takes the
//! rest of a CSV file for one field, and numbers of JSON that do not fit a column's type are cut to it.
//!
//! A plan says which files are read how. Of JSON, all lines are looked at that have no more than an object.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result as EngineResult;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::physical_plan::{CsvSource, FileScanConfig, FileSource, JsonSource};
use datafusion::object_store::path::Path;
use datafusion::object_store::{Error, Result};
use datafusion::physical_plan::ExecutionPlan;
use forebay_query::object_members;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use memchr::{memchr, memchr2};

use crate::quotes::{Extent, Quotes, Quoting};
use crate::residency::scan_of;

/// Bytes of a line that is looked at; the engine reads longer ones, too.
const LINE_BYTES_MAX: usize = 64 << 20;

/// How the files of a statement are looked at.
#[derive(Debug, Default)]
pub struct Checks(RwLock<HashMap<Path, Check>>);

#[derive(Clone, Debug, PartialEq)]
enum Check {
    Csv(Quoting),
    /// The columns that are read.
    Json(Vec<Arc<Field>>),
}

impl Checks {
    /// Takes what a plan reads.
    ///
    /// # Errors
    /// None.
    pub fn note(&self, plan: &Arc<dyn ExecutionPlan>) -> EngineResult<()> {
        plan.apply(|plan| {
            if let Some(scan) = scan_of(plan.as_ref())
                && let Some(check) = check_of(scan)
            {
                let mut checks = self.0.write().unwrap_or_else(PoisonError::into_inner);
                for file in scan.file_groups.iter().flat_map(|group| group.files()) {
                    let known = checks.entry(file.object_meta.location.clone()).or_insert_with(|| check.clone());
                    known.also(&check);
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(())
    }

    /// Whether a file is looked at.
    pub fn has(&self, name: &Path) -> bool {
        self.check(name).is_some()
    }

    fn check(&self, name: &Path) -> Option<Check> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// The same bytes of a file; an error where they are not what the engine would take them for.
    pub fn checked(
        &self,
        name: &Path,
        extent: Extent,
        bytes: BoxStream<'static, Result<Bytes>>,
    ) -> BoxStream<'static, Result<Bytes>> {
        let Some(check) = self.check(name) else { return bytes };
        let look: Box<dyn Look> = match check {
            Check::Csv(quoting) => Box::new(Quotes::new(quoting, extent)),
            Check::Json(columns) => Box::new(Numbers { columns, line: vec![], is_too_long: false }),
        };
        let name = name.clone();
        let failed = move |said: String| Error::Generic { store: "file", source: format!("/{name}: {said}").into() };
        let checked = stream::unfold(Some((bytes, look)), move |reading| {
            let failed = failed.clone();
            async move {
                let (mut bytes, mut look) = reading?;
                match bytes.next().await {
                    Some(Ok(chunk)) => match look.take(&chunk) {
                        Ok(()) => Some((Ok(chunk), Some((bytes, look)))),
                        Err(said) => Some((Err(failed(said)), None)),
                    },
                    Some(Err(error)) => Some((Err(error), None)),
                    None => look.end().err().map(|said| (Err(failed(said)), None)),
                }
            }
        });
        checked.boxed()
    }
}

impl Check {
    /// Takes the columns of another scan of the same file.
    fn also(&mut self, other: &Self) {
        if let (Self::Json(columns), Self::Json(more)) = (self, other) {
            let new = more.iter().filter(|field| !columns.contains(field)).cloned().collect::<Vec<_>>();
            columns.extend(new);
        }
    }
}

fn check_of(scan: &FileScanConfig) -> Option<Check> {
    let source = scan.file_source();
    if let Some(csv) = source.downcast_ref::<CsvSource>() {
        return Some(Check::Csv(Quoting::of(csv)));
    }
    let json = source.downcast_ref::<JsonSource>()?;
    let columns = scan.file_schema().fields();
    let read = json.projection()?.column_indices();
    // Behind them are the columns of directories.
    let read = read.into_iter().filter_map(|column| columns.get(column)).filter(|field| is_looked_at(field));
    Some(Check::Json(read.cloned().collect())).filter(|check| *check != Check::Json(vec![]))
}

fn is_looked_at(field: &Field) -> bool {
    match field.data_type() {
        DataType::Struct(fields) => fields.iter().any(|field| is_looked_at(field)),
        DataType::List(field) => is_looked_at(field),
        own => own.is_integer() || own.is_decimal() || own.is_temporal(),
    }
}

/// Looks at bytes as they come.
trait Look: Send {
    /// The next ones; else what is wrong.
    fn take(&mut self, bytes: &[u8]) -> Result<(), String>;

    /// There are no more.
    fn end(&mut self) -> Result<(), String>;
}

impl Look for Quotes {
    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.take(bytes)
    }

    fn end(&mut self) -> Result<(), String> {
        Self::end(self)
    }
}

/// Finds numbers that do not fit the type of their column.
struct Numbers {
    columns: Vec<Arc<Field>>,
    /// The beginning of a line.
    line: Vec<u8>,
    /// There is more of it than is looked at.
    is_too_long: bool,
}

impl Look for Numbers {
    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut rest = bytes;
        while let Some(end) = memchr(b'\n', rest) {
            let (line, behind) = rest.split_at(end + 1);
            if self.is_too_long {
                (self.line, self.is_too_long) = (vec![], false);
            } else if self.line.is_empty() {
                fits(line, &self.columns)?;
            } else {
                self.line.extend_from_slice(line);
                fits(&self.line, &self.columns)?;
                self.line.clear();
            }
            rest = behind;
        }
        self.is_too_long |= self.line.len() + rest.len() > LINE_BYTES_MAX;
        if !self.is_too_long {
            self.line.extend_from_slice(rest);
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        if self.is_too_long { Ok(()) } else { fits(&self.line, &self.columns) }
    }
}

/// Whether the members of an object fit the columns of their names.
fn fits(object: &[u8], columns: &[Arc<Field>]) -> Result<(), String> {
    let mut unfit = Ok(());
    object_members(object, 0, |key, value| {
        let text = &object[value];
        if unfit.is_ok()
            && let Some(column) = columns.iter().find(|column| is_key(key, column.name()))
        {
            unfit = value_fits(text, column.data_type()).map_err(|said| {
                let text = String::from_utf8_lossy(&text[..text.len().min(40)]).into_owned();
                let name = column.name();
                format!("column {name} has {text}, {said}: give it another type (--types), or a larger --sample")
            });
        }
    });
    unfit
}

fn is_key(key: &[u8], name: &str) -> bool {
    match memchr(b'\\', key) {
        None => key == name.as_bytes(),
        Some(_) => serde_json::from_slice::<String>(&[b"\"", key, b"\""].concat()).is_ok_and(|key| key == name),
    }
}

fn value_fits(value: &[u8], own: &DataType) -> Result<(), &'static str> {
    match own {
        DataType::Struct(fields) => match fits(value, fields) {
            Ok(()) => Ok(()),
            Err(_) => Err("with a number in it that its type would cut"),
        },
        DataType::List(element) if !element.data_type().is_nested() => {
            let elements = value.split(|byte| matches!(byte, b'[' | b']' | b','));
            elements.map(<[u8]>::trim_ascii).try_for_each(|element_text| value_fits(element_text, element.data_type()))
        }
        // Text is read as that of CSV is, and a value of another kind is an error of the engine.
        _ if !value.first().is_some_and(|first| matches!(first, b'-' | b'0'..=b'9')) => Ok(()),
        own if own.is_temporal() => Err("a number, and its type is one of dates or times"),
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => {
            let fraction = memchr(b'.', value).map_or(&[][..], |at| &value[at + 1..]);
            let digits = fraction.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
            let is_integer = || is_integer(value);
            match memchr2(b'e', b'E', value).map_or(digits as i64 <= i64::from(*scale), |_| is_integer()) {
                true => Ok(()),
                false => Err("which has more digits than its type"),
            }
        }
        own if own.is_integer() && memchr2(b'.', b'e', value).or(memchr(b'E', value)).is_some() => {
            match is_integer(value) {
                true => Ok(()),
                false => Err("and its type is one of integers"),
            }
        }
        _ => Ok(()),
    }
}

/// Whether a number with a point or an exponent is an integer, which a double holds.
fn is_integer(value: &[u8]) -> bool {
    let number = std::str::from_utf8(value).ok().and_then(|text| text.parse::<f64>().ok());
    number.is_some_and(|number| number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(mut look: impl Look, text: &str, cut: usize) -> Result<(), String> {
        text.as_bytes().chunks(cut).try_for_each(|bytes| look.take(bytes))?;
        look.end()
    }

    #[test]
    fn numbers_that_a_type_would_cut_are_found() {
        let field = |name: &str, own| Arc::new(Field::new(name, own, true));
        let inner = DataType::Struct(vec![field("n", DataType::Int64)].into());
        let columns = vec![
            field("n", DataType::Int64),
            field("d", DataType::Decimal128(12, 1)),
            field("t", DataType::Date32),
            field("s", inner),
            field("l", DataType::List(field("item", DataType::Int32))),
            field("k\"", DataType::UInt8),
        ];
        for (line, is_good) in [
            (r#"{"n": 20, "d": 1.5, "t": "2024-01-01", "s": {"n": 1}, "l": [1, 2]}"#, true),
            (r#"{"n": 20.0, "d": 1.50, "t": null, "x": 1.5}"#, true),
            (r#"{"n": 2e3}"#, true),
            (r#"{"n": 20.5}"#, false),
            (r#"{"n": 1e-1}"#, false),
            (r#"{"d": 1.29}"#, false),
            (r#"{"t": 1704164645}"#, false),
            (r#"{"s": {"n": 1.5}}"#, false),
            (r#"{"l": [1, 2.5]}"#, false),
            (r#"{"k\"": 1.5}"#, false),
            (r#""n": 20.5}"#, true),
        ] {
            for cut in [1, 7, 100] {
                for text in [line.to_owned(), format!("{{\"n\": 1}}\n{line}\n{{}}\n")] {
                    let found =
                        looked(Numbers { columns: columns.clone(), line: vec![], is_too_long: false }, &text, cut);
                    assert_eq!(found.is_ok(), is_good, "{text} {cut}: {found:?}");
                }
            }
        }
    }
}
