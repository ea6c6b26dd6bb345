//! What `up` tells the daemons it starts: one document for all of them, in a file or on their standard input. On other
//! hosts it carries the job's key, and then it is never a file.
//!
//! It is complete: a daemon that has an order looks neither at its environment nor at a configuration file, which may
//! differ from host to host.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use forebay_launch::{KeySealing, NodeAddress, ViewLayout};
use forebay_types::JobKey;
use serde::{Deserialize, Serialize};

use crate::carried_key::CarriedKey;

/// An order, bytes: a million nodes with long names.
const ORDER_BYTES_MAX: u64 = 256 << 20;

/// The version of this program; daemons of one job are of one build.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What all daemons of a job are told.
#[derive(Serialize, Deserialize, Debug)]
pub struct Order {
    version: String,
    /// The job's name.
    pub job: String,
    /// The job's directory, the same on every host.
    pub job_directory: PathBuf,
    /// The nodes in the order of their ranks.
    pub nodes: Vec<NodeAddress>,
    /// Where their views are, below the directory that the settings name.
    pub view_layout: ViewLayout,
    /// The settings that are not at their defaults, as text.
    pub settings: BTreeMap<String, Vec<String>>,
    /// The job's key, where no descriptor can be inherited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<CarriedKey>,
}

impl Order {
    /// An order of this version.
    pub fn new(
        job: String,
        job_directory: PathBuf,
        nodes: Vec<NodeAddress>,
        view_layout: ViewLayout,
        settings: BTreeMap<String, Vec<String>>,
    ) -> Self {
        Self { version: VERSION.to_owned(), job, job_directory, nodes, view_layout, settings, key: None }
    }

    /// Writes it to a file, which holds no secret.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        ensure!(self.key.is_none(), "an order with a key goes into no file");
        std::fs::write(path, self.text()?).with_context(|| format!("cannot write {}", path.display()))
    }

    /// The same with the job's key, for a standard input.
    pub fn text_with_key(mut self, key: Option<CarriedKey>) -> anyhow::Result<Vec<u8>> {
        self.key = key;
        self.text()
    }

    fn text(&self) -> anyhow::Result<Vec<u8>> {
        serde_json::to_vec(self).context("cannot encode the order")
    }

    /// The key it carries.
    pub fn key(&self, sealing: &KeySealing) -> anyhow::Result<Option<JobKey>> {
        self.key.as_ref().map(|key| key.open(sealing)).transpose()
    }

    /// Reads it from a file, `-` for standard input.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        Self::parse(&read_input(path)?).with_context(|| format!("{} is not an order of forebay up", path.display()))
    }

    /// Decodes it.
    pub fn parse(text: &[u8]) -> anyhow::Result<Self> {
        let order: Self = serde_json::from_slice(text)?;
        ensure!(
            order.version == VERSION,
            "it is of version {}, this program is of version {VERSION}: start the same build on every host",
            order.version
        );
        Ok(order)
    }
}

/// The contents of a file, of standard input for `-`.
pub fn read_input(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().take(ORDER_BYTES_MAX).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(ORDER_BYTES_MAX).read_to_end(&mut bytes))
    };
    read.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_goes_into_no_file_and_no_message() {
        let order = || Order::new("job".into(), "/tmp/x".into(), vec![], ViewLayout::Numbered, BTreeMap::new());
        let key = JobKey::from_bytes([0xab; 32]);
        let text = order().text_with_key(Some(CarriedKey::plain(&key))).unwrap();
        let read = Order::parse(&text).unwrap();
        assert_eq!(read.key(&KeySealing::Off).unwrap(), Some(key));
        assert!(!format!("{read:?}").contains("abab"));
        let path = tempfile::tempdir().unwrap().path().join("order");
        assert!(read.write(&path).unwrap_err().to_string().contains("no file"));
        assert_eq!(Order::parse(&order().text_with_key(None).unwrap()).unwrap().key(&KeySealing::Off).unwrap(), None);
        let bad = String::from_utf8(text).unwrap().replace("abab", "zzzz");
        assert!(Order::parse(bad.as_bytes()).unwrap().key(&KeySealing::Off).is_err());
    }

    #[test]
    fn an_order_of_another_version_is_refused() {
        let nodes = vec![NodeAddress { host: "n1".into(), port: 5 }];
        let directory = "/tmp/forebay-0/job".into();
        let order = Order::new("job".into(), directory, nodes.clone(), ViewLayout::Numbered, BTreeMap::new());
        let text = serde_json::to_string(&order).unwrap();
        assert_eq!(Order::parse(text.as_bytes()).unwrap().nodes, nodes);
        let other = text.replace(VERSION, "99.0.0");
        assert!(Order::parse(other.as_bytes()).unwrap_err().to_string().contains("99.0.0"));
        assert!(Order::parse(b"{}").is_err());
    }
}
