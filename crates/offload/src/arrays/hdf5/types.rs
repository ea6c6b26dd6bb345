//! The types of HDF5's elements: those that are numbers as NumPy has them, and integers in some of an element's bits.
//!
//! The library tells sizes and orders of bytes. A type message has more, which decides about the numbers (HDF5 File Format Specification,
//! section IV.A.2.d): the bits that count, and where a number with a fraction has its parts.

use hdf5_reader::messages::datatype::Datatype;
use hdf5_reader::{ByteOrder, H5Type};

use crate::arrays::kind::Kind;

/// Where the properties of a type are in its message.
const PROPERTIES_AT: usize = 8;

/// The reason of those that are not IEEE's.
const NOT_IEEE: &str = "numbers of a layout that is not IEEE's";

/// The type of stored elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The type that they have when all bits of an element count.
    pub kind: Kind,
    /// The first bit that counts, and how many do; None if all do.
    part: Option<(u32, u32)>,
}

impl Stored {
    /// That of a type and of its message; else what the type is of.
    pub fn of(datatype: &Datatype, message: &[u8]) -> Result<Self, &'static str> {
        let kind = |letter, size: u8, order: ByteOrder| Kind {
            letter,
            bytes: usize::from(size),
            is_big: order == ByteOrder::BigEndian,
        };
        match *datatype {
            Datatype::FixedPoint { size: size @ (1 | 2 | 4 | 8), signed, byte_order } => {
                let kind = kind(if signed { b'i' } else { b'u' }, size, byte_order);
                let bits = u32::from(size) * 8;
                let part = (u32::from(half_word(message, 0)?), u32::from(half_word(message, 2)?));
                match part {
                    (first, count) if count == 0 || first + count > bits => Err("integers of no bits"),
                    (_, count) => Ok(Self { kind, part: Some(part).filter(|_| count < bits) }),
                }
            }
            Datatype::FloatingPoint { size: size @ (2 | 4 | 8), byte_order } if is_ieee(size, message)? => {
                Ok(Self { kind: kind(b'f', size, byte_order), part: None })
            }
            Datatype::FloatingPoint { size: 2 | 4 | 8, .. } => Err(NOT_IEEE),
            Datatype::FixedPoint { .. } | Datatype::FloatingPoint { .. } => Err("numbers of an odd size"),
            Datatype::String { .. } | Datatype::VarLen { .. } => Err("text, or rows of different lengths"),
            Datatype::Compound { .. } => Err("records"),
            Datatype::Enum { .. } => Err("words"),
            _ => Err("no numbers"),
        }
    }

    /// Whether all bits of an element count.
    pub fn is_whole(self) -> bool {
        self.part.is_none()
    }

    /// Makes elements such that all their bits count.
    pub fn widen(self, elements: &mut [u8]) {
        let Some((first, count)) = self.part else { return };
        let shift = 64 - count;
        for element in elements.chunks_exact_mut(self.kind.bytes) {
            let bits = self.kind.bits(element) >> first << shift;
            let bits = if self.kind.letter == b'i' { (bits as i64 >> shift) as u64 } else { bits >> shift };
            element.copy_from_slice(&bits.to_le_bytes()[..self.kind.bytes]);
            if self.kind.is_big {
                element.reverse();
            }
        }
    }
}

fn half_word(message: &[u8], at: usize) -> Result<u16, &'static str> {
    let bytes = message.get(PROPERTIES_AT + at..).and_then(|bytes| bytes.first_chunk());
    bytes.map(|bytes| u16::from_le_bytes(*bytes)).ok_or("no numbers")
}

/// Whether a type has the parts where IEEE 754 has them.
fn is_ieee(size: u8, message: &[u8]) -> Result<bool, &'static str> {
    let (exponent_bits, bias) = match size {
        2 => (5, 15),
        4 => (8, 127),
        _ => (11, 1023_u32),
    };
    let (bits, fraction_bits) = (size * 8, size * 8 - 1 - exponent_bits);
    let flags: [u8; 3] = message.get(1..4).and_then(|flags| flags.try_into().ok()).ok_or("no numbers")?;
    // The leading one of the fraction is left out; of the two bits for the order of bytes, both are VAX's.
    let is_normal = flags[0] >> 4 & 3 == 2 && flags[0] & 0x40 == 0 && flags[1] == bits - 1;
    let places = [half_word(message, 0)?, half_word(message, 2)?, half_word(message, 4)?, half_word(message, 6)?];
    let wanted = [
        0,
        u16::from(bits),
        u16::from_le_bytes([fraction_bits, exponent_bits]),
        u16::from_le_bytes([0, fraction_bits]),
    ];
    let found = u32::from(half_word(message, 8)?) | u32::from(half_word(message, 10)?) << 16;
    Ok(is_normal && places == wanted && found == bias)
}

