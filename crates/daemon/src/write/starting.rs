//! The beginning of a node's part in the burst tier: tasks that keep the tree and its copies safe, and one that lands.
//!
//! The former renew the leader's leader lease, follow the tree as its standby, and copy what other nodes write as their partner.

use std::sync::Arc;

use super::parts::WriteParts;
use super::tree::checkpoint;
use super::tree::standby::{Keep, Standby};

impl WriteParts {
    /// Starts the tasks that keep the tree and its copies safe, and the one that follows the tree on the backing file system, or gives back what
    /// has landed, until `end`.
    pub fn start(self: &Arc<Self>) {
        self.begin_with_tree();
        let parts = Arc::clone(self);
        self.spawn_on_pool(async move {
            if parts.join().await.is_ok() {
                parts.begin_to_copy();
                parts.land().await;
            }
        });
    }

    /// Has a task done that may wait for the node's own disk, until all is over.
    pub(super) fn spawn_on_pool(&self, task: impl Future<Output = ()> + Send + 'static) {
        let nodes = Arc::clone(&self.nodes);
        self.nodes.spawn(async move {
            nodes.on_pool(task).await;
        });
    }

    /// Begins those that do not wait until the node has come to terms with the leader: it may be the leader, or have to take the tree over.
    fn begin_with_tree(self: &Arc<Self>) {
        for member in self.nodes.voters().iter().copied() {
            let Some(leader) = self.leader().map(Arc::clone) else { break };
            let election = Arc::clone(&self.election);
            self.nodes.spawn(async move { election.keep(member, || leader.replicator.renewal()).await });
        }
        if let Some(second) = &self.second {
            // One that has the names of the tree that its store is about does not wait for the leader: nobody else could take the tree over.
            let mirrored = second.mirror().as_ref().map(|mirror| mirror.tree.number());
            let waits_for_leader = mirrored.is_none() || mirrored != self.local.tree_number();
            self.nodes.spawn(Arc::clone(self).follow_tree(Arc::clone(second), waits_for_leader));
        }
    }

    /// Begins the others.
    fn begin_to_copy(self: &Arc<Self>) {
        let Some(partner) = &self.partner else { return };
        for of in self.nodes.partner_of(self.local.rank) {
            self.nodes.spawn(Arc::clone(partner).follow(of));
            self.nodes.spawn(Arc::clone(partner).look(of));
        }
    }

    async fn follow_tree(self: Arc<Self>, second: Arc<Standby>, waits_for_leader: bool) {
        if waits_for_leader {
            tokio::select! {
                biased;
                met = self.joined.until_known() => if met.is_err() { return },
                () = self.nodes.until_end() => return,
            }
        }
        let parts = Arc::clone(&self);
        let keep: Keep = Arc::new(move || {
            checkpoint::write(&parts.local, parts.reclaim.parts(), &parts.files).map_err(|error| error.to_string())
        });
        second.follow(Arc::clone(&self.election), keep).await;
    }
}
