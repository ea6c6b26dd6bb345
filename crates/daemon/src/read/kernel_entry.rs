//! What the kernel is told of a name.

use std::time::Duration;

use forebay_fuse::Entry;

/// An entry as the kernel is told of it, for it to believe so long.
pub fn for_kernel(entry: forebay_node::Entry, ttl: Duration) -> Entry {
    Entry { node: entry.inode.0, generation: 0, attributes: entry.attributes, entry_ttl: ttl, attribute_ttl: ttl }
}
