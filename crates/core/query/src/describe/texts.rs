//! A column of text: its extremes, its most frequent texts, and whether they are dates.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::describe::dates::is_date;
use crate::describe::frequent::{Counted, Frequent, TextCounter, shown_beginning};
use crate::describe::values::Distinct;
use crate::dialect::{Dialect, bare};
use crate::limits::TEXT_SHOWN_BYTES_MAX;
use crate::text_fields::TextFields;

/// The fields of a column of text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TextColumn {
    count: u64,
    missing: u64,
    /// Of the missing ones, those that are words.
    words: TextFields,
    dates: u64,
    /// The beginnings of the least and the greatest, by their bytes.
    extremes: Option<(Vec<u8>, Vec<u8>)>,
    frequent: Frequent,
}

impl TextColumn {
    /// This and what comes behind so many newlines.
    pub(crate) fn merge(&mut self, after: &Self, lines: u64) {
        self.count += after.count;
        self.missing += after.missing;
        self.words.merge(&after.words, lines);
        self.dates += after.dates;
        if let Some((least, greatest)) = &after.extremes {
            self.reach(least, greatest);
        }
        self.frequent.merge(&after.frequent);
    }

    fn reach(&mut self, least: &[u8], greatest: &[u8]) {
        let (least_so_far, greatest_so_far) =
            self.extremes.get_or_insert_with(|| (beginning(least), beginning(greatest)));
        if beginning(least) < *least_so_far {
            *least_so_far = beginning(least);
        }
        if beginning(greatest) > *greatest_so_far {
            *greatest_so_far = beginning(greatest);
        }
    }

    /// Whether it can be of so many rows and newlines; what travelled may not.
    pub(crate) fn is_of(&self, rows: u64, lines: u64) -> bool {
        let is_short = |(least, greatest): &(Vec<u8>, Vec<u8>)| least.len().max(greatest.len()) <= KEPT_BYTES;
        self.count.checked_add(self.missing) == Some(rows)
            && self.words.is_of(self.missing, lines)
            && self.dates <= self.count
            && self.extremes.is_some() == (self.count > 0)
            && self.extremes.as_ref().is_none_or(is_short)
            && self.frequent.are_of(self.count)
    }

    /// Texts.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Fields that are empty, or a word that stands for a missing value.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Of those, the words.
    pub fn words(&self) -> &TextFields {
        &self.words
    }

    /// Whether all texts are dates.
    pub fn are_dates(&self) -> bool {
        self.count > 0 && self.dates == self.count
    }

    /// The beginnings of the least and the greatest text, by their bytes, as `shown_beginning` has them.
    pub fn extremes(&self) -> Option<(String, String)> {
        self.extremes.as_ref().map(|(least, greatest)| (shown_beginning(least), shown_beginning(greatest)))
    }

    /// How many different texts there are.
    pub fn distinct(&self) -> Distinct {
        self.frequent.distinct(self.count)
    }

    /// The most frequent texts.
    pub fn most_frequent(&self, count: usize) -> Vec<Counted> {
        self.frequent.most(count)
    }

    /// How much too small their counts may be.
    pub fn taken_off(&self) -> u64 {
        self.frequent.taken_off()
    }
}

/// Bytes of a text that are kept: by the last one it is seen to go on.
const KEPT_BYTES: usize = TEXT_SHOWN_BYTES_MAX + 1;

/// As much of a text as is kept.
fn beginning(text: &[u8]) -> Vec<u8> {
    text[..text.len().min(KEPT_BYTES)].to_vec()
}

/// Counts the texts of one block.
#[derive(Default)]
pub(crate) struct TextColumnCounter {
    column: TextColumn,
    least: Option<Vec<u8>>,
    greatest: Vec<u8>,
    texts: TextCounter,
}

