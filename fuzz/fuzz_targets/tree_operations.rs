//! The tree stays one after any requests of nodes to the leader, and the same changes make the same one again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = forebay_write::exercise::apply(bytes);
});
