//! A node comes to terms with the tree's owner before its programs are served.

use std::time::{Duration, Instant};

use forebay_types::Errno;
use forebay_wire::write::{Caller, Operation};

use super::parts::WriteParts;

/// Identities that the daemon before may have given, and that have not come to the owner yet.
const SERIALS_SKIPPED: u64 = 1 << 16;

/// How long a node that begins waits for the owner, of the time that `up` has: longer than other nodes take to begin.
const JOIN_PATIENCE: Duration = Duration::from_secs(20);

/// How often it looks.
const JOIN_LOOK: Duration = Duration::from_millis(2);

impl WriteParts {
    /// Comes to terms with the owner before any program is served.
    pub(super) fn join(&self) {
        let numbered = self.reader.tree.next_serial().map(|next| self.local.raise_serial(next + SERIALS_SKIPPED));
        let opened = if self.is_first_daemon() { self.begin_anew() } else { self.commits.settle() };
        for errno in [numbered, opened].into_iter().filter_map(Result::err) {
            tracing::error!(%errno, "joining the burst tier");
        }
        let _ = self.joined.set(());
    }

    /// Until then nobody is to be told that the node is ready: programs of other nodes would begin, and what is committed here for programs of
    /// an earlier job would come over what they write. Where there is nothing of these, nobody has to wait for the owner, and where it does not
    /// answer, the node is ready without that after a while.
    pub async fn until_joined(&self) {
        let began = Instant::now();
        while self.joined.get().is_none()
            && self.files.all().iter().any(|open| open.is_dirty() || open.pending_bytes() > 0)
        {
            if began.elapsed() >= JOIN_PATIENCE {
                tracing::warn!(
                    "the owner of the burst tree does not answer: what an earlier job left here is committed later"
                );
                return;
            }
            tokio::time::sleep(JOIN_LOOK).await;
        }
    }

    /// On a new mount nothing is open. What programs of an earlier job wrote and did not commit is committed for them.
    fn begin_anew(&self) -> Result<(), Errno> {
        self.commits.clear_all()?;
        self.commits.carry_out_own(&Caller::default(), Operation::CloseAll { node: self.local.rank })
    }
}
