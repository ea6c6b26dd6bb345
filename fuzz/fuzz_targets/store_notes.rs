//! Any bytes are a checkpoint or a note that comes back as it was, or are refused; and whatever notes and data a store holds, it
//! is recovered or refused.
#![no_main]

use forebay_daemon::exercise::{read_checkpoint, read_note, recover};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = (read_checkpoint(bytes), read_note(bytes), recover(bytes));
});
