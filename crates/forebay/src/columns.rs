//! Tables for people: columns as wide as their widest cell, numbers to the right.

/// Lines of a table whose first row is its head. A column whose cells are all numbers, or `-` for none, is aligned to the right.
pub fn lines(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let is_number = |cell: &String| {
        let magnitude = cell.strip_prefix('-').unwrap_or(cell);
        cell == "-" || magnitude == "inf" || magnitude.starts_with(|first: char| first.is_ascii_digit())
    };
    let shapes: Vec<(usize, bool)> = (0..columns)
        .map(|column| {
            let right = rows.iter().skip(1).filter_map(|row| row.get(column)).all(is_number);
            (width(column).unwrap_or(0), right)
        })
        .collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&shapes).map(|(cell, (width, right))| {
            // Formats take no widths above 65,535.
            let blanks = " ".repeat(width - cell.chars().count());
            if *right { format!("{blanks}{cell}") } else { format!("{cell}{blanks}") }
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
        let rows: Vec<Vec<String>> = [["name", "value"], ["a", "-1.5"], ["b", "-inf"], ["c", "12"], ["d", "-"]]
            .map(|row| row.map(str::to_owned).to_vec())
            .to_vec();
        assert_eq!(lines(&rows), ["name  value", "a      -1.5", "b      -inf", "c        12", "d         -"]);
        let wide = vec![vec!["x".repeat(70_000), "head".to_owned()], vec!["a".to_owned(), "1".to_owned()]];
        assert_eq!(lines(&wide)[1].len(), 70_006);
    }

    #[test]
    fn counts_have_separators() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }
}
