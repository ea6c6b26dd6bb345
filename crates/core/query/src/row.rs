//! One row taken apart: numbers of the columns that are kept, everything else passed over.
//!
//! Rows whose fields are plain are parsed column by column, many at once (`run`). A row with quotes, and an object, takes a fast way of
//! its own. Any surprise sends a row the slow way, which splits it as `record` says. All come to the same. A row puts its numbers into the
//! batch as it goes; the notes of its fields with text wait until it is whole.

use memchr::memchr2;

use std::ops::Range;

use crate::batch::Batch;
use crate::describe::TextColumnCounter;
use crate::dialect::{DOUBLE_BYTES, Dialect, Field, Separator};
use crate::field_ends::{FieldEnds, Run, Shape};
use crate::known_end::TAIL_BYTES;
use crate::limits::BATCH_ROWS;
use crate::number::{leading, long};
use crate::objects::object;
use crate::plain::{OddField, numbers};
use crate::record::Record;
use crate::schema::shown_text;
use crate::skip;
use crate::state::Fault;
use crate::text_fields::TextFields;

/// A field with text in a column of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnText {
    /// It makes the row bad.
    Bad,
    /// It counts as missing, and is noted.
    Missing,
}

/// The use of a field.
#[derive(Clone, Copy)]
pub enum FieldOf {
    /// A column of the batch.
    Number(usize),
    /// A column of text that is described.
    Text(usize),
}

/// The next fields of a row.
#[derive(Clone, Copy)]
enum Step {
    /// So many are passed over: a column that is not requested makes no row bad.
    Skip(usize),
    /// One belongs to a column of the batch.
    Keep(usize),
    /// One is text that is described.
    Text(usize),
}

/// A field with text, of a row that is not whole yet.
enum Noted {
    Word(u8),
    Text(String),
}

/// Parses rows of one dialect.
pub struct RowParser {
    dialect: Dialect,
    on_text: OnText,
    columns: Vec<Option<FieldOf>>,
    steps: Vec<Step>,
    /// Of the row under way, by column.
    noted: Vec<(usize, Noted)>,
    /// Of the rows so far, by column of the batch.
    texts: Vec<TextFields>,
    /// Of the row under way, where texts that are described stand.
    spans: Vec<(usize, Range<usize>)>,
    /// Of the object under way, the value of each column.
    values: Vec<Range<usize>>,
    described: Vec<TextColumnCounter>,
    field_ends: FieldEnds,
    /// Rows of the next run, at most: few where many rows are bad, as what is behind a bad one is parsed in vain.
    run_rows: usize,
    /// Of the run under way.
    odd_fields: Vec<OddField>,
}

impl RowParser {
    /// Of rows with these fields; the others are passed over.
    pub fn new(dialect: Dialect, on_text: OnText, columns: Vec<Option<FieldOf>>) -> Self {
        let mut steps = vec![];
        for column in &columns {
            match (column, steps.last_mut()) {
                (Some(FieldOf::Number(column)), _) => steps.push(Step::Keep(*column)),
                (Some(FieldOf::Text(text)), _) => steps.push(Step::Text(*text)),
                (None, Some(Step::Skip(fields))) => *fields += 1,
                (None, _) => steps.push(Step::Skip(1)),
            }
        }
        let (mut numbers, mut texts) = (0, 0);
        for column in columns.iter().flatten() {
            match column {
                FieldOf::Number(column) => numbers = numbers.max(column + 1),
                FieldOf::Text(column) => texts = texts.max(column + 1),
            }
        }
        let described = (0..texts).map(|_| TextColumnCounter::default()).collect();
        let texts = vec![TextFields::default(); numbers];
        let (noted, spans, values, odd_fields) = (vec![], vec![], vec![], vec![]);
        let (field_ends, run_rows) = (FieldEnds::default(), BATCH_ROWS);
        Self {
            dialect,
            on_text,
            columns,
            steps,
            noted,
            texts,
            spans,
            values,
            described,
            field_ends,
            run_rows,
            odd_fields,
        }
    }

    /// How rows are told apart.
    pub fn dialect(&self) -> &Dialect {
        &self.dialect
    }

    /// Fields of a row.
    pub fn fields(&self) -> usize {
        self.columns.len()
    }

    /// The row is whole; so many newlines are before it.
    #[inline]
    pub fn end_row(&mut self, lines_before: u64) {
        if self.noted.is_empty() {
            return;
        }
        for (column, noted) in self.noted.drain(..) {
            match noted {
                Noted::Word(word) => self.texts[column].add_word(word),
                Noted::Text(text) => self.texts[column].add_text(lines_before, text),
            }
        }
    }

