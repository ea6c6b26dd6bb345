//! Any 72 bytes with the right checksum and place are the head of a record within its segment, or are refused.
#![no_main]

use forebay_types::LogPosition;
use forebay_wire::log_record::{LogIdentity, RECORD_HEAD_BYTES, RecordHead};
use libfuzzer_sys::fuzz_target;

const SEGMENT_BYTES: u32 = 64 << 20;

fuzz_target!(|bytes: &[u8]| {
    let Some(mut bytes) = bytes.first_chunk::<RECORD_HEAD_BYTES>().copied() else { return };
    let checksum = crc32c::crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&checksum.to_le_bytes());
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let (identity, position) = (LogIdentity(long(8)), LogPosition { segment: long(16), offset: long(24) as u32 });
    let Ok(head) = RecordHead::decode(&bytes, identity, position, SEGMENT_BYTES) else { return };
    assert_eq!(head.encode(identity), bytes);
    assert!(head.contents_offset() <= SEGMENT_BYTES && head.end().is_some_and(|end| end <= SEGMENT_BYTES));
});
