//! The schema of a file of JSON objects (`objects`): its keys are its columns.

use std::collections::BTreeMap;

use memchr::{memchr, memchr_iter};

use crate::dialect::{Dialect, Field, Separator};
use crate::error::QueryError;
use crate::limits::{FIELDS_MAX, RECORD_BYTES_MAX, SCHEMA_BYTES_MAX};
use crate::objects::{Keys, object, unescaped};
use crate::reading::{BYTE_ORDER_MARK, Reading};
use crate::schema::{Finding, Schema, shown_text};

/// Where a table begins, behind lines that are left out. None if they have no end in the window.
fn beginning(window: &[u8], skipped_lines: u64) -> Option<usize> {
    let from = if window.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    match skipped_lines {
        0 => Some(from),
        lines => memchr_iter(b'\n', window).nth(lines as usize - 1).map(|end| end + 1),
    }
}

/// Whether a file that begins so is JSON behind lines that are left out: an object, or an array of them.
pub fn is_json(window: &[u8], skipped_lines: u64) -> bool {
    let text = beginning(window, skipped_lines).map_or(&[][..], |from| window[from..].trim_ascii_start());
    let inner = || text[1..].trim_ascii_start().first();
    match text.first() {
        Some(b'{') => matches!(inner(), Some(b'"' | b'}')),
        Some(b'[') => inner() == Some(&b'{'),
        _ => false,
    }
}

/// The schema of a file of objects that begins with `window`. None if it takes more of it: the keys of the first 4 MiB are its columns.
pub fn schema_of(window: &[u8], is_end: bool, reading: &Reading) -> Result<Option<Schema>, QueryError> {
    let from = match beginning(window, reading.skipped_lines) {
        Some(from) => from,
        None if is_end => return Err(QueryError::FewerLines(reading.skipped_lines)),
        None => return Ok(None),
    };
    let text = &window[from..];
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
    if first == Some(&b'[') {
        let remedy = "write one object a line first: jq -c '.[]' FILE > OUT";
        return Err(QueryError::OtherFormat { name: "an array of JSON", remedy });
    }
    if first.is_some() && !is_json(window, reading.skipped_lines) {
        let remedy = "query files of one format at a time";
        return Err(QueryError::OtherFormat { name: "no JSON, as the first file is", remedy });
    }
    if !is_end && (window.len() as u64) < SCHEMA_BYTES_MAX {
        return Ok(None);
    }
    let mut learnt = Learnt { reading, columns: vec![], places: BTreeMap::new() };
    let (mut at, mut has_rows) = (0, false);
    while at < text.len() && (at < SCHEMA_BYTES_MAX as usize || !has_rows) {
        let line = memchr(b'\n', &text[at..]).map_or(&text[at..], |len| &text[at..=at + len]);
        if !line.ends_with(b"\n") && !is_end {
            break;
        }
        at += line.len();
        if line.trim_ascii().is_empty() {
            continue;
        }
        let is_object = learnt.row(line);
        if !is_object && !has_rows {
            let remedy = "write one object a line first: jq -c . FILE > OUT";
            return Err(QueryError::OtherFormat { name: "JSON, but its first line is not one whole object", remedy });
        }
        has_rows = true;
        if learnt.columns.len() > FIELDS_MAX {
            return Err(QueryError::TooManyKeys);
        }
    }
    match (has_rows, learnt.columns.is_empty(), is_end) {
        (false, _, false) if window.len() as u64 > RECORD_BYTES_MAX => Err(QueryError::FirstRecordTooLong),
        (false, _, false) => Ok(None),
        (_, true, _) => Err(QueryError::Empty),
        _ => Ok(Some(learnt.schema(window, from))),
    }
}

/// The columns as far as they are known.
struct Learnt<'a> {
    reading: &'a Reading,
    columns: Vec<LearntColumn>,
    places: BTreeMap<Vec<u8>, usize>,
}

struct LearntColumn {
    name: String,
    is_numeric: Option<bool>,
    first_text: Option<String>,
}

impl Learnt<'_> {
    /// Takes a line; false if it is no object.
    fn row(&mut self, line: &[u8]) -> bool {
        let mut members = vec![];
        if object(line, 0, |key, value| members.push((unescaped(key), value))).is_none() {
            return false;
        }
        let like = dialect(self.reading, Keys::default());
        let mut values = BTreeMap::new();
        for (key, value) in members {
            let next = self.columns.len();
            let place = *self.places.entry(key.clone()).or_insert(next);
            if place == next {
                let name = String::from_utf8_lossy(&key).into_owned();
                self.columns.push(LearntColumn { name, is_numeric: None, first_text: None });
            }
            // The last of several counts.
            values.insert(place, value);
        }
        for (place, value) in values {
            let LearntColumn { is_numeric, first_text, .. } = &mut self.columns[place];
            let text = &line[value];
            match like.field(text) {
                _ if is_numeric.is_some() => {}
                Field::Missing | Field::Word(_) => {}
                Field::Number(_) => *is_numeric = Some(true),
                Field::Text => {
                    *is_numeric = Some(false);
                    *first_text = Some(shown_text(&like.text_of(text)));
                }
            }
        }
        true
    }

    fn schema(self, window: &[u8], from: usize) -> Schema {
        let names: Vec<String> = self.columns.iter().map(|column| column.name.clone()).collect();
        let texts = self.columns.iter().enumerate();
        let first_texts = texts.filter_map(|(place, column)| Some((place, column.first_text.clone()?))).collect();
        Schema {
            numeric: self.columns.iter().map(|column| column.is_numeric).collect(),
            first_texts,
            names: names.clone(),
            has_header: true,
            findings: vec![Finding::Objects],
            lines_before_rows: memchr_iter(b'\n', &window[..from]).count() as u64,
            ..Schema::of_rows(dialect(self.reading, Keys::new(&names)), names.len(), from as u64)
        }
    }
}

fn dialect(reading: &Reading, keys: Keys) -> Dialect {
    Dialect { separator: Separator::Json, point: b'.', comment: None, missing: reading.missing.clone(), keys }
}

/// Gives files of objects the keys of all of them, in the order in which they first appear: an object may lack any.
pub fn unite_keys(schemas: &mut [Schema]) {
    if !schemas.iter().all(|schema| schema.dialect.separator == Separator::Json) {
        return;
    }
    let mut names: Vec<String> = vec![];
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for name in schemas.iter().flat_map(|schema| &schema.names) {
        if !places.contains_key(name) {
            places.insert(name.clone(), names.len());
            names.push(name.clone());
        }
    }
    let keys = Keys::new(&names);
    for schema in schemas.iter_mut().filter(|schema| schema.names != names) {
        let mut numeric = vec![None; names.len()];
        for (name, is_numeric) in schema.names.iter().zip(&schema.numeric) {
            numeric[places[name]] = *is_numeric;
        }
        let texts = std::mem::take(&mut schema.first_texts).into_iter();
        schema.first_texts = texts.map(|(place, text)| (places[&schema.names[place]], text)).collect();
        (schema.numeric, schema.names, schema.dialect.keys) = (numeric, names.clone(), keys.clone());
    }
}