impl TextColumnCounter {
    /// Adds a field as it stands.
    pub fn add(&mut self, field: &[u8], dialect: &Dialect) {
        let inner = bare(field);
        if inner.is_empty() {
            self.column.missing += 1;
            return;
        }
        if let Some(word) = dialect.missing.find(inner) {
            self.column.missing += 1;
            self.column.words.add_word(word);
            return;
        }
        let text = text_of(field);
        self.column.count += 1;
        self.column.dates += u64::from(is_date(&text));
        match &mut self.least {
            None => (self.least, self.greatest) = (Some(text.to_vec()), text.to_vec()),
            Some(least) if *text < **least => *least = text.to_vec(),
            Some(_) if *text > *self.greatest => self.greatest = text.to_vec(),
            Some(_) => {}
        }
        self.texts.add(&text);
    }

    /// The column since this was asked last.
    pub fn take(&mut self) -> TextColumn {
        let mut column = std::mem::take(&mut self.column);
        column.extremes = self.least.take().map(|least| (beginning(&least), beginning(&self.greatest)));
        column.frequent = self.texts.take();
        column
    }
}

/// The text of a field: what stands between its quotes, in which two quotes are one.
pub(crate) fn text_of(field: &[u8]) -> Cow<'_, [u8]> {
    let inner = bare(field);
    if field.trim_ascii().first() != Some(&b'"') || !inner.contains(&b'"') {
        return Cow::Borrowed(inner);
    }
    let mut text = Vec::with_capacity(inner.len());
    let mut is_second = false;
    for byte in inner {
        is_second = *byte == b'"' && !is_second;
        if !is_second {
            text.push(*byte);
        }
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(fields: &[&str]) -> TextColumn {
        let mut counter = TextColumnCounter::default();
        fields.iter().for_each(|field| counter.add(field.as_bytes(), &Dialect::default()));
        counter.take()
    }

    #[test]
    fn a_field_is_its_text() {
        let column = of(&["b", " b ", "\"b\"", "\"a \"\"c\"\"\"", "", "NA", "\"\"", "z"]);
        assert_eq!((column.count(), column.missing(), column.words().words), (5, 3, 1));
        assert_eq!(column.extremes(), Some(("a \"c\"".to_owned(), "z".to_owned())));
        assert_eq!((column.distinct(), column.most_frequent(1)[0].count), (Distinct::Exactly(3), 3));
        assert!(column.is_of(8, 8) && !column.is_of(7, 8) && !column.are_dates());
    }

    #[test]
    fn a_text_that_goes_on_is_shown_so() {
        let exact = "m".repeat(TEXT_SHOWN_BYTES_MAX);
        let letters = format!("x{}", "\u{e9}".repeat(TEXT_SHOWN_BYTES_MAX / 2));
        let column = of(&[&exact, &format!("{exact}a"), &letters]);
        let cut = format!("{}...", &letters[..TEXT_SHOWN_BYTES_MAX - 1]);
        assert_eq!(column.extremes(), Some((exact.clone(), cut.clone())));
        let mut shown: Vec<String> = column.most_frequent(3).into_iter().map(|counted| counted.text).collect();
        shown.sort();
        assert_eq!(shown, [exact.clone(), format!("{exact}..."), cut]);
    }

    #[test]
    fn dates_are_dates_only_if_all_are() {
        assert!(of(&["2026-11-29", "", "2026-01-01T10:00:00Z"]).are_dates());
        assert!(!of(&["2026-11-29", "soon"]).are_dates() && !of(&[""]).are_dates());
    }

    #[test]
    fn merged_columns_are_one() {
        let all = ["m", "x", "NA", "b", "", "y", "m"];
        let mut merged = of(&all[..3]);
        merged.merge(&of(&all[3..5]), 3);
        merged.merge(&of(&all[5..]), 2);
        assert_eq!(merged, of(&all));
        let mut none = TextColumn::default();
        none.merge(&of(&all), 0);
        assert_eq!(none, of(&all));
    }
}
