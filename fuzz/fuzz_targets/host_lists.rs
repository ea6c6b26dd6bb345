//! Any text is a list of hosts, a host file or a network that makes sense, or is refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = forebay_launch::exercise::read_hosts(text);
    }
});
