//! A node of a job that runs opens its part of the burst tier.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use forebay_log::{Capacity, Owner as StoreOwner, boot_identity};
use forebay_write::{Tree, partners, standby, voters};

use super::calls::{BackingCalls, DrainLimits};
use super::kernel_leases::KernelLeases;
use super::network::Network;
use super::notes::{Note, StoreTree};
use super::parts::{Beginning, WriteParts};
use super::recovery::{OpenedStore, open_store};
use super::remote::{Nodes, Partners};
use crate::environment::BackingThreads;
use crate::options::{BurstOptions, Copied};
use crate::shared::node::Node;

/// Daemons that a mount may have, bits.
const DAEMONS_BITS: u32 = 20;

/// Opens the store of a node and goes on where the daemon before stopped, or begins. `made_at_ms` tells the mount from those
/// before it; `kernel_leases` has the end of its kernel's leases. It takes turns at the backing file system with `threads`.
///
/// # Errors
/// The reason that the store or the directory of the backing file system cannot be used.
pub fn open(
    node: &Arc<Node>,
    threads: &Arc<dyn BackingThreads>,
    options: &BurstOptions,
    mount: &Path,
    (made_at_ms, kernel_leases): (u64, Option<OwnedFd>),
) -> anyhow::Result<WriteParts> {
    let store_owner = StoreOwner {
        job: node.options.job.clone(),
        node: node.rank(),
        nodes: node.options.nodes.len() as u32,
        landing: fs::canonicalize(&options.backing).with_context(|| options.backing.display().to_string())?,
        boot: boot_identity().context("this boot has no identity")?,
    };
    let copied = (options.copied.clone(), node.options.deadline);
    let limits =
        DrainLimits { bytes_per_s: options.drain_bytes_per_s, operations_per_s: options.drain_operations_per_s };
    let on = (&node.environment, BackingCalls::new(threads, limits));
    let mut opened = open_store(&options.store, &store_owner, Capacity::Bytes(options.capacity_bytes), on, copied)?;
    let kept = &node.options.kept;
    if opened.tree.is_some() && opened.local.tree_number().is_none() {
        begin_tree(&opened, kept.is_first(), made_at_ms).with_context(|| options.store.display().to_string())?;
    }
    let daemon = u64::from(kept.restarts) + u64::from(kept.replaced);
    if opened.tree.is_some() {
        begin_line(&mut opened, (made_at_ms << DAEMONS_BITS) + daemon)?;
    }
    let hosts: Vec<&str> = node.options.nodes.iter().map(|node| node.host.as_str()).collect();
    let voters = voters(&hosts);
    let beginning = Beginning {
        dir: options.dir.clone(),
        backing: store_owner.landing.clone(),
        mount: mount.to_owned(),
        drain: options.drain,
        ends_at: options.ends_at_ms.map(Duration::from_millis),
        made_at_ms,
        has_kernel: true,
        kernel_leases: KernelLeases::new(kernel_leases),
        daemon,
        deadline: node.options.deadline,
        standby: standby(&voters, opened.leadership.leader),
        budget_bytes: node.options.budget_bytes,
    };
    let partners = match options.copied {
        Copied::Nothing => Partners::None,
        Copied::All | Copied::Below(_) => Partners::Of(partners(&hosts, &options.switches)),
    };
    let nodes = Nodes::new(Network::new(node), opened.leadership, voters, partners);
    let begin_next = {
        let node = Arc::clone(node);
        Box::new(move || node.tell_to_hand_over())
    };
    Ok(WriteParts::new(nodes, opened, beginning, begin_next))
}

/// This daemon goes on with the tree's history, as a line of its own.
fn begin_line(opened: &mut OpenedStore, incarnation: u64) -> anyhow::Result<()> {
    opened.local.log.append_note(&Note::incarnation(incarnation)).context("the store cannot be written to")?;
    opened.history.0.begin(incarnation);
    Ok(())
}

/// A tree begins with its job, and never later: a store that has vanished meanwhile took the names of its files along.
fn begin_tree(opened: &OpenedStore, is_first_daemon: bool, mount_made_at_ms: u64) -> anyhow::Result<()> {
    ensure!(
        is_first_daemon,
        "the store has vanished while the job ran, and the names of the files of the burst mount with it"
    );
    let number = opened.tree.as_ref().map_or(0, Tree::number);
    opened
        .local
        .note_tree(StoreTree { number, mount_made_at_ms })
        .map_err(|errno| anyhow::anyhow!("cannot be written to: {errno}"))
}
