//! Any bytes of a peer are a parcel that comes back as it was sent, or are refused.
#![no_main]

use bytes::Bytes;
use forebay_wire::Parcel;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(parcel) = Parcel::parse(Bytes::copy_from_slice(bytes)) else { return };
    let again = Parcel::parse(parcel.encode().concat().into()).expect("what was taken apart can be put together");
    assert_eq!((again.count, again.absent, again.blocks), (parcel.count, parcel.absent, parcel.blocks));
    assert!(parcel.listings.len() == again.listings.len());
});
