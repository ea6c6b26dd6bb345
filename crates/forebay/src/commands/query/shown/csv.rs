//! The result of an operator as CSV (RFC 4180), with all digits of its numbers. Sentences about it are notes.

use crate::commands::query::shown::number::exact;
use crate::commands::query::shown::sheet::{Cell, Part};
use crate::commands::query::shown::text;

/// The table of the only result, and what else there is to say.
pub fn of(parts: &[Part]) -> (String, Vec<String>) {
    let mut table = String::new();
    let mut notes = vec![];
    for part in parts {
        match part {
            Part::Result(sheet) => {
                table.push_str(&line(sheet.head.iter().map(|name| field(name))));
                sheet.rows.iter().for_each(|row| table.push_str(&line(row.iter().map(cell))));
            }
            other => notes.extend(text::lines(std::slice::from_ref(other), None)),
        }
    }
    (table, notes)
}

fn line(fields: impl Iterator<Item = String>) -> String {
    format!("{}\n", fields.collect::<Vec<_>>().join(","))
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => field(text),
        Cell::Count(number) | Cell::About(number) | Cell::AtLeast(number) => number.to_string(),
        Cell::Number(number) => exact(*number),
    }
}

fn field(text: &str) -> String {
    let is_plain = !text.contains(['"', ',', '\n', '\r']) && text.trim() == text;
    if is_plain { text.to_owned() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::query::shown::sheet::Sheet;

    #[test]
    fn fields_are_what_they_were() {
        let sheet = Sheet {
            head: ["column", "mean", "count"].map(str::to_owned).to_vec(),
            rows: vec![
                vec![Cell::Text("a \"b\",\nc".to_owned()), Cell::Number(0.1 + 0.2), Cell::Count(1_000)],
                vec![Cell::Text("d".to_owned()), Cell::Number(f64::NAN), Cell::Count(0)],
            ],
            sentence: None,
        };
        let (table, notes) = of(&[Part::Line("3 rows".to_owned()), Part::Result(sheet)]);
        assert_eq!(table, "column,mean,count\n\"a \"\"b\"\",\nc\",0.30000000000000004,1000\nd,,0\n");
        assert_eq!(notes, ["3 rows"]);
    }
}
