//! A view to be compared with its source: on the only node of a job, or on a leaf of a real cluster.
//!
//! Starting seven daemons for each of a hundred tests would be most of the suite's time, so tests that only read share
//! a job: it goes up with the first test that asks and down with the last one that holds it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::{Job, Sandbox, Tree};

/// Nodes of the cluster: a full tree of fan-out 2, so that its last rank is a leaf at depth 2.
const CLUSTER_NODES: u32 = 7;

/// A view and its source.
pub struct Site {
    job: Job,
    rank: usize,
    tree: Tree,
}

static SINGLE: Mutex<Weak<Site>> = Mutex::new(Weak::new());
static LEAF: Mutex<Weak<Site>> = Mutex::new(Weak::new());

impl Site {
    /// The standard tree behind a job of one node, shared.
    #[must_use]
    pub fn single() -> Arc<Self> {
        Self::shared(&SINGLE, || Self::new(1, |_| {}))
    }

    /// The standard tree seen from the last leaf of a cluster, shared.
    #[must_use]
    pub fn leaf() -> Arc<Self> {
        Self::shared(&LEAF, || Self::new(CLUSTER_NODES, |_| {}))
    }

    /// A site of its own, for tests that change the source or need more in it: `add` puts that there.
    #[must_use]
    #[track_caller]
    pub fn new(nodes: u32, add: impl FnOnce(&Path)) -> Self {
        Self::with_options(nodes, &[], add)
    }

    /// The same, with options for `up`.
    #[must_use]
    #[track_caller]
    pub fn with_options(nodes: u32, options: &[&str], add: impl FnOnce(&Path)) -> Self {
        let sandbox = Sandbox::new();
        let tree = Tree::build(&sandbox.source(), &sandbox.view());
        add(&sandbox.source());
        let source = sandbox.source();
        let job = Job::up_local(sandbox, nodes, &source, &[&["--fanout", "2"], options].concat());
        let rank = job.nodes() - 1;
        Self { job, rank, tree }
    }

    fn shared(place: &Mutex<Weak<Self>>, make: impl FnOnce() -> Self) -> Arc<Self> {
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(site) = place.upgrade() {
            return site;
        }
        let site = Arc::new(make());
        *place = Arc::downgrade(&site);
        site
    }

    /// The job behind it.
    #[must_use]
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The node that is looked at.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The tree that was built into the source.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The file in the source, by its path below it.
    #[must_use]
    pub fn source(&self, path: impl AsRef<Path>) -> PathBuf {
        // Joining nothing would add a slash.
        let (root, path) = (self.job.sandbox.source(), path.as_ref());
        if path.as_os_str().is_empty() { root } else { root.join(path) }
    }

    /// The same file in the view.
    #[must_use]
    pub fn view(&self, path: impl AsRef<Path>) -> PathBuf {
        self.job.path(self.rank, &self.source(path))
    }
}

/// A test on a single node and on a leaf of a cluster: `on_both!(name, |site| { ... })`.
#[macro_export]
macro_rules! on_both {
    ($(#[$attribute:meta])* $name:ident $(, [$($need:expr),+])?, |$site:ident| $body:block) => {
        $(#[$attribute])*
        mod $name {
            use super::*;

            fn check($site: &$crate::Site) $body

            #[test]
            fn single() {
                $crate::require!(Fuse, Root $($(, $need)+)?);
                check(&$crate::Site::single());
            }

            #[test]
            fn leaf() {
                $crate::require!(Fuse, Root $($(, $need)+)?);
                check(&$crate::Site::leaf());
            }
        }
    };
}
