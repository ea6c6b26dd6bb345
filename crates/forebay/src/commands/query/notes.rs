//! Notes of an answer beside its numbers: how its files were taken, which text counts as missing, which columns have text.

use forebay_offload::Answered;
use forebay_offload::files::FileSource;
use forebay_query::{OnText, TextFields, shown_name};

use crate::columns::count;
use crate::commands::query::table::Table;
use crate::output::shown_path;

/// Columns or files that are named one by one: as many as people read.
const NAMED_MAX: usize = 6;

/// The notes about some files and their columns.
pub fn of(sources: &[FileSource], answered: &[Answered], table: &Table) -> Vec<String> {
    let mut notes = findings(sources, table);
    notes.extend(at_most(missing_words(answered, table), "column"));
    if table.on_text == OnText::Missing {
        notes.extend(at_most(texts(sources, answered, table), "column"));
    }
    notes
}

/// How the files are written: of the first, and of those that differ.
fn findings(sources: &[FileSource], table: &Table) -> Vec<String> {
    let first = &table.schemas[0].findings;
    let mut notes: Vec<String> = first.iter().map(ToString::to_string).collect();
    let others = sources.iter().zip(&table.schemas).filter(|(_, schema)| schema.findings != *first);
    let other = others.map(|(source, schema)| {
        let found: Vec<String> = schema.findings.iter().map(ToString::to_string).collect();
        let found = if found.is_empty() { "as most files are".to_owned() } else { found.join("; ") };
        format!("{}: {found}", shown_path(source.path()))
    });
    notes.extend(at_most(other.collect(), "file"));
    notes
}

/// The words that counted as missing.
fn missing_words(answered: &[Answered], table: &Table) -> Vec<String> {
    let words: Vec<&str> = table.schemas[0].dialect.missing.iter().collect();
    let note = |(place, column): (usize, &usize)| {
        let all = || of_column(answered, place).map(|(_, texts)| texts);
        let fields: u64 = all().map(|texts| texts.words).sum();
        let seen = all().fold(0, |seen, texts| seen | texts.words_seen);
        let seen = (0..words.len()).filter(|index| seen >> index & 1 == 1).map(|index| format!("{:?}", words[index]));
        let seen: Vec<String> = seen.collect();
        let fields_are = if fields == 1 { "1 field is".to_owned() } else { format!("{} fields are", count(fields)) };
        let name = shown_name(&table.schemas[0].names[*column]);
        (fields > 0).then(|| format!("column {name}: {fields_are} {} and count as missing", seen.join(" or ")))
    };
    table.columns.iter().enumerate().filter_map(note).collect()
}

/// The columns that have text beside numbers, and so are left out.
fn texts(sources: &[FileSource], answered: &[Answered], table: &Table) -> Vec<String> {
    let note = |(place, column): (usize, &usize)| {
        let texts: u64 = of_column(answered, place).map(|(_, texts)| texts.texts).sum();
        let (file, first) = of_column(answered, place).find_map(|(file, texts)| Some((file, texts.first.as_ref()?)))?;
        let has_numbers = answered.iter().filter_map(|answered| answered.state.rows.as_ref());
        let has_numbers = has_numbers.into_iter().any(|rows| rows.columns[place].missing() < rows.good);
        let name = shown_name(&table.schemas[0].names[*column]);
        let fields = if texts == 1 { "1 field is".to_owned() } else { format!("{} fields are", count(texts)) };
        let place = format!("{} line {}", shown_path(sources[file].path()), first.lines_before + 1);
        has_numbers.then(|| {
            format!(
                "column {name} is left out: {fields} text, first {:?} in {place} (--missing TEXT,... counts such text as missing, \
                 --on-error skip leaves such rows out)",
                first.text
            )
        })
    };
    table.columns.iter().enumerate().filter_map(note).collect()
}

/// The fields with text of a column in each file.
fn of_column(answered: &[Answered], place: usize) -> impl Iterator<Item = (usize, &TextFields)> {
    let rows = answered.iter().enumerate().filter_map(|(file, answered)| Some((file, answered.state.rows.as_ref()?)));
    rows.filter_map(move |(file, rows)| Some((file, rows.texts.get(place)?)))
}

/// The first of some notes, and how many more there are.
fn at_most(mut notes: Vec<String>, of: &str) -> Vec<String> {
    let more = notes.len().saturating_sub(NAMED_MAX);
    notes.truncate(NAMED_MAX);
    if more > 0 {
        notes.push(format!("the same of {more} more {of}{}", if more == 1 { "" } else { "s" }));
    }
    notes
}
