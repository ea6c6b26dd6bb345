//! Limits of a peer's request to write a part of a large file.

use forebay_types::{BackingId, Generation, Kind, LogPosition, NodeRank, Timestamp, ViewPath};
use forebay_wire::log_record::RECORD_CONTENTS_BYTES_MAX;
use forebay_wire::message::{decode, encode};
use forebay_wire::write::WrittenExtent;
use forebay_wire::write_message::{Leadership, STRIPE_BYTES_MAX, STRIPE_EXTENTS_MAX, Stripe, WriteMessage};
use forebay_wire::{Envelope, Request};

const RECORD: u64 = RECORD_CONTENTS_BYTES_MAX as u64;

fn extent(offset: u64, len: u64) -> WrittenExtent {
    WrittenExtent { offset, len, node: NodeRank(1), position: LogPosition { segment: 1, offset: 0 }, skip: 0 }
}

/// Whether a node that gets these extents looks at them.
fn is_taken(extents: Vec<WrittenExtent>) -> bool {
    let generation = Generation { ino: 1, size_bytes: 0, mtime: Timestamp::default(), ctime: Timestamp::default() };
    let draft = BackingId { generation, born: Timestamp::default(), kind: Kind::File };
    let stripe = Stripe { leadership: Leadership::default(), path: ViewPath::new(b"draft").unwrap(), draft, extents };
    let request = Request::from(WriteMessage::Stripe(stripe));
    decode::<Envelope>(&encode(&Envelope { remaining_ms: 1, request })).is_ok()
}

#[test]
fn a_stripe_is_of_a_file_that_there_can_be_and_no_larger_than_stripes_are() {
    assert!(is_taken(vec![]));
    assert!(is_taken(vec![extent(0, 5), extent(5, 7), extent(1 << 40, RECORD)]));
    let whole: Vec<_> = (0..STRIPE_BYTES_MAX / RECORD).map(|record| extent(record * RECORD, RECORD)).collect();
    assert!(is_taken(whole.clone()));
    assert!(is_taken(vec![extent(i64::MAX as u64 - 1, 1)]));
    assert!(!is_taken([whole, vec![extent(STRIPE_BYTES_MAX, 1)]].concat()), "too large");
    assert!(!is_taken(vec![extent(0, 1); STRIPE_EXTENTS_MAX + 1]), "too many");
    assert!(!is_taken(vec![extent(8, 8), extent(12, 8)]), "they overlap");
    assert!(!is_taken(vec![extent(8, 8), extent(0, 8)]), "they are in no order");
    assert!(!is_taken(vec![extent(i64::MAX as u64, 1)]), "no file is so long");
    assert!(!is_taken(vec![extent(u64::MAX, 1)]), "their end overflows");
    assert!(!is_taken(vec![extent(0, u64::MAX), extent(u64::MAX, u64::MAX)]), "their sum overflows");
    assert!(!is_taken(vec![WrittenExtent { skip: u32::MAX, ..extent(0, 1) }]), "where they lie in a record overflows");
}
