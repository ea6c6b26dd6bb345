//! The other simulator's files as a script of this one: so the two can be held against each other.

use forebay_overlay::Forest;
use forebay_types::{Kind, ViewPath};

use super::files::{Files, Weight, Writer};
use super::parameters::Machine;
use super::storm::{self, Figures};
use crate::model::Model;

/// Every node reads every file of a model whole, in the order of their paths.
#[must_use]
pub fn run(machine: &Machine, model: &Model, forest: Forest, nodes: usize) -> Figures {
    let mut files = Files::new();
    for (path, node) in model.nodes.iter().filter(|(path, _)| !path.is_root()) {
        files.add(path.clone(), node.attributes.kind(), node.attributes.size_bytes, Weight::ONE);
    }
    files.finish();
    let is_file = |path: &&ViewPath| model.nodes[*path].attributes.kind() == Kind::File;
    let mut writer = Writer::new(&files, 1 << 20);
    model.nodes.keys().filter(is_file).for_each(|path| writer.read(path, 1.0));
    let script = writer.finish(0.0);
    storm::run(machine, &files, &script, None, forest, nodes, 1, &[])
}
