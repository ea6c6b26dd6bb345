//! Commits of this node: what its programs have written becomes everybody's.
//!
//! Where the leader is another node, a commit is written down before it is sent, so that the next daemon sends it again under
//! the same name. So does this daemon where the leader did not answer for a long time. A commit's `oldest` says which ones have been answered.
//! While one waits for its answer, programs go on writing, also to the same file.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use forebay_types::{Errno, OperationId, Timestamp};
use forebay_wire::write::{Caller, Change, CommitAt, Operation, WrittenExtent};
use forebay_write::Refusal;

use super::files::{Files, OpenFile};
use super::local::Local;
use super::notes::Note;
use super::tree::leader::Leader;
use super::tree::tree_link::TreeLink;

/// Numbers that one daemon may give: not all are written down, so that the next one begins with others.
const DAEMON_BITS: u32 = 40;

/// How long what programs write may be pending where what is old is sent ahead, seconds.
const PENDING_SECONDS_MAX: i64 = 10;

/// See the module.
pub struct Commits {
    local: Arc<Local>,
    pub files: Arc<Files>,
    tree: TreeLink,
    session: u64,
    numbers: Mutex<Numbers>,
}

#[derive(Default)]
struct Numbers {
    given: u64,
    under_way: BTreeSet<u64>,
}

impl Commits {
    /// Those of `session` by its `daemon`th daemon. `unanswered` were sent by daemons before it.
    pub fn new(
        local: &Arc<Local>,
        files: &Arc<Files>,
        tree: TreeLink,
        session: u64,
        daemon: u64,
        unanswered: impl IntoIterator<Item = OperationId>,
    ) -> Self {
        let under_way = unanswered.into_iter().filter(|id| id.session == session).map(|id| id.serial).collect();
        let numbers = Mutex::new(Numbers { given: daemon << DAEMON_BITS, under_way });
        Self { local: Arc::clone(local), files: Arc::clone(files), tree, session, numbers }
    }

    /// Has a file's pending extents committed, for those who have written them.
    ///
    /// # Errors
    /// The leader's error; extents that were not committed stay pending.
    pub async fn commit(&self, open: &OpenFile) -> Result<(), Errno> {
        let _turn = open.turn_to_commit().await;
        loop {
            // Commits that were sent meanwhile, without an answer, come first: the same would be sent twice.
            self.send_unanswered(open).await?;
            let part = open.first_written();
            if part.is_empty() {
                return Ok(());
            }
            self.begin_commit(open, part).await?;
        }
    }

    /// Learns of all that daemons before this one have sent that it was carried out, or has it carried out now. Until then it
    /// lies over what may have happened to its files since.
    ///
    /// # Errors
    /// The first that the leader did not answer; the others are settled.
    pub async fn resolve_unanswered(&self) -> Result<(), Errno> {
        let outcome = self.find_lost().await;
        outcome.and(self.resend_unanswered().await)
    }

    /// Has all carried out that daemons before this one have sent. On another mount before this daemon has any change carried out: the leader
    /// would conclude from its session that those of the one before are over.
    ///
    /// # Errors
    /// The leader's error.
    pub async fn resend_unanswered(&self) -> Result<(), Errno> {
        let mut outcome = Ok(());
        for open in self.files.all() {
            let _turn = open.turn_to_commit().await;
            outcome = outcome.and(self.send_unanswered(&open).await);
        }
        outcome
    }

    /// Finds out which changes of a daemon that led the tree the leader of today lacks: the last of them. To be asked before this daemon has any
    /// change carried out, of which the leader would conclude that those before are over.
    async fn find_lost(&self) -> Result<(), Errno> {
        let unheard = self.tree.nodes().lost.take_unheard();
        let (mut has, mut lacks, mut outcome) = (0, unheard.len(), Ok(()));
        while has < lacks {
            let middle = has.midpoint(lacks);
            match self.tree.has_carried_out(unheard[middle].0).await {
                Ok(true) => has = middle + 1,
                Ok(false) => lacks = middle,
                Err(errno) => {
                    // Not known to be there.
                    outcome = Err(errno);
                    break;
                }
            }
        }
        self.tree.nodes().lost.note_all(&unheard[has..]);
        outcome
    }

    /// Has the leader carry out a change that has a number already.
    ///
    /// # Errors
    /// The leader's error.
    pub async fn carry_out(&self, change: &Change) -> Result<(), Errno> {
        self.tree.carry_out(change).await.map(drop)
    }

