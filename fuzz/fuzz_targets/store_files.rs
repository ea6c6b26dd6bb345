//! Any bytes with the right checksum are the head of a store or a checkpoint of its log, or are refused.
#![no_main]

use forebay_log::exercise::{read_checkpoint, read_head};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = (read_head(bytes), read_checkpoint(bytes));
});
