//! Facts that the tree needs before a change can be carried out, or a question answered. They are looked up on the backing file system, and
//! become part of the tree. Other nodes may have to be told of that.

use std::sync::Arc;

use forebay_store::LandedEntry;
use forebay_types::{Errno, FileId, OperationId, Timestamp};
use forebay_wire::write::{ADOPTED_ENTRIES_MAX, AdoptedEntry, Caller, Change, Done, NEVER_AGAIN, Operation};
use forebay_wire::write_message::Have;
use forebay_write::Refusal;

use super::calling::On;
use super::memory::TRIES;
use super::owner::{Applied, Owner};

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

impl Owner {
    /// Carries a change out and writes it down. May block.
    ///
    /// # Errors
    /// The error for the program; EIO while this node may not own the tree any more.
    pub fn carry_out(&self, change: &Change) -> Result<Done, Errno> {
        self.carry_out_at(change).map(|(done, _)| done)
    }

    /// The same, with the tree's history afterwards, if it has a second home.
    fn carry_out_at(&self, change: &Change) -> Result<(Done, Option<Have>), Errno> {
        self.hold_tree()?;
        self.carry_out_once(change)
    }

    fn carry_out_once(&self, change: &Change) -> Result<(Done, Option<Have>), Errno> {
        let applied = self.apply_on_thread(change)?;
        let outcome = applied.outcome();
        self.wait_to_tell_of(applied)?;
        Ok(outcome)
    }

    /// A change of the daemon's own.
    ///
    /// # Errors
    /// As `carry_out`.
    pub fn carry_out_own(&self, operation: Operation) -> Result<Done, Errno> {
        self.carry_out_own_for(&Caller::default(), operation)
    }

    /// The same with the rights of `caller`.
    ///
    /// # Errors
    /// As `carry_out`.
    pub fn carry_out_own_for(&self, caller: &Caller, operation: Operation) -> Result<Done, Errno> {
        self.carry_out_own_at(caller, operation, self.local.now())
    }

    /// The same as of a time.
    ///
    /// # Errors
    /// As `carry_out`.
    pub fn carry_out_own_at(&self, caller: &Caller, operation: Operation, now: Timestamp) -> Result<Done, Errno> {
        self.carry_out(&self.own_change(caller, operation, now))
    }

    pub(super) fn own_change(&self, caller: &Caller, operation: Operation, now: Timestamp) -> Change {
        let id = OperationId { node: self.local.rank, session: NEVER_AGAIN, serial: 0 };
        Change { id, oldest: 0, caller: caller.clone(), now, operation }
    }

    /// As `apply`, once it is known whether the change could land (`is_tried`).
    ///
    /// # Errors
    /// The need that comes before.
    pub fn apply_knowing(&self, change: &Change, is_tried: bool) -> Result<Applied, Needs> {
        if !is_tried && self.needs_trial(change)? {
            return Err(Needs::Trial);
        }
        Ok(self.apply(change)?)
    }

    /// As `apply_knowing`, once the tree knows what it needs. By a task.
    ///
    /// # Errors
    /// EAGAIN where this node may not own the tree any more, EIO where the daemon ends. The inner one is the program's.
    pub async fn apply_by_task(&self, change: Change, mut needs: Needs) -> Result<Result<Applied, Errno>, Errno> {
        let (change, mut is_tried) = (Arc::new(change), false);
        loop {
            if let Needs::Nothing(errno) = needs {
                return Ok(Err(errno));
            }
            is_tried |= matches!(needs, Needs::Trial);
            match self.meet(On::Pool, Some(&change), needs).await {
                Err(Errno::EAGAIN) => return Err(Errno::EAGAIN),
                Err(errno) => return Ok(Err(errno)),
                Ok(()) => {}
            }
            let again = Arc::clone(&change);
            match self.call(On::Pool, move |owner| owner.apply_knowing(&again, is_tried)).await? {
                Ok(applied) => return Ok(Ok(applied)),
                Err(next) => needs = next,
            }
        }
    }

    /// The same on a thread that may block.
    ///
    /// # Errors
    /// The error for the program.
    pub(super) fn apply_on_thread(&self, change: &Change) -> Result<Applied, Errno> {
        let mut is_tried = false;
        loop {
            match self.apply_knowing(change, is_tried) {
                Ok(applied) => return Ok(applied),
                Err(Needs::Nothing(errno)) => return Err(errno),
                Err(needs) => {
                    is_tried |= matches!(needs, Needs::Trial);
                    self.nodes.wait_for(self.meet(On::ThisThread, Some(change), needs)).map_err(io_for_again)?;
                }
            }
        }
    }

