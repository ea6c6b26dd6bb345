//! Commits of files with many pending extents, for which no program waits.
//!
//! One task makes them, a file at a time, so that a silent leader of the tree holds up no write. A commit that fails leaves its extents pending:
//! the next commit tells the program why.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_types::FileId;

use super::commits::Commits;
use super::remote::Nodes;

/// See the module.
pub struct EarlyCommits {
    nodes: Arc<Nodes>,
    commits: Arc<Commits>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    files: BTreeSet<FileId>,
    is_under_way: bool,
}

impl EarlyCommits {
    pub fn new(nodes: &Arc<Nodes>, commits: &Arc<Commits>) -> Arc<Self> {
        Arc::new(Self { nodes: Arc::clone(nodes), commits: Arc::clone(commits), state: Mutex::default() })
    }

    /// Has a file's pending extents committed soon, if it has many.
    pub fn begin_if(self: &Arc<Self>, has_many: bool, file: FileId) {
        if !has_many {
            return;
        }
        let mut state = self.state();
        state.files.insert(file);
        if !std::mem::replace(&mut state.is_under_way, true) {
            drop(state);
            let own = Arc::clone(self);
            // Its end is not waited for: the next daemon commits the rest.
            drop(self.nodes.calls.spawn(Box::pin(async move {
                let nodes = Arc::clone(&own.nodes);
                nodes.on_pool(async move { own.commit_all().await }).await;
            })));
        }
    }

    async fn commit_all(&self) {
        while let Some(file) = self.next() {
            let Some(open) = self.commits.files.find(file) else { continue };
            let _ = self.commits.commit(&open).await;
            drop(open);
            self.commits.files.forget_if_over(file);
        }
    }

    fn next(&self) -> Option<FileId> {
        let mut state = self.state();
        let next = state.files.pop_first();
        state.is_under_way = next.is_some();
        next
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
