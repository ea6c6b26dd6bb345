//! Where quoted fields of CSV begin and end, as the engine's reader opens and closes them: they open where a field begins.

use datafusion::datasource::physical_plan::CsvSource;
use memchr::{memchr, memchr2, memchr3};

/// The bytes of a file that are read.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// The first.
    pub from: u64,
    /// A line begins there.
    pub begins_line: bool,
}

impl Extent {
    /// All bytes of a file.
    pub const WHOLE: Self = Self { from: 0, begins_line: true };
}

/// Before text in UTF-8, of some programs.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The signs of CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoting {
    /// Between fields.
    pub delimiter: u8,
    /// Around fields.
    pub quote: u8,
    /// Before a quote within a quoted field, if not another.
    pub escape: Option<u8>,
    /// Before a line that is none.
    pub comment: Option<u8>,
    /// Whether a quoted field may have newlines.
    pub has_newlines: bool,
}

impl Quoting {
    /// Those that a reader knows.
    pub fn of(csv: &CsvSource) -> Self {
        Self {
            delimiter: csv.delimiter(),
            quote: csv.quote(),
            escape: csv.escape(),
            comment: csv.comment(),
            has_newlines: csv.newlines_in_values(),
        }
    }
}

/// Where a reader of CSV stands, as far as quotes matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In no quotes.
    Bare,
    /// In a line that is none.
    Comment,
    /// In those that opened at this byte.
    Quoted(u64),
    /// The same, behind the sign that takes a byte its meaning.
    Escaped(u64),
    /// Behind a quote that closes, or begins a pair, those that opened there.
    Closed(u64),
    /// At the end of a line in which those that opened there should close.
    Cut(u64),
}

/// Follows quotes, and finds those that are never closed.
pub struct Quotes {
    quoting: Quoting,
    /// The place in the file of the next byte.
    at: u64,
    /// The byte before it; none at the beginning of the file.
    before: Option<u8>,
    /// The first line that is whole has begun.
    is_begun: bool,
    state: State,
}

impl Quotes {
    /// In these bytes of a file, from the first line on that is whole; it is a record.
    pub fn new(quoting: Quoting, extent: Extent) -> Self {
        let before = (extent.from > 0).then_some(b'\n');
        Self { quoting, at: extent.from, before, is_begun: extent.begins_line, state: State::Bare }
    }

    /// From a record on.
    pub fn from_record(quoting: Quoting, from: u64) -> Self {
        Self::new(quoting, Extent { from, begins_line: true })
    }

    /// Whether the last byte has ended a record.
    pub fn is_between_records(&self) -> bool {
        self.state == State::Bare && matches!(self.before, None | Some(b'\n'))
    }

