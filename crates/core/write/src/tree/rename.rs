//! Names that move.

use forebay_types::{Errno, FileId, Kind};
use forebay_wire::write::{Change, Done, Place, RenameRule};

use super::permissions::{self, WRITE};
use super::state::{Refusal, Released, Tree};
use crate::landing::Step;

impl Tree {
    pub(super) fn rename(
        &mut self,
        change: &Change,
        from: &Place,
        to: &Place,
        rule: RenameRule,
        released: &mut Released,
    ) -> Result<Done, Refusal> {
        let file = self.find(&change.caller, from)?.ok_or(Errno::ENOENT)?;
        let found = self.find(&change.caller, to)?;
        if rule == RenameRule::Keep && found.is_some() {
            return Err(Errno::EEXIST.into());
        }
        self.check_moved(change, from, file, to)?;
        match found {
            Some(found) if rule == RenameRule::Exchange => self.exchange(change, (from, file), (to, found))?,
            None if rule == RenameRule::Exchange => return Err(Errno::ENOENT.into()),
            // Two names of one file: POSIX has both stay.
            Some(found) if found == file => {}
            Some(found) => {
                self.check_replaced(change, file, to, found)?;
                self.leave(change, to, found)?;
                self.publish_for_elsewhere(found);
                self.move_entry(change, from, to, file)?;
                self.drop_name(change, found, released);
            }
            None => {
                self.find_to_change(&change.caller, to)?;
                self.move_entry(change, from, to, file)?;
            }
        }
        if found != Some(file) {
            let (from, to) = (from.clone(), to.clone());
            self.landing.push(Step::Move { file, from, to, replaced: found, rule });
        }
        Ok(Done::Nothing)
    }

    /// Two names change what they name.
    fn exchange(&mut self, change: &Change, from: (&Place, FileId), to: (&Place, FileId)) -> Result<(), Refusal> {
        self.check_moved(change, to.0, to.1, from.0)?;
        if from.1 == to.1 {
            return Ok(());
        }
        self.leave(change, from.0, from.1)?;
        self.leave(change, to.0, to.1)?;
        for (place, file) in [(to.0, from.1), (from.0, to.1)] {
            self.enter(change, place, file)?;
            self.node_mut(file)?.attributes.ctime = change.now;
        }
        Ok(())
    }

    fn move_entry(&mut self, change: &Change, from: &Place, to: &Place, file: FileId) -> Result<(), Errno> {
        self.leave(change, from, file)?;
        self.enter(change, to, file)?;
        self.node_mut(file)?.attributes.ctime = change.now;
        Ok(())
    }

    /// Whether `file` may leave its place, and go below `to`.
    fn check_moved(&self, change: &Change, from: &Place, file: FileId, to: &Place) -> Result<(), Refusal> {
        let attributes = &self.node(file)?.attributes;
        permissions::check_removal(&change.caller, &self.node(from.directory)?.attributes, attributes)?;
        permissions::check(&change.caller, &self.node(to.directory)?.attributes, WRITE)?;
        if attributes.kind() == Kind::Directory && from.directory != to.directory {
            // Its `..` changes.
            permissions::check(&change.caller, attributes, WRITE)?;
            if self.is_within(to.directory, file)? {
                return Err(Errno::EINVAL.into());
            }
        }
        Ok(())
    }

    /// Whether what is at the new name may be replaced by `file`.
    fn check_replaced(&self, change: &Change, file: FileId, to: &Place, found: FileId) -> Result<(), Refusal> {
        let replaced = &self.node(found)?.attributes;
        permissions::check_removal(&change.caller, &self.node(to.directory)?.attributes, replaced)?;
        let is_directory = self.node(file)?.attributes.kind() == Kind::Directory;
        match replaced.kind() == Kind::Directory {
            true if !is_directory => Err(Errno::EISDIR.into()),
            false if is_directory => Err(Errno::ENOTDIR.into()),
            true if !self.directory(found)?.is_empty() => Err(Errno::ENOTEMPTY.into()),
            _ => Ok(()),
        }
    }
}