    /// Sends commits of a file again that this daemon, or one before it, sent without an answer. By whoever has the turn to commit.
    async fn send_unanswered(&self, open: &OpenFile) -> Result<(), Errno> {
        while let Some(change) = open.first_unanswered() {
            let outcome = self.tree.carry_out(&change).await.map(drop);
            if outcome == Err(Errno::EIO) {
                return outcome;
            }
            self.end(change.id.serial);
            let outcome = match outcome {
                // The daemon before had its answer.
                Err(Errno::EALREADY) => Ok(()),
                outcome => gone_is_done(outcome),
            };
            open.note_answered(&change, outcome.is_ok());
            outcome?;
        }
        Ok(())
    }

    /// Has what is pending of all files committed.
    ///
    /// # Errors
    /// The first that could not be committed; the others are.
    pub async fn commit_all(&self) -> Result<(), Errno> {
        self.commit_those(|_| true).await
    }

    /// The same with files of which something has been pending for a while, so that it can be sent ahead.
    ///
    /// # Errors
    /// As `commit_all`.
    pub async fn commit_old(&self) -> Result<(), Errno> {
        let now = self.local.now();
        let is_old = |since: Timestamp| now.seconds.saturating_sub(since.seconds) >= PENDING_SECONDS_MAX;
        self.commit_those(|open| open.pending_since().is_some_and(is_old)).await
    }

    async fn commit_those(&self, is_one: impl Fn(&OpenFile) -> bool) -> Result<(), Errno> {
        let those: Vec<_> = self.files.all().into_iter().filter(|open| is_one(open)).collect();
        let mut outcome = Ok(());
        for open in those {
            outcome = outcome.and(self.commit(&open).await);
        }
        outcome
    }

    /// A change of the daemon's own, which is not sent again by the next one.
    ///
    /// # Errors
    /// The leader's error.
    pub async fn carry_out_own(&self, caller: &Caller, operation: Operation) -> Result<(), Errno> {
        let (serial, oldest) = self.begin();
        let id = OperationId { node: self.local.rank, session: self.session, serial };
        let change = Change { id, oldest, caller: caller.clone(), now: self.local.now(), operation };
        let outcome = self.tree.carry_out(&change).await.map(drop);
        self.end(serial);
        outcome
    }

    /// Commits what was written first, or writes down that it is to be sent. Waits for another node only when the leader is this one,
    /// and then without a lock that writes to other files need.
    async fn begin_commit(&self, open: &OpenFile, extents: Vec<WrittenExtent>) -> Result<(), Errno> {
        let caller = open.writer();
        // The file's time is that of its last write, whoever has it committed and when.
        let now = open.written_at().unwrap_or_else(|| self.local.now());
        let operation = Operation::Commit { file: open.file, extents, at: CommitAt::Start };
        let (serial, oldest) = self.begin();
        let id = OperationId { node: self.local.rank, session: self.session, serial };
        let change = Change { id, oldest, caller, now, operation };
        if let Some(leader) = self.tree.here() {
            let outcome = self.commit_here(leader, open, &change).await;
            self.end(serial);
            return outcome;
        }
        let _noting = self.files.noting();
        if let Err(error) = self.local.log.append_note(&Note::sent(&change)) {
            self.end(serial);
            return Err(error.errno());
        }
        open.note_unanswered(change);
        Ok(())
    }

    async fn commit_here(&self, leader: &Leader, open: &OpenFile, change: &Change) -> Result<(), Errno> {
        leader.election.hold().await?;
        let applied = {
            let _noting = self.files.noting();
            let applied = leader.apply(change);
            if matches!(applied, Ok(_) | Err(Refusal::Errno(Errno::ESTALE))) {
                open.drop_committed(change);
            }
            applied
        };
        let outcome = match applied {
            Ok(applied) => leader.tell_of(&applied).await,
            Err(Refusal::Errno(errno)) => Err(errno),
            // A commit needs to know nothing of them.
            Err(Refusal::Unlisted(_) | Refusal::Unread(_)) => Err(Errno::EIO),
        };
        gone_is_done(outcome)
    }

    fn begin(&self) -> (u64, u64) {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        numbers.given += 1;
        let given = numbers.given;
        numbers.under_way.insert(given);
        (given, numbers.under_way.first().copied().unwrap_or(given))
    }

    fn end(&self, serial: u64) {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner).under_way.remove(&serial);
    }
}

/// Writes to a file that is gone reach nobody.
fn gone_is_done(outcome: Result<(), Errno>) -> Result<(), Errno> {
    if outcome == Err(Errno::ESTALE) { Ok(()) } else { outcome }
}
