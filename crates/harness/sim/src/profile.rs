//! The profile of a job, as if a start before it had been recorded.

use std::path::Path;

use forebay_daemon::{ProfileOptions, ProfilePlace};
use forebay_profile::{Profile, Use};
use forebay_types::{ChunkIndex, Kind, ViewPath};

use crate::model::Model;

/// Files of each directory that the job's profile has used.
const PROFILE_FILES: usize = 3;

/// Writes down that an earlier start has listed every directory and read the beginnings of some files in it.
pub(crate) fn write_profile(model: &Model, home: &Path) -> ProfileOptions {
    let mut profile = Profile::new("sim".to_owned(), vec![ViewPath::root()], 0);
    let is_dir = |kind: Kind| kind == Kind::Directory;
    for (dir, node) in model.nodes.iter().filter(|(_, node)| is_dir(node.attributes.kind()) && node.listable) {
        profile.uses.push(Use::Directory { path: dir.clone(), generation: node.attributes.generation() });
        let files = model.children(dir).filter(|(_, node)| node.attributes.kind() == Kind::File);
        for (path, node) in files.filter(|(_, node)| node.attributes.size_bytes > 0).take(PROFILE_FILES) {
            let generation = node.attributes.generation();
            profile.uses.push(Use::File { path: path.clone(), generation, chunks: vec![ChunkIndex(0)] });
        }
    }
    let options = ProfileOptions {
        place: ProfilePlace::File(home.join("profile")),
        command: "sim".to_owned(),
        exports: vec![ViewPath::root()],
        budget_bytes: 1 << 30,
        pack: false,
    };
    options.files().unwrap().write(&profile).unwrap();
    options
}
