//! The separator of a table and the point of its numbers, by its first records.
//!
//! A separator is one that gives nearly all records the same number of fields, more than one. If several do, it is one that
//! gives the first record as many; then the one that leaves the most fields numbers, and then the first in the order in which people
//! use them. Blanks are in most texts:
//! they count beside another one only if all fields between them are numbers.

use crate::dialect::{Dialect, Field, Separator};
use crate::limits::FIELDS_MAX;
use crate::record::Record;

/// Records that are looked at.
pub const RECORDS_MAX: usize = 100;

/// As people use them, the most common first. `Blanks` is last: words of text are separated so, too.
const CANDIDATES: [Separator; 5] =
    [Separator::Byte(b','), Separator::Byte(b'\t'), Separator::Byte(b';'), Separator::Byte(b'|'), Separator::Blanks];

/// The share of records that must have as many fields as most have.
const REGULAR_SHARE: f64 = 0.8;

/// The first records of a text and where each ends, those that are neither empty nor comments. The last is left out if the text
/// goes on behind it.
pub fn records<'a>(text: &'a [u8], is_end: bool, dialect: &Dialect) -> Vec<(Record<'a>, usize)> {
    let (mut found, mut at) = (vec![], 0);
    while at < text.len() && found.len() < RECORDS_MAX {
        let record = dialect.record(&text[at..], FIELDS_MAX);
        if !record.is_ended && !is_end {
            break;
        }
        at += record.len;
        if !record.is_none() {
            found.push((record, at));
        }
    }
    found
}

