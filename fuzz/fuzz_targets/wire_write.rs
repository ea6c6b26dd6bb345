//! Any bytes of a peer are something about a burst tree whose numbers can be added, and encode to themselves again, or are
//! refused.
#![no_main]

use forebay_wire::exercise::WRITE_KINDS;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for (_, exercise) in WRITE_KINDS {
        let _ = exercise(bytes);
    }
});
