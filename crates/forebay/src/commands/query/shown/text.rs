//! An answer as text: sentences, and tables between empty lines.

use crate::commands::query::shown::layout;
use crate::commands::query::shown::sheet::{Part, Sheet};

/// Its lines on a terminal of so many columns.
pub fn lines(parts: &[Part], terminal: Option<usize>) -> Vec<String> {
    let mut lines = vec![];
    for part in parts {
        match part {
            Part::Line(line) => lines.push(line.clone()),
            Part::Result(Sheet { sentence: Some(sentence), .. }) if sentence.is_empty() => {}
            Part::Result(Sheet { sentence: Some(sentence), .. }) => lines.extend([String::new(), sentence.clone()]),
            Part::Result(sheet) | Part::About(sheet) => {
                lines.push(String::new());
                lines.extend(layout::lines(sheet, terminal));
            }
        }
    }
    lines
}
