//! A directory listing as one block of bytes: what travels is what is kept, and nothing is decoded on a hit.
//!
//! Little endian: a head (`version u8, flags u8, reserved u16, count u32`, the directory's own attributes), `count`
//! offsets (`u32` from the block's start), then the entries in the order of their names' bytes, which makes a lookup a
//! binary search and gives `telldir` positions that mean the same on every node. An entry is
//! `kind u8, name length u8, target length u16, ino u64`, attributes when the entry has them, the name, the target.
//! A listing is complete: a name that is not in it does not exist in that generation of the directory.

use std::hash::{BuildHasher, Hash, Hasher as _};

use bytes::{Bytes, BytesMut};
use forebay_types::{Attributes, Generation, Hasher, Kind, Name, Timestamp, limits};
use serde::{Deserialize, Serialize};

use crate::WireError;

const VERSION: u8 = 1;
const ATTRIBUTES_BYTES: usize = 84;
const HEAD_BYTES: usize = 8 + ATTRIBUTES_BYTES;
const ENTRY_HEAD_BYTES: usize = 12;
/// Bit of an entry's kind byte: attributes follow (and, for a symbolic link, its target).
const HAS_ATTRIBUTES: u8 = 0x80;

/// A checked, complete listing. Cloning shares the bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Listing {
    bytes: Bytes,
    count: usize,
    names_hash: u64,
}

/// Which listing of a directory: what tells places in one from places in another. A generation alone does not, because a
/// clock ticks slower than files are made.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct ListingVersion {
    /// The generation of the directory.
    pub generation: Generation,
    /// A hash of all its names in their order.
    pub names_hash: u64,
}

/// One entry of a listing, borrowed from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListingEntry<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its kind.
    pub kind: Kind,
    /// Its inode number.
    pub ino: u64,
    /// Its attributes, unless the listing left them out.
    pub attributes: Option<Attributes>,
    /// A symbolic link's target; empty for anything else and where attributes were left out.
    pub target: &'a [u8],
}

impl Listing {
    /// Checks every offset, length, name and the order, once.
    ///
    /// # Errors
    /// `WireError::Listing` naming the first thing wrong.
    pub fn parse(bytes: Bytes) -> Result<Self, WireError> {
        let wrong = WireError::Listing;
        if bytes.len() < HEAD_BYTES || bytes[0] != VERSION {
            return Err(wrong("no head of this version"));
        }
        let count = read_u32(&bytes, 4) as usize;
        let entries_start = HEAD_BYTES + count.saturating_mul(4);
        if count > limits::LISTING_ENTRIES_MAX || entries_start > bytes.len() {
            return Err(wrong("more entries than bytes"));
        }
        let mut expected = entries_start;
        let mut previous: &[u8] = &[];
        let mut names = Hasher::default().build_hasher();
        for index in 0..count {
            if read_u32(&bytes, HEAD_BYTES + 4 * index) as usize != expected {
                return Err(wrong("an offset does not lead to its entry"));
            }
            let (name, end) = check_entry(&bytes, expected)?;
            if index > 0 && previous >= name {
                return Err(wrong("names are not in order"));
            }
            name.hash(&mut names);
            previous = name;
            expected = end;
        }
        if expected != bytes.len() {
            return Err(wrong("bytes left over"));
        }
        Ok(Self { bytes, count, names_hash: names.finish() })
    }

    /// The bytes that travel.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Number of entries, without `.` and `..`.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether the directory is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The directory's own attributes.
    #[must_use]
    pub fn directory(&self) -> Attributes {
        read_attributes(&self.bytes, 8)
    }

    /// The version of the directory that was listed.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.directory().generation()
    }

    /// Which listing of the directory this is.
    #[must_use]
    pub fn version(&self) -> ListingVersion {
        ListingVersion { generation: self.generation(), names_hash: self.names_hash }
    }

    /// Entry `index` in the order of names.
    ///
    /// # Panics
    /// When `index` is not below `len`.
    #[must_use]
    pub fn entry(&self, index: usize) -> ListingEntry<'_> {
        assert!(index < self.count, "entry {index} of a listing of {}", self.count);
        let at = read_u32(&self.bytes, HEAD_BYTES + 4 * index) as usize;
        let kind_byte = self.bytes[at];
        let name_len = self.bytes[at + 1] as usize;
        let target_len = read_u16(&self.bytes, at + 2) as usize;
        let ino = read_u64(&self.bytes, at + 4);
        let mut next = at + ENTRY_HEAD_BYTES;
        let attributes = (kind_byte & HAS_ATTRIBUTES != 0).then(|| read_attributes(&self.bytes, next));
        next += attributes.map_or(0, |_| ATTRIBUTES_BYTES);
        ListingEntry {
            name: &self.bytes[next..next + name_len],
            kind: Kind::from_dirent(kind_byte & !HAS_ATTRIBUTES).unwrap_or(Kind::File),
            ino,
            attributes,
            target: &self.bytes[next + name_len..next + name_len + target_len],
        }
    }

    /// The entries in the order of names.
    pub fn entries(&self) -> impl Iterator<Item = ListingEntry<'_>> {
        (0..self.count).map(|index| self.entry(index))
    }

    /// The index of `name`; `None` when it does not exist.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.name(middle).cmp(name) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(middle),
            }
        }
        None
    }

    fn name(&self, index: usize) -> &[u8] {
        let at = read_u32(&self.bytes, HEAD_BYTES + 4 * index) as usize;
        let start = at + ENTRY_HEAD_BYTES + if self.bytes[at] & HAS_ATTRIBUTES != 0 { ATTRIBUTES_BYTES } else { 0 };
        &self.bytes[start..start + self.bytes[at + 1] as usize]
    }
}

