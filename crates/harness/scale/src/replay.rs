//! Operations told one by one: those of a real import, over the tree as it lies on a disk, or those of another simulator.
//!
//! This is what the model is checked with: the same operations run for real on the test bed
//! (`forebay-bench-read --only scale-model`), and in `crates/harness/sim`, where every answer is checked.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use forebay_overlay::Forest;
use forebay_types::{Kind, ViewPath};

use super::files::{Files, Script, Weight, Writer};
use super::job::Setup;
use super::pack::{Pack, PackSize};
use super::stated::Machine;
use super::storm::{self, Figures};

/// The part of a shared object that its loader maps, as the replay reads it.
const MAPPED_SHARE: f64 = 0.6;

/// Operations, and the files that they are for.
pub struct Replay {
    files: Files,
    script: Script,
}

impl Replay {
    /// The operations of `list` (`s PATH` stat, `d PATH` list, `r PATH` read, `m PATH` read what is mapped) over `tree`, in
    /// which the programs compute so long for each as the machine says.
    ///
    /// # Errors
    /// When the tree or the list cannot be read.
    pub fn read(tree: &Path, list: &Path, machine: &Machine) -> io::Result<Self> {
        let text = std::fs::read_to_string(list)?;
        let operations: Vec<(char, ViewPath)> =
            text.lines().filter_map(|line| Some((line.chars().next()?, view_path(line.get(2..)?)?))).collect();
        let mut files = Files::new();
        add_directory(&mut files, tree, &ViewPath::root())?;
        for (_, path) in &operations {
            let mut dir = path.clone();
            while let Some((parent, _)) = dir.split() {
                add_directory(&mut files, tree, &parent)?;
                dir = parent;
            }
            add_directory(&mut files, tree, path)?;
        }
        files.finish();
        let mut writer = Writer::new(&files, machine.daemon.kernel_read);
        for (operation, path) in &operations {
            match operation {
                'd' => writer.list(path),
                'r' => writer.read(path),
                'm' => writer.read_until(path, (files.size_bytes(path) as f64 * MAPPED_SHARE) as u64),
                _ => drop(writer.find(path)),
            }
        }
        let script = writer.finish(machine.daemon.replay_operation.value * operations.len() as f64);
        Ok(Self { files, script })
    }

    /// Files of these sizes, each read whole, in the order of their paths; and directories, where no size is given.
    #[must_use]
    pub fn of_files<'f>(entries: impl Iterator<Item = (&'f ViewPath, Option<u64>)>, machine: &Machine) -> Self {
        let mut files = Files::new();
        let mut read = Vec::new();
        for (path, size_bytes) in entries {
            let kind = if size_bytes.is_some() { Kind::File } else { Kind::Directory };
            files.add(path.clone(), kind, size_bytes.unwrap_or(0), Weight::ONE);
            read.extend(size_bytes.map(|_| path));
        }
        files.finish();
        let mut writer = Writer::new(&files, machine.daemon.kernel_read);
        read.into_iter().for_each(|path| writer.read(path));
        let script = writer.finish(0.0);
        Self { files, script }
    }

    /// Runs it on so many nodes at once; with a profile whose pack has so many bytes, if there is one.
    #[must_use]
    pub fn run(
        &self,
        machine: &Machine,
        forest: Forest,
        nodes: usize,
        seed: u64,
        packed_bytes: Option<u64>,
    ) -> Figures {
        let (files, script) = (&self.files, &self.script);
        let pack = packed_bytes.map(|packed_bytes| Pack::of(PackSize::Bytes(packed_bytes), files, script, 1));
        storm::run(Setup { machine, files, script, pack: pack.as_ref(), forest, nodes, seed, losses: &[] })
    }
}

/// The path that is meant by one with `..` in it. The kernel walks there and back, over names that it knows by then.
fn view_path(text: &str) -> Option<ViewPath> {
    let mut names: Vec<&str> = Vec::new();
    for name in text.split('/') {
        match name {
            ".." => drop(names.pop()),
            _ => names.push(name),
        }
    }
    ViewPath::new(names.join("/").as_bytes()).ok()
}

/// Adds what lies in a directory, once. Whatever is no directory, or is not there, adds nothing.
fn add_directory(files: &mut Files, tree: &Path, dir: &ViewPath) -> io::Result<()> {
    let on_disk = tree.join(std::ffi::OsStr::from_bytes(dir.as_bytes()));
    if files.has_children(dir) || !on_disk.is_dir() {
        return Ok(());
    }
    let mut entries = std::fs::read_dir(&on_disk)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let metadata = entry.metadata()?;
        let Ok(path) = dir.join(entry.file_name().as_bytes()) else { continue };
        let (kind, size_bytes) = if metadata.is_dir() { (Kind::Directory, 0) } else { (Kind::File, metadata.len()) };
        files.add(path, kind, size_bytes, Weight::ONE);
    }
    Ok(())
}
