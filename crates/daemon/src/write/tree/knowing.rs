//! Facts that the tree needs before a change can be carried out, or a question answered. They are looked up on the backing file system, and
//! become part of the tree. Other nodes may have to be told of that.

use std::sync::Arc;

use forebay_store::LandedEntry;
use forebay_types::{Errno, FileId};
use forebay_wire::journal::{IMPORTED_ENTRIES_MAX, ImportedEntry, LeaderEntry};
use forebay_wire::write::{Change, Done, Operation};
use forebay_write::Refusal;
use tokio::time::Instant;

use super::calling::On;
use super::extended::There;
use super::fits::{Tried, needs_trial};
use super::leader::{Applied, Leader};
use super::memory::TRIES;
use super::paths::{MOVING_LOOK, MOVING_MAX};

/// The need that comes before an answer.
pub enum Needs {
    /// No need: there is no answer but this error.
    Nothing(Errno),
    /// The entries of a directory.
    Entries(FileId),
    /// The extended attributes of a file.
    Extended(FileId),
    /// Whether the backing file system takes it.
    Trial,
    /// A wait that a task alone can do.
    Task,
}

impl From<Refusal> for Needs {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Errno(errno) => Self::Nothing(errno),
            Refusal::Unlisted(directory) => Self::Entries(directory),
            Refusal::Unread(file) => Self::Extended(file),
        }
    }
}

impl From<Errno> for Needs {
    fn from(errno: Errno) -> Self {
        Self::Nothing(errno)
    }
}

impl Leader {
    /// Carries a change of this node's programs out and writes it down, by a task.
    ///
    /// # Errors
    /// The error for the program; EIO while this node may not lead the tree any more.
    pub async fn carry_out_on_task(&self, change: &Change) -> Result<Done, Errno> {
        self.election.hold().await?;
        let applied = match self.apply_knowing(change, Tried::default()) {
            Ok(applied) => applied,
            Err(needs) => self.apply_after(On::Task, change, needs).await?,
        };
        let (done, _) = applied.outcome();
        self.tell_of(&applied).await.map(|()| done)
    }

    /// Makes what this node has found out part of the tree: by landing, or by a drain.
    ///
    /// # Errors
    /// As `carry_out_on_task`.
    pub async fn note_found(&self, entry: LeaderEntry) -> Result<(), Errno> {
        self.note_by_task(On::Task, entry).await
    }

    /// As `apply`, once it is known whether the change could land.
    ///
    /// # Errors
    /// The need that comes before.
    pub fn apply_knowing(&self, change: &Change, tried: Tried) -> Result<Applied, Needs> {
        // Under one lock: two changes that were tried apart may not fit together.
        self.apply_where(change, |tree| match needs_trial(tree, change, tried)? {
            true => Err(Needs::Trial),
            false => Ok(()),
        })
    }

    /// As `apply_knowing`, once the tree knows what it needs. By a task.
    ///
    /// # Errors
    /// EAGAIN where this node may not lead the tree any more, EIO where the daemon ends. The inner one is the program's.
    pub async fn apply_by_task(&self, change: Change, mut needs: Needs) -> Result<Result<Applied, Errno>, Errno> {
        let (change, mut tried) = (Arc::new(change), Tried::default());
        loop {
            if let Needs::Nothing(errno) = needs {
                return Ok(Err(errno));
            }
            match self.meet(On::Pool, Some(&change), needs).await {
                Err(Errno::EAGAIN) => return Err(Errno::EAGAIN),
                Err(errno) => return Ok(Err(errno)),
                Ok(trial) => tried = trial.unwrap_or(tried),
            }
            let again = Arc::clone(&change);
            match self.call(On::Pool, move |leader| leader.apply_knowing(&again, tried)).await? {
                Ok(applied) => return Ok(Ok(applied)),
                Err(next) => needs = next,
            }
        }
    }

    /// As `apply_knowing` on the present thread, which may wait for this node's own disk, once the tree knows what it needs.
    async fn apply_after(&self, on: On, change: &Change, mut needs: Needs) -> Result<Applied, Errno> {
        let mut tried = Tried::default();
        loop {
            if let Needs::Nothing(errno) = needs {
                return Err(errno);
            }
            tried = self.meet(on, Some(change), needs).await.map_err(io_for_again)?.unwrap_or(tried);
            match self.apply_knowing(change, tried) {
                Ok(applied) => return Ok(applied),
                Err(next) => needs = next,
            }
        }
    }

    /// Makes what is needed part of the tree, or tries it. A question is about no change.
    ///
    /// # Errors
    /// EAGAIN where this node may not lead the tree any more, else what the backing file system says.
    pub(super) async fn meet(&self, on: On, change: Option<&Change>, needs: Needs) -> Result<Option<Tried>, Errno> {
        match needs {
            Needs::Nothing(errno) => return Err(errno),
            Needs::Entries(directory) => self.import(on, directory).await?,
            Needs::Extended(file) => {
                let found = self.look_there(file, |there| there.all()).await?;
                if let Some(Operation::SetExtended { name, value, rule, .. }) = change.map(|change| &change.operation) {
                    // A refusal leaves nothing to keep.
                    found.with(name, value.as_deref(), *rule)?;
                }
                self.note_by_task(on, LeaderEntry::ImportExtended { file, found }).await?;
            }
            Needs::Trial => {
                let change = change.cloned().ok_or(Errno::EIO)?;
                return self.call_backing(move |leader| leader.try_to_land(&change)).await?.map(Some);
            }
            Needs::Task => {}
        }
        Ok(None)
    }

