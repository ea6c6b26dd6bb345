//! Where what is staged lies on a node: what users name is not always what is to be opened. Exports are read through the node's
//! view, so that the backing file system is asked once; the burst tier through its mount.

use std::path::{Path, PathBuf};

use anyhow::bail;
use forebay_keeper::own_paths::{BurstPlaces, Node};
use forebay_log::network_file_system;
use serde::{Deserialize, Serialize};

use crate::commands::paths::is_shown;

/// The user's request. The paths are absolute.
#[derive(Clone, Debug)]
pub struct Order {
    pub way: Way,
    pub source: PathBuf,
    pub destination: PathBuf,
    /// Each node takes a part.
    pub scatter: bool,
}

/// Towards the nodes, or away from them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Way {
    In,
    Out,
}

/// A node's part of the request.
#[derive(PartialEq, Eq, Debug)]
pub struct Places {
    pub source: PathBuf,
    pub destination: Destination,
    /// Each file is one node's.
    pub is_shared_out: bool,
    /// The backing file system is not read through the view.
    pub is_direct: bool,
}

/// Where to.
#[derive(PartialEq, Eq, Debug)]
pub enum Destination {
    /// A place of its own.
    Own(PathBuf),
    /// One that all nodes have.
    Common(PathBuf),
    /// It is there already; it is read, so that the node has it at hand.
    Same,
}

/// Where what `order` says lies on `node`. `is_numbered`: nodes of its host have directories of their own.
///
/// # Errors
/// When that makes no sense.
pub fn places(order: &Order, node: &Node, is_numbered: bool) -> anyhow::Result<Places> {
    let burst = node.burst.as_deref();
    let below = |path: &Path| burst.and_then(|burst| below_burst(burst, path));
    let (source, destination) = (below(&order.source), below(&order.destination));
    match (order.way, source, destination, burst) {
        (Way::Out, _, _, None) => {
            bail!("the job has no burst tier; forebay up --burst DIR=BACKING --burst-store DIR gives it one")
        }
        (Way::Out, None, _, Some(burst)) => {
            bail!("{} is not in the burst tier, which is at {}", order.source.display(), burst.dir.display())
        }
        (Way::Out, Some(_), Some(_), _) => bail!(
            "{} is in the burst tier, and lands by itself; forebay drain --wait waits for it",
            order.destination.display()
        ),
        (Way::Out, Some(source), None, _) => {
            let destination = Destination::Common(order.destination.clone());
            Ok(Places { source, destination, is_shared_out: true, is_direct: false })
        }
        (Way::In, source, Some(destination), _) => {
            let (source, is_direct) = source_on(node, &order.source, source);
            let is_same = source == destination;
            let is_shared_out = order.scatter || !is_same;
            let destination = if is_same { Destination::Same } else { Destination::Common(destination) };
            Ok(Places { source, destination, is_shared_out, is_direct })
        }
        (Way::In, source, None, _) => {
            let own = match is_numbered {
                true => order.destination.join(node.rank.to_string()),
                false => order.destination.clone(),
            };
            check_own(&own)?;
            let (source, is_direct) = source_on(node, &order.source, source);
            Ok(Places { source, destination: Destination::Own(own), is_shared_out: order.scatter, is_direct })
        }
    }
}

/// The path to open for reading `path`, and whether that is on the backing file system itself.
fn source_on(node: &Node, path: &Path, in_burst: Option<PathBuf>) -> (PathBuf, bool) {
    if let Some(path) = in_burst {
        return (path, false);
    }
    let shown =
        path.strip_prefix("/").map(|rest| node.view.path.join(rest)).ok().filter(|_| is_shown(&node.exports, path));
    shown.map_or_else(|| (path.to_owned(), true), |shown| (shown, false))
}

/// The path in the burst mount of what programs know as `path`.
pub fn below_burst(burst: &BurstPlaces, path: &Path) -> Option<PathBuf> {
    let known = [&burst.mount.path, &burst.dir, &burst.backing];
    known.into_iter().find_map(|base| Some(burst.mount.path.join(path.strip_prefix(base).ok()?)))
}

/// A directory of each node's own does not lie where all nodes would write to it.
fn check_own(path: &Path) -> anyhow::Result<()> {
    let there = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    if let Ok(Some(file_system)) = network_file_system(there) {
        bail!(
            "{} lies on a network file system ({file_system}), where nodes would overwrite each other's files: name a directory on the \
             node's own disk, or in the burst tier",
            path.display()
        );
    }
    Ok(())
}
