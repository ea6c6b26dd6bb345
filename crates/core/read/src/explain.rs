//! Where an answer would come from, told without asking anybody.

use forebay_cache::Key;
use forebay_types::{CHUNK_BYTES, ChunkIndex, Kind, NodeRank, Time, ViewPath};

use crate::kept::Kept;
use crate::placement::{homes_of, placement};
use crate::routing::ReadRouting;
use crate::waiter::ReadDispatch;
use forebay_dispatch::{Routing, Source};

/// This node's plan for a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// The objects kept here: `listing of /a (12 entries)`, `3 of 9 chunks`.
    pub kept: Vec<String>,
    /// Whether the request would end here.
    pub answers: bool,
    /// Whether it would end here by the answer that the name is absent.
    pub is_absent: bool,
    /// Whom it would ask otherwise.
    pub source: Source,
    /// The nodes that it would ask for the directory's listing one after the other; none where it asks no node.
    pub failover_order: Vec<NodeRank>,
    /// Why, in words.
    pub why: String,
}

/// Explains `path`; changes nothing and counts nothing.
pub(crate) fn explain<B: Clone>(now: Time, kept: &Kept<B>, dispatch: &ReadDispatch, path: &ViewPath) -> Explanation {
    let key = Key::Listing { dir: path.split().map_or_else(ViewPath::root, |(dir, _)| dir) };
    let explaining = Explaining { kept, routing: dispatch.routing() };
    let mut told = Vec::new();
    if let Some(listing) = kept.peek_listing(path) {
        told.push(format!("listing of {path} ({} entries)", listing.len()));
    }
    let entry = explaining.entry(path, &mut told);
    let is_absent = entry.is_none();
    let (state, answers) = entry.unwrap_or_else(|| (absent(path), true));
    let source = dispatch.source_of(now, &key);
    let why = match answers {
        true => state,
        false => format!("{state}; {}", explaining.source(&key, source)),
    };
    let is_open = |peer: &NodeRank| !dispatch.detector().is_suspect(*peer);
    let failover_order = match source {
        Source::Peer(_) => dispatch.routing().failover_order(&key).filter(is_open).collect(),
        Source::Backing => Vec::new(),
    };
    Explanation { kept: told, answers, is_absent, source, failover_order, why }
}

fn absent(path: &ViewPath) -> String {
    let dir = path.split().map_or_else(ViewPath::root, |(dir, _)| dir);
    format!("the complete listing of {dir} is kept here and does not have the name: it is absent")
}

/// The state from which the explanation is made.
struct Explaining<'a, B> {
    kept: &'a Kept<B>,
    routing: &'a ReadRouting,
}

impl<B: Clone> Explaining<'_, B> {
    fn source(&self, key: &Key, source: Source) -> String {
        let parent = self.routing.tree_of(key).parent(self.routing.rank);
        let tree = self.tree_in_words(key);
        match (source, parent) {
            (Source::Peer(rank), Some(parent)) if rank != parent => {
                format!("asks node {rank}, because its parent in {tree}, node {parent}, cannot be reached")
            }
            (Source::Peer(rank), _) => format!("asks node {rank}, its parent in {tree}"),
            (Source::Backing, None) => format!("reads the backing file system, because it is the root of {tree}"),
            (Source::Backing, Some(_)) => {
                "reads the backing file system, because no node that may be root can be reached".to_owned()
            }
        }
    }

    /// `the tree`, where there is one only.
    fn tree_in_words(&self, key: &Key) -> String {
        let forest = &self.routing.forest;
        match forest.roots().count() {
            1 => "the tree".to_owned(),
            count => {
                let (class, number) = placement(forest, key);
                let (index, root) = (forest.index_of(class, number).0, self.routing.tree_of(key).root());
                format!("tree {index} of {count} (root: node {root})")
            }
        }
    }

    /// The path's entry in the listing of its directory, and whether the request ends there; `None` where the listing does not have it.
    fn entry(&self, path: &ViewPath, kept: &mut Vec<String>) -> Option<(String, bool)> {
        let Some((dir, name)) = path.split() else {
            let known = !kept.is_empty();
            let state = if known { "the root's listing is kept here" } else { "nothing is kept here" };
            return Some((state.to_owned(), known));
        };
        let Some(listing) = self.kept.peek_listing(&dir) else {
            return Some((format!("the listing of {dir} is not kept here"), false));
        };
        kept.push(format!("listing of {dir} ({} entries)", listing.len()));
        let Some(attributes) = listing.entry(listing.find(name)?).attributes else {
            return Some((format!("the listing of {dir} is kept here, without attributes (a large directory)"), false));
        };
        if attributes.kind() != Kind::File {
            return Some((format!("its attributes are in the listing of {dir}, kept here"), true));
        }
        Some(self.chunks(path, &attributes, kept))
    }

    fn chunks(
        &self,
        path: &ViewPath,
        attributes: &forebay_types::Attributes,
        kept: &mut Vec<String>,
    ) -> (String, bool) {
        let generation = attributes.generation();
        let count = generation.size_bytes.div_ceil(CHUNK_BYTES);
        // Counted among what is kept: a sparse file may have more chunks than could be looked for one by one.
        let is_of_file = |key: &Key| match key {
            Key::Chunk { file, generation: other, .. } => file == path && *other == generation,
            _ => false,
        };
        let here = self.kept.count_chunks(is_of_file) as u64;
        kept.push(format!("{here} of {count} chunks"));
        let key = Key::Chunk { file: path.clone(), generation, index: ChunkIndex(0) };
        if self.routing.is_direct(&key) {
            return ("its attributes are kept here; its bytes are read from the backing file system by every node itself (--direct-above)".to_owned(), true);
        }
        let mut text = format!("its attributes and {here} of {count} chunks are kept here");
        match self.routing.is_bulk(&key) {
            true if self.routing.has_home(&key) && self.routing.forest.first().node_count() > 1 => {
                let forest = &self.routing.forest;
                let root = self.routing.tree_of(&key).root();
                text.push_str(&match homes_of(forest, generation.size_bytes) {
                    1 => format!(" (their home is node {root})"),
                    _ => format!(" (each node is home of a share of its chunks, node {root} of the first)"),
                });
            }
            true if self.routing.forest.roots().nth(1).is_some() => {
                text.push_str(" (its chunks are striped over the trees of all roots)");
            }
            _ => {}
        }
        (text, here == count)
    }
}
