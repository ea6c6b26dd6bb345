//! The corpora of the fuzz targets, decoded as those do: every test run checks earlier findings of fuzzing, without the
//! toolchain that fuzzing needs. The checks for arbitrary bytes apply. Enough entries must be well formed, or the
//! corpus is of an old format and fuzzing starts from nothing.
#![allow(clippy::disallowed_methods, reason = "the crate touches no files; its corpora are some")]

use std::fmt::Debug;
use std::fs;
use std::path::Path;

use bytes::Bytes;
use forebay_types::LogPosition;
use forebay_wire::log_record::{LogIdentity, RECORD_HEAD_BYTES, RecordHead};
use forebay_wire::message::{Checked, decode, decode_entries, encode, encode_entries};
use forebay_wire::recording::{decode_uses, encode_uses};
use forebay_wire::{Answer, Envelope, FRAME_HEAD_BYTES, FrameHead, Greeting, Hello, Listing, Parcel};

/// Of a segment of a log.
const SEGMENT_BYTES: u32 = 64 << 20;

/// Decodes bytes, checks what must hold then, and tells whether they were well formed.
type Exercise = fn(&[u8]) -> bool;

/// How many files of a corpus are well formed; all are decoded.
fn well_formed(corpus: &str, exercise: Exercise) -> usize {
    let files = fs::read_dir(Path::new("../../../fuzz/corpus").join(corpus)).unwrap();
    files.filter(|file| exercise(&fs::read(file.as_ref().unwrap().path()).unwrap())).count()
}

/// Equal messages, not equal bytes: a varint may be written longer than it need be.
fn round_trip<T>(bytes: &[u8]) -> bool
where
    T: Checked + PartialEq + Debug + serde::Serialize + for<'a> serde::Deserialize<'a>,
{
    let Ok(message) = decode::<T>(bytes) else { return false };
    assert!(message.is_within_limits());
    assert_eq!(decode::<T>(&encode(&message)).as_ref(), Ok(&message));
    true
}

fn entries_round_trip(bytes: &[u8]) -> bool {
    let Ok(records) = decode_entries(bytes) else { return false };
    assert_eq!(decode_entries(&encode_entries(&records)).as_ref(), Ok(&records));
    true
}

fn uses_round_trip(bytes: &[u8]) -> bool {
    let Ok(uses) = decode_uses(bytes) else { return false };
    assert_eq!(decode_uses(&encode_uses(&uses)).as_ref(), Ok(&uses));
    true
}

fn head_round_trip(bytes: &[u8]) -> bool {
    let Some(Ok(head)) = bytes.first_chunk::<FRAME_HEAD_BYTES>().map(FrameHead::decode) else { return false };
    assert_eq!(FrameHead::decode(&head.encode()), Ok(head));
    true
}

fn listing_is_searchable(bytes: &[u8]) -> bool {
    let Ok(listing) = Listing::parse(Bytes::copy_from_slice(bytes)) else { return false };
    assert_eq!(listing.bytes().as_ref(), bytes);
    for (index, entry) in listing.entries().enumerate() {
        assert_eq!(listing.find(entry.name), Some(index));
    }
    let _ = listing.generation();
    assert_eq!(listing.find(b"/"), None);
    true
}

#[test]
fn messages_decode_to_themselves_or_are_refused() {
    let kinds: [(&str, Exercise); 7] = [
        ("frame head", head_round_trip),
        ("greeting", round_trip::<Greeting>),
        ("hello", round_trip::<Hello>),
        ("request", round_trip::<Envelope>),
        ("answer", round_trip::<Answer>),
        ("entries", entries_round_trip),
        ("uses", uses_round_trip),
    ];
    for (kind, exercise) in kinds {
        let found = well_formed("wire_message", exercise);
        println!("{kind}: {found}");
        assert!(found > 0, "no file of the corpus is a well-formed {kind}");
    }
}

/// A request's place in its enumeration is its name on the wire: a new one in between would make others of the old.
#[test]
fn each_request_of_the_corpus_is_what_its_name_says() {
    let mut found = 0;
    for file in fs::read_dir("../../../fuzz/corpus/wire_message").unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if let Some(word) = name.strip_prefix("request-") {
            let Envelope { request, .. } = decode(&fs::read(&path).unwrap()).unwrap();
            assert_eq!(request.message.word(), word);
            found += 1;
        }
    }
    assert_eq!(found, 19, "one of each");
}

fn parcel_comes_back(bytes: &[u8]) -> bool {
    let Ok(parcel) = Parcel::parse(Bytes::copy_from_slice(bytes)) else { return false };
    let again = Parcel::parse(parcel.encode().concat().into()).unwrap();
    assert_eq!((again.count, again.absent, again.blocks), (parcel.count, parcel.absent, parcel.blocks));
    assert_eq!(again.places, parcel.places);
    let listings = parcel.listings.iter().zip(&again.listings);
    assert_eq!(again.listings.len(), parcel.listings.len());
    assert!(listings.map(|(one, other)| (one.1.bytes(), other.1.bytes())).all(|(one, other)| one == other));
    true
}

#[test]
fn parcels_come_back_as_they_were_or_are_refused() {
    let found = well_formed("wire_parcel", parcel_comes_back);
    println!("parcels: {found}");
    assert!(found > 0, "no file of the corpus is a well-formed parcel");
}

/// The head with its own place, and its checksum made right.
fn log_record_comes_back(bytes: &[u8]) -> bool {
    let Some(mut bytes) = bytes.first_chunk::<RECORD_HEAD_BYTES>().copied() else { return false };
    let checksum = crc32c::crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&checksum.to_le_bytes());
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let (identity, position) = (LogIdentity(long(8)), LogPosition { segment: long(16), offset: long(24) as u32 });
    let Ok(head) = RecordHead::decode(&bytes, identity, position, SEGMENT_BYTES) else { return false };
    assert_eq!(head.encode(identity), bytes);
    assert!(head.contents_offset() <= SEGMENT_BYTES && head.end().is_some_and(|end| end <= SEGMENT_BYTES));
    true
}

#[test]
fn records_of_a_log_end_within_their_segment_or_are_refused() {
    for file in fs::read_dir("../../../fuzz/corpus/log_record").unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_good = !name.starts_with("lying-") && name != "cut-short";
        assert_eq!(log_record_comes_back(&fs::read(&path).unwrap()), is_good, "{name}");
    }
    assert_eq!(well_formed("log_record", log_record_comes_back), 5, "one of each kind");
}

#[test]
fn listings_are_searchable_or_refused() {
    let found = well_formed("wire_listing", listing_is_searchable);
    println!("listings: {found}");
    assert!(found > 0, "no file of the corpus is a well-formed listing");
}
