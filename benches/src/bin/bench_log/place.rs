//! Where stores and files are made, and what each side writes.

use std::path::{Path, PathBuf};

use anyhow::Context;
use forebay_log::{Log, Owner, Recovery, Settings};
use forebay_types::{FileId, NodeRank};
use tempfile::TempDir;

pub const MIB: usize = 1 << 20;

pub const FILE: FileId = FileId { creator: NodeRank(0), serial: 1 };

/// A directory of its own on the file system that is measured, removed with everything in it at the end.
pub struct Place {
    directory: TempDir,
    pub is_quick: bool,
    pub index_gib: u64,
}

impl Place {
    pub fn new(parent: &Path, is_quick: bool, index_gib: u64) -> anyhow::Result<Self> {
        std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        let directory = TempDir::new_in(parent).with_context(|| format!("cannot write to {}", parent.display()))?;
        Ok(Self { directory, is_quick, index_gib })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn runs(&self, full: usize) -> usize {
        if self.is_quick { 3 } else { full }
    }

    /// A new store for so many bytes.
    pub fn log(&self, name: &str, bytes: u64) -> anyhow::Result<Log> {
        Ok(recovery(&self.path(name), bytes)?.finish([])?)
    }
}

/// Opens a store; what it holds may be a little more than `bytes`.
pub fn recovery(path: &Path, bytes: u64) -> anyhow::Result<Recovery> {
    let owner = Owner { job: "bench".into(), node: NodeRank(0), nodes: 1, landing: path.to_owned(), boot: [1; 16] };
    Ok(Recovery::open(path, &owner, &Settings::new(bytes * 11 / 10 + (512 << 20)))?)
}

/// Bytes that no file system can leave out.
pub fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let byte = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..bytes).map(byte).collect()
}
