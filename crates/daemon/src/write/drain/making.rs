//! Directories, links and special files, which appear at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_types::{Errno, FileId, Kind, ViewPath};
use forebay_wire::journal::StepOutcome;

use super::rights;
use crate::write::tree::owner::Owner;
use crate::write::tree::paths::landed_attributes;

/// See the module.
pub struct Maker {
    owner: Arc<Owner>,
    /// Whether a step was taken: before the first, the daemon before this one may have taken that and not said so.
    has_taken: AtomicBool,
    /// A file that is made and not said so yet: something failed after that.
    made: Mutex<Option<FileId>>,
}

impl Maker {
    pub fn new(owner: &Arc<Owner>) -> Self {
        // There was none before the first of a tree that has just begun.
        let has_taken = AtomicBool::new(owner.tree().steps_end() == 0);
        Self { owner: Arc::clone(owner), has_taken, made: Mutex::default() }
    }

    /// A step was taken.
    pub fn note_step(&self) {
        self.has_taken.store(true, Ordering::Relaxed);
    }

    /// Whether this daemon has taken one.
    pub fn has_taken_any(&self) -> bool {
        self.has_taken.load(Ordering::Relaxed)
    }

    /// Makes what has no contents, unless the daemon before this one has.
    ///
    /// # Errors
    /// The backing file system's error; EEXIST for what is somebody else's.
    pub fn make(&self, file: FileId, kind: Kind, path: &ViewPath) -> Result<StepOutcome, Errno> {
        let (place, calls) = (&self.owner.local.place, &self.owner.local.calls);
        let attributes = landed_attributes(&self.owner.tree(), file);
        let is_symlink = kind == Kind::Symlink;
        let target = if is_symlink { self.owner.tree().target(file)?.to_vec() } else { vec![] };
        let made = match (kind, &attributes) {
            (Kind::Directory, _) => calls.land(|| place.make_directory(path)),
            (Kind::Symlink, _) => calls.land(|| place.make_symlink(path, &target)),
            (_, Some(attributes)) => calls.land(|| place.make_special(path, attributes)),
            (_, None) => return Ok(StepOutcome::Done),
        };
        // Any other entry there is somebody else's.
        match (made, &attributes) {
            (Err(Errno::EEXIST), Some(attributes))
                if self.may_be_made(file) && calls.land(|| place.is_as_made(path, attributes, &target))? => {}
            // It has gone from the tree since. An empty directory of this user is the one that the daemon before this one made.
            (Err(Errno::EEXIST), None)
                if self.may_be_made(file) && calls.land(|| place.is_own_empty_directory(path))? => {}
            (Err(Errno::EEXIST), _) => return Err(Errno::EEXIST),
            (made, _) => {
                // It may be there even if the call failed.
                *self.made() = Some(file);
                made?;
            }
        }
        let held = calls.land(|| place.hold(path))?;
        if let Some(attributes) = attributes {
            rights::give_all(&self.owner, &held, &attributes, path)?;
        }
        let backed = calls.land(|| place.backed(path))?;
        *self.made() = None;
        Ok(StepOutcome::Made(backed))
    }

    /// Whether this file may be there already, by the daemon before this one or by an attempt that failed after that.
    pub fn may_be_made(&self, file: FileId) -> bool {
        !self.has_taken_any() || *self.made() == Some(file)
    }

    fn made(&self) -> MutexGuard<'_, Option<FileId>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
