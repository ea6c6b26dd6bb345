//! Any bytes parse to a listing whose every entry is found by its name, or are refused.
#![no_main]

use bytes::Bytes;
use forebay_wire::Listing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(listing) = Listing::parse(Bytes::copy_from_slice(bytes)) else { return };
    assert_eq!(listing.bytes().as_ref(), bytes);
    for (index, entry) in listing.entries().enumerate() {
        assert_eq!(listing.find(entry.name), Some(index));
    }
    let _ = listing.generation();
    assert_eq!(listing.find(b"/"), None);
});
