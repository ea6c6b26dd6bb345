//! A node comes to terms with the leader before its programs are served.
//!
//! First it makes sure that its store is about the leader's tree. The identities of files, and what was written and not committed, mean
//! something in one tree only: in another they would be parts of other files. A store that has nothing of that kind goes on with any tree.

use std::sync::Arc;
use std::time::Duration;

use forebay_types::Errno;
use forebay_wire::write::{Caller, Operation};

use super::notes::StoreTree;
use super::parts::WriteParts;
use super::tree::checkpoint::{self, Parts};

/// Identities that the daemon before may have given, and that have not come to the leader yet.
const SERIALS_SKIPPED: u64 = 1 << 16;

/// How long a node that begins waits for the leader, of the time that `up` has: longer than other nodes take to begin.
const JOIN_TIMEOUT: Duration = Duration::from_secs(20);

/// The pause before a leader that was silent for long is asked anew.
const ASK_RETRY_DELAY: Duration = Duration::from_secs(1);

impl WriteParts {
    /// Comes to terms with the leader before any program is served.
    ///
    /// # Errors
    /// Why this node has no part in the burst tier: nothing of its store may be committed or given back then.
    pub(super) async fn join(&self) -> Result<(), String> {
        let met = self.meet_tree().await;
        if let Err(why) = &met {
            tracing::error!(why, "this node has no part in the burst tier");
            self.joined.set(met.clone());
            return met;
        }
        let numbered = self.reader.tree.next_serial().await;
        let numbered = numbered.map(|next| self.local.raise_serial(next + SERIALS_SKIPPED));
        let opened = match self.is_first_daemon() {
            true => self.begin_anew().await,
            // Lost changes are known first.
            false => self.commits.resolve_unanswered().await.and(self.drop_overtaken().await),
        };
        for errno in [numbered, opened].into_iter().filter_map(Result::err) {
            tracing::error!(%errno, "joining the burst tier");
        }
        self.joined.set(met);
        Ok(())
    }

    /// The store is about the leader's tree from now on, if it can be.
    async fn meet_tree(&self) -> Result<(), String> {
        if self.joined.serves_own_writes {
            // A mount's programs see one tree: its owner refuses to begin another.
            return Ok(());
        }
        let known = self.local.tree_number();
        let number = self.leaders_tree(known).await?;
        if known.is_some_and(|known| known != number) {
            if self.has_something() {
                return Err(format!(
                    "the store {} of this node has what another run of the job wrote, and the store of node {} is not of \
                     that run: land it first (forebay salvage --burst-store {}), or move it away",
                    self.local.log.path().display(),
                    self.nodes.leadership().leader,
                    self.local.log.path().display()
                ));
            }
            if let Some(second) = &self.second {
                *second.mirror() = None;
            }
        }
        let tree = StoreTree { number, mount_made_at_ms: self.made_at_ms };
        self.local.note_tree(tree).map_err(|errno| format!("the store cannot be written to: {errno}"))
    }

    /// Whether the store has anything of the run that it was written in.
    pub(super) fn has_something(&self) -> bool {
        self.has_uncommitted() || self.joined.has_mirrored || self.local.log.space().live_bytes > 0
    }

    /// Asks until the leader answers, or all is over.
    async fn leaders_tree(&self, known: Option<u64>) -> Result<u64, String> {
        loop {
            match self.reader.tree.number(known).await {
                Ok(number) => return Ok(number),
                Err(errno) if self.nodes.is_ending() => return Err(format!("the leader: {errno}")),
                Err(_) => self.nodes.pause(ASK_RETRY_DELAY).await,
            }
        }
    }

    fn has_uncommitted(&self) -> bool {
        self.files.all().iter().any(|open| open.is_dirty() || open.pending_bytes() > 0)
    }

    /// Until then nobody is to be told that the node is ready: programs of other nodes would begin, and what is committed here for programs of
    /// an earlier job would come over what they write. Where there is nothing of these, nobody has to wait for the leader, and where it does not
    /// answer, the node is ready without that after a while.
    ///
    /// # Errors
    /// Why this node has no part in the burst tier.
    pub async fn until_joined(&self) -> Result<(), String> {
        if self.joined.outcome().is_none() && self.has_something() {
            tokio::select! {
                biased;
                _ = self.joined.until_known() => {}
                () = self.nodes.pause(JOIN_TIMEOUT) => {
                    tracing::warn!(
                        "the leader does not answer: what an earlier job left here is committed later"
                    );
                }
            }
        }
        self.joined.outcome().cloned().unwrap_or(Ok(()))
    }

    /// On a new mount nothing is open. Uncommitted writes of an earlier job's programs are committed for them.
    ///
    /// Not where the log lacks its end, and with it that they were committed: they would come over what was written since. None of them was
    /// synced, since that would have kept the log's end. After a loss of power the notes of commits that were made at the same time as the last one
    /// may be missing, too.
    async fn begin_anew(&self) -> Result<(), Errno> {
        let is_after_end = |record| self.local.last_record.is_some_and(|last| record > last);
        let is_lost = |committed| {
            let lacks_note = self.files.has_uncommitted(committed);
            let may_lack_others = self.joined.may_lack_end && self.files.has_pending(committed);
            is_after_end(committed) || lacks_note || may_lack_others
        };
        if self.reader.tree.last_committed().await?.is_some_and(is_lost) {
            let extents = self.files.drop_uncommitted();
            if extents > 0 {
                tracing::warn!(
                    extents,
                    "the loss of its power has taken the end of this node's log: writes that may be committed are not committed again"
                );
                self.forget_dropped()?;
            }
        }
        self.commits.resend_unanswered().await?;
        self.drop_overtaken().await?;
        self.commits.commit_all().await?;
        self.commits.carry_out_own(&Caller::default(), Operation::CloseAll).await
    }

    /// Writes that were pending while this node led the tree, and were not committed before another did, are committed only to files that nobody
    /// has changed since: others had the locks of its programs. Those to other files are lost, and `fsync` and `drain` say so.
    async fn drop_overtaken(&self) -> Result<(), Errno> {
        let mut dropped = 0;
        for (file, pending) in self.nodes.lost.take_overtaken() {
            let state = loop {
                match self.reader.tree.state(file).await {
                    Err(Errno::ENOENT | Errno::ESTALE) => break None,
                    Err(errno) if self.nodes.is_ending() => return Err(errno),
                    Err(_) => self.nodes.pause(ASK_RETRY_DELAY).await,
                    Ok(state) => break Some(state),
                }
            };
            // Writes to a file that is gone are not committed.
            let Some(state) = state else { continue };
            let is_as_then = pending.iter().all(|one| one.version == state.version);
            if is_as_then && !self.nodes.lost.has(file) {
                continue;
            }
            dropped += self.files.drop_records(file, &pending.iter().map(|one| one.record).collect());
            self.nodes.lost.note_overtaken(file);
        }
        if dropped == 0 {
            return Ok(());
        }
        tracing::warn!(
            extents = dropped,
            "unsynced writes of this node are lost: others have changed these files since"
        );
        self.forget_dropped()
    }

    /// The next daemon would find in the log what was dropped, as writes of programs of its own mount.
    fn forget_dropped(&self) -> Result<(), Errno> {
        let (leader, second) = (self.leader().map(Arc::as_ref), self.second.as_deref());
        checkpoint::write(&self.local, Parts { leader, second }, &self.files).map_err(|error| error.errno())
    }
}
