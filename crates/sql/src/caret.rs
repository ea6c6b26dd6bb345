//! Errors of a statement, with a caret at the place.

use datafusion::common::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;

/// A place in a statement: line and column, from 1 on, in characters.
type Place = (u64, u64);

/// The error in a statement: one line for people, then the line of the statement and a caret, if the place is known.
pub fn shown(error: &DataFusionError, statement: &str) -> String {
    let (message, place) = explained(error);
    match place.or_else(|| named(statement, &message)).and_then(|place| pointed(statement, place)) {
        Some(pointed) => format!("{message}\n{pointed}"),
        None => message,
    }
}

fn explained(error: &DataFusionError) -> (String, Option<Place>) {
    match error {
        DataFusionError::SQL(error, _) => match &**error {
            ParserError::ParserError(text) | ParserError::TokenizerError(text) => placed(text),
            ParserError::RecursionLimitExceeded => ("the statement is nested too deeply".to_owned(), None),
        },
        DataFusionError::Diagnostic(diagnostic, inner) => {
            let place = diagnostic.span.map(|span| (span.start.line, span.start.column));
            // The diagnostic says it shortly, the error below it with what was possible instead.
            let (message, inner_place) = explained(inner);
            (message, place.or(inner_place))
        }
        DataFusionError::Collection(errors) if !errors.is_empty() => explained(&errors[0]),
        DataFusionError::Shared(error) => explained(error),
        DataFusionError::Context(context, inner) => {
            let (message, place) = explained(inner);
            (format!("{context}: {message}"), place)
        }
        other => (plain(&other.strip_backtrace()), None),
    }
}

/// Without the engine's words for itself.
fn plain(text: &str) -> String {
    let kinds = ["Error during planning: ", "Schema error: ", "Execution error: ", "External error: ", "Arrow error: "];
    let without = |text: &str| kinds.iter().fold(text.to_owned(), |text, kind| text.replace(kind, ""));
    let text = text.strip_prefix("Optimizer rule 'simplify_expressions' failed: ").unwrap_or(text);
    // Of a function that takes other arguments the engine lists what it knows, which is less than the function says.
    let text = text.split_once(". No function matches").map_or(text, |(text, _)| text);
    without(text).replace(" user-defined coercion failed with", "").trim_end().to_owned()
}

/// Where the first thing stands that the message has in quotes and the statement too.
fn named(statement: &str, message: &str) -> Option<Place> {
    let quoted = message.split('\'').skip(1).step_by(2).filter(|text| !text.is_empty());
    let at = quoted.filter_map(|text| whole(statement, text)).next()?;
    let before = &statement[..at];
    let line = before.matches('\n').count() as u64 + 1;
    let column = before.rsplit('\n').next().map_or(0, |text| text.chars().count()) as u64 + 1;
    Some((line, column))
}

/// Where a word stands that is no part of a longer one.
fn whole(statement: &str, word: &str) -> Option<usize> {
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
    statement.match_indices(word).map(|(at, _)| at).find(|at| {
        let (before, after) = (&statement[..*at], &statement[at + word.len()..]);
        !before.ends_with(is_letter) && !after.starts_with(is_letter)
    })
}

/// The parser puts the place at the end of what it says.
fn placed(text: &str) -> (String, Option<Place>) {
    let place = text.rsplit_once(" at Line: ").and_then(|(message, place)| {
        let (line, column) = place.split_once(", Column: ")?;
        Some((message.to_owned(), (line.trim().parse().ok()?, column.trim().parse().ok()?)))
    });
    match place {
        Some((message, place)) => (message, Some(place)),
        None => (text.to_owned(), None),
    }
}

fn pointed(statement: &str, (line, column): Place) -> Option<String> {
    let text = statement.split('\n').nth(usize::try_from(line).ok()?.checked_sub(1)?)?;
    let before: String = text.chars().take(usize::try_from(column).ok()?.checked_sub(1)?).collect();
    // A tab stays one, so that the caret stands below what it means.
    let blank: String = before.chars().map(|each| if each == '\t' { '\t' } else { ' ' }).collect();
    Some(format!("line {line}, column {column}:\n  {text}\n  {blank}^"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_taken_from_what_the_parser_says() {
        let (message, place) = placed("Expected: an expression, found: FROM at Line: 2, Column: 8");
        assert_eq!((&*message, place), ("Expected: an expression, found: FROM", Some((2, 8))));
        assert_eq!(placed("Unexpected end").1, None);
    }

    #[test]
    fn names_are_found_in_the_statement() {
        assert_eq!(named("SELECT max(x)\nFROM t WHERE x = 'x2'", "cannot cast 'x2' to 'Int64'"), Some((2, 19)));
        assert_eq!(named("SELECT max(x)", "no table 'x'"), Some((1, 12)));
        assert_eq!(named("SELECT max(x)", "no table 'a' or 'ma'"), None);
        assert_eq!(named("SELECT 1", "it isn't"), None);
    }

    #[test]
    fn the_caret_stands_below_the_place() {
        assert_eq!(pointed("SELECT 1\n\tFROMM t", (2, 2)).unwrap(), "line 2, column 2:\n  \tFROMM t\n  \t^");
        assert_eq!(pointed("SELECT é, x", (1, 11)).unwrap(), "line 1, column 11:\n  SELECT é, x\n            ^");
        // Beyond the end: where something is missing.
        assert!(pointed("SELECT", (1, 7)).unwrap().ends_with("\n        ^"));
        assert_eq!(pointed("SELECT", (2, 1)), None);
        assert_eq!(pointed("SELECT", (0, 0)), None);
    }
}
