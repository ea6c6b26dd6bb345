//! Notes of an answer beside its numbers: how its files were taken, which text counts as missing, which columns have text.

use std::collections::BTreeMap;

use forebay_offload::files::FileSource;
use forebay_query::{OnText, Operator, Rows, TextColumn, TextFields, shown_name};

use crate::columns::count;
use crate::commands::query::merged::numbers_texts;
use crate::commands::query::table::Table;
use crate::output::shown_path;

/// Columns or files that are named one by one: as many as people read.
const NAMED_MAX: usize = 6;

/// The notes about some files and their columns; `first_texts` are the places of the first texts (`Merged`).
pub fn of(
    sources: &[FileSource],
    first_texts: &BTreeMap<usize, (usize, u64)>,
    rows: &Rows,
    table: &Table,
) -> Vec<String> {
    let mut notes = findings(sources, table);
    notes.extend(at_most(missing_words(rows, table), "column"));
    if table.on_text == OnText::Missing {
        notes.extend(at_most(texts(sources, first_texts, rows, table), "column"));
    }
    notes
}

/// The notes about operators over bytes: those of compressed files are not those that lie there.
pub fn of_bytes(sources: &[FileSource], operators: &[Operator]) -> Vec<String> {
    let mut packed = sources.iter().filter_map(|source| Some((source, source.packing()?)));
    let Some((first, packing)) = packed.next().filter(|_| !operators.iter().all(|operator| operator.reads_rows()))
    else {
        return vec![];
    };
    let (more, path, packing) = (packed.count(), shown_path(first.path()), packing.name());
    let are = match more {
        0 => format!("{path} is compressed by {packing}"),
        1 => format!("{path} is compressed by {packing}, and so is another file"),
        more => format!("{path} is compressed by {packing}, and so are {} other files", count(more as u64)),
    };
    vec![format!("{are}: lines, digits and entropy are those of the decompressed text")]
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
fn missing_words(rows: &Rows, table: &Table) -> Vec<String> {
    let words: Vec<&str> = table.schemas[0].dialect.missing.iter().collect();
    let note = |(texts, column): (&TextFields, &usize)| {
        let was_seen = |index: &usize| texts.words_seen >> index & 1 == 1;
        let seen: Vec<String> = (0..words.len()).filter(was_seen).map(|index| format!("{:?}", words[index])).collect();
        let name = shown_name(&table.schemas[0].names[*column]);
        let are = if texts.words == 1 { "counts" } else { "count" };
        (texts.words > 0)
            .then(|| format!("column {name}: {} {} and {are} as missing", fields_are(texts.words), seen.join(" or ")))
    };
    let numbers = numbers_texts(rows).zip(table.columns.iter().chain(&table.described.numbers));
    let words = rows.described.texts.iter().map(TextColumn::words).zip(&table.described.texts);
    // One that is summed and described has one note.
    let mut notes: Vec<String> = vec![];
    for note in numbers.chain(words).filter_map(note) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

/// The columns that have text beside numbers: they are left out of sums, and described without it.
fn texts(
    sources: &[FileSource],
    first_texts: &BTreeMap<usize, (usize, u64)>,
    rows: &Rows,
    table: &Table,
) -> Vec<String> {
    let note = |(place, (file, line)): (&usize, &(usize, u64))| {
        let texts = numbers_texts(rows).nth(*place)?;
        let described = place.checked_sub(table.columns.len());
        let (column, sums) = match described {
            Some(place) => (table.described.numbers[place], &rows.described.numbers[place].column),
            None => (table.columns[*place], &rows.columns[*place]),
        };
        let has_numbers = sums.missing() < rows.good;
        let name = shown_name(&table.schemas[0].names[column]);
        let (fields_are, file) = (fields_are(texts.texts), shown_path(sources[*file].path()));
        let text = texts.first.as_ref().map_or("", |first| first.text.as_str());
        if described.is_some() {
            return Some(format!(
                "column {name}: {fields_are} text among numbers, first {text:?} in {file} line {line}"
            ));
        }
        has_numbers.then(|| {
            format!(
                "column {name} is left out: {fields_are} text, first {text:?} in {file} line {line} (--missing TEXT,... counts \
                 such text as missing, --on-error skip leaves such rows out)"
            )
        })
    };
    first_texts.iter().filter_map(note).collect()
}

fn fields_are(fields: u64) -> String {
    if fields == 1 { "1 field is".to_owned() } else { format!("{} fields are", count(fields)) }
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
