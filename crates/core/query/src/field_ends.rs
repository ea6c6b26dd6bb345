//! Where fields end, found for many rows before any number is parsed: so no number waits for the end of the one before, and columns that
//! are not wanted cost no more than their ends.
//!
//! A window of some kilobytes from a row's begin on is looked at by 64 bytes at once, and the ends of its fields are a list. Rows are
//! plain where each has its newline behind as many ends as it should have fields, and no quote. All others are left to the caller.

use std::ops::Range;

use memchr::{memchr, memchr_iter};

use crate::dialect::Separator;

/// Bytes that are looked at together.
const LOOK_BYTES: usize = 64;

/// Those of one vector.
const LANES: usize = 16;

/// Bytes of a window at first: with its list a part of a first-level cache.
const WINDOW_BYTES_MIN: usize = 16 << 10;

/// Bytes of a window at most, which the longest row of numbers has: `FIELDS_MAX` of 25 bytes.
const WINDOW_BYTES_MAX: usize = 128 << 10;

/// Rows of a window, at least: the row that its end cuts is looked at twice.
const WINDOW_ROWS_MIN: usize = 16;

/// So many windows are left out behind one without a plain row: in a table with quotes in every row all are.
const WINDOWS_LEFT_OUT: usize = 16;

/// Ends that are written at once, however many there are.
const AT_ONCE: usize = 8;

/// Where no bytes are.
const NO_WINDOW: Range<usize> = usize::MAX..usize::MAX;

/// How rows and their fields are told apart.
#[derive(Clone, Copy)]
pub struct Shape {
    /// A byte or blanks.
    pub separator: Separator,
    /// A row that begins with it is none.
    pub comment: Option<u8>,
    /// Fields of a row, at least one.
    pub fields: usize,
}

/// The fields of rows, window by window.
pub struct FieldEnds {
    /// Of the window, in the bytes.
    window: Range<usize>,
    /// Bytes of the next window.
    window_bytes: usize,
    /// Bytes before it are not looked at.
    left_out_to: usize,
    /// From the window's begin on, behind the delimiter or newline that ends each field. There is one before the first field.
    bounds: Vec<u32>,
    /// How many bounds there are; what is behind them is of no meaning.
    len: usize,
    /// The first bound behind the rows that were used.
    next: usize,
    /// Each newline is the end of a row with so many fields.
    is_regular: bool,
    /// A row of it was plain.
    has_plain: bool,
    /// The next quote, or the window's end.
    quote: usize,
}

/// Plain rows, one behind the other.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// How many.
    pub rows: usize,
    /// Where the row behind them begins.
    pub end: usize,
    /// How their fields are told apart.
    pub shape: Shape,
    from: usize,
    bounds: &'a [u32],
}

impl Default for FieldEnds {
    fn default() -> Self {
        Self {
            window: NO_WINDOW,
            window_bytes: WINDOW_BYTES_MIN,
            left_out_to: 0,
            bounds: vec![],
            len: 1,
            next: 1,
            is_regular: false,
            has_plain: true,
            quote: 0,
        }
    }
}

impl FieldEnds {
    /// Other bytes are next.
    pub fn reset(&mut self) {
        (self.window, self.left_out_to, self.has_plain) = (NO_WINDOW, 0, true);
    }