    /// Makes an entry of the leader part of the tree.
    ///
    /// # Errors
    /// As `meet`.
    pub(super) async fn note_by_task(&self, on: On, entry: LeaderEntry) -> Result<(), Errno> {
        if on != On::Pool {
            self.election.hold().await?;
        }
        let apply = move |leader: &Self| {
            match on {
                On::Pool if !leader.election.is_held() => return Err(Errno::EAGAIN),
                _ => {}
            }
            leader.apply(&entry).map_err(about_nothing)
        };
        let applied = self.call(on, apply).await??;
        self.tell_of(&applied).await
    }

    /// Makes the entries that a directory has on the backing file system part of the tree.
    async fn import(&self, on: On, directory: FileId) -> Result<(), Errno> {
        let parts = self.call_backing(move |leader| leader.entries_there(directory)).await??;
        let count = parts.len();
        for (index, entries) in parts.into_iter().enumerate() {
            let is_last = index + 1 == count;
            self.note_by_task(on, LeaderEntry::Import { directory, entries, is_last }).await?;
        }
        self.forgetting.listed(directory);
        self.make_room(on).await?;
        // Other nodes hand over their changes if the standby takes over; they have no part in this one.
        self.replicator.wait_for_standby().await
    }

    /// A directory's entries there, in parts, of which there is one at least.
    fn entries_there(&self, directory: FileId) -> Result<Vec<Vec<ImportedEntry>>, Errno> {
        let path = self.backing_path(directory).ok_or(Errno::ESTALE)?;
        let entries = self.local.calls.serve(|| self.local.place.list(&path))?;
        let imported = |part: &[LandedEntry]| part.iter().map(|entry| self.imported(entry)).collect();
        Ok(match entries.is_empty() {
            true => vec![vec![]],
            false => entries.chunks(IMPORTED_ENTRIES_MAX).map(imported).collect(),
        })
    }

    fn imported(&self, entry: &LandedEntry) -> ImportedEntry {
        let LandedEntry { name, attributes, born, target } = entry.clone();
        ImportedEntry { name, file: self.local.new_file(), attributes, born, target }
    }

    /// Keeps the tree within its part of the memory, as far as there is anything to forget.
    async fn make_room(&self, on: On) -> Result<(), Errno> {
        let mut tries = TRIES;
        while let (Some(directory), left) = self.call(on, move |leader| leader.next_to_unlist(tries)).await? {
            self.note_by_task(on, LeaderEntry::Unlist { directory }).await?;
            tries = left;
        }
        Ok(())
    }

    /// The directory that is to be unlisted next, if any of so many can be; and how many are left to be tried.
    fn next_to_unlist(&self, mut tries: usize) -> (Option<FileId>, usize) {
        let files = self.tree().files();
        self.footprint.set(files);
        while tries > 0 && self.forgetting.is_over(files) {
            tries -= 1;
            let Some(directory) = self.forgetting.next() else { continue };
            let (is_there, can_be_unlisted) = {
                let tree = self.tree();
                (tree.state(directory).is_ok(), tree.can_be_unlisted(directory))
            };
            if can_be_unlisted {
                return (Some(directory), tries);
            } else if is_there {
                self.forgetting.keep(directory);
            }
        }
        (None, tries)
    }
}

impl Leader {
    /// The result of a call.
    ///
    /// # Errors
    /// EIO where the daemon ends.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        on: On,
        call: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, Errno> {
        if on == On::Pool { self.call_in_pool(call).await } else { Ok(call(self)) }
    }

    async fn call_in_pool<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, Errno> {
        let leader = self.own.upgrade().ok_or(Errno::EIO)?;
        self.nodes.block(move || call(&leader)).await.ok_or(Errno::EIO)
    }

    /// The same with a call on the backing file system, which a thread of the pool makes.
    ///
    /// # Errors
    /// As `call`.
    pub async fn call_backing<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, Errno> {
        let part = self.backing_part.take().await?;
        let call = move |leader: &Self| {
            let called = call(leader);
            drop(part);
            called
        };
        self.call_in_pool(call).await
    }

    /// Looks at a file's extended attributes on the backing file system.
    ///
    /// # Errors
    /// The error of `look`; EIO where the file is not found there.
    pub async fn look_there<T: Send + 'static>(
        &self,
        file: FileId,
        look: impl Fn(&There<'_>) -> Result<T, Errno> + Clone + Send + 'static,
    ) -> Result<T, Errno> {
        let deadline = Instant::now() + MOVING_MAX;
        loop {
            let look = look.clone();
            let look = move |leader: &Self| {
                let there = There::of(&leader.local, &leader.tree(), file);
                look(&there)
            };
            match self.call_backing(look).await? {
                Err(Errno::ESTALE) if Instant::now() < deadline => self.nodes.pause(MOVING_LOOK).await,
                Err(Errno::ESTALE) => return Err(Errno::EIO),
                looked => return looked,
            }
        }
    }
}

/// A finding of the leader needs nothing that the tree does not know.
fn about_nothing(refusal: Refusal) -> Errno {
    match refusal {
        Refusal::Errno(errno) => errno,
        Refusal::Unlisted(_) | Refusal::Unread(_) => Errno::EIO,
    }
}

/// A program of this node waits no longer.
pub fn io_for_again(errno: Errno) -> Errno {
    if errno == Errno::EAGAIN { Errno::EIO } else { errno }
}