    /// The fields with text in each column of the batch, since this was asked last.
    pub fn take_texts(&mut self) -> Vec<TextFields> {
        let none = vec![TextFields::default(); self.texts.len()];
        std::mem::replace(&mut self.texts, none)
    }

    /// The columns of text that are described, with the rows so far.
    pub fn described(&mut self) -> &mut [TextColumnCounter] {
        &mut self.described
    }

    /// Other bytes are next.
    pub fn begin_block(&mut self) {
        self.field_ends.reset();
    }

    /// Parses the plain rows from `at` on that begin before `end`, at most so many; so many newlines are before them. How many there were,
    /// and where the next one begins.
    #[inline]
    pub fn run(
        &mut self,
        bytes: &[u8],
        rows: Range<usize>,
        rows_max: usize,
        lines: u64,
        batch: &mut Batch,
    ) -> (usize, usize) {
        let Range { start: at, end } = rows;
        let separator = self.dialect.separator;
        if !matches!(separator, Separator::Byte(_) | Separator::Blanks) || self.columns.is_empty() || at < TAIL_BYTES {
            return (0, at);
        }
        let shape = Shape { separator, comment: self.dialect.comment, fields: self.columns.len() };
        if self.field_ends.leaves_out(at) {
            return (0, at);
        }
        let mut field_ends = std::mem::take(&mut self.field_ends);
        let run = field_ends.run(bytes, at, end, rows_max.min(self.run_rows), shape);
        let good = if run.rows == 0 { 0 } else { self.run_numbers(bytes, run, lines, batch) };
        let next = if good < run.rows { run.row_begin(bytes, good) } else { run.end };
        self.run_rows = if good < run.rows { good.max(1) } else { (2 * self.run_rows).min(BATCH_ROWS) };
        field_ends.used(good * shape.fields);
        self.field_ends = field_ends;
        (good, next)
    }

    /// Parses a run: how many of its rows are before the first that is bad.
    fn run_numbers(&mut self, bytes: &[u8], run: Run<'_>, lines: u64, batch: &mut Batch) -> usize {
        self.odd_fields.clear();
        for (field, column) in self.columns.iter().enumerate() {
            if let Some(FieldOf::Number(column)) = *column {
                let out = batch.fields(column, run.rows);
                numbers(bytes, run, field, &self.dialect, (column, out), &mut self.odd_fields);
            }
        }
        let good = if self.odd_fields.is_empty() { run.rows } else { self.run_odd(bytes, run.rows, lines, batch) };
        for (field, column) in self.columns.iter().enumerate() {
            if let Some(FieldOf::Text(text)) = *column {
                let (blanks, fields) = (self.dialect.separator == Separator::Blanks, self.columns.len());
                let span = |row: usize| run.span(bytes, row * fields + field, blanks, field + 1 == fields);
                for span in (0..good).filter_map(span) {
                    self.described[text].add(&bytes[span], &self.dialect);
                }
            }
        }
        good
    }

    /// Takes the closer look at fields of a run that has so many rows: how many are before the first bad one.
    #[cold]
    fn run_odd(&mut self, bytes: &[u8], rows: usize, lines: u64, batch: &mut Batch) -> usize {
        let mut odd_fields = std::mem::take(&mut self.odd_fields);
        // Each column's are in order.
        odd_fields.sort_by_key(|odd| odd.row);
        let mut good = rows;
        for fields in odd_fields.chunk_by(|one, other| one.row == other.row) {
            let row = fields[0].row;
            let is_good = fields.iter().all(|OddField { column, span, .. }| {
                let field = self.value(&bytes[span.start..], span.len());
                self.put(row, *column, field, &bytes[span.clone()], batch).is_ok()
            });
            if !is_good {
                self.noted.clear();
                good = row;
                break;
            }
            self.end_row(lines + row as u64);
        }
        self.odd_fields = odd_fields;
        good
    }

    /// Parses the row at `at` if it is plain, or an object: where the next one begins.
    #[inline]
    pub fn fast(&mut self, bytes: &[u8], at: usize, batch: &mut Batch) -> Option<usize> {
        let next = match self.dialect.separator {
            Separator::Byte(delimiter) => self.fast_by(delimiter, bytes, at, batch),
            Separator::Blanks | Separator::Doubles => None,
            Separator::Json => self.fast_object(bytes, at, batch),
        };
        if next.is_none() {
            self.noted.clear();
        }
        for (text, span) in self.spans.drain(..) {
            if next.is_some() {
                self.described[text].add(&bytes[span], &self.dialect);
            }
        }
        next
    }

