//! Entries of names for the kernel.

use forebay_fuse::Entry;

use super::entry_ttl::EntryTtl;

/// An entry as the kernel is told of it, for it to believe so long.
pub fn for_kernel(entry: forebay_read::Entry, ttl: &EntryTtl) -> Entry {
    let ttl = ttl.get();
    Entry { node: entry.inode.0, generation: 0, attributes: entry.attributes, entry_ttl: ttl, attribute_ttl: ttl }
}
