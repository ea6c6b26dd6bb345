//! The answer of a query as people and programs see it.
//!
//! `parts` are its sentences and tables (`sheet`), those of descriptions in `described`, before they have a form; `text`, `markdown` and `csv` give them one, and `json` has its own.
//! Tables for people (`layout`) have numbers of a few digits (`number`), the formats for programs have all of them.

mod csv;
mod described;
mod json;
mod layout;
mod markdown;
mod number;
mod parts;
mod sheet;
mod text;

use std::io::IsTerminal;

use forebay_query::Operator;

pub use number::short;
pub use parts::counted;

use crate::commands::query::answer::Answer;
use crate::output::{exactly, say, tell};

/// The form of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Aligned tables.
    Table,
    /// One table, for programs.
    Csv,
    /// One object, for programs.
    Json,
    /// Sentences and tables of a document.
    Markdown,
}

impl Format {
    /// The one that was asked for, of an answer to these operators.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub fn of(asked: Option<&str>, json: bool, operators: &[Operator]) -> Result<Self, String> {
        let format = match asked {
            None if json => Self::Json,
            None | Some("table") => Self::Table,
            Some("csv") => Self::Csv,
            Some("json") => Self::Json,
            Some("markdown") => Self::Markdown,
            Some(sql @ ("parquet" | "arrow")) => {
                return Err(format!("--format {sql} is for SQL only; operators have table, csv, json and markdown"));
            }
            Some(other) => {
                return Err(format!("there is no --format {other:?}; there are table, csv, json and markdown"));
            }
        };
        if json && format != Self::Json {
            return Err("--json and --format name different formats; give one of them".to_owned());
        }
        if format == Self::Csv && operators.len() > 1 {
            let names = operators.iter().map(|operator| operator.name()).collect::<Vec<_>>().join(", ");
            return Err(format!(
                "--format csv is one table, and {names} are several; ask for one operator at a time, or for --format json"
            ));
        }
        Ok(format)
    }
}

/// Prints an answer. With CSV, standard output has the table alone, and standard error what else there is to say.
pub fn show(answer: &Answer, format: Format) {
    match format {
        Format::Json => say!("{}", json::in_json(answer)),
        Format::Table => text::lines(&parts::of(answer), terminal_columns()).iter().for_each(|line| say!("{line}")),
        Format::Markdown => markdown::lines(&parts::of(answer)).iter().for_each(|line| say!("{line}")),
        Format::Csv => {
            let (table, notes) = csv::of(&parts::of(answer));
            notes.iter().for_each(|note| tell!("{note}"));
            exactly(&table);
        }
    }
}

/// The width of the terminal that standard output is.
fn terminal_columns() -> Option<usize> {
    let size = std::io::stdout().is_terminal().then(ratatui::crossterm::terminal::size)?.ok()?;
    Some(usize::from(size.0)).filter(|columns| *columns > 0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]
mod tests {
    use super::*;

    #[test]
    fn a_format_that_cannot_hold_the_answer_is_refused() {
        let (one, two) = ([Operator::Stats], [Operator::Stats, Operator::Digits]);
        assert_eq!(Format::of(None, false, &two), Ok(Format::Table));
        assert_eq!(Format::of(Some("json"), true, &two), Ok(Format::Json));
        assert_eq!(Format::of(Some("csv"), false, &one), Ok(Format::Csv));
        for (asked, json, operators, words) in [
            (Some("csv"), false, &two[..], "stats, digits are several; ask for one operator at a time"),
            (Some("csv"), true, &one, "different formats"),
            (Some("parquet"), false, &one, "for SQL only"),
            (Some("xml"), false, &one, "table, csv, json and markdown"),
        ] {
            let refused = Format::of(asked, json, operators).unwrap_err();
            assert!(refused.contains(words), "{refused}");
        }
    }
}