    #[inline]
    fn fast_by(&mut self, delimiter: u8, bytes: &[u8], mut at: usize, batch: &mut Batch) -> Option<usize> {
        let point = self.dialect.point;
        let begin = *bytes.get(at)?;
        if matches!(begin, b'\n' | b'\r') || Some(begin) == self.dialect.comment {
            return None;
        }
        let last = self.steps.len().checked_sub(1)?;
        for index in 0..last {
            at = match self.steps[index] {
                Step::Skip(fields) => skip::fields(bytes, at, fields, delimiter)?,
                Step::Text(text) => {
                    let next = skip::fields(bytes, at, 1, delimiter)?;
                    self.spans.push((text, at..next - 1));
                    next
                }
                Step::Keep(column) => {
                    let rest = bytes.get(at..)?;
                    match leading(rest, point) {
                        Some((number, len)) if rest.get(len) == Some(&delimiter) && self.is_plain(number) => {
                            batch.put(column, number, false);
                            at + len + 1
                        }
                        _ => {
                            let len = self.odd_field(rest, delimiter, column, batch)?;
                            (*rest.get(len)? == delimiter).then_some(at + len + 1)?
                        }
                    }
                }
            };
        }
        match self.steps[last] {
            Step::Skip(1) => skip::last_field(bytes, at, delimiter),
            Step::Skip(fields) => {
                let at = skip::fields(bytes, at, fields - 1, delimiter)?;
                skip::last_field(bytes, at, delimiter)
            }
            Step::Text(text) => {
                let next = skip::last_field(bytes, at, delimiter)?;
                // A carriage return behind it is blank.
                self.spans.push((text, at..next - 1));
                Some(next)
            }
            Step::Keep(column) => {
                let rest = bytes.get(at..)?;
                if let Some((number, len)) = leading(rest, point)
                    && let Some(end) = line_end(rest, len)
                    && self.is_plain(number)
                {
                    batch.put(column, number, false);
                    return Some(at + end);
                }
                let len = self.odd_field(rest, delimiter, column, batch)?;
                Some(at + line_end(rest, len)?)
            }
        }
    }

    /// Whether a number stands for itself, not for a missing value.
    #[inline(always)]
    fn is_plain(&self, number: f64) -> bool {
        self.dialect.missing.find_number(number).is_none()
    }

    /// A field that is no plain number, at the beginning of `bytes`: its length, if it needs no closer look.
    #[cold]
    fn odd_field(&mut self, bytes: &[u8], delimiter: u8, column: usize, batch: &mut Batch) -> Option<usize> {
        let len = match bytes.first()? {
            // Fields with quotes inside are left to the slow way.
            b'"' => {
                let close = 1 + memchr2(b'"', b'\n', &bytes[1..])?;
                (bytes[close] == b'"').then_some(close + 1)?
            }
            _ => memchr2(delimiter, b'\n', bytes)?,
        };
        let len = if bytes[..len].ends_with(b"\r") && bytes.get(len) == Some(&b'\n') { len - 1 } else { len };
        let text = &bytes[..len];
        if text.first() != Some(&b'"') && text.contains(&b'"') {
            return None;
        }
        let field = self.value(bytes, len);
        self.put(0, column, field, text, batch).ok()?;
        Some(len)
    }

    /// The value of the field that is the first bytes, so many.
    fn value(&self, bytes: &[u8], len: usize) -> Field {
        let value = long(bytes, self.dialect.point).filter(|(_, number_len)| *number_len == len);
        value.map_or_else(|| self.dialect.field(&bytes[..len]), |(number, _)| self.dialect.of_number(number))
    }

    /// An object, whose line ends with a newline.
    #[inline]
    fn fast_object(&mut self, bytes: &[u8], at: usize, batch: &mut Batch) -> Option<usize> {
        let mut values = std::mem::take(&mut self.values);
        values.clear();
        values.resize(self.columns.len(), at..at);
        let mut next = 0;
        let end = object(bytes, at, |key, value| {
            if let Some(column) = self.dialect.keys.find(key, &mut next) {
                values[column] = value;
            }
        });
        let end = end.filter(|end| bytes[end - 1] == b'\n');
        let is_put = end.is_some() && self.put_values(bytes, &values, batch);
        self.values = values;
        end.filter(|_| is_put)
    }

    /// Puts the kept ones of an object's values into the batch; false if one is text that makes the row bad.
    fn put_values(&mut self, bytes: &[u8], values: &[Range<usize>], batch: &mut Batch) -> bool {
        for (column, value) in values.iter().enumerate() {
            match self.columns[column] {
                None => {}
                Some(FieldOf::Text(text)) => self.spans.push((text, value.clone())),
                Some(FieldOf::Number(column)) => match leading(&bytes[value.start..], b'.') {
                    Some((number, len)) if len == value.len() && self.is_plain(number) => {
                        batch.put(column, number, false);
                    }
                    _ => {
                        let text = &bytes[value.clone()];
                        let field = self.dialect.field(text);
                        if self.put(0, column, field, text, batch).is_err() {
                            return false;
                        }
                    }
                },
            }
        }
        true
    }

