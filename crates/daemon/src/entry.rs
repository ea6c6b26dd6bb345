//! What the kernel is told of a name, and for how long it may believe it.

use std::time::Duration;

use forebay_fuse::Entry;

/// The snapshot holds until the user refreshes it, and the kernel is told of a refresh: nothing ever runs out.
pub(super) const FOR_EVER: Duration = Duration::MAX;

/// An entry as the kernel is told of it, for it to believe so long.
pub(super) fn for_kernel(entry: forebay_node::Entry, ttl: Duration) -> Entry {
    Entry { node: entry.inode.0, generation: 0, attributes: entry.attributes, entry_ttl: ttl, attribute_ttl: ttl }
}
