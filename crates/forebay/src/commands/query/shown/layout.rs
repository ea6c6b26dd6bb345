//! Tables of a terminal: names to the left, numbers with their points below each other. A letter is as wide as a terminal shows it.
//!
//! A table that is wider than the terminal is cut between its columns into several, each with the names: nothing is left out.

use ratatui::text::Span;

use crate::columns::count;
use crate::commands::query::shown::number::short;
use crate::commands::query::shown::sheet::{Cell, Sheet};
use forebay_query::shown_name;

/// Between columns.
const GAP: usize = 2;

/// A column: its cells as wide as each other, the head first.
struct Column {
    cells: Vec<String>,
    width: usize,
}

/// The lines of a table on a terminal of so many columns; without one, of any width.
pub fn lines(sheet: &Sheet, terminal: Option<usize>) -> Vec<String> {
    let columns: Vec<Column> = (0..sheet.head.len()).map(|index| column(sheet, index)).collect();
    let Some((names, others)) = columns.split_first() else { return vec![] };
    let mut lines = vec![];
    let mut rest = others;
    loop {
        let (here, further) = rest.split_at(fitting(names, rest, terminal));
        if !lines.is_empty() {
            lines.push(String::new());
        }
        for row in 0..=sheet.rows.len() {
            let cells = std::iter::once(names).chain(here).map(|column| column.cells[row].as_str());
            lines.push(cells.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned());
        }
        if further.is_empty() {
            return lines;
        }
        rest = further;
    }
}

/// How many columns beside the names there is room for; one at least.
fn fitting(names: &Column, columns: &[Column], terminal: Option<usize>) -> usize {
    let Some(terminal) = terminal else { return columns.len() };
    let mut width = names.width;
    let fits = |column: &&Column| {
        width += GAP + column.width;
        width <= terminal
    };
    columns.iter().take_while(fits).count().max(1).min(columns.len())
}

fn column(sheet: &Sheet, index: usize) -> Column {
    let head = shown_name(&sheet.head[index]);
    let cells: Vec<&Cell> = sheet.rows.iter().filter_map(|row| row.get(index)).collect();
    let is_text = cells.iter().any(|cell| matches!(cell, Cell::Text(_)));
    let texts: Vec<String> = cells.iter().map(|cell| shown(cell)).collect();
    let texts = if is_text { texts } else { on_points(&texts) };
    let width = texts.iter().chain([&head]).map(|text| width(text)).max().unwrap_or(0);
    let aligned = |text: &String| {
        let blanks = " ".repeat(width - self::width(text));
        if is_text { format!("{text}{blanks}") } else { format!("{blanks}{text}") }
    };
    Column { cells: std::iter::once(&head).chain(&texts).map(aligned).collect(), width }
}

/// Numbers with blanks behind them, so that what stands before their points ends at the same place.
fn on_points(numbers: &[String]) -> Vec<String> {
    let behind = |number: &String| number.len() - number.find(['.', 'e']).unwrap_or(number.len());
    let most = numbers.iter().map(behind).max().unwrap_or(0);
    numbers.iter().map(|number| format!("{number}{}", " ".repeat(most - behind(number)))).collect()
}

/// A field for people.
pub fn shown(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => shown_name(text),
        Cell::Count(number) => count(*number),
        Cell::Number(number) => short(*number),
        Cell::About(number) => format!("~{}", count(*number)),
        Cell::AtLeast(number) => format!(">={}", count(*number)),
    }
}

fn width(text: &str) -> usize {
    Span::raw(text).width()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> Sheet {
        let row = |name: &str, count: u64, number: f64| {
            vec![Cell::Text(name.to_owned()), Cell::Count(count), Cell::Number(number)]
        };
        let rows = vec![
            row("a", 1_000, 1.25),
            row("\u{6e29}\u{5ea6}", 12, 1234.0),
            row("e\u{301}", 0, 1e300),
            row("none", 1, f64::NAN),
        ];
        Sheet { head: ["column", "count", "mean"].map(str::to_owned).to_vec(), rows, sentence: None }
    }

    #[test]
    fn points_stand_below_each_other_and_wide_letters_take_two_places() {
        let expected = [
            "column  count  mean",
            "a       1,000     1.25",
            "\u{6e29}\u{5ea6}       12  1234",
            "e\u{301}           0     1e300",
            "none        1     -",
        ];
        let lines = lines(&sheet(), None);
        assert_eq!(lines[1..], expected[1..], "{lines:#?}");
        assert_eq!(lines[0], "column  count      mean", "the head ends where the column does");
    }

    #[test]
    fn a_narrow_terminal_has_all_columns_one_below_the_other() {
        let narrow = lines(&sheet(), Some(16));
        assert_eq!(narrow.len(), 5 + 1 + 5);
        assert!(narrow[0].ends_with("count") && narrow[6].ends_with("mean") && narrow[5].is_empty(), "{narrow:#?}");
        assert!(narrow.iter().all(|line| width(line) <= 16) && narrow[8].starts_with('\u{6e29}'), "{narrow:#?}");
        assert_eq!(lines(&sheet(), Some(1)).len(), 11, "a column that does not fit is there all the same");
        assert_eq!(lines(&sheet(), Some(80)), lines(&sheet(), None));
    }
}