    /// The plain rows from `at` on, up to so many, that begin before `end`. Rows before `at` are used up.
    #[inline(never)]
    pub fn run(&mut self, bytes: &[u8], at: usize, end: usize, rows_max: usize, shape: Shape) -> Run<'_> {
        if !self.has_row(bytes, at, shape.fields) && self.window.start != at && at >= self.left_out_to {
            self.fill(bytes, at, shape);
        }
        let (mut rows, mut next_row) = (0, at);
        if self.has_row(bytes, at, shape.fields) {
            // Blanks may be before it.
            self.bounds[self.next - 1] = (at - self.window.start) as u32;
            if self.quote < at {
                self.quote = memchr(b'"', &bytes[at..self.window.end]).map_or(self.window.end, |quote| at + quote);
            }
            let mut next = self.next;
            while rows < rows_max
                && next_row < end
                && let Some(behind) = self.row(bytes, next_row, next, shape)
            {
                (next, next_row, rows) = (next + shape.fields, behind, rows + 1);
            }
        }
        self.has_plain |= rows > 0;
        let bounds = self.bounds.get(self.next - 1..self.next + rows * shape.fields).unwrap_or_default();
        Run { rows, end: next_row, shape, from: self.window.start, bounds }
    }

    /// Whether no row at `at` is looked for.
    #[inline]
    pub fn leaves_out(&self, at: usize) -> bool {
        at < self.left_out_to
    }

    /// So many fields of the last run are used up.
    pub fn used(&mut self, fields: usize) {
        self.next += fields;
    }

    /// Whether the row at `at` ends in the window, if it has so many fields: another field ends behind it. Those before are used up.
    #[inline(always)]
    fn has_row(&mut self, bytes: &[u8], at: usize, fields: usize) -> bool {
        if !self.window.contains(&at) {
            return false;
        }
        let position = (at - self.window.start) as u32;
        while self.next < self.len && self.bounds[self.next] <= position {
            self.next += 1;
        }
        let more = usize::from(self.window.end < bytes.len());
        self.next + fields + more <= self.len
    }

    /// Where the row behind the one at `at` begins, if that is plain; its first field's end is the bound at `next`.
    #[inline(always)]
    fn row(&self, bytes: &[u8], at: usize, next: usize, shape: Shape) -> Option<usize> {
        let ends = self.bounds[..self.len].get(next..next + shape.fields)?;
        let (last, inner) = ends.split_last()?;
        let newline_of = |end: &u32| newline(bytes, self.window.start + *end as usize - 1, shape.separator);
        let newline = newline_of(last)?;
        let is_blanks = shape.separator == Separator::Blanks;
        let first = bytes[at + if is_blanks { gap(bytes, at) } else { 0 }];
        if newline >= self.quote || matches!(first, b'\n' | b'\r' | b'\x0c') || Some(first) == shape.comment {
            return None;
        }
        // A carriage return behind blanks ends the row, and is no field.
        let has_lone_return = is_blanks && (bytes[..newline].ends_with(b" \r") || bytes[..newline].ends_with(b"\t\r"));
        let is_whole = self.is_regular || inner.iter().all(|end| newline_of(end).is_none());
        (is_whole && !has_lone_return).then_some(newline + 1)
    }

    /// Looks at the window from `at` on, where a row begins.
    #[inline(never)]
    fn fill(&mut self, bytes: &[u8], at: usize, shape: Shape) {
        if !self.has_plain {
            self.left_out_to = at + WINDOWS_LEFT_OUT * self.window_bytes;
            (self.window, self.has_plain) = (NO_WINDOW, true);
            return;
        }
        loop {
            self.window = at..bytes.len().min(at + self.window_bytes);
            let window = &bytes[self.window.clone()];
            let has_quote = match shape.separator {
                Separator::Byte(delimiter) => self.look::<false>(window, delimiter),
                _ => self.look::<true>(window, b' '),
            };
            let newlines = memchr_iter(b'\n', window).count();
            let is_last = self.window.end == bytes.len() || self.window_bytes >= WINDOW_BYTES_MAX;
            if newlines < WINDOW_ROWS_MIN && !is_last {
                self.window_bytes *= 2;
                continue;
            }
            let rows = self.bounds[1..self.len].chunks_exact(shape.fields);
            let is_row = |row: &&[u32]| newline(window, row[shape.fields - 1] as usize - 1, shape.separator).is_some();
            self.is_regular = rows.take_while(is_row).count() == newlines;
            let quote = if has_quote { memchr(b'"', window) } else { None };
            self.quote = quote.map_or(self.window.end, |quote| at + quote);
            self.has_plain = false;
            return;
        }
    }

    /// Lists the ends of a window's fields; whether it has quotes.
    fn look<const BLANKS: bool>(&mut self, window: &[u8], delimiter: u8) -> bool {
        let room = window.len().next_multiple_of(LOOK_BYTES) + 1 + AT_ONCE;
        if self.bounds.len() < room {
            self.bounds.resize(room, 0);
        }
        // A row begins as if a blank were before it.
        let (mut len, mut before) = (1, 1);
        let (mut padded, mut quotes) = ([0; LOOK_BYTES], [0; LANES]);
        for from in (0..window.len()).step_by(LOOK_BYTES) {
            let chunk = window[from..].first_chunk().unwrap_or_else(|| {
                padded[..window.len() - from].copy_from_slice(&window[from..]);
                &padded
            });
            let gaps = look::<BLANKS>(chunk, delimiter, &mut quotes);
            let ends = if BLANKS { gaps & !(gaps << 1 | before) } else { gaps };
            before = gaps >> 63;
            len = add(&mut self.bounds, len, from as u32 + 1, ends);
        }
        (self.len, self.next) = (len, 1);
        quotes != [0; LANES]
    }
}

