//! Programs: each looks a path up, component by component, then does one thing with what it finds.

use forebay_node::{InodeId, ROOT_INODE};
use forebay_types::{Extent, Generation, Kind, Time, ViewPath};

use crate::NodeIndex;
use crate::model::{Model, Versions};
use crate::random::Random;

/// A program.
#[derive(Clone, Debug)]
pub struct Program {
    /// Where it runs.
    pub node: NodeIndex,
    /// The components of its path.
    pub names: Vec<Vec<u8>>,
    /// What it reads of a file.
    pub extent: Extent,
    /// How many components it has looked up.
    pub at: usize,
    /// The last inode it was told.
    pub inode: InodeId,
    /// The version of the file that it has looked up.
    pub generation: Generation,
    /// What it may not be behind.
    pub floor: Versions,
    /// When it begins.
    pub starts: Time,
    /// When its last request was made.
    pub asked: Time,
    /// How many requests it has made.
    pub requests: u32,
    /// Whether its request waits.
    pub waits: bool,
    /// Whether it has ended, or was killed with its node.
    pub ended: bool,
}

impl Program {
    /// One that walks to a random path, to an absent name in a quarter of all cases.
    #[must_use]
    pub fn random(model: &Model, nodes: usize, random: &mut Random, starts: Time) -> Self {
        let paths: Vec<&ViewPath> = model.nodes.keys().collect();
        let path = paths[random.below(paths.len() as u64) as usize];
        let mut names: Vec<Vec<u8>> = path.components().map(<[u8]>::to_vec).collect();
        if random.below(4) == 0 {
            names.push(b"absent".to_vec());
        }
        let extent = Extent { offset_bytes: random.below(6 << 20), len_bytes: random.below(2 << 20) };
        Self::new(random.below(nodes as u64) as usize, names, extent, starts)
    }

    /// One that reads the file of a number, whole, at once.
    #[must_use]
    pub fn whole_file(model: &Model, node: NodeIndex, number: usize) -> Self {
        let files: Vec<&ViewPath> =
            model.nodes.iter().filter(|(_, node)| node.attributes.kind() == Kind::File).map(|(path, _)| path).collect();
        let path = files[number % files.len()];
        let extent = Extent { offset_bytes: 0, len_bytes: 6 << 20 };
        Self::new(node, path.components().map(<[u8]>::to_vec).collect(), extent, Time(0))
    }

    fn new(node: NodeIndex, names: Vec<Vec<u8>>, extent: Extent, starts: Time) -> Self {
        let (inode, asked) = (ROOT_INODE, starts);
        let (generation, floor) = (Generation::default(), Versions::default());
        Self {
            node,
            names,
            extent,
            at: 0,
            inode,
            generation,
            floor,
            starts,
            asked,
            requests: 0,
            waits: false,
            ended: false,
        }
    }

    /// The path of its first `components` names.
    #[must_use]
    pub fn path(&self, components: usize) -> ViewPath {
        self.names[..components].iter().fold(ViewPath::root(), |path, name| path.join(name).unwrap())
    }

    /// Whether it has looked up all of its path.
    #[must_use]
    pub fn has_arrived(&self) -> bool {
        self.at == self.names.len()
    }
}
