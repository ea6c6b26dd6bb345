//! Tables for people: columns aligned by spaces, the first to the left, the others to the right.

use std::fmt;

/// Rows of cells.
#[derive(Default)]
pub struct Table {
    rows: Vec<Row>,
}

enum Row {
    Cells(Vec<String>),
    /// A line of its own, over the whole width.
    Heading(String),
}

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a row.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) -> &mut Self {
        self.rows.push(Row::Cells(cells.into_iter().map(Into::into).collect()));
        self
    }

    /// Adds a line that belongs to no column.
    pub fn heading(&mut self, text: impl Into<String>) -> &mut Self {
        self.rows.push(Row::Heading(text.into()));
        self
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = Vec::new();
        for row in &self.rows {
            let Row::Cells(cells) = row else { continue };
            widths.resize(widths.len().max(cells.len()), 0);
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = cell.chars().count().max(*width);
            }
        }
        widths
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        for row in &self.rows {
            match row {
                Row::Heading(text) => writeln!(f, "{text}")?,
                Row::Cells(cells) => {
                    let mut line = String::new();
                    for (index, (cell, width)) in cells.iter().zip(&widths).enumerate() {
                        line += &if index == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") };
                    }
                    writeln!(f, "{}", line.trim_end())?;
                }
            }
        }
        Ok(())
    }
}

/// Seconds with as many digits as mean something.
#[must_use]
pub fn seconds(value: f64) -> String {
    match value {
        v if v >= 10.0 => format!("{v:.1} s"),
        v if v >= 1.0 => format!("{v:.2} s"),
        v => format!("{:.0} ms", v * 1000.0),
    }
}

/// Bytes in decimal megabytes, as links are rated.
#[must_use]
pub fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// A count with its thousands set apart.
#[must_use]
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new();
        table.row(["", "time", "requests"]).heading("one").row(["direct", "11.5 s", "5,067"]).row(["a", "1 s", "7"]);
        assert_eq!(
            table.to_string(),
            "          time  requests\none\ndirect  11.5 s     5,067\na          1 s         7\n"
        );
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }
}
