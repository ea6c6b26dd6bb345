//! A column's numbers of plain rows, whose fields are known to end where they do.

use std::ops::Range;

use crate::dialect::{Dialect, Separator};
use crate::field_ends::Run;
use crate::known_end::{Parser, TAIL_BYTES};

/// A field of a run that takes a closer look.
pub struct OddField {
    /// Its row, from 0 on.
    pub row: usize,
    /// Its column, by the place in the batch.
    pub column: usize,
    /// Where it is.
    pub span: Range<usize>,
}

/// Sets the fields of a column, which is the batch's `column`; those that are no plain numbers are left to `odd`. The run begins
/// `TAIL_BYTES` behind the begin of the bytes, at least.
pub fn numbers(
    bytes: &[u8],
    run: Run<'_>,
    field: usize,
    dialect: &Dialect,
    column: (usize, &mut [f64]),
    odd: &mut Vec<OddField>,
) {
    match (run.shape.separator == Separator::Blanks, field + 1 == run.shape.fields) {
        (false, false) => of::<false, false>(bytes, run, field, dialect, column, odd),
        (false, true) => of::<false, true>(bytes, run, field, dialect, column, odd),
        (true, false) => of::<true, false>(bytes, run, field, dialect, column, odd),
        (true, true) => of::<true, true>(bytes, run, field, dialect, column, odd),
    }
}

/// Apart, so that what it repeats stays in registers.
#[inline(never)]
fn of<const BLANKS: bool, const LAST: bool>(
    bytes: &[u8],
    run: Run<'_>,
    field: usize,
    dialect: &Dialect,
    (column, out): (usize, &mut [f64]),
    odd: &mut Vec<OddField>,
) {
    let mut parser = Parser::new(dialect.point);
    let has_words = dialect.missing.has_numbers();
    let mut at = field;
    for (row, out) in out.iter_mut().enumerate() {
        let Some(span) = run.span(bytes, at, BLANKS, LAST) else { return };
        at += run.shape.fields;
        let Some(tail) = bytes.get(span.end - TAIL_BYTES..).and_then(|tail| tail.first_chunk()) else { return };
        match parser.number(tail, span.len()) {
            Some(number) if !has_words || dialect.missing.find_number(number).is_none() => *out = number,
            _ => odd.push(OddField { row, column, span }),
        }
    }
}
