//! The schema of a file, by its beginning: what is before the table, how it is written, its names, which columns are numeric.
//!
//! Users may say each of these. The rest is found out, and every finding that is not as in most files is noted, so that an
//! answer can say it.

use memchr::{memchr, memchr_iter, memchr2_iter};

use crate::dialect::{Dialect, Field, Separator, bare};
use crate::error::QueryError;
use crate::keys;
use crate::limits::{FIELDS_MAX, RECORD_BYTES_MAX, SCHEMA_BYTES_MAX};
use crate::magic;
use crate::reading::{BYTE_ORDER_MARK, Header, Reading};
use crate::record::{Record, turns_quoting};
use crate::schema::{Finding, Schema, shown_text};
use crate::sniff;

/// Lines that begin so before a table are comments, unless a user says what comments begin with.
const USUAL_COMMENTS: [u8; 2] = [b'#', b'%'];

/// Records with fewer fields than the table that may stand before it.
const PREAMBLE_RECORDS_MAX: usize = 20;

/// The schema of a file that begins with `window`; `is_end` if it has no other bytes. None if it takes more of them.
///
/// # Errors
/// It is no table, or has no record.
pub fn schema_of(window: &[u8], is_end: bool, reading: &Reading) -> Result<Option<Schema>, QueryError> {
    match reading.separator {
        Some(Separator::Json) => return keys::schema_of(window, is_end, reading),
        None if keys::is_json(window, reading.skipped_lines) => return keys::schema_of(window, is_end, reading),
        _ => magic::refuse(window)?,
    }
    let Some(table) = Table::find(window, is_end, reading)? else { return Ok(None) };
    let dialect = table.dialect(reading);
    let text = &window[table.from..];
    let records = sniff::records(text, is_end, &dialect);
    // The look at many records passes over a first one that is none.
    if let Some(first) = first_record(text, &dialect) {
        check(text, &first, is_end)?;
    }
    if records.is_empty() {
        let is_too_long = text.len() as u64 > RECORD_BYTES_MAX;
        return match (is_end, is_too_long) {
            (true, _) => Err(QueryError::Empty),
            (_, true) => Err(QueryError::FirstRecordTooLong),
            _ => Ok(None),
        };
    }
    let mut schema = table.schema(dialect, records, reading);
    let doubtful = learn_all(&mut schema, window, is_end)?;
    let is_known = |schema: &Schema| schema.numeric.iter().all(Option::is_some);
    if !is_known(&schema) && !is_end && (window.len() as u64) < SCHEMA_BYTES_MAX {
        return Ok(None);
    }
    let is_unknown = |schema: &Schema| schema.numeric.iter().all(Option::is_none);
    Ok(Some(if is_unknown(&schema) { doubtful.unwrap_or(schema) } else { schema }))
}

/// Where a table begins, and what stands before it.
struct Table<'a> {
    window: &'a [u8],
    is_end: bool,
    /// Bytes.
    from: usize,
    /// The separator that the file itself names, as spreadsheets do.
    named: Option<Separator>,
    comments: u64,
    /// The last line before it, if that is a comment.
    last_comment: Option<&'a [u8]>,
}

impl<'a> Table<'a> {
    /// Behind what is to be skipped, empty lines and comments. None if these have no end yet.
    fn find(window: &'a [u8], is_end: bool, reading: &Reading) -> Result<Option<Self>, QueryError> {
        let from = if window.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let mut table = Self { window, is_end, from, named: None, comments: 0, last_comment: None };
        for _ in 0..reading.skipped_lines {
            match table.line() {
                Some(line) => table.from += line.len(),
                None if is_end => return Err(QueryError::FewerLines(reading.skipped_lines)),
                None => return Ok(None),
            }
        }
        while let Some(line) = table.line() {
            let text = line.trim_ascii();
            if reading.is_bare {
                return Ok(Some(table));
            }
            if let Some(separator) = named_separator(text) {
                table.named = Some(separator);
            } else if is_comment(text, reading.comment) {
                table.comments += 1;
                table.last_comment = Some(text);
            } else if text.is_empty() {
                table.last_comment = None;
            } else {
                return Ok(Some(table));
            }
            table.from += line.len();
        }
        if is_end { Ok(Some(table)) } else { Ok(None) }
    }

