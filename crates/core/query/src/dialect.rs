//! How a table is written: what stands between fields, before fractions, for missing values and before comments; or that rows are doubles.

use crate::number::long;
use crate::words::Words;

/// The text between two fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Separator {
    /// One byte.
    Byte(u8),
    /// Any number of blanks and tabs; those at the ends of a line separate nothing.
    Blanks,
    /// No byte: each field is a little-endian double, NaN where it is missing.
    Doubles,
}

/// How records are told apart, and what their fields are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// Between fields.
    pub separator: Separator,
    /// Before the fraction of a number.
    pub point: u8,
    /// A line that begins with it is no record.
    pub comment: Option<u8>,
    /// Words that stand for a missing value.
    pub missing: Words,
}

/// The value of a field in a column of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Field {
    /// Empty, blanks, or NaN.
    Missing,
    /// A word that stands for a missing value, by its place among them.
    Word(u8),
    /// A number; infinities are.
    Number(f64),
    /// Anything else.
    Text,
}

/// Bytes of a field that is a double.
pub const DOUBLE_BYTES: usize = 8;

/// Bytes of a number that the standard library is to parse, at most, if it has to be written with a point first.
const REWRITTEN_BYTES_MAX: usize = 64;

impl Default for Dialect {
    fn default() -> Self {
        Self { separator: Separator::Byte(b','), point: b'.', comment: None, missing: Words::default() }
    }
}

impl Separator {
    /// A separator that no number, quote or line end has.
    pub fn new(byte: u8) -> Option<Self> {
        let is_taken = byte.is_ascii_alphanumeric() || b"\"\r\n.+-\0".contains(&byte);
        (byte.is_ascii() && !is_taken).then_some(Self::Byte(byte))
    }

    /// Its name in answers and messages.
    pub fn name(self) -> String {
        match self {
            Self::Byte(b',') => "comma".to_owned(),
            Self::Byte(b'\t') => "tab".to_owned(),
            Self::Byte(b';') => "semicolon".to_owned(),
            Self::Byte(b'|') => "pipe".to_owned(),
            Self::Byte(b' ') => "blank".to_owned(),
            Self::Byte(byte) => format!("{:?}", char::from(byte)),
            Self::Blanks => "blanks".to_owned(),
            Self::Doubles => "none".to_owned(),
        }
    }
}

impl Dialect {
    /// Whether a number can be told from what stands around it, and a comment from a field.
    pub fn is_sound(&self) -> bool {
        let separator = match self.separator {
            Separator::Byte(byte) => Separator::new(byte).is_some() && byte != self.point,
            Separator::Blanks | Separator::Doubles => true,
        };
        let is_mark = |byte: u8| byte.is_ascii_punctuation() && !b"\"+-.,".contains(&byte);
        let comment = self.comment.is_none_or(|byte| is_mark(byte) && self.separator != Separator::Byte(byte));
        separator && comment && matches!(self.point, b'.' | b',')
    }

    /// The value of a field, without its quotes and the blanks around it.
    pub fn field(&self, text: &[u8]) -> Field {
        let text = bare(text);
        if text.is_empty() {
            return Field::Missing;
        }
        match self.number(text) {
            Some(number) => self.of_number(number),
            None => self.missing.find(text).map_or(Field::Text, Field::Word),
        }
    }

    /// The value of a field that is a number.
    #[inline]
    pub fn of_number(&self, number: f64) -> Field {
        if number.is_nan() {
            return Field::Missing;
        }
        self.missing.find_number(number).map_or(Field::Number(number), Field::Word)
    }

    fn number(&self, text: &[u8]) -> Option<f64> {
        if let Some((number, len)) = long(text, self.point).filter(|(_, len)| *len == text.len()) {
            debug_assert!(len == text.len());
            return Some(number);
        }
        let parse = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<f64>().ok();
        if self.point == b'.' && !text.iter().any(|byte| matches!(byte, b'd' | b'D')) {
            return parse(text);
        }
        self.rewritten(text).and_then(|(bytes, len)| parse(&bytes[..len]))
    }

    /// A number as the standard library takes it: with a point, and with E for the D of Fortran's doubles.
    fn rewritten(&self, text: &[u8]) -> Option<([u8; REWRITTEN_BYTES_MAX], usize)> {
        let mut bytes = [0; REWRITTEN_BYTES_MAX];
        let mut has_digit = false;
        for (to, byte) in bytes.get_mut(..text.len())?.iter_mut().zip(text) {
            *to = match byte {
                b'.' if self.point != b'.' => return None,
                byte if *byte == self.point => b'.',
                b'd' | b'D' if has_digit => b'e',
                byte => *byte,
            };
            has_digit |= byte.is_ascii_digit();
        }
        Some((bytes, text.len()))
    }
}

/// The text between a field's quotes and blanks.
pub fn bare(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii();
    match text {
        [b'"', inner @ .., b'"'] => inner.trim_ascii(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_every_kind() {
        let dialect = Dialect::default();
        let field = |text: &str| dialect.field(text.as_bytes());
        for text in ["", "  ", "\"\"", "nan", "NaN", " -nan "] {
            assert_eq!(field(text), Field::Missing, "{text:?}");
        }
        for text in ["NA", " N/A", "\"--\"", ".", "?"] {
            assert!(matches!(field(text), Field::Word(_)), "{text:?}");
        }
        for text in ["x", "1,2", "0x10", "1e", "--1", "1 2", "\"1", "1\"\"2", "\u{b2}", "d5", "Dec", "<=5", "5%"] {
            assert_eq!(field(text), Field::Text, "{text:?}");
        }
        for (text, number) in [
            ("1", 1.0),
            (" -2.5\t", -2.5),
            ("\" 3 \"", 3.0),
            ("+4e2", 400.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("inf", f64::INFINITY),
            ("1.5D+02", 150.0),
            ("-0.25d0", -0.25),
            ("123456789012345678901234567890", 1.2345678901234568e29),
        ] {
            assert_eq!(field(text), Field::Number(number), "{text:?}");
        }
    }

    #[test]
    fn a_comma_may_stand_before_fractions() {
        let dialect = Dialect { separator: Separator::Byte(b';'), point: b',', ..Dialect::default() };
        let field = |text: &str| dialect.field(text.as_bytes());
        for (text, number) in
            [("1,5", 1.5), ("+1,5", 1.5), ("-1,25e2", -125.0), ("7", 7.0), (",5", 0.5), ("1,5D1", 15.0)]
        {
            assert_eq!(field(text), Field::Number(number), "{text:?}");
        }
        for text in ["1.5", "1.000,5", "1,5,5"] {
            assert_eq!(field(text), Field::Text, "{text:?}");
        }
    }

    #[test]
    fn dialects_whose_parts_cannot_be_told_apart_are_not_sound() {
        let sound = |dialect: Dialect| dialect.is_sound();
        let usual = Dialect::default;
        assert!(sound(usual()) && sound(Dialect { comment: Some(b'#'), ..usual() }));
        assert!(!sound(Dialect { point: b',', ..usual() }), "between fields, too");
        assert!(!sound(Dialect { point: b'x', ..usual() }));
        assert!(!sound(Dialect { separator: Separator::Byte(b'#'), comment: Some(b'#'), ..usual() }));
        assert!(
            !sound(Dialect { comment: Some(b'1'), ..usual() }) && !sound(Dialect { comment: Some(b'-'), ..usual() })
        );
        assert!(!sound(Dialect { separator: Separator::Byte(b'"'), ..usual() }));
    }
}
