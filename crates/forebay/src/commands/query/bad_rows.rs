//! Bad rows, as a message names them: file, line, what is wrong, what to do.

use forebay_offload::files::FileSource;
use forebay_query::{BadRow, Fault, State};

use crate::columns;

/// As many as a message names.
const NAMED_MAX: usize = 4;

/// A message about the bad rows of some files; None if there are none.
pub fn named(sources: &[FileSource], states: &[&State], names: &[String]) -> Option<String> {
    let bad: u64 = states.iter().filter_map(|state| state.rows.as_ref()).map(|rows| rows.bad).sum();
    if bad == 0 {
        return None;
    }
    let of_file = |(source, state): (&FileSource, &&State)| {
        let file = source.path().display().to_string();
        let rows = state.rows.iter().flat_map(|rows| rows.named.clone()).collect::<Vec<_>>();
        rows.into_iter()
            .map(move |row| format!("{file} line {}: {}{}", row.lines_before + 1, fault(&row, names), covered(&row)))
    };
    let mut lines: Vec<String> = sources.iter().zip(states).flat_map(of_file).take(NAMED_MAX).collect();
    let more = bad - lines.len() as u64;
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    let rows = if bad == 1 { "1 row is bad" } else { &format!("{bad} rows are bad") };
    Some(format!("{rows}; --on-error skip leaves such rows out\n  {}", lines.join("\n  ")))
}

/// How much of the file a row takes, if that is more than its line.
fn covered(row: &BadRow) -> String {
    match row.lines {
        0 | 1 => String::new(),
        lines => format!("; it covers {} lines, {} bytes", columns::count(lines), columns::count(row.bytes)),
    }
}

fn fault(row: &BadRow, names: &[String]) -> String {
    let name = |column: u32| names.get(column as usize).map_or("", String::as_str);
    match &row.fault {
        Fault::Fields { has, expected } => format!("{has} fields, the first record has {expected}"),
        Fault::Text { column, text } => {
            format!("{text:?} in the numeric column {:?}", name(*column))
        }
        Fault::TooLong => "a record of more than 64 MiB".to_owned(),
        Fault::CommentQuote => "a comment with an odd number of quotes, which takes the next lines along".to_owned(),
        Fault::OpenQuote => "a quote that is never closed".to_owned(),
        Fault::MisplacedQuote { column } => {
            format!("a quote inside an unquoted field, or text behind a closing quote, in column {:?}", name(*column))
        }
    }
}
