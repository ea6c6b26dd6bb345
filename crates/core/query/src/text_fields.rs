//! Fields of a column of numbers that are no numbers: words that stand for missing values, and other text.
//!
//! A query of all columns cannot know from a file's beginning whether a column has text further on. Such a field counts as
//! missing, and is noted here: whoever asked learns of the words, and leaves a column with other text out.

use serde::{Deserialize, Serialize};

use crate::limits::FAULT_TEXT_BYTES_MAX;

/// Of one column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextFields {
    /// Fields that stand for a missing value by a word.
    pub words: u64,
    /// The words that occurred: a bit for each, in their order.
    pub words_seen: u64,
    /// Fields with other text.
    pub texts: u64,
    /// The first of those.
    pub first: Option<FirstText>,
}

/// The first field with text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstText {
    /// Newlines before its row, from where its state begins.
    pub lines_before: u64,
    /// The beginning of it.
    pub text: String,
}

impl TextFields {
    /// Notes a word, by its place in the dialect.
    pub fn add_word(&mut self, word: u8) {
        self.words += 1;
        self.words_seen |= 1 << (word % u64::BITS as u8);
    }

    /// Notes a text, in a row behind so many newlines.
    pub fn add_text(&mut self, lines_before: u64, text: String) {
        self.texts += 1;
        self.first.get_or_insert(FirstText { lines_before, text });
    }

    /// This and what comes behind so many newlines.
    pub fn merge(&mut self, after: &Self, lines: u64) {
        self.words += after.words;
        self.words_seen |= after.words_seen;
        self.texts += after.texts;
        if self.first.is_none() {
            let moved = |first: &FirstText| FirstText { lines_before: first.lines_before + lines, ..first.clone() };
            self.first = after.first.as_ref().map(moved);
        }
    }

    /// Whether it can be of so many missing fields and newlines; what travelled may not.
    pub fn is_of(&self, missing: u64, lines: u64) -> bool {
        let is_short =
            |first: &FirstText| first.text.len() <= FAULT_TEXT_BYTES_MAX * char::REPLACEMENT_CHARACTER.len_utf8();
        self.words.checked_add(self.texts).is_some_and(|all| all <= missing)
            && self.first.is_some() == (self.texts > 0)
            && self.first.as_ref().is_none_or(|first| first.lines_before <= lines && is_short(first))
    }
}
