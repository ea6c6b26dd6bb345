//! The file operations of a real import as a script: the tree as it lies on a disk, the operations as they were traced.
//!
//! This is what the model is checked with: the same operations run for real on the test bed
//! (`forebay-bench-read --only scale-model`).

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use forebay_overlay::Forest;
use forebay_types::{Kind, ViewPath};

use super::files::{Files, Script, Weight, Writer};
use super::parameters::Machine;
use super::storm::{self, Figures};

/// The kernel's read size on a view that root has mounted, bytes.
const KERNEL_READ_BYTES: u64 = 1 << 20;

/// The part of a shared object that its loader maps, as the replay reads it.
const MAPPED_SHARE: f64 = 0.6;

/// A traced import.
pub struct Replay {
    files: Files,
    script: Script,
}

impl Replay {
    /// The operations of `list` (`s PATH` stat, `d PATH` list, `r PATH` read, `m PATH` read what is mapped) over `tree`, in
    /// which the programs compute so long.
    ///
    /// # Errors
    /// When the tree or the list cannot be read.
    pub fn read(tree: &Path, list: &Path, think_seconds: f64) -> io::Result<Self> {
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
        let mut writer = Writer::new(&files, KERNEL_READ_BYTES);
        for (operation, path) in &operations {
            match operation {
                'd' => writer.list(path),
                'r' => writer.read(path, 1.0),
                'm' => writer.read(path, MAPPED_SHARE),
                _ => drop(writer.find(path)),
            }
        }
        let script = writer.finish(think_seconds);
        Ok(Self { files, script })
    }

    /// Messages between kernel and daemon on one node.
    #[must_use]
    pub fn kernel_messages(&self) -> u64 {
        self.script.messages
    }

    /// Files that are read.
    #[must_use]
    pub fn files_read(&self) -> u64 {
        self.script.files
    }

    /// Bytes that are read, whole chunks counted as far as they are read.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.script.bytes
    }

    /// Runs it on so many nodes at once.
    #[must_use]
    pub fn run(&self, machine: &Machine, forest: Forest, nodes: usize, seed: u64) -> Figures {
        storm::run(machine, &self.files, &self.script, None, forest, nodes, seed, &[])
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
