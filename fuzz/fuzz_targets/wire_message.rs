//! Any bytes of a peer decode to a message within its limits, which encodes to itself again, or are refused.
#![no_main]

use std::fmt::Debug;

use forebay_wire::message::{Checked, decode, decode_entries, encode, encode_entries};
use forebay_wire::recording::{decode_uses, encode_uses};
use forebay_wire::{Answer, Envelope, FRAME_HEAD_BYTES, FrameHead, Greeting, Hello};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(head) = bytes.first_chunk::<FRAME_HEAD_BYTES>() {
        if let Ok(head) = FrameHead::decode(head) {
            assert_eq!(FrameHead::decode(&head.encode()), Ok(head));
        }
    }
    round_trip::<Greeting>(bytes);
    round_trip::<Hello>(bytes);
    round_trip::<Envelope>(bytes);
    round_trip::<Answer>(bytes);
    if let Ok(records) = decode_entries(bytes) {
        assert_eq!(decode_entries(&encode_entries(&records)).as_ref(), Ok(&records));
    }
    if let Ok(uses) = decode_uses(bytes) {
        assert_eq!(decode_uses(&encode_uses(&uses)).as_ref(), Ok(&uses));
    }
});

/// Equal messages, not equal bytes: a varint may be written longer than it need be.
fn round_trip<T>(bytes: &[u8])
where
    T: Checked + PartialEq + Debug + serde::Serialize + for<'a> serde::Deserialize<'a>,
{
    if let Ok(message) = decode::<T>(bytes) {
        assert!(message.is_within_limits());
        assert_eq!(decode::<T>(&encode(&message)).as_ref(), Ok(&message));
    }
}
