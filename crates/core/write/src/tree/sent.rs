//! The stripes of a file that are in its draft on the backing file system before it is published.
//!
//! Logs keep all of them until the file has landed. This note only saves sending them again, by this leader of the tree or the next.

use forebay_types::FileId;

use super::nodes::{Contents, Node, SentStripes};
use super::questions::Way;
use super::state::Tree;

impl Node {
    /// How far the sending of its contents is, if it has begun.
    pub(super) fn sent_way(&self) -> Option<Way> {
        let sent = self.sent.as_ref().filter(|sent| sent.version == self.version)?;
        let Contents::File(extents) = &self.contents else { return None };
        let is_there = extents.written().all(|extent| {
            let last = (extent.offset + extent.len - 1) / sent.stripe_bytes;
            (extent.offset / sent.stripe_bytes..=last).all(|stripe| sent.verified.contains(&stripe))
        });
        Some(if is_there { Way::Verified } else { Way::Draining })
    }
}

impl Tree {
    /// The stripes in the draft of a file's contents as they are now.
    #[must_use]
    pub fn sent(&self, file: FileId) -> Option<&SentStripes> {
        let node = self.nodes.get(&file)?;
        node.sent.as_ref().filter(|sent| sent.version == node.version)
    }

    pub(super) fn verified(&mut self, file: FileId, of: SentStripes, stripes: &[u64]) {
        // It may have gone meanwhile.
        if let Some(node) = self.nodes.get_mut(&file) {
            let sent = match node.sent.take() {
                Some(sent) if sent.is_same_sending(&of) => sent,
                _ => of,
            };
            node.sent.insert(sent).verified.extend(stripes);
        }
    }
}
