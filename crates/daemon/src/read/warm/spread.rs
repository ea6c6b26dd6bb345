//! Brings a file to its homes.

use std::sync::Arc;
use std::time::Duration;

use forebay_cache::Key;
use forebay_types::{CHUNK_BYTES, ChunkIndex, Errno, Generation, NodeRank, ViewPath};
use forebay_wire::JobMessage;
use forebay_wire::ReadMessage;

use super::found::Found;
use crate::read::own::Own;
use crate::shared::gather::ask;
use crate::shared::node::Node;

/// Chunks that one node is asked to keep at once: a row of them has one home.
const ASKED_AT_ONCE: u64 = 4;

/// How long a node may take for them: longer than a request of a program, since all others go before it.
const KEEP_DEADLINE: Duration = Duration::from_secs(300);

/// A home's share of a file, in a row.
#[derive(Clone, Debug)]
pub struct Share {
    pub found: Found,
    pub first: u64,
    pub count: u64,
}

impl Share {
    /// Its bytes.
    pub fn bytes(&self) -> u64 {
        let end = ChunkIndex(self.first + self.count).start_bytes().min(self.found.generation.size_bytes);
        end - ChunkIndex(self.first).start_bytes()
    }
}

/// The shares of a file, in order.
pub fn shares(found: &Found) -> impl Iterator<Item = Share> + use<> {
    let (found, count) = (found.clone(), found.generation.size_bytes.div_ceil(CHUNK_BYTES));
    (0..count).step_by(ASKED_AT_ONCE as usize).map(move |first| Share {
        found: found.clone(),
        first,
        count: ASKED_AT_ONCE.min(count - first),
    })
}

/// Has the homes of a share read and keep it.
pub async fn spread(node: &Node, own: &Arc<Own>, share: &Share) -> Result<(), String> {
    let mut first = share.first;
    let end = share.first + share.count;
    while first < end {
        let home = home(node, own, share, first);
        let mut count = 1;
        while first + count < end && self::home(node, own, share, first + count) == home {
            count += 1;
        }
        let Found { file, generation } = &share.found;
        if home == node.rank() {
            keep(own, file, generation, ChunkIndex(first), count).await.map_err(|errno| errno.to_string())?;
        } else {
            let message = JobMessage::Keep {
                file: file.clone(),
                generation: *generation,
                first: ChunkIndex(first),
                count: count as u32,
            };
            ask::<()>(node, home, message, KEEP_DEADLINE).await.map(drop)?;
        }
        first += count;
    }
    Ok(())
}

/// Reads chunks here, which keeps those that this node is home of, or stands in for.
pub async fn keep(
    own: &Own,
    file: &ViewPath,
    generation: &Generation,
    first: ChunkIndex,
    count: u64,
) -> Result<(), Errno> {
    for index in (first.0..first.0.saturating_add(count)).map(ChunkIndex) {
        own.chunk(ReadMessage::Chunk { file: file.clone(), generation: *generation, index }).await?;
    }
    Ok(())
}

/// The node that others ask for a chunk: its home, or the first of those that stand in that is not believed lost.
fn home(node: &Node, own: &Own, share: &Share, index: u64) -> NodeRank {
    let Found { file, generation } = share.found.clone();
    let key = Key::Chunk { file, generation, index: ChunkIndex(index) };
    let tree = forebay_read::tree_of(&node.forest, &key);
    let suspects = own.suspects();
    let there = tree.root_candidates().find(|rank| !suspects.contains(rank));
    there.unwrap_or(tree.root())
}
