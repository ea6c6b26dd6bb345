//! Directories, links and special files, which appear at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_types::{Errno, FileId, Kind, ViewPath};
use forebay_wire::journal::StepOutcome;

use super::rights;
use crate::write::tree::leader::Leader;
use crate::write::tree::paths::landed_attributes;

/// See the module.
pub struct Maker {
    leader: Arc<Leader>,
    /// Whether a step was taken: before the first, the daemon before this one may have taken that and not said so.
    has_taken: AtomicBool,
    /// A file that is made and not said so yet: something failed after that.
    made: Mutex<Option<FileId>>,
}

impl Maker {
    pub fn new(leader: &Arc<Leader>) -> Self {
        // There was none before the first of a tree that has just begun.
        let has_taken = AtomicBool::new(leader.tree().steps_end() == 0);
        Self { leader: Arc::clone(leader), has_taken, made: Mutex::default() }
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
    pub async fn make(&self, file: FileId, kind: Kind, path: &ViewPath) -> Result<StepOutcome, Errno> {
        let local = &self.leader.local;
        let attributes = landed_attributes(&self.leader.tree(), file);
        let is_symlink = kind == Kind::Symlink;
        let target = if is_symlink { self.leader.tree().target(file)?.to_vec() } else { vec![] };
        if attributes.is_none() && !matches!(kind, Kind::Directory | Kind::Symlink) {
            return Ok(StepOutcome::Done);
        }
        let (at, is_to) = (path.clone(), target.clone());
        let made = local.land(move |place| match (kind, &attributes) {
            (Kind::Symlink, _) => place.make_symlink(&at, &is_to),
            (Kind::Directory, _) | (_, None) => place.make_directory(&at),
            (_, Some(attributes)) => place.make_special(&at, attributes),
        });
        match made.await {
            // Any other entry there is somebody else's.
            Err(Errno::EEXIST) => {
                // It has gone from the tree since: an empty directory of this user is the one that the daemon before this one made.
                let at = path.clone();
                let is_as_made = local.land(move |place| match attributes {
                    Some(attributes) => place.is_as_made(&at, &attributes, &target),
                    None => place.is_own_empty_directory(&at),
                });
                let is_as_made = self.may_be_made(file) && is_as_made.await?;
                if !is_as_made {
                    return Err(Errno::EEXIST);
                }
            }
            made => {
                // It may be there even if the call failed.
                *self.made() = Some(file);
                made?;
            }
        }
        let at = path.clone();
        let held = Arc::new(local.land(move |place| place.hold(&at)).await?);
        if let Some(attributes) = attributes {
            rights::give_all(&self.leader, &held, &attributes, path).await?;
        }
        let at = path.clone();
        let backed = local.land(move |place| place.backed(&at)).await?;
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
