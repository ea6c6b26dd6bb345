//! Text that stands for a missing value in a column of numbers.
//!
//! Programs and people write it in many ways, and none of them is a number. It counts as missing, and an answer says how
//! often that was so, and for which words.

use crate::limits::{WORD_BYTES_MAX, WORDS_MAX};

/// Words that count unless a user gives others: those that R, pandas, spreadsheets, databases and statistics
/// programs write, and what people type. `nan` in any case is a number that is none, and needs no word.
const USUAL: [&str; 48] = [
    "NA",
    "N/A",
    "n/a",
    "na",
    "#N/A",
    "#NA",
    "<NA>",
    "#N/A N/A",
    "N.A.",
    "n.a.",
    "NULL",
    "null",
    "Null",
    "(null)",
    "\\N",
    "None",
    "none",
    "nil",
    "NaT",
    "-",
    "--",
    "---",
    ".",
    "..",
    "...",
    "?",
    "*",
    "missing",
    "Missing",
    "MISSING",
    "unknown",
    "Unknown",
    "UNKNOWN",
    "undefined",
    "1.#IND",
    "-1.#IND",
    "1.#QNAN",
    "-1.#QNAN",
    "#VALUE!",
    "#DIV/0!",
    "#REF!",
    "#NUM!",
    "#NAME?",
    "N/D",
    "n/d",
    "nd",
    "ND",
    "\u{2013}",
];

/// Words that stand for a missing value.
#[derive(Clone, Debug, PartialEq)]
pub struct Words {
    words: Vec<Vec<u8>>,
    /// Those that are numbers, such as -999, by their values and places: a number stands for them however it is written.
    numbers: Vec<(f64, u8)>,
}

impl Eq for Words {}

/// There are too many words, or one is too long or empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordsError {
    /// Too many.
    #[error("{0} words stand for a missing value: {WORDS_MAX} is the most")]
    TooMany(usize),
    /// One that no field is compared with.
    #[error("{0:?} cannot stand for a missing value: a word has 1 to {WORD_BYTES_MAX} bytes, and no blanks around it")]
    Unfit(String),
}

impl Default for Words {
    fn default() -> Self {
        Self { words: USUAL.iter().map(|word| word.as_bytes().to_vec()).collect(), numbers: vec![] }
    }
}

impl Words {
    /// These alone.
    ///
    /// # Errors
    /// There are too many, or one cannot be the text of a field.
    pub fn new(words: &[String]) -> Result<Self, WordsError> {
        if words.len() > WORDS_MAX {
            return Err(WordsError::TooMany(words.len()));
        }
        let is_fit =
            |word: &String| (1..=WORD_BYTES_MAX).contains(&word.len()) && word.trim_ascii().len() == word.len();
        match words.iter().find(|word| !is_fit(word)) {
            Some(word) => Err(WordsError::Unfit(word.clone())),
            None => Ok(Self::of(words)),
        }
    }

    fn of(words: &[String]) -> Self {
        let number = |(place, word): (usize, &String)| {
            let number = word.parse::<f64>().or_else(|_| word.replace(',', ".").parse()).ok()?;
            (!number.is_nan()).then_some((number, place as u8))
        };
        let numbers = words.iter().enumerate().filter_map(number).collect();
        Self { words: words.iter().map(|word| word.as_bytes().to_vec()).collect(), numbers }
    }

    /// Which of them a number is.
    #[inline]
    pub fn find_number(&self, number: f64) -> Option<u8> {
        self.numbers.iter().find(|(word, _)| *word == number).map(|(_, place)| *place)
    }

    /// Whether a number may be one of them.
    pub fn has_numbers(&self) -> bool {
        !self.numbers.is_empty()
    }

    /// Which of them the text is.
    pub fn find(&self, text: &[u8]) -> Option<u8> {
        self.words.iter().position(|word| word == text).map(|index| index as u8)
    }

    /// As people write them.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.words.iter().filter_map(|word| std::str::from_utf8(word).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_as_it_stands() {
        let usual = Words::default();
        assert!(usual.find(b"NA").is_some() && usual.find(b"N/A").is_some() && usual.find(b"-").is_some());
        assert!(usual.find(b"Na").is_none() && usual.find(b"").is_none() && usual.find(b"x").is_none());
        assert_eq!(Words::new(&["x y".to_owned()]).unwrap().find(b"x y"), Some(0));
        let numbers = Words::new(&["x".to_owned(), "-999".to_owned(), "1,5".to_owned()]).unwrap();
        assert_eq!([-999.0, 1.5, 0.0].map(|number| numbers.find_number(number)), [Some(1), Some(2), None]);
        assert_eq!(usual.find_number(0.0), None);
        for unfit in ["", " x", "x ", &"x".repeat(WORD_BYTES_MAX + 1)] {
            assert_eq!(Words::new(&[unfit.to_owned()]), Err(WordsError::Unfit(unfit.to_owned())));
        }
        assert_eq!(Words::new(&vec!["x".to_owned(); 65]), Err(WordsError::TooMany(65)));
    }
}
