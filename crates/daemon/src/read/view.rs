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
/// notification wait for a request that only a reader would take. Whether the kernel knows it: an inode that it has forgotten meanwhile is
/// no failure.
#[must_use]
pub fn invalidate(notifier: &Notifier, stale: &[StaleInode]) -> bool {
    let nodes = stale.iter().map(|StaleInode { inode, entry, .. }| {
        (inode.0, entry.as_ref().map(|(parent, name)| (parent.0, name.as_slice())))
    });
    let told = notifier.inval_all(nodes);
    if let Err(error) = &told {
        tracing::error!(%error, "the kernel was not told of all that has changed: programs may find it as it was");
    }
    told.is_ok()
}
