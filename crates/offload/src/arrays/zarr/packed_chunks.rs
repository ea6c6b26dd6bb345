//! Chunks as numcodecs packed them, whole and damaged.
#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

use serde_json::{Map, Value};

use crate::arrays::codecs::Codec;
use crate::arrays::kind::Kind;
use crate::arrays::zarr::v2::codec_of;

/// The chunks of `packed_chunks.json`, as numcodecs 0.16 packed them: the configuration of a codec, and the bytes.
fn packed_chunks() -> Vec<(Value, Codec, Vec<u8>)> {
    let all: Vec<(Value, String)> = serde_json::from_str(include_str!("packed_chunks.json")).unwrap();
    let one = |(configuration, hex): (Value, String)| {
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        let codec = codec_of(configuration.as_object().unwrap_or(&Map::new()), Kind::of("<u2").unwrap()).unwrap();
        (configuration, codec, hex.as_bytes().chunks(2).map(byte).collect())
    };
    all.into_iter().map(one).collect()
}

/// The bytes of each of those.
fn plain() -> Vec<u8> {
    let value = |at: u16| if (100..220).contains(&at) { 77 } else { at / 7 * 5 % 3001 };
    (0..560).flat_map(|at| value(at).to_le_bytes()).collect()
}

#[test]
fn chunks_that_numcodecs_packed_are_unpacked() {
    let (chunks, plain) = (packed_chunks(), plain());
    assert!(chunks.len() > 25);
    for (configuration, codec, packed) in chunks {
        let unpacked = codec.unpacked(packed, 2 * plain.len()).unwrap();
        assert!(unpacked == plain, "{configuration}: {unpacked:?}");
    }
    let mut summed = plain.clone();
    summed.extend(crc32c::crc32c(&plain).to_le_bytes());
    assert!(Codec::Crc32c.unpacked(summed.clone(), 9999).unwrap() == plain);
    summed[7] ^= 1;
    assert!(Codec::Crc32c.unpacked(summed, 9999).is_err());
}

/// No damage takes more memory than a chunk may have, or is more than an error.
#[test]
fn damaged_chunks_are_errors_or_have_no_more_bytes_than_they_may() {
    let len = plain().len();
    for (configuration, codec, packed) in packed_chunks() {
        let is_packed = !matches!(codec, Codec::Shuffle(_) | Codec::Delta(..) | Codec::Scaled { .. });
        for cut in 0..packed.len() {
            let unpacked = codec.unpacked(packed[..cut].to_vec(), len);
            // Frames and members are whole without the last one.
            let is_noticed = unpacked.as_ref().map_or(true, |unpacked| unpacked.len() < len);
            assert!(!is_packed || is_noticed, "{configuration} cut at {cut}");
        }
        for place in 0..packed.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff, packed[place] ^ 0x10] {
                let mut damaged = packed.clone();
                damaged[place] = value;
                if let Ok(unpacked) = codec.unpacked(damaged, len) {
                    assert!(unpacked.len() <= len, "{configuration} with {value} at {place}");
                }
            }
        }
        assert!(!is_packed || codec.unpacked(packed, len - 1).is_err(), "{configuration} has more than it may");
    }
}

#[test]
fn headers_that_say_what_is_not_there_are_refused() {
    let header = |version: u8, flags: u8, element: u8, [len, block, packed]: [u32; 3]| {
        let mut bytes = vec![version, 1, flags, element];
        [len, block, packed].iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes
    };
    for (bytes, part) in [
        (header(2, 0x31, 8, [1 << 31, 1 << 20, 16]), "most"),
        (header(2, 0x31, 8, [4096, 0, 16]), "without bytes"),
        (header(2, 0x31, 8, [4096, 1, 16]), "cut short"),
        (header(2, 0x31, 8, [4096, 4096, 1 << 30]), "cut short"),
        (header(2, 0x32, 8, [4096, 4096, 16]), "cut short"),
        (header(5, 0x35, 8, [4096, 4096, 16]), "Blosc 2"),
        (header(2, 0x31, 0, [4096, 4096, 16]), "cut short"),
        (header(2, 0x40, 8, [4, 4, 24]).into_iter().chain([20, 0, 0, 0, 0, 0, 0, 0]).collect(), "Snappy"),
        (header(2, 0x20, 8, [4, 4, 20]).into_iter().chain([200, 0, 0, 0]).collect(), "behind the end"),
        (header(2, 0x20, 8, [4, 4, 24]).into_iter().chain([20, 0, 0, 0, 255, 255, 255, 255]).collect(), "longer"),
    ] {
        let refused = format!("{:#}", Codec::Blosc.unpacked(bytes.clone(), 4096).unwrap_err());
        assert!(refused.contains(part), "{part}: {refused} {bytes:?}");
    }
}
