//! Fields of text passed over, eight bytes at a time: of most tables only some columns are wanted.

use memchr::memchr2;

const ONES: u64 = 0x0101_0101_0101_0101;

/// The highest bit of each byte that is 0.
#[inline(always)]
fn zeros(bytes: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    !(((bytes & LOW) + LOW) | bytes | LOW)
}

/// The highest bit of each byte that is this one.
#[inline(always)]
fn equal(bytes: u64, byte: u8) -> u64 {
    zeros(bytes ^ (ONES * u64::from(byte)))
}

/// How many bytes have their highest bit, if they have no other.
#[inline(always)]
fn count(bits: u64) -> usize {
    ((bits >> 7).wrapping_mul(ONES) >> 56) as usize
}

/// Where in eight bytes the first one is that has its highest bit.
#[inline(always)]
fn first(bits: u64) -> usize {
    bits.trailing_zeros() as usize / 8
}

/// The delimiters among eight bytes, and the first newline or quote.
struct Look {
    delimiters: u64,
    stop: u64,
}

#[inline(always)]
fn look(bytes: &[u8], at: usize, delimiter: u8) -> Option<Look> {
    let eight = u64::from_le_bytes(*bytes.get(at..)?.first_chunk::<8>()?);
    let stops = equal(eight, b'\n') | equal(eight, b'"');
    let stop = stops & stops.wrapping_neg();
    let before = stop.wrapping_sub(1);
    Some(Look { delimiters: equal(eight, delimiter) & before, stop })
}

/// Where so many fields end, behind the delimiter of the last; `at` is where the first begins. None where the row ends
/// before that, and where it takes a closer look.
#[inline]
pub fn fields(bytes: &[u8], mut at: usize, mut fields: usize, delimiter: u8) -> Option<usize> {
    let start = at;
    loop {
        let Look { mut delimiters, stop } = look(bytes, at, delimiter)?;
        let passed = count(delimiters);
        if passed >= fields {
            for _ in 1..fields {
                delimiters &= delimiters - 1;
            }
            return Some(at + first(delimiters) + 1);
        }
        fields -= passed;
        at = match stop {
            0 => at + 8,
            stop => quoted(bytes, start, at + first(stop), delimiter)?,
        };
    }
}

/// Where the row ends whose last field begins at `at`: behind its newline. None where there is another field, and where it
/// takes a closer look.
#[inline]
pub fn last_field(bytes: &[u8], mut at: usize, delimiter: u8) -> Option<usize> {
    let start = at;
    loop {
        let Look { delimiters, stop } = look(bytes, at, delimiter)?;
        if delimiters != 0 {
            return None;
        }
        at = match stop {
            0 => at + 8,
            stop if bytes[at + first(stop)] == b'\n' => return Some(at + first(stop) + 1),
            stop => quoted(bytes, start, at + first(stop), delimiter)?,
        };
    }
}

/// Where the quoted field ends that begins at `at`, if a field begins there, its quotes close on this line, and nothing is
/// between them and its end.
fn quoted(bytes: &[u8], start: usize, at: usize, delimiter: u8) -> Option<usize> {
    let begins = bytes[at] == b'"' && (at == start || bytes[at - 1] == delimiter);
    if !begins {
        return None;
    }
    let mut inside = at + 1;
    loop {
        let close = inside + memchr2(b'"', b'\n', &bytes[inside..])?;
        match (bytes[close], *bytes.get(close + 1)?) {
            (b'\n', _) => return None,
            (_, b'"') => inside = close + 2,
            (_, end) if end == delimiter || end == b'\n' => return Some(close + 1),
            (_, b'\r') if bytes.get(close + 2) == Some(&b'\n') => return Some(close + 1),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAD: &str = "........";

    fn at(text: &str, count: usize) -> Option<usize> {
        fields(format!("{text}{PAD}").as_bytes(), 0, count, b',')
    }

    fn end(text: &str) -> Option<usize> {
        last_field(format!("{text}{PAD}").as_bytes(), 0, b',')
    }

    #[test]
    fn so_many_delimiters_are_passed() {
        assert_eq!([at("a,b,c\n", 1), at("a,b,c\n", 2), at("a,b,c\n", 3)], [Some(2), Some(4), None]);
        assert_eq!([at(",,,,,,,,,,,,\n", 12), at(",,,,,,,,,,,,\n", 13)], [Some(12), None]);
        assert_eq!(at("a long field of text,b\n,", 1), Some(21));
        assert_eq!(at("a\nb,c", 1), None, "not on the next line");
        assert_eq!(at("\u{ac}\u{2c}x,", 1), Some(3), "a byte above 127 is none");
    }

    #[test]
    fn quoted_fields_hide_delimiters() {
        assert_eq!(at("\"a,b\",c,", 1), Some(6));
        assert_eq!(at("x,\"a \"\"q\"\", b\",c,", 2), Some(15));
        assert_eq!(at("\"\",\"\",x", 2), Some(6));
        for text in ["\"a\nb\",c", "a\"b\",c", "\"a\"b,c", "\"a\" ,c", "\"a,"] {
            assert_eq!(at(text, 1), None, "{text:?} takes a closer look");
        }
    }

    #[test]
    fn the_last_field_ends_the_row() {
        assert_eq!(
            [end("abc\nd"), end("abc\r\nd"), end("\"a,b\"\n"), end("\"a\"\r\nb")],
            [Some(4), Some(5), Some(6), Some(5)]
        );
        assert_eq!([end("a,b\n"), end("\"a\nb\"\n"), end("abc")], [None, None, None]);
        assert_eq!(end("a field that is long, and has more\n"), None);
    }
}