    /// The line at its beginning, with its end.
    fn line(&self) -> Option<&'a [u8]> {
        let rest = &self.window[self.from..];
        match memchr(b'\n', rest) {
            Some(end) => Some(&rest[..=end]),
            None => (self.is_end && !rest.is_empty()).then_some(rest),
        }
    }

    fn dialect(&self, reading: &Reading) -> Dialect {
        let text = &self.window[self.from..];
        let usual = Dialect { comment: reading.comment, missing: reading.missing.clone(), ..Dialect::default() };
        let like = Dialect { point: reading.point.unwrap_or(usual.point), ..usual };
        let found = || sniff::separator(text, self.is_end, &like);
        let separator = reading.separator.or(self.named).unwrap_or_else(found);
        let dialect = Dialect { separator, ..like };
        let point =
            reading.point.unwrap_or_else(|| sniff::point(&sniff::records(text, self.is_end, &dialect), &dialect));
        Dialect { point, ..dialect }
    }

    /// The schema, as far as the first records tell it.
    fn schema(&self, dialect: Dialect, records: Vec<(Record<'_>, usize)>, reading: &Reading) -> Schema {
        let mut findings = self.findings(&dialect, reading);
        let (first, from) = match reading.header {
            Header::Auto => self.begin(&records, &dialect, &mut findings),
            Header::Yes | Header::No => (0, self.from),
        };
        let (record, end) = &records[first];
        let rest = &records[first + 1..];
        let mut names = Names::find(record, rest, &dialect, reading.header, &mut findings);
        let mut rows_from = if names.is_header { self.from + end } else { from };
        if !names.is_header && reading.header == Header::Auto {
            names.take_comment(self.last_comment.filter(|_| first == 0), &dialect, &mut findings);
        }
        if names.is_header
            && !reading.is_bare
            && let Some((units, end)) = units(rest, &dialect)
        {
            findings.push(Finding::Units(units));
            rows_from = self.from + end;
        }
        let before = &self.window[..rows_from];
        let fields = names.names.len();
        Schema {
            names: names.names,
            has_header: names.is_header,
            is_header_in_doubt: names.is_in_doubt,
            lines_before_rows: memchr_iter(b'\n', before).count() as u64,
            turns_quoting: turns_quoting(before),
            findings,
            ..Schema::of_rows(dialect, fields, rows_from as u64)
        }
    }

    fn findings(&self, dialect: &Dialect, reading: &Reading) -> Vec<Finding> {
        let mut findings = vec![];
        if reading.separator.is_none() && dialect.separator != Separator::Byte(b',') {
            findings.push(Finding::Separator(dialect.separator));
        }
        if reading.point.is_none() && dialect.point == b',' {
            findings.push(Finding::DecimalComma);
        }
        if self.comments > 0 && reading.comment.is_none() {
            findings.push(Finding::Comments(self.comments));
        }
        findings
    }

    /// The first record of the table, and where it begins: behind those that have fewer fields than nearly all that follow.
    fn begin(&self, records: &[(Record<'_>, usize)], dialect: &Dialect, findings: &mut Vec<Finding>) -> (usize, usize) {
        let (usual, share) = sniff::usual_width(records);
        let is_less = |record: &&(Record<'_>, usize)| record.0.fields.len() + 1 < usual;
        let before = match records.iter().take_while(is_less).count() {
            0 => usize::from(has_title(records, usual, dialect)),
            before => before,
        };
        // One field less may be a header without the name of the column of row names.
        let is_table = records.get(before).is_some_and(|(record, _)| record.fields.len() + 1 >= usual);
        if before == 0 || before > PREAMBLE_RECORDS_MAX || share < 1.0 || records.len() < before + 2 || !is_table {
            return (0, self.from);
        }
        let from = self.from + records[before - 1].1;
        let lines = memchr_iter(b'\n', &self.window[self.from..from]).count() as u64;
        findings.push(Finding::Preamble(lines));
        (before, from)
    }
}

/// Whether a line of text stands above names of two columns. Below a header that lacks the name of the column of row names, there are no names.
fn has_title(records: &[(Record<'_>, usize)], usual: usize, dialect: &Dialect) -> bool {
    let [(title, _), (names, _), rest @ ..] = records else { return false };
    let is_text = title.fields.iter().all(|text| Evidence::of(text, dialect) == Evidence::Text);
    let has_numbers = (0..usual).any(|column| is_numeric(rest, column, dialect));
    usual == 2
        && title.fields.len() == 1
        && is_text
        && names.fields.len() == usual
        && has_numbers
        && names_or_data(names, rest, dialect) == (true, false)
}

/// `sep=;`, as spreadsheets write it for themselves.
fn named_separator(line: &[u8]) -> Option<Separator> {
    match bare(line) {
        [b's' | b'S', b'e' | b'E', b'p' | b'P', b'=', byte] => Separator::new(*byte),
        [b's' | b'S', b'e' | b'E', b'p' | b'P', b'='] => Some(Separator::Byte(b'\t')),
        _ => None,
    }
}

fn is_comment(line: &[u8], comment: Option<u8>) -> bool {
    let marks = comment.as_ref().map_or(&USUAL_COMMENTS[..], std::slice::from_ref);
    line.first().is_some_and(|first| marks.contains(first))
}

fn first_record<'a>(text: &'a [u8], dialect: &Dialect) -> Option<Record<'a>> {
    (!text.is_empty()).then(|| dialect.record(text, FIELDS_MAX))
}

/// Refuses a first record that is none.
fn check(text: &[u8], record: &Record<'_>, is_end: bool) -> Result<(), QueryError> {
    let bytes = &text[..record.len];
    if has_lone_return(bytes) {
        return Err(if bytes.contains(&0) { QueryError::NotText } else { QueryError::CarriageReturns });
    }
    if !record.is_ended && !is_end {
        return Ok(());
    }
    if record.has_too_many_fields {
        return Err(QueryError::TooManyFields);
    }
    if bytes.contains(&0) {
        return Err(QueryError::NotText);
    }
    if !record.is_ended && turns_quoting(bytes) {
        return Err(QueryError::OpenQuote);
    }
    match record.misplaced_quote {
        Some(field) => Err(QueryError::MisplacedQuote(field + 1)),
        None => Ok(()),
    }
}

/// The names of the columns.
struct Names {
    names: Vec<String>,
    is_header: bool,
    is_in_doubt: bool,
}

impl Names {
    fn find(
        record: &Record<'_>,
        rest: &[(Record<'_>, usize)],
        dialect: &Dialect,
        header: Header,
        findings: &mut Vec<Finding>,
    ) -> Self {
        let (is_header, is_in_doubt) = match header {
            Header::Auto => names_or_data(record, rest, dialect),
            Header::Yes => (true, false),
            Header::No => (false, false),
        };
        let number = |index: usize| (index + 1).to_string();
        let name = |(index, text): (usize, &&[u8])| match bare(text) {
            [] => number(index),
            text if is_header => String::from_utf8_lossy(text).replace("\"\"", "\""),
            _ => number(index),
        };
        let mut names: Vec<String> = record.fields.iter().enumerate().map(name).collect();
        let has_more = |(record, _): &(Record<'_>, usize)| record.fields.len() == names.len() + 1;
        if is_header && !rest.is_empty() && rest.iter().all(has_more) {
            let ends_empty =
                |(record, _): &(Record<'_>, usize)| record.fields.last().is_some_and(|text| bare(text).is_empty());
            if rest.iter().all(ends_empty) {
                names.push(number(names.len()));
                findings.push(Finding::EmptyLastField);
            } else {
                names.insert(0, "row".to_owned());
                findings.push(Finding::RowNames);
            }
        }
        Self { names, is_header, is_in_doubt }
    }

    /// Takes the names that stand in a comment, if it has as many words as the table has columns, and none is a number.
    fn take_comment(&mut self, comment: Option<&[u8]>, dialect: &Dialect, findings: &mut Vec<Finding>) {
        let Some(comment) = comment else { return };
        let plain = Dialect { comment: None, ..dialect.clone() };
        let bare_comment = comment.trim_ascii_start();
        let words = bare_comment.iter().take_while(|byte| **byte == bare_comment[0]).count();
        for text in [&bare_comment[words..], bare_comment] {
            let record = plain.record(text.trim_ascii(), FIELDS_MAX);
            let is_name = |text: &&[u8]| matches!(dialect.field(text), Field::Text) && !bare(text).is_empty();
            if record.fields.len() == self.names.len() && record.fields.iter().all(is_name) {
                self.names =
                    record.fields.iter().map(|text| String::from_utf8_lossy(bare(text)).into_owned()).collect();
                findings.push(Finding::NamesInComment);
                return;
            }
        }
    }
}

/// Evidence of one field for or against a header.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Evidence {
    /// An empty field.
    Empty,
    /// It is no name.
    Number,
    /// `inf`, `nan` or a word for a missing value: perhaps a name.
    Word,
    /// It is no number.
    Text,
}

impl Evidence {
    fn of(text: &[u8], dialect: &Dialect) -> Self {
        let bare = bare(text);
        match dialect.field(text) {
            _ if bare.is_empty() => Self::Empty,
            Field::Text => Self::Text,
            Field::Number(_) if bare.iter().any(u8::is_ascii_digit) => Self::Number,
            Field::Number(_) | Field::Missing | Field::Word(_) => Self::Word,
        }
    }
}

/// Whether a first record has names, and whether that is in doubt: it has if none of its fields is a number and some are
/// text, if text stands above numbers, if it alone has its numbers in quotes, or if it counts its columns.
fn names_or_data(record: &Record<'_>, rest: &[(Record<'_>, usize)], dialect: &Dialect) -> (bool, bool) {
    let evidence: Vec<Evidence> = record.fields.iter().map(|text| Evidence::of(text, dialect)).collect();
    let has = |kind| evidence.contains(&kind);
    if !has(Evidence::Number) {
        return (has(Evidence::Text) || has(Evidence::Word), has(Evidence::Word));
    }
    let columns = || evidence.iter().enumerate();
    let above_numbers = columns().any(|(column, kind)| *kind == Evidence::Text && is_numeric(rest, column, dialect));
    let is_quoted = |text: &&[u8]| text.trim_ascii().starts_with(b"\"") || bare(text).is_empty();
    let quotes_numbers = record.fields.iter().all(is_quoted)
        && columns().any(|(column, kind)| *kind == Evidence::Number && !rest.is_empty() && is_bare(rest, column));
    let counts =
        counts_columns(record, dialect) && rest.first().is_some_and(|(next, _)| !counts_columns(next, dialect));
    let labels = counts || labels_columns(record, rest, dialect);
    (above_numbers || quotes_numbers || labels, has(Evidence::Text) || labels)
}

/// Whether the fields of a record are numbers at equal distances, as years and columns without names are; the first may be another. Years are few,
/// where a text or nothing stands before them.
fn counts_columns(record: &Record<'_>, dialect: &Dialect) -> bool {
    const COUNTED_MIN: usize = 3;
    const YEARS_MIN: usize = 2;
    const YEARS: std::ops::Range<f64> = 1000.0..3000.0;
    let number = |text: &&[u8]| match dialect.field(text) {
        Field::Number(number) if number.fract() == 0.0 => Some(number),
        _ => None,
    };
    let Some(counted) = record.fields.iter().skip(1).map(number).collect::<Option<Vec<f64>>>() else { return false };
    let steps = || counted.windows(2).map(|pair| pair[1] - pair[0]);
    let is_even = steps().next().is_some_and(|first| first != 0.0 && steps().all(|step| step == first));
    let is_label = record.fields.first().is_some_and(|text| number(text).is_none());
    let are_years = is_label && counted.len() >= YEARS_MIN && counted.iter().all(|number| YEARS.contains(number));
    is_even && (are_years || counted.len() >= COUNTED_MIN && steps().next() == Some(1.0))
}

/// Whether a first record has the names of columns that are numbered, and nothing above the names of rows, as pandas writes them: those have names,
/// and columns are numbered upwards, or rows from 0 on.
fn labels_columns(record: &Record<'_>, rest: &[(Record<'_>, usize)], dialect: &Dialect) -> bool {
    let number = |text: &[u8]| match dialect.field(text) {
        Field::Number(number) if number.fract() == 0.0 && number >= 0.0 => Some(number),
        _ => None,
    };
    let Some((corner, labels)) = record.fields.split_first() else { return false };
    let Some(labels) = labels.iter().map(|text| number(text)).collect::<Option<Vec<f64>>>() else { return false };
    let names: Vec<&[u8]> = rest.iter().filter_map(|(record, _)| record.fields.first().copied()).collect();
    let are_numbered = || names.iter().enumerate().all(|(row, name)| number(name) == Some(row as f64));
    let is_upward = labels.windows(2).all(|pair| pair[0] < pair[1]);
    bare(corner).is_empty()
        && !(labels.is_empty() || names.is_empty())
        && !names.iter().any(|name| bare(name).is_empty())
        && (is_upward || are_numbered())
}

/// Whether a column of some records has numbers, and nothing that is not.
fn is_numeric(records: &[(Record<'_>, usize)], column: usize, dialect: &Dialect) -> bool {
    let fields = || records.iter().filter_map(|(record, _)| record.fields.get(column));
    fields().any(|text| matches!(dialect.field(text), Field::Number(_)))
        && !fields().any(|text| matches!(dialect.field(text), Field::Text))
}

/// Whether no field of a column is quoted.
fn is_bare(records: &[(Record<'_>, usize)], column: usize) -> bool {
    let fields = || records.iter().filter_map(|(record, _)| record.fields.get(column));
    !fields().any(|text| text.trim_ascii().starts_with(b"\""))
}

/// The units below a header, and where they end: the first row has no number, and text above most columns of
/// numbers.
fn units(rows: &[(Record<'_>, usize)], dialect: &Dialect) -> Option<(Vec<String>, usize)> {
    /// Rows below them, so that a row of a short table is not taken for them.
    const BELOW_MIN: usize = 2;
    let ((first, end), below) = rows.split_first()?;
    if below.len() < BELOW_MIN {
        return None;
    }
    let kinds: Vec<Evidence> = first.fields.iter().map(|text| Evidence::of(text, dialect)).collect();
    let numeric: Vec<usize> = (0..kinds.len()).filter(|column| is_numeric(below, *column, dialect)).collect();
    let is_unit = |column: &usize| matches!(kinds[*column], Evidence::Text | Evidence::Empty);
    // `1,200` and `<0.1` are values.
    let has_digits = numeric.iter().any(|column| is_value(bare(first.fields[*column])));
    let with_text = numeric.iter().filter(|column| kinds[**column] == Evidence::Text).count();
    let is_units = !kinds.contains(&Evidence::Number)
        && numeric.iter().all(is_unit)
        && !numeric.is_empty()
        && !has_digits
        && with_text * 2 > numeric.len();
    is_units.then(|| (first.fields.iter().map(|text| shown_text(bare(text))).collect(), *end))
}

/// Whether a text is a number with signs about it, and no unit.
fn is_value(text: &[u8]) -> bool {
    let digits = text.trim_ascii_start();
    let sign = digits.iter().take_while(|byte| b"<>=~+-$.,'(".contains(byte)).count();
    digits[sign..].first().is_some_and(u8::is_ascii_digit)
}

/// Learns from all rows of a window which columns are numeric. If rows are badly quoted, the same by them too: for a table
/// that has no others, so that these are named.
fn learn_all(schema: &mut Schema, window: &[u8], is_end: bool) -> Result<Option<Schema>, QueryError> {
    let mut doubtful: Option<Schema> = None;
    let mut at = schema.rows_from as usize;
    while at < window.len() && !schema.numeric.iter().all(Option::is_some) {
        let rest = &window[at..];
        let record = schema.dialect.record(rest, FIELDS_MAX);
        if !record.is_ended && !is_end {
            break;
        }
        at += record.len;
        if record.has_too_many_fields {
            return Err(QueryError::TooManyFields);
        }
        // Other bad rows say nothing about columns.
        if record.is_none() || record.fields.len() != schema.numeric.len() {
            continue;
        }
        let is_open = !record.is_ended && turns_quoting(rest);
        if record.misplaced_quote.is_some() || is_open {
            learn(doubtful.get_or_insert_with(|| schema.clone()), &record.fields);
        } else {
            learn(schema, &record.fields);
        }
    }
    Ok(doubtful)
}

fn learn(schema: &mut Schema, fields: &[&[u8]]) {
    let Schema { dialect, numeric, first_texts, .. } = schema;
    let unknown = numeric.iter_mut().zip(fields).enumerate().filter(|(_, (numeric, _))| numeric.is_none());
    for (index, (numeric, text)) in unknown {
        match dialect.field(text) {
            Field::Missing | Field::Word(_) => {}
            Field::Number(_) => *numeric = Some(true),
            Field::Text => {
                *numeric = Some(false);
                first_texts.insert(index, shown_text(bare(text)));
            }
        }
    }
}

/// Whether a record contains a carriage return that stands neither within quotes nor at its end: it is many lines.
fn has_lone_return(record: &[u8]) -> bool {
    let end = record.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |last| last + 1);
    let mut is_quoted = false;
    memchr2_iter(b'"', b'\r', &record[..end]).any(|at| {
        is_quoted ^= record[at] == b'"';
        record[at] == b'\r' && !is_quoted
    })
}
