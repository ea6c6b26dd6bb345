//! The view's FUSE session, and telling the kernel what it may no longer believe.

use std::sync::{Arc, OnceLock};

use forebay_fuse::{Notifier, Session};
use forebay_read::StaleInode;

/// The session, once it serves.
#[derive(Default)]
pub struct View(OnceLock<Arc<Session>>);

impl View {
    pub fn set_session(&self, session: Arc<Session>) {
        let _ = self.0.set(session);
    }

    pub fn session(&self) -> Option<&Arc<Session>> {
        self.0.get()
    }

    pub fn notifier(&self) -> Option<Notifier> {
        self.session().map(|session| session.notifier())
    }
}

/// Lets the kernel ask again for inodes and their names. On a thread that no request waits for: the kernel may make a
/// notification wait for a request that only a reader would take.
pub fn invalidate(notifier: &Notifier, stale: &[StaleInode]) {
    for StaleInode { inode, entry, .. } in stale {
        // An inode that the kernel has forgotten meanwhile is no failure, and nothing can be done about any other.
        let _ = notifier.inval_inode(inode.0, 0, -1);
        if let Some((parent, name)) = entry {
            let _ = notifier.inval_entry(parent.0, name);
        }
    }
}