/// As many fields as most records have, the later ones counting where it is even; and the share of those that have as many, from
/// the first of them on.
pub fn usual_width(records: &[(Record<'_>, usize)]) -> (usize, f64) {
    let width = |record: &(Record<'_>, usize)| record.0.fields.len();
    let count = |wanted: usize| records.iter().filter(|record| width(record) == wanted).count();
    let Some(usual) = records.iter().map(width).max_by_key(|width| count(*width)) else { return (0, 0.0) };
    let from = records.iter().position(|record| width(record) == usual).unwrap_or(0);
    (usual, count(usual) as f64 / (records.len() - from) as f64)
}

/// The evidence for a separator.
#[derive(Clone, Copy)]
struct Score {
    /// The first record has as many fields as most.
    is_first_alike: bool,
    /// The share of fields that are numbers.
    numbers: f64,
    /// All records have as many fields as the first, which has no number.
    has_as_many_names: bool,
}

/// The separator of a text, if it was not given.
pub fn separator(text: &[u8], is_end: bool, like: &Dialect) -> Separator {
    let scored = CANDIDATES.into_iter().filter_map(|separator| {
        let point = if separator == Separator::Byte(b',') { b'.' } else { like.point };
        let dialect = Dialect { separator, point, ..like.clone() };
        let found = records(text, is_end, &dialect);
        let (width, share) = usual_width(&found);
        // The first may have names.
        let numbers = numbers(&found[usize::from(found.len() > 1)..], &dialect);
        let is_regular = width > 1 && share >= REGULAR_SHARE && (separator != Separator::Blanks || numbers > 0.0);
        let is_first_alike = found.first().is_some_and(|(record, _)| record.fields.len() == width);
        let has_names = found.first().is_some_and(|first| self::numbers(std::slice::from_ref(first), &dialect) == 0.0);
        let score = Score { is_first_alike, numbers, has_as_many_names: is_first_alike && share == 1.0 && has_names };
        is_regular.then_some((separator, score))
    });
    // The first of several that are as good.
    let is_better = |(separator, score): (Separator, Score), best: Score| match separator {
        Separator::Blanks => score.numbers == 1.0 && score.numbers > best.numbers && !best.has_as_many_names,
        Separator::Byte(_) | Separator::Json => {
            (score.is_first_alike, score.numbers) > (best.is_first_alike, best.numbers)
        }
        // No text is.
        Separator::Doubles => false,
    };
    let best = scored.reduce(|best, next| if is_better(next, best.1) { next } else { best });
    best.map_or(Separator::Byte(b','), |(separator, _)| separator)
}

/// Which share of all fields are numbers, with a point or, where it may be, a comma before fractions.
fn numbers(records: &[(Record<'_>, usize)], dialect: &Dialect) -> f64 {
    let comma = Dialect { point: b',', ..dialect.clone() };
    let may_be_comma = dialect.separator != Separator::Byte(b',');
    let is_number = |text: &&&[u8]| {
        let is_one = |dialect: &Dialect| matches!(dialect.field(text), Field::Number(_));
        is_one(dialect) || may_be_comma && is_one(&comma)
    };
    let fields = || records.iter().flat_map(|(record, _)| &record.fields);
    fields().filter(is_number).count() as f64 / fields().count().max(1) as f64
}

/// The byte before fractions, if it was not given: a comma if some fields are numbers with one, and none is one with a point.
pub fn point(records: &[(Record<'_>, usize)], dialect: &Dialect) -> u8 {
    if dialect.separator == Separator::Byte(b',') {
        return b'.';
    }
    let [with_point, with_comma] = [b'.', b','].map(|point| {
        let dialect = Dialect { point, ..dialect.clone() };
        let is_fraction = |text: &&&[u8]| text.contains(&point) && matches!(dialect.field(text), Field::Number(_));
        records.iter().flat_map(|(record, _)| &record.fields).filter(is_fraction).count()
    });
    if with_comma > 0 && with_point == 0 { b',' } else { b'.' }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> (Separator, u8) {
        let usual = Dialect::default();
        let dialect = Dialect { separator: separator(text.as_bytes(), true, &usual), ..usual };
        (dialect.separator, point(&records(text.as_bytes(), true, &dialect), &dialect))
    }

    #[test]
    fn separators_are_told_by_regular_records() {
        let byte = Separator::Byte;
        for (text, separator, point) in [
            ("a,b\n1,2\n3,4\n", byte(b','), b'.'),
            ("a\tb\n1\t2\n", byte(b'\t'), b'.'),
            ("a;b\n1,5;2\n3;4,5\n", byte(b';'), b','),
            ("1,5;2,5\n3,5;4,5\n", byte(b';'), b','),
            ("1,5\t2,5\n3,5\t4,5\n", byte(b'\t'), b','),
            ("1.5;2,5\n3;4\n", byte(b';'), b'.'),
            ("a;b\n1,5;x\n2,5;y\n", byte(b';'), b','),
            ("a;b;c\n1,5;x;y\n2,5;y;z\n", byte(b';'), b','),
            ("a|b\n1|2\n", byte(b'|'), b'.'),
            ("  1  2.5\n 10 12.5\n", Separator::Blanks, b'.'),
            ("x y\n1 2\n", Separator::Blanks, b'.'),
            ("when,what\n2020-01-01 10:00:00,5\n2020-01-01 11:00:00,6\n", byte(b','), b'.'),
            ("name,size\nNew York,5\nSan Juan,6\n", byte(b','), b'.'),
            ("a,b,c\nx y,2,1 May 2020\nz w,3,2 May 2020\n", byte(b','), b'.'),
            ("a b\n1,5 2,5\n3,5 4,5\n", Separator::Blanks, b','),
            ("a;b\n\"1;2\";3\n\"4;5\";6\n", byte(b';'), b'.'),
            ("1\n2\n3\n", byte(b','), b'.'),
            ("two words\nmore words\n", byte(b','), b'.'),
            ("", byte(b','), b'.'),
            ("a title\n\na,b,c\n1,2,3\n4,5,6\n", byte(b','), b'.'),
            ("price,qty\n1 000,2\n2 000,3\n", byte(b','), b'.'),
            ("a\tb\n1 000\t2\n2 000\t3\n", byte(b'\t'), b'.'),
            ("pt,v\n10 20,7\n30 40,8\n", byte(b','), b'.'),
            ("1,5 2,5\n3,5 4,5\n", Separator::Blanks, b','),
        ] {
            assert_eq!(found(text), (separator, point), "{text:?}");
        }
    }
}
