//! Any text is a case whose plans write all of its bytes, or is refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(description) = serde_json::from_slice(bytes) {
        let _ = forebay_aggregate::exercise::plan(description);
    }
});
