//! A compression that knows runs and repeated rows, of which a picture consists.

/// Bytes of a pixel.
pub const PIXEL: usize = 3;

/// The longest repetition that has a code.
const LENGTH_MAX: usize = 258;

/// Lengths of repetitions, for each its code's number beyond 257 and the bits behind it, which are 0 for the shortest length of a code
/// (RFC 1951, 3.2.5).
const LENGTHS: [(usize, u32, u32); 14] = [
    (258, 28, 0),
    (131, 24, 5),
    (67, 20, 4),
    (35, 16, 3),
    (19, 12, 2),
    (11, 8, 1),
    (10, 7, 0),
    (9, 6, 0),
    (8, 5, 0),
    (7, 4, 0),
    (6, 3, 0),
    (5, 2, 0),
    (4, 1, 0),
    (3, 0, 0),
];

/// As zlib has it (RFC 1950), with the fixed codes of RFC 1951: what was there a pixel or a row before is not said again.
pub fn compressed(raw: &[u8], row: usize) -> Vec<u8> {
    let mut bits = Bits { bytes: vec![0x78, 0x01], held: 0, count: 0 };
    // The last block, of fixed codes.
    bits.put(0b011, 3);
    let mut at = 0;
    while at < raw.len() {
        let same = |distance: usize| match at.checked_sub(distance) {
            Some(before) => {
                raw[at..].iter().take(LENGTH_MAX).zip(&raw[before..]).take_while(|(now, then)| now == then).count()
            }
            None => 0,
        };
        // The shorter distance has the shorter code.
        let (here, above) = (same(PIXEL), same(row));
        let (len, distance) = if here >= above { (here, PIXEL) } else { (above, row) };
        match LENGTHS.iter().find(|(length, ..)| *length <= len) {
            Some((length, code, further)) => {
                bits.symbol(257 + code);
                bits.put(0, *further);
                bits.distance(distance as u32);
                at += length;
            }
            None => {
                bits.symbol(u32::from(raw[at]));
                at += 1;
            }
        }
    }
    bits.symbol(256);
    let mut bytes = bits.finish();
    bytes.extend(adler32(raw).to_be_bytes());
    bytes
}

/// Bits, the lowest of a byte first.
struct Bits {
    bytes: Vec<u8>,
    held: u32,
    count: u32,
}

impl Bits {
    fn put(&mut self, bits: u32, count: u32) {
        self.held |= bits << self.count;
        self.count += count;
        while self.count >= 8 {
            self.bytes.push(self.held as u8);
            self.held >>= 8;
            self.count -= 8;
        }
    }

    /// A code's highest bit comes first.
    fn code(&mut self, code: u32, count: u32) {
        self.put(code.reverse_bits() >> (32 - count), count);
    }

    fn symbol(&mut self, symbol: u32) {
        match symbol {
            0..=143 => self.code(0x30 + symbol, 8),
            144..=255 => self.code(0x190 + symbol - 144, 9),
            256..=279 => self.code(symbol - 256, 7),
            _ => self.code(0xc0 + symbol - 280, 8),
        }
    }

    /// Of 3 at least.
    fn distance(&mut self, distance: u32) {
        let rest = distance - 1;
        let high = rest.ilog2();
        self.code(2 * high + (rest >> (high - 1) & 1), 5);
        self.put(rest & ((1 << (high - 1)) - 1), high - 1);
    }

    fn finish(mut self) -> Vec<u8> {
        self.put(0, 7);
        self.bytes
    }
}

fn adler32(bytes: &[u8]) -> u32 {
    let (low, high) = bytes.iter().fold((1, 0), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65521;
        (low, (high + low) % 65521)
    });
    high << 16 | low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        assert_eq!(adler32(b"Wikipedia"), 0x11e6_0398);
    }
}
