//! Nodes of a trial on this machine: each has a mount of its own of one modelled file system, with caches of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;

use crate::model::{BUSY, ClientMount, Model};
use crate::stop;
use crate::traffic::Traffic;

/// The nodes' mounts, and the file system behind them.
pub struct ModelledNodes {
    mounts: Vec<ClientMount>,
    model: Arc<Model>,
    /// Where the mounts are.
    directory: PathBuf,
    count: usize,
}

impl ModelledNodes {
    /// `count` nodes that will be mounted below `directory`, over the files of `tree`.
    ///
    /// # Errors
    /// When there is no such tree.
    pub fn new(tree: &Path, directory: PathBuf, count: usize) -> anyhow::Result<Self> {
        Ok(Self { mounts: Vec::new(), model: Model::new(tree, BUSY)?, directory, count })
    }

    /// Fresh mounts on every node: nothing of the files is in a node's memory.
    ///
    /// # Errors
    /// When mounting is not possible, or the user asks for an end.
    pub fn make_cold(&mut self) -> anyhow::Result<()> {
        stop::check()?;
        self.mounts.clear();
        for node in 0..self.count {
            let at = self.mount(node);
            std::fs::create_dir_all(&at).with_context(|| format!("cannot make {}", at.display()))?;
            self.mounts.push(self.model.mount(&at)?);
        }
        Ok(())
    }

    /// The number of nodes.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Where a node has the tree.
    #[must_use]
    pub fn mount(&self, node: usize) -> PathBuf {
        self.directory.join(node.to_string())
    }

    /// Requests and bytes at the file system so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.model.traffic()
    }
}

/// The modelled file system in words.
#[must_use]
pub fn model_described() -> String {
    let link = format!("{} Mbit/s", BUSY.link_bits_per_second / 1_000_000);
    let speed = speed_described(BUSY.metadata_us, BUSY.at_once, &link);
    format!("a MODEL of a network file system over a local directory: {speed}, client caches valid for 1 s")
}

/// The speed of a file system in words.
#[must_use]
pub fn speed_described(metadata_us: u32, at_once: u32, link: &str) -> String {
    let ms = f64::from(metadata_us) / 1000.0;
    format!("{ms} ms a metadata request, {at_once} concurrently, one link of {link} for all nodes")
}