/// The bytes of an element.
#[derive(Clone, Copy)]
pub struct Element<const BYTES: usize>(pub [u8; BYTES]);

impl<const BYTES: usize> H5Type for Element<BYTES> {
    fn hdf5_type() -> Datatype {
        Datatype::FixedPoint { size: BYTES as u8, signed: false, byte_order: ByteOrder::LittleEndian }
    }

    fn from_bytes(bytes: &[u8], _: &Datatype) -> hdf5_reader::error::Result<Self> {
        let short = || hdf5_reader::error::Error::InvalidData("an element has too few bytes".to_owned());
        bytes.first_chunk().map(|bytes| Self(*bytes)).ok_or_else(short)
    }

    fn element_size(_: &Datatype) -> usize {
        BYTES
    }

    fn decode_vec(raw: &[u8], _: &Datatype, count: usize) -> Option<hdf5_reader::error::Result<Vec<Self>>> {
        let elements = raw.as_chunks().0.get(..count)?;
        Some(Ok(elements.iter().map(|element| Self(*element)).collect()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]
mod tests {
    use super::*;

    /// A message: its flags, size and properties.
    fn message(flags: [u8; 3], size: u8, properties: &[u8]) -> Vec<u8> {
        [&[0x11][..], &flags, &[size, 0, 0, 0], properties].concat()
    }

    #[test]
    fn bits_that_count_move_to_the_end_with_their_sign() {
        let integer = |signed, byte_order| Datatype::FixedPoint { size: 2, signed, byte_order };
        let (little, big) = (ByteOrder::LittleEndian, ByteOrder::BigEndian);
        for (signed, order, first, count, bytes, known) in [
            (true, little, 0, 12, [0x30, 0x08], -2000),
            (true, little, 4, 12, [0x0f, 0x83], -2000),
            (true, big, 4, 12, [0x83, 0x0f], -2000),
            (false, little, 2, 12, [0x43, 0xdf], 2000),
            (true, little, 0, 16, [0x30, 0xf8], -2000),
        ] {
            let stored = Stored::of(&integer(signed, order), &message([0; 3], 2, &[first, 0, count, 0])).unwrap();
            let mut bytes = bytes;
            assert_eq!(stored.is_whole(), count == 16);
            stored.widen(&mut bytes);
            assert_eq!(stored.kind.value(stored.kind.bits(&bytes)), f64::from(known), "{first} {count}");
        }
        for (first, count) in [(0, 0), (8, 12), (0, 17)] {
            let of = Stored::of(&integer(true, little), &message([0; 3], 2, &[first, 0, count, 0]));
            assert!(of.is_err(), "{first} {count}");
        }
        assert!(Stored::of(&integer(true, little), &message([0; 3], 2, &[0, 0])).is_err());
    }

    #[test]
    fn only_numbers_of_ieee_are_read_as_such() {
        let single = Datatype::FloatingPoint { size: 4, byte_order: ByteOrder::LittleEndian };
        let (flags, properties) = ([0x20, 31, 0], [0, 0, 32, 0, 23, 8, 0, 23, 127, 0, 0, 0]);
        assert!(Stored::of(&single, &message(flags, 4, &properties)).unwrap().is_whole());
        for (at, byte) in [(0, 7), (2, 20), (4, 22), (5, 9), (6, 1), (7, 22), (8, 100), (9, 1), (11, 1)] {
            let mut other = properties;
            other[at] = byte;
            assert_eq!(Stored::of(&single, &message(flags, 4, &other)), Err(NOT_IEEE), "{at}");
        }
        for flags in [[0x10, 31, 0], [0x61, 31, 0], [0x20, 30, 0]] {
            assert_eq!(Stored::of(&single, &message(flags, 4, &properties)), Err(NOT_IEEE), "{flags:?}");
        }
    }
}