    /// Goes over bytes.
    pub fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let taken = self.step(bytes);
            bytes = self.advance(bytes, taken);
        }
    }

    /// The bytes behind those that were taken.
    fn advance<'a>(&mut self, bytes: &'a [u8], taken: usize) -> &'a [u8] {
        let (taken, rest) = bytes.split_at(taken);
        // The mark is no text: a field may begin behind it.
        if self.at > 0 || taken != BYTE_ORDER_MARK {
            self.before = taken.last().copied().or(self.before);
        }
        self.at += taken.len() as u64;
        rest
    }

    /// The bytes from the first line on that is whole.
    fn begun<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        if self.is_begun {
            return bytes;
        }
        let newline = memchr(b'\n', bytes);
        let passed = newline.map_or(bytes.len(), |at| at + 1);
        self.is_begun = newline.is_some();
        self.at += passed as u64;
        &bytes[passed..]
    }

    /// Takes bytes up to the next that matters, at least one; how many.
    fn step(&mut self, bytes: &[u8]) -> usize {
        if self.at == 0 && bytes.starts_with(BYTE_ORDER_MARK) {
            return BYTE_ORDER_MARK.len();
        }
        let Quoting { delimiter, quote, escape, comment, has_newlines } = self.quoting;
        let first = bytes[0];
        let begins_line = matches!(self.before, None | Some(b'\n' | b'\r'));
        let found = |at: Option<usize>| at.map_or(bytes.len(), |at| at);
        match self.state {
            State::Comment => {
                let end = found(memchr(b'\n', bytes));
                if end < bytes.len() {
                    self.state = State::Bare;
                }
                return (end + 1).min(bytes.len());
            }
            State::Bare if begins_line && Some(first) == comment => self.state = State::Comment,
            State::Bare if first == quote && (begins_line || self.before == Some(delimiter)) => {
                self.state = State::Quoted(self.at);
            }
            // Where lines may be comments, each is begun.
            State::Bare if comment.is_some() && matches!(first, b'\n' | b'\r') => {}
            State::Bare if comment.is_some() => {
                return found(memchr2(quote, b'\n', &bytes[1..]).map(|at| at + 1)).max(1);
            }
            State::Bare => return found(memchr(quote, &bytes[1..]).map(|at| at + 1)),
            State::Quoted(from) if first == quote => self.state = State::Closed(from),
            State::Quoted(from) if Some(first) == escape => self.state = State::Escaped(from),
            State::Quoted(from) if first == b'\n' && !has_newlines => self.state = State::Cut(from),
            State::Quoted(_) if has_newlines => return found(memchr2(quote, escape.unwrap_or(quote), bytes)),
            State::Quoted(_) => return found(memchr3(quote, escape.unwrap_or(quote), b'\n', bytes)),
            State::Escaped(from) => self.state = State::Quoted(from),
            State::Closed(from) if first == quote => self.state = State::Quoted(from),
            State::Closed(_) => {
                self.state = State::Bare;
                return 0;
            }
            State::Cut(_) => {}
        }
        1
    }

    /// The next bytes; else what is wrong.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut bytes = self.begun(bytes);
        while !bytes.is_empty() {
            let taken = self.step(bytes);
            if let State::Cut(from) = self.state {
                return Err(format!(
                    "the quote at byte {from} is not closed in its line, and --no-newlines says that all are; if it is text, name another by --quote"
                ));
            }
            bytes = self.advance(bytes, taken);
        }
        Ok(())
    }

    /// There are no more.
    pub fn end(&self) -> Result<(), String> {
        match self.state {
            State::Quoted(from) | State::Escaped(from) if self.quoting.has_newlines => Err(format!(
                "the quote at byte {from} is never closed, so all behind it would be one field; if it is text, name another by --quote"
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMAS: Quoting = Quoting { delimiter: b',', quote: b'"', escape: None, comment: None, has_newlines: true };

    fn looked(mut look: Quotes, text: &str, cut: usize) -> Result<(), String> {
        text.as_bytes().chunks(cut).try_for_each(|bytes| look.take(bytes))?;
        look.end()
    }

    #[test]
    fn quotes_that_are_never_closed_are_found_however_bytes_come() {
        let escaped = Quoting { escape: Some(b'\\'), ..COMMAS };
        let commented = Quoting { comment: Some(b'#'), ..COMMAS };
        for (quoting, text, open) in [
            (COMMAS, "a,b\n1,\"x\ny\"\n", None),
            (COMMAS, "a,b\n1,5\" pipe\n2,\"say \"\"no\"\"\"\n", None),
            (COMMAS, "a,b\n1,\"x\"y\",3\n", None),
            (COMMAS, "a,b\n1,\"x\n2,y\n", Some(6)),
            (COMMAS, "\"a\nb\n", Some(0)),
            (COMMAS, "a\n\"x\"\"\n", Some(2)),
            (COMMAS, "a\r\n\"x", Some(3)),
            (COMMAS, "a\n\"\\\"\n1\n", None),
            (escaped, "a\n\"\\\"\n1\n", Some(2)),
            (escaped, "a\n\"\\\"\"\n", None),
            (COMMAS, "a\n#\"x\n\"y\"\n", None),
            (commented, "a\n#,\"x\n\"y\"\n", None),
            (commented, "#\n\"x\n#\n", Some(2)),
            (commented, "a,b\n1,2\n#c,\"\n3,4\n", None),
            (commented, "a,b\r\n1,2\r\n#c,\"\r\n3,4\r\n", None),
            (commented, "a\n\n#\"\n\"\n", Some(6)),
            (COMMAS, "a\n#,\"x\n1\n", Some(4)),
        ] {
            for cut in [1, 2, 3, 100] {
                let found = looked(Quotes::new(quoting, Extent::WHOLE), text, cut);
                let open: Option<String> = open.map(|at: u64| format!("the quote at byte {at} is"));
                match (&found, &open) {
                    (Ok(()), None) => {}
                    (Err(said), Some(open)) => assert!(said.starts_with(open.as_str()), "{text:?} {cut}: {said}"),
                    _ => panic!("{text:?} {cut}: {found:?}"),
                }
            }
        }
    }

    #[test]
    fn a_field_may_begin_behind_a_byte_order_mark() {
        assert!(looked(Quotes::new(COMMAS, Extent::WHOLE), "\u{feff}\"a,\"\"\"\n1\n", 100).is_ok());
        assert!(looked(Quotes::new(COMMAS, Extent::WHOLE), "\u{feff}\"a\n1\n", 100).is_err());
    }

    #[test]
    fn quotes_that_a_line_does_not_close_are_found_in_any_part() {
        let lines = Quoting { has_newlines: false, ..COMMAS };
        for (text, from, open) in [
            ("a,b\n1,\"x\"\n2,5\" pipe\n", 0, None),
            ("a,b\n1,\"x\n2,y\n", 0, Some(6)),
            ("a,b\n1,\"x\n2,y\n", 4, Some(6)),
            ("a,b\n1,x\n2,\"y\n", 5, Some(10)),
            // The line that is under way is another part's.
            ("a,b\n1,\"x\"\n2,y\n", 6, None),
            ("a,b\n1,\"x\"\n2,y\n", 8, None),
        ] {
            for cut in [1, 2, 100] {
                let begins_line = from == 0 || text.as_bytes()[from - 1] == b'\n';
                let extent = Extent { from: from as u64, begins_line };
                let found = looked(Quotes::new(lines, extent), &text[from..], cut);
                let said = open.map(|at: u64| format!("the quote at byte {at} is not closed in its line"));
                match (&found, &said) {
                    (Ok(()), None) => {}
                    (Err(found), Some(said)) => assert!(found.starts_with(said.as_str()), "{text:?} {cut}: {found}"),
                    _ => panic!("{text:?} {from} {cut}: {found:?}"),
                }
            }
        }
    }
}