    /// Puts the kept fields of a row of doubles into the batch.
    pub fn doubles(&mut self, row: &[u8], batch: &mut Batch) {
        for (field, column) in row.as_chunks::<DOUBLE_BYTES>().0.iter().zip(0..) {
            if let Some(FieldOf::Number(place)) = self.columns[column] {
                let field = self.dialect.of_number(f64::from_le_bytes(*field));
                // A double is no text.
                let _ = self.put(0, place, field, &[], batch);
            }
        }
    }

    /// Sets the kept fields of so many rows of doubles, column by column; whether some may be missing.
    pub fn columns_of_doubles(&mut self, bytes: &[u8], rows: usize, batch: &mut Batch) -> bool {
        let (doubles, width) = (bytes.as_chunks::<DOUBLE_BYTES>().0, self.columns.len());
        let mut may_miss = false;
        for (column, kept) in self.columns.iter().enumerate() {
            let Some(FieldOf::Number(place)) = *kept else { continue };
            let fields = batch.fields(place, rows);
            let mut has_nan = false;
            for (field, bytes) in fields.iter_mut().zip(doubles[column..].iter().step_by(width)) {
                *field = f64::from_le_bytes(*bytes);
                has_nan |= field.is_nan();
            }
            may_miss |= has_nan;
            if self.dialect.missing.has_numbers() {
                for field in fields {
                    if let Field::Word(word) = self.dialect.of_number(*field) {
                        (*field, may_miss) = (f64::NAN, true);
                        self.texts[place].add_word(word);
                    }
                }
            }
        }
        may_miss
    }

    /// Puts the kept fields of a record into the batch, if it is a row (an empty line is none).
    pub fn slow(&mut self, record: &Record<'_>, batch: &mut Batch) -> Result<bool, Fault> {
        let taken = self.record(record, batch);
        if taken.is_err() {
            self.noted.clear();
        }
        taken
    }

    fn record(&mut self, record: &Record<'_>, batch: &mut Batch) -> Result<bool, Fault> {
        if record.is_object == Some(false) && !record.is_none() {
            return Err(Fault::NoObject);
        }
        match record.misplaced_quote {
            Some(_) if record.is_comment => return Err(Fault::CommentQuote),
            _ if record.is_none() => return Ok(false),
            Some(field) => return Err(Fault::MisplacedQuote { column: field as u32 }),
            None => {}
        }
        if record.fields.len() != self.columns.len() || record.has_too_many_fields {
            let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
            return Err(Fault::Fields { has: count(record.fields.len()), expected: count(self.columns.len()) });
        }
        for (index, text) in record.fields.iter().enumerate() {
            let Some(FieldOf::Number(column)) = self.columns[index] else { continue };
            let field = self.dialect.field(text);
            let is_put = self.put(0, column, field, text, batch);
            is_put.map_err(|IsText| Fault::Text { column: index as u32, text: shown_text(text) })?;
        }
        for (column, text) in self.columns.iter().zip(&record.fields) {
            if let Some(FieldOf::Text(column)) = column {
                self.described[*column].add(text, &self.dialect);
            }
        }
        Ok(true)
    }

    /// Puts a field into the batch, into a row so many behind the one under way.
    fn put(&mut self, ahead: usize, column: usize, field: Field, text: &[u8], batch: &mut Batch) -> Result<(), IsText> {
        match field {
            Field::Number(number) => batch.put_ahead(ahead, column, number, false),
            Field::Missing => batch.put_ahead(ahead, column, f64::NAN, true),
            Field::Word(word) => {
                batch.put_ahead(ahead, column, f64::NAN, true);
                self.noted.push((column, Noted::Word(word)));
            }
            Field::Text if self.on_text == OnText::Bad => return Err(IsText),
            Field::Text => {
                batch.put_ahead(ahead, column, f64::NAN, true);
                // Of a column only the first is shown.
                let is_shown = self.texts[column].texts == 0;
                self.noted.push((column, Noted::Text(if is_shown { shown_text(text) } else { String::new() })));
            }
        }
        Ok(())
    }
}

/// A field that has to be a number is text.
struct IsText;

/// Where the next line begins, if this one ends at `len`.
#[inline(always)]
fn line_end(bytes: &[u8], len: usize) -> Option<usize> {
    match bytes.get(len)? {
        b'\n' => Some(len + 1),
        b'\r' if bytes.get(len + 1) == Some(&b'\n') => Some(len + 2),
        _ => None,
    }
}