impl Run<'_> {
    /// Where the field is that so many are before, of all rows, without a carriage return at its row's end. `blanks` says whether blanks
    /// are between fields, `is_last` whether it is the last of its row: constants, so that columns of numbers are not held up by either.
    #[inline(always)]
    pub fn span(&self, bytes: &[u8], before: usize, blanks: bool, is_last: bool) -> Option<Range<usize>> {
        let [begin, end] = *self.bounds.get(before..)?.first_chunk()?;
        let (mut begin, mut end) = (self.from + begin as usize, self.from + end as usize - 1);
        if blanks {
            begin += self::blanks(bytes, begin);
        }
        if is_last && end > begin && bytes[end - 1] == b'\r' && bytes[end] == b'\n' {
            end -= 1;
        }
        Some(begin..end)
    }

    /// Where a row begins.
    pub fn row_begin(&self, bytes: &[u8], row: usize) -> usize {
        let begin = self.from + self.bounds[row * self.shape.fields] as usize;
        // Blanks may be behind the last field of the row before.
        let is_begin = row == 0 || bytes[begin - 1] == b'\n';
        if is_begin { begin } else { begin + gap(bytes, begin) + 1 }
    }
}

/// Adds a position for each bit: how many there are then.
#[inline(always)]
fn add(bounds: &mut [u32], len: usize, from: u32, mut bits: u64) -> usize {
    let mut at = len;
    let len = len + bits.count_ones() as usize;
    loop {
        let Some(room) = bounds.get_mut(at..).and_then(<[u32]>::first_chunk_mut::<AT_ONCE>) else { return len };
        for place in room {
            *place = from + bits.trailing_zeros();
            bits &= bits.wrapping_sub(1);
        }
        if bits == 0 {
            return len;
        }
        at += AT_ONCE;
    }
}

/// A bit for each of 64 bytes that is no part of a field; quotes leave a mark. As compilers turn it into vector instructions, it takes
/// three cycles for four bytes.
#[inline(always)]
fn look<const BLANKS: bool>(chunk: &[u8; LOOK_BYTES], delimiter: u8, quotes: &mut [u8; LANES]) -> u64 {
    let mut bits = [0; LANES];
    for (lane, (bits, quotes)) in bits.iter_mut().zip(quotes).enumerate() {
        let bytes = [chunk[lane], chunk[LANES + lane], chunk[2 * LANES + lane], chunk[3 * LANES + lane]];
        let [a, b, c, d] =
            bytes.map(|byte| u8::from(byte == b'\n') | u8::from(byte == delimiter) | u8::from(BLANKS && byte == b'\t'));
        *bits = a | b << 2 | c << 4 | d << 6;
        let [a, b, c, d] = bytes.map(|byte| u8::from(byte == b'"'));
        *quotes |= a | b | c | d;
    }
    let both = u128::from_le_bytes(bits);
    transposed(both as u64 | ((both >> 64) as u64) << 1)
}

/// Eight bytes whose first bits become the first byte, and so on (H. S. Warren, "Hacker's Delight", 7-3).
#[inline(always)]
fn transposed(mut bits: u64) -> u64 {
    for (by, mask) in [(7, 0x00aa_00aa_00aa_00aa), (14, 0x0000_cccc_0000_cccc), (28, 0x0000_0000_f0f0_f0f0)] {
        let moved = (bits ^ bits >> by) & mask;
        bits ^= moved ^ moved << by;
    }
    bits
}

/// The newline of a row whose last field ends here.
#[inline(always)]
fn newline(bytes: &[u8], end: usize, separator: Separator) -> Option<usize> {
    let end = if separator == Separator::Blanks { end + gap(bytes, end) } else { end };
    (bytes.get(end) == Some(&b'\n')).then_some(end)
}

