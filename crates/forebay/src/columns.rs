//! Tables for people: columns as wide as their widest cell, numbers to the right.

/// Lines of a table whose first row is its head. A column whose cells all begin with a digit or are `-` is aligned to
/// the right.
pub fn lines(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let is_number = |cell: &String| cell == "-" || cell.starts_with(|first: char| first.is_ascii_digit());
    let shapes: Vec<(usize, bool)> = (0..columns)
        .map(|column| {
            let right = rows.iter().skip(1).filter_map(|row| row.get(column)).all(is_number);
            (width(column).unwrap_or(0), right)
        })
        .collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&shapes).map(|(cell, (width, right))| match right {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// A count with separators of thousands, which long tables of counters need.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_to_the_left_numbers_to_the_right() {
        let rows: Vec<Vec<String>> =
            [["node", "bytes"], ["a", "1"], ["bcdef", "1,000"]].map(|row| row.map(str::to_owned).to_vec()).to_vec();
        assert_eq!(lines(&rows), ["node   bytes", "a          1", "bcdef  1,000"]);
        assert!(lines(&[]).is_empty());
    }

    #[test]
    fn counts_have_separators() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }
}
