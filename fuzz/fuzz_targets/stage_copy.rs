//! Whatever draft, journal and note lie where a copy goes, it is what it is a copy of.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

fuzz_target!(|bytes: &[u8]| {
    // In memory, where there is one: a copy syncs.
    let memory = Path::new("/dev/shm");
    let within = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let directory = TempDir::with_prefix_in("forebay-fuzz-", within).expect("there is room for a copy");
    let _ = forebay_stage::exercise::copy(directory.path(), bytes).expect("a copy can be made");
});
