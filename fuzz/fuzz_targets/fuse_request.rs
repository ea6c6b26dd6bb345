//! Any bytes read off `/dev/fuse` decode to a request or are refused; what a request borrows lies within the bytes.
#![no_main]

use forebay_fuse::{Operation, decode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(request) = decode(bytes) else { return };
    match request.operation {
        Operation::Lookup { name } | Operation::Getxattr { name, .. } => {
            assert!(!name.contains(&0) && name.len() < bytes.len());
        }
        Operation::Ioctl { input, .. } => assert!(input.len() < bytes.len()),
        Operation::BatchForget(forgets) => assert!(forgets.count() < bytes.len() / 16),
        other => {
            let _ = (other.default_error(), other.wants_reply());
        }
    }
});
