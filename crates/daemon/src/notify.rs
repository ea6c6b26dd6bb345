//! Telling the kernel what it may no longer believe.

use forebay_fuse::Notifier;
use forebay_node::StaleInode;

/// Lets the kernel ask again for an inode and its name. On a thread that no request waits for: the kernel may make a
/// notification wait for a request that only a reader would take.
pub(super) fn invalidate(notifier: &Notifier, stale: &StaleInode) {
    // An inode that the kernel has forgotten meanwhile is no failure, and nothing can be done about any other.
    let _ = notifier.inval_inode(stale.inode.0, 0, -1);
    if let Some((parent, name)) = &stale.entry {
        let _ = notifier.inval_entry(parent.0, name);
    }
}
