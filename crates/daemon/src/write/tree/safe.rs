//! The tree owner's part in feeding its second home, and which changes are safe there.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_types::{Errno, LogPosition};
use forebay_wire::message::encode;
use forebay_wire::write::{Change, WrittenExtent};
use forebay_wire::write_message::{Followed, Have, Owns, Renewal};
use forebay_write::timing::FOLLOWED_AFTER;
use forebay_write::{History, Lineage, Recent, Sent, Tree};
use tokio::sync::Notify;

use super::calling::On;
use super::council::Council;
use crate::write::local::Local;
use crate::write::remote::Nodes;

/// How often is looked whether it still follows, or all is over.
const FOLLOWER_LOOK: Duration = Duration::from_millis(250);

/// How long changes wait for others before they are sent to the second home, while nobody waits for it.
const FOLLOWER_LINGERS: Duration = Duration::from_millis(20);

/// Files and directories in one answer with parts of the tree; some 150 bytes each.
const PARTS_FILES_MAX: usize = 4096;

/// A tree that nobody has asked for parts of for so long is not kept for them.
const SENDING_KEPT: Duration = Duration::from_secs(10);

/// See the module.
pub struct Safe {
    local: Arc<Local>,
    nodes: Arc<Nodes>,
    /// Those who let this node own the tree.
    council: Arc<Council>,
    /// As which it began.
    owns: Owns,
    renewals: AtomicU64,
    /// Room in the log that the second home's tree may still need, and with how many changes it does not.
    releasing: Mutex<VecDeque<(u64, LogPosition, u64)>>,
    /// For the tree's second home, if it has one. Changes are noted while the tree is had.
    history: Mutex<History>,
    has_second: bool,
    /// The tree that the second home gets in parts. It shares with the owner's what has not changed since.
    sending: Mutex<Option<Sending>>,
    /// Something was noted in it.
    happened: Condvar,
    /// A thread or task waits for the second home.
    wanted: Condvar,
    /// It has more.
    followed: Notify,
}

/// A tree on its way to the second home.
struct Sending {
    have: Have,
    tree: Tree,
    asked_at: Instant,
}

impl Safe {
    /// Of an owner whose tree came to be as `history` says, and has a second home or not.
    pub fn new(
        local: &Arc<Local>,
        nodes: &Arc<Nodes>,
        council: &Arc<Council>,
        (lineage, recent): (Lineage, Recent),
        has_second: bool,
    ) -> Self {
        let recent = if has_second { recent } else { Recent::default() };
        Self {
            local: Arc::clone(local),
            nodes: Arc::clone(nodes),
            council: Arc::clone(council),
            owns: local.owns(),
            renewals: AtomicU64::new(0),
            releasing: Mutex::default(),
            history: Mutex::new(History::new(lineage, recent, nodes.now())),
            has_second,
            sending: Mutex::default(),
            happened: Condvar::new(),
            wanted: Condvar::new(),
            followed: Notify::new(),
        }
    }

    /// A change was carried out. With what history, if anybody follows it. The tree is had.
    pub fn note(&self, change: &Change) -> Option<Have> {
        let mut history = self.all_history();
        if !self.has_second {
            history.count();
            return None;
        }
        history.note(encode(change));
        Some(history.have())
    }

    /// How many changes there are with the next one. The tree is had.
    pub fn next_count(&self) -> u64 {
        self.all_history().have().count + 1
    }

    /// How the tree came to be as it is. The tree is had.
    pub fn lineage(&self) -> Lineage {
        self.all_history().lineage().clone()
    }

    /// Changes that were noted may be sent.
    pub fn wake(&self) {
        self.happened.notify_all();
    }

    /// As much as the second home has.
    pub fn has(&self) -> Option<Have> {
        self.history()?.safe()
    }

    /// All changes until now survive the loss of power, and of this node where the second home follows. May block.
    ///
    /// # Errors
    /// EIO, also when this node may not own the tree any more.
    pub fn make_durable(&self) -> Result<(), Errno> {
        self.nodes.wait_for(self.make_durable_on(On::ThisThread))
    }

    /// The same by a task. For another node only once: that asks again.
    ///
    /// # Errors
    /// EIO; for another node EAGAIN when this node may not own the tree any more.
    pub async fn make_durable_on(&self, on: On) -> Result<(), Errno> {
        if on == On::Pool {
            self.local.make_durable_for_all().await?;
            self.wait_for_second_home().await?;
            return self.check_held();
        }
        loop {
            if on == On::Task {
                self.council.until_held().await?;
                self.local.make_durable_for_all().await?;
            } else {
                self.council.hold()?;
                self.local.make_durable()?;
            }
            match self.wait_for_second_home().await.and_then(|()| self.check_held()) {
                Err(Errno::EAGAIN) if !self.nodes.is_ending() => {}
                Err(_) if self.nodes.is_ending() => return Err(Errno::EIO),
                outcome => return outcome,
            }
        }
    }

