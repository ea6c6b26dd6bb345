//! Programs: each looks a path up, component by component, then does one thing with what it finds.

use forebay_types::{Extent, Kind, Time, ViewPath};

use crate::NodeIndex;
use crate::model::Model;
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
    /// When it begins.
    pub starts: Time,
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
        Self { node, names, extent, starts }
    }

    /// The path of its first `components` names.
    #[must_use]
    pub fn path(&self, components: usize) -> ViewPath {
        self.names[..components].iter().fold(ViewPath::root(), |path, name| path.join(name).unwrap())
    }
}
