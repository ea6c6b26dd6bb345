//! Any bytes from another process of the job on the same machine, or from a starter, are a message that a job can have, or are
//! refused.
#![no_main]

use forebay_daemon::exercise::is_command;
use forebay_keeper::exercise::read_packet;
use forebay_launch::exercise::read_record;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = (read_packet(bytes), read_record(bytes));
    if let Ok(line) = std::str::from_utf8(bytes) {
        let _ = is_command(line);
    }
});
