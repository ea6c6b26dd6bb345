//! Any bytes with the right checksum are a profile, a pack's index or a block whose contents make sense, or are refused.
#![no_main]

use forebay_profile::exercise::{read_block, read_index, read_profile};
use forebay_profile::{PackIndex, Profile, index_range};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = (read_profile(bytes), read_index(bytes), read_block(bytes));
    let _ = (Profile::decode(bytes), PackIndex::decode(bytes));
    if let (Some(head), Some(tail)) = (bytes.first_chunk(), bytes.last_chunk()) {
        if let Ok(range) = index_range(head, tail, bytes.len() as u64) {
            assert!(range.start <= range.end && range.end + 16 == bytes.len() as u64);
        }
    }
});
