//! What the owner of the tree does for its second home, and what of the tree is safe there.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_types::{Errno, LogPosition};
use forebay_wire::message::encode;
use forebay_wire::write::{Change, WrittenExtent};
use forebay_wire::write_message::{Followed, Have, Owns, Renewal};
use forebay_write::{History, Sent, Tree};

use super::council::Council;
use crate::write::local::Local;
use crate::write::remote::Nodes;

/// How long the second home's question waits for something to happen.
const FOLLOWER_WAIT: Duration = Duration::from_secs(1);

/// How often is looked whether it still follows, or all is over.
const FOLLOWER_LOOK: Duration = Duration::from_millis(250);

/// How long changes wait for others before they are sent to the second home, while nobody waits for it.
const FOLLOWER_LINGERS: Duration = Duration::from_millis(20);

/// See the module.
pub struct Safe {
    local: Arc<Local>,
    nodes: Arc<Nodes>,
    /// Those who let this node own the tree.
    council: Arc<Council>,
    line: u64,
    /// As which it began.
    owns: Owns,
    renewals: AtomicU64,
    /// Room in the log that the second home's tree may still need, and with how many changes it does not.
    releasing: Mutex<VecDeque<(u64, LogPosition, u64)>>,
    /// For the tree's second home, if it has one. What happens is noted while the tree is had.
    history: Option<Mutex<History>>,
    /// Something was noted in it.
    happened: Condvar,
    /// Somebody waits for the second home.
    wanted: Condvar,
    /// It has more.
    followed: Condvar,
}

impl Safe {
    /// Of an owner whose history is `line`, and whose tree has a second home or not.
    pub fn new(local: &Arc<Local>, nodes: &Arc<Nodes>, council: &Arc<Council>, line: u64, has_second: bool) -> Self {
        Self {
            local: Arc::clone(local),
            nodes: Arc::clone(nodes),
            council: Arc::clone(council),
            line,
            owns: local.owns(),
            renewals: AtomicU64::new(0),
            releasing: Mutex::default(),
            history: has_second.then(|| Mutex::new(History::new(line, nodes.now()))),
            happened: Condvar::new(),
            wanted: Condvar::new(),
            followed: Condvar::new(),
        }
    }

    /// A change was carried out. With what history, if anybody follows it. The tree is had.
    pub fn note(&self, change: &Change) -> Option<Have> {
        let mut history = self.history()?;
        history.note(encode(change));
        Some(history.have())
    }

    /// What was noted may be sent.
    pub fn wake(&self) {
        self.happened.notify_all();
    }

    /// As much as the second home has.
    pub fn has(&self) -> Option<Have> {
        self.history()?.safe()
    }

    /// What has happened until now survives the loss of power, and of this node where the second home follows. May block.
    ///
    /// # Errors
    /// EIO, also when this node may not own the tree any more.
    pub fn make_durable(&self) -> Result<(), Errno> {
        loop {
            self.council.hold()?;
            match self.make_durable_once() {
                Err(Errno::EAGAIN) if !self.nodes.is_ending() => {}
                Err(_) if self.nodes.is_ending() => return Err(Errno::EIO),
                outcome => return outcome,
            }
        }
    }

    /// The same, and EAGAIN when this node may not own the tree any more.
    pub fn make_durable_once(&self) -> Result<(), Errno> {
        self.local.make_durable()?;
        self.wait_for_second_home()?;
        if self.council.is_held() { Ok(()) } else { Err(Errno::EAGAIN) }
    }

    /// Until it has what has happened until now, or does not follow any more. EAGAIN when this node may not own the tree any more.
    pub fn wait_for_second_home(&self) -> Result<(), Errno> {
        let Some(mut history) = self.history() else { return Ok(()) };
        let count = history.have().count;
        history.want(count);
        self.wanted.notify_all();
        while !history.is_safe(self.nodes.now(), count, self.council.may_go_on_alone()) {
            if self.nodes.is_ending() || !self.council.is_held() {
                return Err(Errno::EAGAIN);
            }
            history = waited(&self.followed, history, FOLLOWER_LOOK);
            self.council.wake();
        }
        Ok(())
    }

    /// What the council is told.
    pub fn renewal(&self) -> Renewal {
        let is_followed = self.history().is_some_and(|mut history| history.is_followed(self.nodes.now()));
        let number = self.renewals.fetch_add(1, Ordering::Relaxed);
        Renewal { owns: self.owns, line: self.line, number, is_followed }
    }

    /// Changes that the second home does not have; `None` where none follows.
    pub fn second_home_behind(&self) -> Option<u64> {
        let history = self.history()?;
        history.follower(self.nodes.now()).map(|follower| history.have().count - follower.have)
    }

    /// What the second home gets, which has `have`. May block.
    pub fn followed<T: Deref<Target = Tree>>(&self, have: Option<Have>, tree: impl FnOnce() -> T) -> Followed {
        let Some(mut history) = self.history() else { return Followed::Changes(vec![]) };
        history.heard(self.nodes.now(), have);
        self.followed.notify_all();
        drop(history);
        self.release_safe();
        let Some(mut history) = self.history() else { return Followed::Changes(vec![]) };
        if history.sent() == Sent::Nothing {
            history = waited(&self.happened, history, FOLLOWER_WAIT);
        }
        if !history.is_wanted() && matches!(history.sent(), Sent::Changes(_)) {
            history = waited(&self.wanted, history, FOLLOWER_LINGERS);
        }
        match history.sent() {
            Sent::Nothing => return Followed::Changes(vec![]),
            Sent::Changes(changes) => return Followed::Changes(changes),
            Sent::Tree => drop(history),
        }
        let tree = tree();
        match self.history() {
            Some(history) => Followed::Tree { have: history.have(), tree: encode(&*tree) },
            None => Followed::Changes(vec![]),
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

    fn history(&self) -> Option<MutexGuard<'_, History>> {
        Some(self.history.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn releasing(&self) -> MutexGuard<'_, VecDeque<(u64, LogPosition, u64)>> {
        self.releasing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn waited<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>, time: Duration) -> MutexGuard<'a, T> {
    condition.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner).0
}