impl std::fmt::Debug for Listing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Listing of {} entries, {} bytes", self.count, self.bytes.len())
    }
}

/// Checks the entry at `at` and returns its name and where it ends.
fn check_entry(bytes: &[u8], at: usize) -> Result<(&[u8], usize), WireError> {
    let wrong = WireError::Listing;
    let head = bytes.get(at..at + ENTRY_HEAD_BYTES).ok_or(wrong("an entry is cut off"))?;
    let has_attributes = head[0] & HAS_ATTRIBUTES != 0;
    let kind = Kind::from_dirent(head[0] & !HAS_ATTRIBUTES).ok_or(wrong("an unknown kind"))?;
    let target_len = read_u16(head, 2) as usize;
    let may_have_target = has_attributes && kind == Kind::Symlink;
    if target_len > limits::TARGET_BYTES_MAX || (target_len > 0 && !may_have_target) {
        return Err(wrong("a target where there is none, or too long"));
    }
    let start = at + ENTRY_HEAD_BYTES + if has_attributes { ATTRIBUTES_BYTES } else { 0 };
    let name = bytes.get(start..start + head[1] as usize).ok_or(wrong("a name is cut off"))?;
    Name::check(name).map_err(|_| wrong("a name is not a name"))?;
    let end = start + name.len() + target_len;
    if end > bytes.len() {
        return Err(wrong("a target is cut off"));
    }
    Ok((name, end))
}

/// Collects entries in any order and encodes them.
#[derive(Default)]
pub struct ListingBuilder {
    entries: Vec<Built>,
}

struct Built {
    name: Box<[u8]>,
    kind: Kind,
    ino: u64,
    attributes: Option<Attributes>,
    target: Box<[u8]>,
}

impl ListingBuilder {
    /// An empty listing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of entries so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds an entry. Names, targets and counts above their limits, and names that are none, are a mistake of the
    /// backing file system and are refused.
    ///
    /// # Errors
    /// `WireError::Listing` naming what is wrong; the builder is unchanged.
    pub fn push(&mut self, entry: ListingEntry<'_>) -> Result<(), WireError> {
        Name::check(entry.name).map_err(|_| WireError::Listing("a name is not a name"))?;
        if entry.target.len() > limits::TARGET_BYTES_MAX || self.entries.len() >= limits::LISTING_ENTRIES_MAX {
            return Err(WireError::Listing("a target or the directory is too large"));
        }
        let keep_target = entry.attributes.is_some() && entry.kind == Kind::Symlink;
        self.entries.push(Built {
            name: entry.name.into(),
            kind: entry.kind,
            ino: entry.ino,
            attributes: entry.attributes,
            target: if keep_target { entry.target.into() } else { Box::default() },
        });
        Ok(())
    }

    /// Sorts, drops names that the backing file system gave twice, and encodes.
    ///
    /// # Errors
    /// `WireError::Listing` when the block would exceed `limits::LISTING_BYTES_MAX`.
    pub fn finish(mut self, directory: &Attributes) -> Result<Listing, WireError> {
        self.entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        self.entries.dedup_by(|a, b| a.name == b.name);
        let count = self.entries.len();
        let entries_start = HEAD_BYTES + 4 * count;
        let total = entries_start + self.entries.iter().map(Built::encoded_bytes).sum::<usize>();
        if total > limits::LISTING_BYTES_MAX {
            return Err(WireError::Listing("the directory is too large"));
        }
        let mut bytes = BytesMut::with_capacity(total);
        bytes.extend_from_slice(&[VERSION, 0, 0, 0]);
        bytes.extend_from_slice(&(count as u32).to_le_bytes());
        write_attributes(&mut bytes, directory);
        let mut at = entries_start;
        for entry in &self.entries {
            bytes.extend_from_slice(&(at as u32).to_le_bytes());
            at += entry.encoded_bytes();
        }
        let mut names = Hasher::default().build_hasher();
        for entry in &self.entries {
            entry.encode(&mut bytes);
            entry.name.hash(&mut names);
        }
        Ok(Listing { bytes: bytes.freeze(), count, names_hash: names.finish() })
    }
}

impl Built {
    fn encoded_bytes(&self) -> usize {
        let attributes = if self.attributes.is_some() { ATTRIBUTES_BYTES } else { 0 };
        ENTRY_HEAD_BYTES + attributes + self.name.len() + self.target.len()
    }

