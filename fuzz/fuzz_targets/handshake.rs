//! Whatever somebody without the key sends, on either side of a connection and at any level, he is refused, or at level
//! `off` his frames are read or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = forebay_transport::exercise::handshake(bytes);
});
