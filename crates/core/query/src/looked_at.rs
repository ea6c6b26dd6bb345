//! Fields of a row that are looked at before it is parsed: those that decide whether it counts, and to which group it belongs.

use std::io::Write;
use std::ops::Range;

use crate::dialect::{DOUBLE_BYTES, Dialect, Separator};
use crate::limits::FIELDS_MAX;
use crate::skip;

/// Some fields of one row after the other.
pub struct LookedAt {
    /// Their columns, in order.
    columns: Vec<usize>,
    /// Where they stand.
    spans: Vec<Range<usize>>,
    /// Fields of a row.
    fields: usize,
    /// Those of a row of doubles, as text.
    texts: Vec<u8>,
}

impl LookedAt {
    /// Those of these columns, of rows with so many fields.
    pub fn of(mut columns: Vec<usize>, fields: usize) -> Self {
        columns.sort_unstable();
        columns.dedup();
        let spans = vec![0..0; columns.len()];
        Self { columns, spans, fields, texts: vec![] }
    }

    /// Finds them in the row at `at`; false if it is none, or one whose fields are not as many as they should be.
    pub fn find(&mut self, bytes: &[u8], at: usize, dialect: &Dialect) -> bool {
        if dialect.separator == Separator::Doubles {
            return self.doubles(&bytes[at..]).is_some();
        }
        self.fast(bytes, at, dialect).is_some() || self.slow(bytes, at, dialect)
    }

    /// The field of a column, of the row that was found last in these bytes.
    pub fn field<'a>(&'a self, bytes: &'a [u8], column: usize) -> &'a [u8] {
        let place = self.columns.binary_search(&column);
        let texts = if self.texts.is_empty() { bytes } else { &self.texts };
        place.map_or(&[], |place| &texts[self.spans[place].clone()])
    }

    /// The fields of a row of doubles, as a user would write them.
    fn doubles(&mut self, row: &[u8]) -> Option<()> {
        self.texts.clear();
        // A buffer with nothing in it is that of a table of text.
        self.texts.push(b' ');
        for (column, span) in self.columns.iter().zip(&mut self.spans) {
            let from = self.texts.len();
            let double = row.get(column * DOUBLE_BYTES..)?.first_chunk()?;
            let double = f64::from_le_bytes(*double);
            if !double.is_nan() {
                // Writing into a vector cannot fail.
                let _ = write!(self.texts, "{double}");
            }
            *span = from..self.texts.len();
        }
        Some(())
    }

    fn fast(&mut self, bytes: &[u8], mut at: usize, dialect: &Dialect) -> Option<()> {
        let Separator::Byte(delimiter) = dialect.separator else { return None };
        let begin = *bytes.get(at)?;
        if matches!(begin, b'\n' | b'\r') || Some(begin) == dialect.comment {
            return None;
        }
        let mut passed = 0;
        for (column, span) in self.columns.iter().zip(&mut self.spans) {
            if *column > passed {
                at = skip::fields(bytes, at, column - passed, delimiter)?;
            }
            let is_last = column + 1 == self.fields;
            let next =
                if is_last { skip::last_field(bytes, at, delimiter)? } else { skip::fields(bytes, at, 1, delimiter)? };
            *span = at..next - 1;
            (at, passed) = (next, column + 1);
        }
        Some(())
    }

    fn slow(&mut self, bytes: &[u8], at: usize, dialect: &Dialect) -> bool {
        let row = &bytes[at..];
        let record = dialect.record(row, FIELDS_MAX);
        if record.is_none() || record.fields.len() != self.fields || record.misplaced_quote.is_some() {
            return false;
        }
        for (column, span) in self.columns.iter().zip(&mut self.spans) {
            let field = record.fields[*column];
            // Fields are parts of the row.
            let from = at + (field.as_ptr().addr() - row.as_ptr().addr());
            *span = from..from + field.len();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_whatever_stands_around_them() {
        let mut looked = LookedAt::of(vec![2, 0], 3);
        let mut found = |text: &str| {
            let bytes = text.as_bytes();
            let is_found = looked.find(bytes, 0, &Dialect::default());
            is_found.then(|| [0, 2].map(|column| String::from_utf8_lossy(looked.field(bytes, column)).into_owned()))
        };
        let both = |left: &str, right: &str| Some([left.to_owned(), right.to_owned()]);
        assert_eq!(found("a,b,c\nnext,row,here\n"), both("a", "c"));
        assert_eq!(found("\"a,\"\"b\",b,last one\n"), both("\"a,\"\"b\"", "last one"));
        assert_eq!(found("a,\"two\nlines\",c"), both("a", "c"));
        assert_eq!([found("a,b\n"), found("a,b,c,d\n"), found("\n"), found("")], [None, None, None, None]);
        let mut one = LookedAt::of(vec![0], 1);
        assert!(one.find(b"x\n", 0, &Dialect::default()) && !one.find(b"\n", 0, &Dialect::default()));
        let blanks = Dialect { separator: Separator::Blanks, ..Dialect::default() };
        let text = b"  a   b c\n";
        let mut looked = LookedAt::of(vec![1], 3);
        assert!(looked.find(text, 0, &blanks));
        assert_eq!(looked.field(text, 1), b"b");
    }
}