    fn encode(&self, bytes: &mut BytesMut) {
        let flag = if self.attributes.is_some() { HAS_ATTRIBUTES } else { 0 };
        bytes.extend_from_slice(&[self.kind.dirent() | flag, self.name.len() as u8]);
        bytes.extend_from_slice(&(self.target.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&self.ino.to_le_bytes());
        if let Some(attributes) = &self.attributes {
            write_attributes(bytes, attributes);
        }
        bytes.extend_from_slice(&self.name);
        bytes.extend_from_slice(&self.target);
    }
}

fn write_attributes(bytes: &mut BytesMut, attributes: &Attributes) {
    for word in [attributes.ino, attributes.size_bytes, attributes.blocks] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    for time in [attributes.atime, attributes.mtime, attributes.ctime] {
        bytes.extend_from_slice(&time.seconds.to_le_bytes());
        bytes.extend_from_slice(&time.nanos.to_le_bytes());
    }
    let Attributes { mode, nlink, uid, gid, rdev, blksize, .. } = *attributes;
    for word in [mode, nlink, uid, gid, rdev, blksize] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
}

fn read_attributes(bytes: &[u8], at: usize) -> Attributes {
    let time = |at: usize| Timestamp { seconds: read_u64(bytes, at) as i64, nanos: read_u32(bytes, at + 8) };
    Attributes {
        ino: read_u64(bytes, at),
        size_bytes: read_u64(bytes, at + 8),
        blocks: read_u64(bytes, at + 16),
        atime: time(at + 24),
        mtime: time(at + 36),
        ctime: time(at + 48),
        mode: read_u32(bytes, at + 60),
        nlink: read_u32(bytes, at + 64),
        uid: read_u32(bytes, at + 68),
        gid: read_u32(bytes, at + 72),
        rdev: read_u32(bytes, at + 76),
        blksize: read_u32(bytes, at + 80),
    }
}

fn read_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn read_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn read_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from(read_u32(bytes, at)) | u64::from(read_u32(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    fn attributes(seed: u64) -> Attributes {
        Attributes {
            ino: seed,
            size_bytes: seed.rotate_left(7),
            mtime: Timestamp { seconds: -(seed as i64 & 0xffff), nanos: 999_999_999 },
            mode: 0o100_644,
            nlink: 1,
            ..Attributes::default()
        }
    }

    fn build(names: &BTreeMap<Vec<u8>, (u64, bool)>) -> Listing {
        let mut builder = ListingBuilder::new();
        for (name, (seed, full)) in names.iter().rev() {
            let attributes = full.then(|| attributes(*seed));
            builder.push(ListingEntry { name, kind: Kind::File, ino: *seed, attributes, target: &[] }).unwrap();
        }
        builder.finish(&attributes(42)).unwrap()
    }

    fn names() -> impl Strategy<Value = BTreeMap<Vec<u8>, (u64, bool)>> {
        let name =
            proptest::collection::vec(any::<u8>(), 1..40).prop_filter("a name", |name| Name::check(name).is_ok());
        proptest::collection::btree_map(name, any::<(u64, bool)>(), 0..60)
    }

    proptest! {
        #[test]
        fn a_listing_agrees_with_a_map(names in names(), absent in proptest::collection::vec(any::<u8>(), 0..40)) {
            let built = build(&names);
            let listing = Listing::parse(built.bytes().clone()).unwrap();
            prop_assert_eq!(listing.version(), built.version());
            prop_assert_eq!(listing.len(), names.len());
            prop_assert_eq!(listing.directory(), attributes(42));
            for (index, (name, (seed, full))) in names.iter().enumerate() {
                prop_assert_eq!(listing.find(name), Some(index));
                let entry = listing.entry(index);
                prop_assert_eq!((entry.name, entry.ino), (&name[..], *seed));
                prop_assert_eq!(entry.attributes, full.then(|| attributes(*seed)));
            }
            prop_assert_eq!(listing.find(&absent).is_some(), names.contains_key(&absent));
        }

        #[test]
        fn a_spoiled_byte_is_refused_or_harmless(names in names(), at: prop::sample::Index, byte: u8) {
            let mut bytes = build(&names).bytes().to_vec();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(listing) = Listing::parse(bytes.into()) {
                for entry in listing.entries() {
                    prop_assert!(Name::check(entry.name).is_ok());
                }
            }
        }

        #[test]
        fn parsing_any_bytes_ends(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = Listing::parse(bytes.into());
        }
    }

    #[test]
    fn a_symbolic_link_keeps_its_target() {
        let mut builder = ListingBuilder::new();
        let target = [b'x'; limits::TARGET_BYTES_MAX];
        let attributes = Some(attributes(1));
        builder.push(ListingEntry { name: b"l", kind: Kind::Symlink, ino: 1, attributes, target: &target }).unwrap();
        let listing = Listing::parse(builder.finish(&Attributes::default()).unwrap().bytes().clone()).unwrap();
        assert_eq!(listing.entry(0).target, &target);
    }
}
