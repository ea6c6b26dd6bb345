//! Bad rows, as a message names them: file, line, what is wrong, what to do.

use forebay_offload::files::FileSource;
use forebay_query::{BadRow, Fault, Schema, State};

use crate::columns;

/// As many as a message names.
const NAMED_MAX: usize = 4;

/// The bad rows of some files.
#[derive(Default)]
pub struct BadRows {
    count: u64,
    named: Vec<String>,
}

impl BadRows {
    /// Takes those of the next file.
    pub fn add(&mut self, source: &FileSource, state: &State, schema: &Schema) {
        let Some(rows) = &state.rows else { return };
        self.count += rows.bad;
        let file = source.path().display();
        let names = &schema.names;
        let named =
            |row: &BadRow| format!("{file} line {}: {}{}", row.lines_before + 1, fault(row, names), covered(row));
        self.named.extend(rows.named.iter().take(NAMED_MAX - self.named.len()).map(named));
    }

    /// A message about them; None if there are none.
    pub fn message(&self) -> Option<String> {
        let mut lines = self.named.clone();
        let more = self.count - lines.len() as u64;
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        let rows = if self.count == 1 { "1 row is bad" } else { &format!("{} rows are bad", self.count) };
        let message = format!("{rows}; --on-error skip leaves such rows out\n  {}", lines.join("\n  "));
        (self.count > 0).then_some(message)
    }
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
        Fault::NoObject => "no JSON object, or not one alone and whole".to_owned(),
        Fault::TooLong => "a record of more than 64 MiB".to_owned(),
        Fault::CommentQuote => "a comment with an odd number of quotes, which takes the next lines along".to_owned(),
        Fault::OpenQuote => "a quote that is never closed".to_owned(),
        Fault::MisplacedQuote { column } => {
            format!("a quote inside an unquoted field, or text behind a closing quote, in column {:?}", name(*column))
        }
    }
}