    /// Makes what is needed part of the tree. A question is about no change.
    ///
    /// # Errors
    /// EAGAIN where this node may not own the tree any more, else what the backing file system says.
    pub(super) async fn meet(&self, on: On, change: Option<&Change>, needs: Needs) -> Result<(), Errno> {
        match needs {
            Needs::Nothing(errno) => Err(errno),
            Needs::Entries(directory) => self.adopt(on, directory).await,
            Needs::Extended(file) => {
                let found = self.call_backing(on, move |owner| owner.look_there(file, |there| there.all())).await??;
                if let Some(Operation::SetExtended { name, value, rule, .. }) = change.map(|change| &change.operation) {
                    // A refusal leaves nothing to keep.
                    found.with(name, value.as_deref(), *rule)?;
                }
                self.carry_out_by_task(on, Operation::AdoptExtended { file, found }).await
            }
            Needs::Trial => {
                let change = change.cloned().ok_or(Errno::EIO)?;
                self.call_backing(on, move |owner| owner.try_to_land(&change)).await?
            }
            Needs::Task => Ok(()),
        }
    }

    /// A change of the daemon's own, by a task.
    ///
    /// # Errors
    /// As `meet`.
    pub(super) async fn carry_out_by_task(&self, on: On, operation: Operation) -> Result<(), Errno> {
        if on == On::ThisThread {
            self.council.hold().await?;
        }
        let apply = move |owner: &Self| match owner.council.is_held() {
            true => owner.apply_own(operation),
            false => Err(Needs::Nothing(Errno::EAGAIN)),
        };
        match self.call(on, apply).await? {
            Ok(applied) => self.tell_of(&applied).await,
            Err(Needs::Nothing(errno)) => Err(errno),
            // It is about nothing that the tree does not know.
            Err(_) => Err(Errno::EIO),
        }
    }

    fn apply_own(&self, operation: Operation) -> Result<Applied, Needs> {
        let change = self.own_change(&Caller::default(), operation, self.local.now());
        Ok(self.apply(&change)?)
    }

    /// Makes the entries that a directory has on the backing file system part of the tree.
    async fn adopt(&self, on: On, directory: FileId) -> Result<(), Errno> {
        let parts = self.call_backing(on, move |owner| owner.entries_there(directory)).await??;
        let count = parts.len();
        for (index, entries) in parts.into_iter().enumerate() {
            let is_last = index + 1 == count;
            self.carry_out_by_task(on, Operation::Adopt { directory, entries, is_last }).await?;
        }
        self.forgetting.listed(directory);
        self.make_room(on).await?;
        // Other nodes hand over their changes if the second home takes over; they have no part in this one.
        self.safe.wait_for_second_home().await
    }

    /// A directory's entries there, in parts, of which there is one at least.
    fn entries_there(&self, directory: FileId) -> Result<Vec<Vec<AdoptedEntry>>, Errno> {
        let path = self.backing_path(directory).ok_or(Errno::ESTALE)?;
        let entries = self.local.calls.serve(|| self.local.place.list(&path))?;
        let adopted = |part: &[LandedEntry]| part.iter().map(|entry| self.adopted(entry)).collect();
        Ok(match entries.is_empty() {
            true => vec![vec![]],
            false => entries.chunks(ADOPTED_ENTRIES_MAX).map(adopted).collect(),
        })
    }

    fn adopted(&self, entry: &LandedEntry) -> AdoptedEntry {
        let LandedEntry { name, attributes, born, target } = entry.clone();
        AdoptedEntry { name, file: self.local.new_file(), attributes, born, target }
    }

    /// Keeps the tree within its part of the memory, as far as there is anything to forget.
    async fn make_room(&self, on: On) -> Result<(), Errno> {
        let mut tries = TRIES;
        while let (Some(directory), left) = self.call(on, move |owner| owner.next_to_unlist(tries)).await? {
            self.carry_out_by_task(on, Operation::Unlist { directory }).await?;
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

impl Owner {
    /// The result of a call.
    ///
    /// # Errors
    /// EIO where the daemon ends.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        on: On,
        call: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, Errno> {
        if on == On::ThisThread {
            return Ok(call(self));
        }
        let owner = self.own.upgrade().ok_or(Errno::EIO)?;
        self.nodes.block(move || call(&owner)).await.ok_or(Errno::EIO)
    }

    /// The same with a call on the backing file system.
    ///
    /// # Errors
    /// As `call`.
    pub async fn call_backing<T: Send + 'static>(
        &self,
        on: On,
        call: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, Errno> {
        if on == On::ThisThread {
            return Ok(call(self));
        }
        let part = self.backing_part.take().await?;
        let call = move |owner: &Self| {
            let called = call(owner);
            drop(part);
            called
        };
        self.call(on, call).await
    }
}

/// A program of this node waits no longer.
pub fn io_for_again(errno: Errno) -> Errno {
    if errno == Errno::EAGAIN { Errno::EIO } else { errno }
}
