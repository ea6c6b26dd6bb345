//! Whatever the segments of a store hold, a recovery comes to an end, and the next one finds the same.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

fuzz_target!(|bytes: &[u8]| {
    // In memory, where there is one: a recovery syncs.
    let memory = Path::new("/dev/shm");
    let within = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let directory = TempDir::with_prefix_in("forebay-fuzz-", within).expect("there is room for a store");
    let _ = forebay_log::exercise::recover(directory.path(), bytes).expect("a store can be written");
});
