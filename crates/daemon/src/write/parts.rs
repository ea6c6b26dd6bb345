//! The parts of the write path, from its beginning to its end.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay_fuse::Handler;
use forebay_types::Errno;
use forebay_wire::write::{Caller, Operation};

use super::files::Files;
use super::kernel::{self, Kernel};
use super::landing::{Landings, Progress};
use super::owner::Owner;

/// How often a drain looks how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The write path of one node.
pub struct WriteParts {
    pub(super) mount: PathBuf,
    pub(super) dir: PathBuf,
    pub(super) owner: Arc<Owner>,
    pub(super) files: Arc<Files>,
    landings: Arc<Landings>,
}

impl WriteParts {
    pub fn new(dir: PathBuf, mount: PathBuf, owner: Owner, files: Files) -> Self {
        let owner = Arc::new(owner);
        Self { dir, mount, landings: Landings::new(&owner), owner, files: Arc::new(files) }
    }

    /// What takes the requests of the burst mount.
    pub fn handler(&self) -> Arc<impl Handler + use<>> {
        let (owner, files) = (Arc::clone(&self.owner), Arc::clone(&self.files));
        Arc::new(Kernel { owner, files, readings: Default::default(), under_way: Default::default() })
    }

    /// Starts the thread that follows the tree on the backing file system, until `end`.
    ///
    /// # Errors
    /// When there are no more threads.
    pub fn start(&self) -> std::io::Result<JoinHandle<()>> {
        let landings = Arc::clone(&self.landings);
        std::thread::Builder::new().name("landing".to_owned()).spawn(move || landings.follow())
    }

    /// How far the backing file system has followed.
    pub fn progress(&self) -> Progress {
        self.landings.progress()
    }

    /// Lets everything land that was written until now, files that are still open with their last commit, and waits for that,
    /// so long at most. How far it came. May block.
    pub fn drain(&self, time: Duration) -> Progress {
        let deadline = Instant::now() + time;
        if let Err(errno) = self.commit_all() {
            return Progress {
                why: Some(format!("what was written last cannot be committed: {errno}")),
                ..self.progress()
            };
        }
        while self.progress().steps > 0 && Instant::now() < deadline {
            std::thread::sleep(LOOK_EVERY);
        }
        self.progress()
    }

    fn commit_all(&self) -> Result<(), Errno> {
        for open in self.files.all() {
            kernel::commit(&self.owner, &open, &Caller::default())?;
            self.owner.carry_out_own(Operation::Publish { file: open.file })?;
        }
        self.owner.log.commit(self.owner.log.end()).map_err(forebay_log::LogError::errno)
    }

    /// Ends the landing. Where nobody goes on, a store of which all has landed goes.
    pub fn end(&self, landing: JoinHandle<()>, is_last: bool) {
        self.landings.end();
        if landing.join().is_err() {
            tracing::error!("the landing thread panicked");
        }
        let has_landed = is_last && self.progress().steps == 0 && self.files.all().iter().all(|open| !open.is_dirty());
        if has_landed && let Err(error) = self.owner.log.wipe() {
            tracing::warn!(%error, "the store stays");
        }
    }
}