    /// Until it has what has happened until now, or does not follow any more.
    ///
    /// # Errors
    /// EAGAIN when this node may not own the tree any more.
    pub async fn wait_for_second_home(&self) -> Result<(), Errno> {
        let count = self.history().map(|mut history| {
            let count = history.have().count;
            history.want(count);
            count
        });
        self.wanted.notify_all();
        while let Some(count) = count {
            let followed = self.followed.notified();
            let is_safe = self
                .history()
                .is_none_or(|mut history| history.is_safe(self.nodes.now(), count, self.council.may_go_on_alone()));
            if is_safe {
                break;
            } else if self.nodes.is_ending() || !self.council.is_held() {
                return Err(Errno::EAGAIN);
            }
            tokio::select! {
                biased;
                () = followed => {}
                () = self.nodes.pause(FOLLOWER_LOOK) => {}
            }
            self.council.wake();
        }
        Ok(())
    }

    fn check_held(&self) -> Result<(), Errno> {
        if self.council.is_held() { Ok(()) } else { Err(Errno::EAGAIN) }
    }

    /// The renewal for the council.
    pub fn renewal(&self) -> Renewal {
        let is_followed = self.history().is_some_and(|mut history| history.is_followed(self.nodes.now()));
        let number = self.renewals.fetch_add(1, Ordering::Relaxed);
        Renewal { owns: self.owns, line: self.all_history().have().line, number, is_followed }
    }

    /// Changes that the second home does not have; `None` where none follows.
    pub fn second_home_behind(&self) -> Option<u64> {
        let history = self.history()?;
        history.follower(self.nodes.now()).map(|follower| history.have().count - follower.have.count)
    }

    /// The second home's answer. It has `have`, and of a tree that it is being sent has come to `parts`. `tree` copies the tree, with
    /// what it is made of. May block.
    pub fn followed(
        &self,
        have: Option<Have>,
        parts: Option<(Have, u32)>,
        tree: impl FnOnce() -> (Have, Tree),
    ) -> Followed {
        let Some(mut history) = self.history() else { return Followed::NotNow };
        history.heard(self.nodes.now(), have);
        self.followed.notify_waiters();
        drop(history);
        self.release_safe();
        let Some(mut history) = self.history() else { return Followed::NotNow };
        if history.sent() == Sent::Nothing {
            history = waited(&self.happened, history, FOLLOWED_AFTER);
        }
        if !history.is_wanted() && matches!(history.sent(), Sent::Changes { .. }) {
            history = waited(&self.wanted, history, FOLLOWER_LINGERS);
        }
        let sent = history.sent();
        match sent {
            Sent::Nothing => Followed::Changes { have: history.have(), changes: vec![] },
            Sent::Changes { have, changes } => Followed::Changes { have, changes },
            Sent::Tree => {
                drop(history);
                self.parts(parts, tree)
            }
        }
    }

    /// The parts of the tree that come next. One that changes alone no longer lead on from is begun anew.
    fn parts(&self, parts: Option<(Have, u32)>, tree: impl FnOnce() -> (Have, Tree)) -> Followed {
        // One question at a time: whoever asks again meanwhile has given up the one before.
        let Ok(mut sending) = self.sending.try_lock() else { return Followed::NotNow };
        let is_usable = |sending: &Sending| self.all_history().leads_on_from(sending.have);
        let kept = sending.take().filter(is_usable);
        let Sending { have, tree, .. } = kept.unwrap_or_else(|| {
            let (have, tree) = tree();
            tracing::info!(files = tree.files(), "the tree's second home gets the whole tree");
            Sending { have, tree, asked_at: Instant::now() }
        });
        let first = parts.filter(|(of, _)| *of == have).map_or(0, |(_, next)| next);
        let (some, next) = tree.parts(first as usize, PARTS_FILES_MAX);
        let next = next.map(|next| next as u32);
        *sending = Some(Sending { have, tree, asked_at: Instant::now() });
        Followed::Parts { have, first, next, tree: encode(&some) }
    }

    /// A tree that nobody asks for any more is not kept.
    fn forget_sending(&self) {
        if let Ok(mut sending) = self.sending.try_lock() {
            let is_asked_for = |sending: &Sending| sending.asked_at.elapsed() < SENDING_KEPT;
            *sending = sending.take().filter(is_asked_for);
        }
    }

    /// The tree does not need these extents of this node's log any more, since `have`.
    pub fn release<'a>(&self, extents: impl Iterator<Item = &'a WrittenExtent>, have: Option<Have>) {
        let count = have.map_or(0, |have| have.count);
        self.releasing().extend(extents.map(|extent| (count, extent.position, extent.len)));
        self.release_safe();
    }

    /// Gives back the room that neither this tree nor the second home's needs.
    pub fn release_safe(&self) {
        self.forget_sending();
        let safe = self.history().map_or(u64::MAX, |mut history| {
            let count = history.have().count;
            match history.is_safe(self.nodes.now(), count, self.council.may_go_on_alone()) {
                true => count,
                false => history.safe().map_or(0, |safe| safe.count),
            }
        });
        let mut releasing = self.releasing();
        let released = releasing.partition_point(|(count, ..)| *count <= safe);
        for (_, position, len) in releasing.drain(..released) {
            if let Err(error) = self.local.log.release(position, len) {
                tracing::warn!(%error, "room in the store that is not given back");
            }
        }
    }

    /// Where the tree has a second home.
    fn history(&self) -> Option<MutexGuard<'_, History>> {
        self.has_second.then(|| self.all_history())
    }

    fn all_history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn releasing(&self) -> MutexGuard<'_, VecDeque<(u64, LogPosition, u64)>> {
        self.releasing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn waited<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>, time: Duration) -> MutexGuard<'a, T> {
    condition.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner).0
}