/// Blanks between fields, from `at` on.
#[inline(always)]
fn gap(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// Blanks between fields, and between rows.
#[inline(always)]
fn blanks(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n')).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Where the fields of the line at `at` are and where the next line begins, by the plainest reading, if it is a plain row.
    fn plain_row(bytes: &[u8], at: usize, shape: Shape) -> Option<(Vec<Range<usize>>, usize)> {
        let newline = at + bytes[at..].iter().position(|byte| *byte == b'\n')?;
        let line = bytes[at..newline].strip_suffix(b"\r").unwrap_or(&bytes[at..newline]);
        let is_gap = |byte: u8| match shape.separator {
            Separator::Byte(delimiter) => byte == delimiter,
            _ => matches!(byte, b' ' | b'\t'),
        };
        let (mut fields, mut from) = (vec![], 0);
        for end in (0..line.len()).filter(|end| is_gap(line[*end])).chain([line.len()]) {
            fields.push(at + from..at + end);
            from = end + 1;
        }
        if shape.separator == Separator::Blanks {
            fields.retain(|field| !field.is_empty());
        }
        let first = line.iter().find(|byte| shape.separator != Separator::Blanks || !is_gap(**byte))?;
        // A carriage return behind blanks ends the row, and is left to others.
        let has_lone_return = bytes[..newline].ends_with(b" \r") || bytes[..newline].ends_with(b"\t\r");
        if shape.separator == Separator::Blanks && has_lone_return {
            return None;
        }
        let is_plain = !line.contains(&b'"') && !matches!(first, b'\r' | b'\x0c') && Some(*first) != shape.comment;
        (is_plain && fields.len() == shape.fields).then_some((fields, newline + 1))
    }

    /// Looks for runs as a pass does, and holds each against the plainest reading: how many rows were in runs.
    fn compared(bytes: &[u8], window_bytes: usize, rows_max: usize, shape: Shape) -> usize {
        let mut ends = FieldEnds { window_bytes, ..FieldEnds::default() };
        let (mut at, mut in_runs) = (0, 0);
        while at < bytes.len() {
            let run = ends.run(bytes, at, bytes.len(), rows_max, shape);
            let rows = run.rows;
            assert!(rows <= rows_max);
            for row in 0..rows {
                assert_eq!(run.row_begin(bytes, row), at);
                let (fields, next) = plain_row(bytes, at, shape).expect("a row of a run is plain");
                for (field, wanted) in fields.into_iter().enumerate() {
                    let blanks = shape.separator == Separator::Blanks;
                    let span = run.span(bytes, row * shape.fields + field, blanks, field + 1 == shape.fields);
                    assert_eq!(span, Some(wanted), "field {field} of the row at {at}");
                }
                at = next;
            }
            assert_eq!(run.end, at);
            ends.used(rows * shape.fields);
            in_runs += rows;
            if rows == 0 {
                let is_missed = at >= ends.left_out_to && plain_row(bytes, at, shape).is_some();
                let next = bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| at + end + 1);
                assert!(!is_missed || next - at > WINDOW_BYTES_MAX, "the row at {at} is plain");
                at = next;
            }
        }
        in_runs
    }

    const COMMAS: Shape = Shape { separator: Separator::Byte(b','), comment: Some(b'#'), fields: 3 };
    const BLANKS: Shape = Shape { separator: Separator::Blanks, ..COMMAS };

    #[test]
    fn rows_that_are_not_plain_end_a_run() {
        let text = b"1,2,3\n4,5,6\r\n#,,\n7,8\n9,,\n\"1\",2,3\n\n\r\n1,2,3,4\n,,\n1,\"\n\",2\n5,5,5\n1,2,3";
        assert_eq!(compared(text, 64, 10, COMMAS), 5);
        let text = b"1 2 3\n  4\t5  6 \r\n7 8 9\t\n # 1 2\n1 2 \r\n\n   \n1 2 3 4\n1 \"2\" 3\n5 5 5\r\n";
        assert_eq!(compared(text, 64, 10, BLANKS), 3);
    }

    #[test]
    fn windows_without_a_plain_row_leave_the_next_ones_out() {
        let row = b"\"1\",\"2\",\"3\"\n";
        let text = row.repeat(40 * WINDOW_BYTES_MIN / row.len());
        let mut ends = FieldEnds::default();
        let mut windows = std::collections::BTreeSet::new();
        for at in (0..text.len()).step_by(row.len()) {
            assert_eq!(ends.run(&text, at, text.len(), 10, COMMAS).rows, 0);
            windows.insert(ends.window.start);
        }
        assert!((2..8).contains(&windows.len()), "{windows:?}");
    }

    #[test]
    fn a_row_may_be_longer_than_the_first_window() {
        let fields = 2000;
        let text = (vec!["123456789"; fields].join(",") + "\n").repeat(5).into_bytes();
        assert_eq!(compared(&text, WINDOW_BYTES_MIN, 3, Shape { fields, ..COMMAS }), 5);
    }

    fn line() -> impl Strategy<Value = String> {
        let usual = "[-0-9.]{0,9}(,[-0-9.]{0,9}){2}";
        let blanks = "[ \t]{0,2}[-0-9.]{1,9}([ \t]{1,3}[-0-9.]{1,9}){2}[ \t]{0,2}";
        let any = "[#,; \t\r\u{c}\"x0-9]{0,80}";
        let line = prop_oneof![4 => usual.prop_map(|line| line), 4 => blanks.prop_map(|line| line), 1 => any.prop_map(|line| line)];
        (line, "\r?\n").prop_map(|(line, end)| line + &end)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn runs_are_what_a_naive_look_says(
            lines in proptest::collection::vec(line(), 0..60),
            tail in "[,0-9]{0,5}",
            window_bytes in 20..600usize,
            rows_max in 1..30usize,
            fields in 1..5usize,
            delimiter in prop_oneof![Just(b','), Just(b';'), Just(b'\t'), Just(b' '), Just(b'|')],
        ) {
            let text = lines.concat() + &tail;
            let by_delimiter = text.replace(',', &char::from(delimiter).to_string());
            let by_byte = Shape { separator: Separator::Byte(delimiter), fields, ..COMMAS };
            compared(by_delimiter.as_bytes(), window_bytes, rows_max, by_byte);
            compared(text.as_bytes(), window_bytes, rows_max, Shape { fields, ..BLANKS });
        }
    }
}
