//! Names and attributes as the kernel takes them, and for how long it may believe them.

use std::time::Duration;

use forebay_types::Attributes;

use crate::abi;

/// The node behind a name, and for how long the kernel may believe it without asking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The node: the kernel asks about it by this number until it has forgotten it. 1 is the root.
    pub node: u64,
    /// Tells two uses of one node number apart; (node, generation) is never used twice.
    pub generation: u64,
    /// The attributes that `stat` shows.
    pub attributes: Attributes,
    /// How long the name stays valid; `Duration::MAX` is for ever.
    pub entry_ttl: Duration,
    /// How long the attributes stay valid.
    pub attribute_ttl: Duration,
}

pub(crate) fn entry_out(entry: &Entry) -> abi::EntryOut {
    let (entry_valid, entry_valid_nsec) = seconds_nanos(entry.entry_ttl);
    let (attr_valid, attr_valid_nsec) = seconds_nanos(entry.attribute_ttl);
    abi::EntryOut {
        nodeid: entry.node,
        generation: entry.generation,
        entry_valid,
        attr_valid,
        entry_valid_nsec,
        attr_valid_nsec,
        attr: attr(&entry.attributes),
    }
}

pub(crate) fn attr(from: &Attributes) -> abi::Attr {
    abi::Attr {
        ino: from.ino,
        size: from.size_bytes,
        blocks: from.blocks,
        // Times before 1970 travel as the two's complement; the kernel reads them back as signed.
        atime: from.atime.seconds.cast_unsigned(),
        mtime: from.mtime.seconds.cast_unsigned(),
        ctime: from.ctime.seconds.cast_unsigned(),
        atimensec: from.atime.nanos,
        mtimensec: from.mtime.nanos,
        ctimensec: from.ctime.nanos,
        mode: from.mode,
        nlink: from.nlink,
        uid: from.uid,
        gid: from.gid,
        rdev: from.rdev,
        blksize: from.blksize,
        flags: 0,
    }
}

/// A duration as the kernel takes timeouts; it cuts what is too long for it down to some 100 million years.
pub(crate) fn seconds_nanos(ttl: Duration) -> (u64, u32) {
    (ttl.as_secs(), ttl.subsec_nanos())
}
