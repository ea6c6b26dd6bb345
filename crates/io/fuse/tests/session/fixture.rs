//! A mount with a session on it, and how tests skip and wait.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_fuse::{Mount, MountError, MountOptions, Notifier, Session, SessionOptions, mount};
use tempfile::TempDir;

use crate::tree::Tree;

/// How long anything may take that is waited for.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// A mounted tree. Dropped in the order unmount, session, directory.
pub struct Mounted {
    pub mount: Option<Mount>,
    pub session: Session,
    pub tree: Arc<Tree>,
    pub dir: TempDir,
}

impl Mounted {
    /// Mounts `tree`; `None`, after saying why, where this machine cannot.
    pub fn new(tree: Tree) -> Option<Self> {
        Self::with(tree, &MountOptions::default(), &SessionOptions::default())
    }

    pub fn with(tree: Tree, mounting: &MountOptions, running: &SessionOptions) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mount = match mount(dir.path(), mounting) {
            Ok(mount) => mount,
            Err(
                error @ (MountError::NoDevice { .. }
                | MountError::DevicePermission { .. }
                | MountError::NotPermitted { .. }),
            ) => {
                skip(&error.to_string());
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        let tree = Arc::new(tree);
        let session = Session::start(mount.descriptor(), running, Arc::clone(&tree)).unwrap();
        Some(Self { mount: Some(mount), session, tree, dir })
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn notifier(&self) -> Notifier {
        self.session.notifier()
    }

    /// Messages so far but for forgets, which come when the kernel likes.
    pub fn messages(&self) -> Vec<(&'static str, u64)> {
        let counts = self.session.message_counts().iter();
        counts.filter(|(name, count)| !name.contains("forget") && *count > 0).collect()
    }

    pub fn count(&self, name: &str) -> u64 {
        self.session.message_counts().of(name)
    }
}

/// Lets one test run at a time. A child that is forked while another test gives a mount up would hold the last
/// descriptor of a connection that nobody serves, and wait on it for ever when its exec closes that test's open file.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says that a test is skipped; with `CI=true` that is a failure.
pub fn skip(reason: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "would be skipped: {reason}");
    eprintln!("skipped: {reason}");
}

/// Waits until `condition` holds.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "not before the deadline: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
