//! Whom a node may ask in a tree, as it is promised (docs/reliability.md) and not as the overlay computes it: or a mistake there would be
//! one of the oracle too.

use forebay_overlay::Tree;
use forebay_types::NodeRank;

/// The nodes above `rank`, then those that may read the backing file system in the root's place and come before it.
pub(crate) fn may_ask(tree: &Tree, rank: NodeRank) -> impl Iterator<Item = NodeRank> {
    let stand_ins = tree.root_candidates().take_while(move |other| *other != rank);
    tree.ancestors(rank).chain(stand_ins)
}
