//! An answer as Markdown, with tables as GitHub and most others have them.

use forebay_query::shown_name;

use crate::commands::query::shown::layout::shown;
use crate::commands::query::shown::sheet::{Cell, Part, Sheet};

/// Its lines.
pub fn lines(parts: &[Part]) -> Vec<String> {
    let mut lines: Vec<String> = vec![];
    for part in parts {
        let here = match part {
            Part::Line(line) => vec![escaped(line)],
            Part::Result(Sheet { sentence: Some(sentence), .. }) if sentence.is_empty() => continue,
            Part::Result(Sheet { sentence: Some(sentence), .. }) => sentence.lines().map(escaped).collect(),
            Part::Result(sheet) | Part::About(sheet) => table(sheet),
        };
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(here);
    }
    lines
}

fn table(sheet: &Sheet) -> Vec<String> {
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let is_text = |column: usize| sheet.rows.iter().any(|row| matches!(row.get(column), Some(Cell::Text(_))));
    let rule = |column: usize| if is_text(column) { "---" } else { "---:" }.to_owned();
    let head = line(sheet.head.iter().map(|name| escaped(&shown_name(name))).collect());
    let rows = sheet.rows.iter().map(|row| line(row.iter().map(|cell| escaped(&shown(cell))).collect()));
    [head, line((0..sheet.head.len()).map(rule).collect())].into_iter().chain(rows).collect()
}

/// A text in which no character means more than itself.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        if r"\`*_[]<>|~#&$".contains(letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_names_and_numbers_go_to_the_right() {
        let sheet = Sheet {
            head: ["column", "mean"].map(str::to_owned).to_vec(),
            rows: vec![vec![Cell::Text("a|b\n*".to_owned()), Cell::Number(-0.5)]],
            sentence: None,
        };
        let lines = lines(&[Part::Line("1 of 2".to_owned()), Part::Result(sheet)]);
        let expected = ["1 of 2", "", "| column | mean |", "| --- | ---: |", r"| a\|b\\n\* | -0.5 |"];
        assert_eq!(lines, expected);
    }
}
