//! Programs: each looks a path up, component by component, then does one thing with what it finds.

use forebay_random::Random;
use forebay_types::{Extent, Kind, Time, ViewPath};

use crate::NodeIndex;
use crate::model::Model;

/// The names that come to be in directories are few, so that programs ask for them before, meanwhile and afterwards.
#[must_use]
pub fn new_name(number: u64) -> Vec<u8> {
    format!("n{}", number % 3).into_bytes()
}

/// The first so many files and directories are visited by many programs, and change.
pub const BUSY: u64 = 8;

/// A program.
#[derive(Clone, Debug)]
pub struct Program {
    /// Where it runs.
    pub node: NodeIndex,
    /// The components of its path.
    pub names: Vec<Vec<u8>>,
    /// The bytes that it reads of a file.
    pub extent: Extent,
    /// Whether it reads past the page cache, and lists directories with attributes.
    pub is_direct: bool,
    /// When it begins.
    pub starts: Time,
}

impl Program {
    /// One that walks to a random path; in a third of all cases to a name in it that is absent, or may come to be there.
    #[must_use]
    pub fn random(model: &Model, nodes: usize, random: &mut Random, starts: Time) -> Self {
        let paths: Vec<&ViewPath> = model.nodes.keys().collect();
        // Some places are visited by many, and changed by some.
        let busy = model.one_of(if random.below(2) == 0 { Kind::File } else { Kind::Directory }, random.below(BUSY));
        let path = match busy {
            Some(ref path) if random.below(3) == 0 => path,
            _ => paths[random.below(paths.len() as u64) as usize],
        };
        let mut names: Vec<Vec<u8>> = path.components().map(<[u8]>::to_vec).collect();
        if random.below(3) == 0 {
            names.push(if random.below(2) == 0 { b"absent".to_vec() } else { new_name(random.next()) });
        }
        let extent = Extent { offset_bytes: random.below(6 << 20), len_bytes: random.below(2 << 20) };
        let node = random.below(nodes as u64) as usize;
        Self { is_direct: random.below(3) == 0, ..Self::new(node, names, extent, starts) }
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
        Self { node, names, extent, is_direct: false, starts }
    }

    /// The path of its first `components` names.
    #[must_use]
    pub fn path(&self, components: usize) -> ViewPath {
        self.names[..components].iter().fold(ViewPath::root(), |path, name| path.join(name).unwrap())
    }
}
